"""Estimates each broker's load by direction, and its clients' latency by utilisation.

A step is the interval between two samples of a broker. The bytes of the newest step are taken from the signal. If the signal has
none, or reports more catch-up bytes than bytes in total, they are extracted from the means of the signal's window (latest_step.py).

Invariant: each signal is used once. The estimate does not change until a newer signal arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import NamedTuple

from streaming.shared.contract import BrokerSignal, Side
from tuner.control.throttle.objective import Capacity, ControlLimits, Mode, Objective
from tuner.control.throttle.steering.allowed_utilisation import START_TOLD, resume_allowed, update_allowed
from tuner.control.throttle.steering.headroom import DirectionLoad, full_link_bytes_per_s, update_load
from tuner.control.throttle.steering.latency_baseline import is_hardly_written, produce_p99_ms
from tuner.control.throttle.steering.latest_step import StepRates, append_step_from_mean
from tuner.control.throttle.steering.present_latency import PresentLatency, update_latency
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.latency_limit import LatencyLimit
from tuner.core.link_limit import LinkLimit
from tuner.core.value import value

_STEP_S_DEFAULT = 5.0  # The stream's usual step; assumed for a broker's first signal.
_STEP_S_MAX = 60.0  # No stream reports a longer one.
_CATCH_UP_RATIO_MAX = 1.1  # Catch-up ÷ total bytes; a little above 1, because counters are read one after the other.
_LOST_SIGNAL_RATIO = 1.5  # A step this much longer than the one before spans a lost signal.


@value
class DirectionEstimate:
    """The estimate of one direction of one broker; the leader side sends, the follower side receives.

    Attributes:
        network: all bytes/s by step.
        catch_up: catch-up bytes/s by step.
        load: the forecast of all bytes except catch-up; None before the first complete step.
    """

    network: StepRates = field(default_factory=StepRates)
    catch_up: StepRates = field(default_factory=StepRates)
    load: DirectionLoad | None = None


@value
class BrokerEstimate:
    """The estimate of one broker.

    Attributes:
        sampled_at_ms: when the newest signal was measured; epoch.
        step_s: length of the newest step.
        directions: the load by direction.
        capacity: the capacity in the settings; without one, the traffic that was measured first. None: nothing was measured yet.
        latency: the current latency of the broker's producers.
        latency_limit: the highest latency that the producers may have; None: it follows from a baseline that is not known.
        allowed: the allowed utilisation of each direction of the link (allowed_utilisation.py). A direction without an entry is not
            limited by the latency of clients.
        is_capacity_configured: the capacity comes from the settings.
        signal_interval_s: seconds between the newest two signals.
        link_speed_bytes_per_s: the speed of the broker's link, from the metrics of its machine; None: not known.
    """

    sampled_at_ms: int
    step_s: float
    directions: Mapping[Side, DirectionEstimate]
    capacity: Capacity | None = None
    latency: PresentLatency = field(default_factory=PresentLatency)
    latency_limit: LatencyLimit | None = None
    allowed: Mapping[Side, float] = field(default_factory=dict)
    is_capacity_configured: bool = True
    signal_interval_s: float = _STEP_S_DEFAULT
    link_speed_bytes_per_s: float | None = None

    def link_bytes_per_s(self, side: Side) -> float | None:
        """Returns the capacity of one direction in the settings, or else the speed of the link; None: neither is known."""
        if self.capacity is None or not self.is_capacity_configured:
            return self.link_speed_bytes_per_s
        return self.capacity.out_bytes_per_s if side is Side.LEADER else self.capacity.in_bytes_per_s

    def link_limit(self, side: Side) -> LinkLimit | None:
        """Returns the rate (bytes/s) to which the law limits one direction, clients included; None: it knows no limit."""
        ratio = self.allowed.get(side)
        if self.capacity is None or ratio is None:
            return None
        unit = self.capacity.out_bytes_per_s if side is Side.LEADER else self.capacity.in_bytes_per_s
        if self.is_capacity_configured:
            return LinkLimit(ratio * unit, unit)
        if (speed := self.link_speed_bytes_per_s) is not None:
            bound = full_link_bytes_per_s(speed, self.directions[side].network.newest or 0.0)
            if bound <= ratio * unit:
                return LinkLimit(bound, link_speed_bytes_per_s=speed)
        return LinkLimit(ratio * unit)


def update_estimate(
    signal: BrokerSignal,
    before: BrokerEstimate | None,
    capacity: Capacity | None,
    baseline: BrokerBaseline | None,
    objective: Objective,
    limits: ControlLimits,
    throttles: Mapping[Side, float] | None = None,
) -> BrokerEstimate:
    """Returns the estimate after the broker's newest signal; ``before`` itself if the signal is not newer.

    Args:
        signal: the newest signal.
        before: the previous estimate; None for the broker's first signal.
        capacity: the capacity of the broker in the settings; None if they have none.
        baseline: the broker's usual latency without copies; None: not known.
        objective: gives the latency that clients may have.
        limits: the constants of the law.
        throttles: the throttle rates that are set on the broker, in bytes/s.
    """
    if before is not None and signal.sampled_at_ms <= before.sampled_at_ms:
        return before
    elapsed_s = (signal.sampled_at_ms - before.sampled_at_ms) / 1000 if before is not None else _STEP_S_DEFAULT
    no_signal_lost = before is not None and elapsed_s < _LOST_SIGNAL_RATIO * before.signal_interval_s
    window_steps = steps_in_window(signal)
    directions = _update_directions(signal, before, elapsed_s, window_steps, no_signal_lost, limits)
    latency = update_latency(
        before.latency if before is not None else PresentLatency(),
        signal.produce_mean_ms,
        produce_p99_ms(signal),
        elapsed_s,
        baseline,
    )
    latency_limit = objective.latency_limit(baseline, latency.low_p99_ms)
    is_configured = capacity is not None
    if capacity is None:
        capacity = before.capacity if before is not None and before.capacity is not None else _measured(directions)
    allowed = before.allowed if before is not None else {}
    is_new = before is None or elapsed_s > _STEP_S_MAX  # Values learned in an earlier move say little about this one.
    if is_hardly_written(signal):
        # A latency from earlier load sets no limit. But without a capacity, only a broker that was idle from the first signal on
        # has no limit: otherwise clients may write little because the copy slows them down.
        allowed = {} if is_configured else allowed
    elif capacity is not None:
        use = _use(directions, capacity, throttles or {}, is_configured=is_configured)
        allowed = {
            side: allowed[side]
            if allowed.get(side) and not is_new
            else START_TOLD
            if is_configured
            else _start(allowed.get(side), use[side], elapsed_s, _carried_ratio(baseline, side, capacity))
            for side in use
        }
        if latency.p99_ms > 0.0 and latency_limit is not None:
            rise = latency_limit.rise_ratio(latency.p99_ms)
            copies_ratio = objective.gentle_ratio if objective.mode is Mode.GENTLE else 1.0
            allowed = {
                side: update_allowed(
                    ratio, use[side].at_full_speed(copies_ratio), use[side].load_ratio, rise, elapsed_s
                )
                if use[side].used_ratio > 0.0
                else ratio
                for side, ratio in allowed.items()
            }
    interval_s = elapsed_s if no_signal_lost else _STEP_S_DEFAULT
    reported_s = reported_step_s(signal)
    return BrokerEstimate(
        sampled_at_ms=signal.sampled_at_ms,
        step_s=interval_s if reported_s is None else reported_s,
        directions=directions,
        capacity=capacity,
        latency=latency,
        latency_limit=latency_limit,
        allowed=allowed,
        is_capacity_configured=is_configured,
        signal_interval_s=interval_s,
        link_speed_bytes_per_s=signal.link_speed_bytes_per_s,
    )


class _Use(NamedTuple):
    """The utilisation of one direction in the newest step; 0: not known.

    Attributes:
        used_ratio: by all bytes.
        load_ratio: by all bytes except catch-up.
        throttle_ratio: by the load and a throttle in full use.
    """

    used_ratio: float
    load_ratio: float
    throttle_ratio: float

    def at_full_speed(self, copies_ratio: float) -> float:
        """Returns the utilisation that would result if the copies, which use ``copies_ratio`` of the headroom, used all of it."""
        return self.load_ratio + max(0.0, self.used_ratio - self.load_ratio) / copies_ratio


def _start(before: float | None, use: _Use, elapsed_s: float, carried_ratio: float) -> float:
    """Returns the allowed utilisation at the start of a move, without a capacity in the settings."""
    return resume_allowed(before, max(use.used_ratio, use.throttle_ratio), elapsed_s, carried_ratio)


def _carried_ratio(baseline: BrokerBaseline | None, side: Side, capacity: Capacity) -> float:
    """Returns the highest utilisation of one direction with normal latency, from the history; 0: not known."""
    carried = baseline.carried_bytes_per_s(side) if baseline is not None else None
    return (carried or 0.0) / (capacity.out_bytes_per_s if side is Side.LEADER else capacity.in_bytes_per_s)


def _measured(directions: Mapping[Side, DirectionEstimate]) -> Capacity | None:
    """Returns the rates (bytes/s) that the broker received and sent in the newest step; None: not known."""
    sent, received = directions[Side.LEADER].network.newest, directions[Side.FOLLOWER].network.newest
    if sent is None or received is None:
        return None
    return Capacity(in_bytes_per_s=max(received, 1.0), out_bytes_per_s=max(sent, 1.0))


def _use(
    directions: Mapping[Side, DirectionEstimate],
    capacity: Capacity,
    throttles: Mapping[Side, float],
    *,
    is_configured: bool,
) -> dict[Side, _Use]:
    """Returns the use of each direction.

    With a capacity in the settings, both directions have the utilisation of the busier one, because the latency says nothing about
    the other. Without a capacity, the ratios of the two directions have different units.
    """
    uses = {}
    for side, direction in directions.items():
        link = capacity.out_bytes_per_s if side is Side.LEADER else capacity.in_bytes_per_s
        newest, load = direction.network.newest, direction.load
        level = load.level_bytes_per_s if load is not None else 0.0
        throttled = level + throttles[side] if side in throttles and load is not None else 0.0
        uses[side] = _Use((newest or 0.0) / link, level / link, throttled / link)
    if not is_configured:
        return uses
    if any(direction.network.newest is None for direction in directions.values()):
        return dict.fromkeys(uses, _Use(0.0, 0.0, 0.0))
    return dict.fromkeys(uses, _Use(*map(max, *uses.values())))


def window_rates(signal: BrokerSignal, side: Side) -> tuple[float | None, float | None]:
    """Returns all bytes/s and the catch-up bytes/s of one direction, as means over the signal's window."""
    if side is Side.LEADER:
        return signal.network_out_bytes_per_s, signal.reassignment_out_bytes_per_s
    return signal.network_in_bytes_per_s, signal.reassignment_in_bytes_per_s


def step_rates(signal: BrokerSignal, side: Side) -> tuple[float | None, float | None]:
    """Returns all bytes/s and the catch-up bytes/s of one direction in the newest step; None where they are not reported."""
    if side is Side.LEADER:
        return signal.step_network_out_bytes_per_s, signal.step_reassignment_out_bytes_per_s
    return signal.step_network_in_bytes_per_s, signal.step_reassignment_in_bytes_per_s


def reported_step_s(signal: BrokerSignal) -> float | None:
    """Returns the length of the newest step in seconds; None if it is not reported or not plausible."""
    return signal.step_s if signal.step_s is not None and 0.0 < signal.step_s <= _STEP_S_MAX else None


def _update_directions(
    signal: BrokerSignal,
    before: BrokerEstimate | None,
    step_s: float,
    steps_in_window: int,
    no_signal_lost: bool,
    limits: ControlLimits,
) -> dict[Side, DirectionEstimate]:
    """Returns the load of both directions after the newest signal."""
    directions = {}
    for side in (Side.LEADER, Side.FOLLOWER):
        previous = before.directions[side] if before is not None else DirectionEstimate()
        newest = _newest_steps(previous, signal, side, steps_in_window, no_signal_lost)
        if newest is None:  # The bytes of this step are unknown, and the bytes of an older step must not replace them.
            directions[side] = replace(previous, network=StepRates(), catch_up=StepRates())
        else:
            directions[side] = _update_direction(previous, *newest, step_s, limits)
    return directions


def steps_in_window(signal: BrokerSignal) -> int:
    """Returns how many source intervals lie between the first and the last sample of the window; at least 1.

    Additional samples, which a collector takes when a move starts, do not make the window longer.
    """
    expected = round(signal.samples / signal.completeness) if signal.completeness > 0 else signal.samples
    return max(1, min(signal.samples, expected) - 1)


def _newest_steps(
    previous: DirectionEstimate, signal: BrokerSignal, side: Side, steps_in_window: int, no_signal_lost: bool
) -> tuple[StepRates, StepRates] | None:
    """Returns all bytes/s and the catch-up bytes/s by step, the newest included; None if the newest is not known."""
    network, catch_up = step_rates(signal, side) if reported_step_s(signal) is not None else (None, None)
    if _is_plausible(network, catch_up):
        steps_known = steps_in_window - 1 if no_signal_lost else 0
        return (
            _append_step(previous.network, network, steps_known),
            _append_step(previous.catch_up, catch_up, steps_known),
        )
    network, catch_up = window_rates(signal, side)
    if network is None or catch_up is None:
        return None
    return (
        append_step_from_mean(previous.network if no_signal_lost else StepRates(), network, steps_in_window),
        append_step_from_mean(previous.catch_up if no_signal_lost else StepRates(), catch_up, steps_in_window),
    )


def _is_plausible(network: float | None, catch_up: float | None) -> bool:
    """Returns whether both rates are known, and catch-up is not above the total; otherwise the link would look free of clients."""
    return network is not None and catch_up is not None and catch_up <= _CATCH_UP_RATIO_MAX * max(0.0, network)


def _append_step(steps: StepRates, bytes_per_s: float | None, steps_known: int) -> StepRates:
    """Returns the known steps and the newest one: a whole window of steps, in case the next signal reports only a mean."""
    known = steps.rates[-steps_known:] if steps_known > 0 else ()
    return StepRates((*known, max(0.0, bytes_per_s or 0.0)))


def _update_direction(
    previous: DirectionEstimate, network: StepRates, catch_up: StepRates, step_s: float, limits: ControlLimits
) -> DirectionEstimate:
    other_bytes_per_s = max(0.0, (network.newest or 0.0) - (catch_up.newest or 0.0))
    return DirectionEstimate(network, catch_up, update_load(previous.load, other_bytes_per_s, step_s, limits))
