"""Estimates each broker's load by direction, and its clients' latency by utilisation.

A step is the interval between two samples of a broker. The bytes of the newest step are taken from the signal. If the signal has
none, or reports more catch-up bytes than bytes in total, they are extracted from the means of the signal's window (latest_step.py).

Invariant: each signal counts once. The estimate stays as it is until a newer signal arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from streaming.shared.contract import BrokerSignal, Side
from tuner.control.throttle.objective import Capacity, ControlLimits, Objective
from tuner.control.throttle.steering.allowed_utilisation import START_TOLD, resume_allowed, update_allowed
from tuner.control.throttle.steering.headroom import DirectionLoad, update_load
from tuner.control.throttle.steering.latency_baseline import is_hardly_written, lowest_p99_ms, produce_p99_ms
from tuner.control.throttle.steering.latest_step import StepRates, append_step_from_mean
from tuner.control.throttle.steering.present_latency import PresentLatency, update_latency
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
        latency: the present latency of the broker's producers.
        lowest_p99_ms: the lowest present p99 so far; 0: none was measured. It stands for a baseline that is not known.
        latency_limit: the latency that they may have; None if it follows from a baseline that is not known.
        allowed_utilisation: how full the link may be (allowed_utilisation.py); None: clients hardly write, so none waits.
        is_capacity_told: the settings have the capacity.
        signal_interval_s: seconds between the newest two signals.
    """

    sampled_at_ms: int
    step_s: float
    directions: Mapping[Side, DirectionEstimate]
    capacity: Capacity | None = None
    latency: PresentLatency = field(default_factory=PresentLatency)
    lowest_p99_ms: float = 0.0
    latency_limit: LatencyLimit | None = None
    allowed_utilisation: float | None = None
    is_capacity_told: bool = True
    signal_interval_s: float = _STEP_S_DEFAULT

    def link_limit(self, side: Side) -> LinkLimit | None:
        """Returns how many bytes/s the law lets through in one direction, clients included; None if it knows no limit."""
        if self.capacity is None or (self.allowed_utilisation is None and not self.is_capacity_told):
            return None
        link = self.capacity.out_bytes_per_s if side is Side.LEADER else self.capacity.in_bytes_per_s
        ratio = 1.0 if self.allowed_utilisation is None else self.allowed_utilisation
        return LinkLimit(ratio * link, link if self.is_capacity_told else None)


def update_estimate(
    signal: BrokerSignal,
    before: BrokerEstimate | None,
    capacity: Capacity | None,
    baseline_ms: float | None,
    objective: Objective,
    limits: ControlLimits,
    throttles: Mapping[Side, float] | None = None,
) -> BrokerEstimate:
    """Returns the estimate after the broker's newest signal; ``before`` itself if the signal is not newer.

    Args:
        signal: the newest signal.
        before: the estimate before; None for the broker's first signal.
        capacity: the capacity of the broker in the settings; None if they have none.
        baseline_ms: the p99 of the broker's clients without a move; None if it is not known.
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
    )
    is_new = before is None or elapsed_s > _STEP_S_MAX  # What was learned in a former move says little about this one.
    lowest_ms = lowest_p99_ms(latency.p99_ms, 0.0 if before is None or is_new else before.lowest_p99_ms)
    is_told = capacity is not None
    if capacity is None:
        capacity = before.capacity if before is not None and before.capacity is not None else _measured(directions)
    utilisation, load = _utilisation(directions, capacity)
    allowed = before.allowed_utilisation if before is not None else None
    if is_hardly_written(signal):
        allowed = None  # Latencies of earlier load limit nothing.
    elif not allowed or is_new:
        set_ratio = _utilisation_of_throttles(directions, capacity, throttles or {})
        allowed = START_TOLD if is_told else resume_allowed(allowed, max(utilisation, set_ratio), elapsed_s)
    latency_limit = objective.latency_limit(baseline_ms, lowest_ms)
    if allowed is not None and utilisation > 0.0 and latency.p99_ms > 0.0 and latency_limit is not None:
        allowed = update_allowed(allowed, utilisation, load, latency_limit.rise_ratio(latency.p99_ms), elapsed_s)
    interval_s = elapsed_s if no_signal_lost else _STEP_S_DEFAULT
    reported_s = reported_step_s(signal)
    return BrokerEstimate(
        sampled_at_ms=signal.sampled_at_ms,
        step_s=interval_s if reported_s is None else reported_s,
        directions=directions,
        capacity=capacity,
        latency=latency,
        lowest_p99_ms=lowest_ms,
        latency_limit=latency_limit,
        allowed_utilisation=allowed,
        is_capacity_told=is_told,
        signal_interval_s=interval_s,
    )


def _measured(directions: Mapping[Side, DirectionEstimate]) -> Capacity | None:
    """Returns what the broker sent or received in the newest step, for both directions; None if that is not known."""
    rates = [found.network.newest for found in directions.values()]
    busier = max((rate for rate in rates if rate is not None), default=None)
    return Capacity(busier, busier) if busier else None


def _utilisation(directions: Mapping[Side, DirectionEstimate], capacity: Capacity | None) -> tuple[float, float]:
    """Returns the utilisation of the busier direction in the newest step, in all and without catch-up; 0 if it is not known."""
    sent, received = directions[Side.LEADER], directions[Side.FOLLOWER]
    if sent.network.newest is None or received.network.newest is None or capacity is None:
        return 0.0, 0.0
    used = max(
        sent.network.newest / capacity.out_bytes_per_s,
        received.network.newest / capacity.in_bytes_per_s,
    )
    sent_load = sent.load.level_bytes_per_s if sent.load is not None else 0.0
    received_load = received.load.level_bytes_per_s if received.load is not None else 0.0
    return used, max(sent_load / capacity.out_bytes_per_s, received_load / capacity.in_bytes_per_s)


def _utilisation_of_throttles(
    directions: Mapping[Side, DirectionEstimate], capacity: Capacity | None, throttles: Mapping[Side, float]
) -> float:
    """Returns the utilisation of the busier direction if its throttle were full; 0 if that is not known."""
    if capacity is None:
        return 0.0
    rates = [
        throttles[side] + found.load.level_bytes_per_s
        for side, found in directions.items()
        if side in throttles and found.load is not None
    ]
    return max(rates, default=0.0) / capacity.out_bytes_per_s


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
        if newest is None:  # The bytes of this step are unknown, and those of an older step must not stand for them.
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
