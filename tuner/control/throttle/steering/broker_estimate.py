"""Estimates each broker's load by direction, its clients' latency, and the margin that the latency asks for.

A step is the interval between two samples of a broker. The bytes of the newest step are taken from the signal. If the signal has
none, or reports more catch-up bytes than bytes in total, they are extracted from the means of the signal's window (latest_step.py).

Invariant: each signal counts once. The estimate stays as it is until a newer signal arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from streaming.shared.contract import BrokerSignal, Side
from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.control.throttle.steering.headroom import (
    DirectionLoad,
    is_load_jump,
    min_margin,
    next_margin,
    update_load,
)
from tuner.control.throttle.steering.latency_filter import LatencyFilter, current_p99_ms, fast_component, update_filter
from tuner.control.throttle.steering.latest_step import StepRates, append_step_from_mean
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
        jumped: whether the newest step began a new load level.
    """

    network: StepRates = field(default_factory=StepRates)
    catch_up: StepRates = field(default_factory=StepRates)
    load: DirectionLoad | None = None
    jumped: bool = False


@value
class BrokerEstimate:
    """The estimate of one broker.

    Attributes:
        sampled_at_ms: when the newest signal was measured; epoch.
        step_s: length of the newest step.
        margin: share of the capacity by which the allowed utilisation is reduced.
        directions: the load by direction.
        margin_held_until_ms: the margin does not shrink until then, after an ISR shrink; epoch.
        latency: the latency filter of the broker's producers.
        signal_interval_s: seconds between the newest two signals.
    """

    sampled_at_ms: int
    step_s: float
    margin: float
    directions: Mapping[Side, DirectionEstimate]
    margin_held_until_ms: int = 0
    latency: LatencyFilter = field(default_factory=LatencyFilter)
    signal_interval_s: float = _STEP_S_DEFAULT


def update_estimate(
    signal: BrokerSignal,
    before: BrokerEstimate | None,
    fills_link: bool,
    objective: Objective,
    limits: ControlLimits,
    *,
    low_headroom: bool = False,
    near_capacity: bool = False,
) -> BrokerEstimate:
    """Returns the estimate after the broker's newest signal; ``before`` itself if the signal is not newer.

    Args:
        signal: the newest signal.
        before: the estimate before; None for the broker's first signal.
        fills_link: a side of the broker is at its ceiling, and the measured bytes confirm it.
        objective: gives the latency objective.
        limits: the constants of the law.
        low_headroom: a side of the broker can carry little more than its steady-state replication.
        near_capacity: a direction of the broker was nearly full, so its latency is that of a full link.
    """
    if before is not None and signal.sampled_at_ms <= before.sampled_at_ms:
        return before
    elapsed_s = (signal.sampled_at_ms - before.sampled_at_ms) / 1000 if before is not None else _STEP_S_DEFAULT
    no_signal_lost = before is not None and elapsed_s < _LOST_SIGNAL_RATIO * before.signal_interval_s
    window_steps = steps_in_window(signal)
    directions = _update_directions(signal, before, elapsed_s, window_steps, no_signal_lost, limits)
    latency = update_filter(
        before.latency if before is not None else LatencyFilter(),
        mean_ms=signal.produce_mean_ms,
        p99_ms=produce_p99_ms(signal, limits),
        step_s=elapsed_s,
        steps_in_window=window_steps,
        no_signal_lost=no_signal_lost,
        limits=limits,
    )
    margin, held_until_ms = _update_margin(
        signal, before, directions, latency, fills_link, objective, limits, low_headroom=low_headroom
    )
    # A margin below ``margin_min`` is kept only while the link is nearly full: only then does low latency prove anything.
    margin = max(margin, min_margin(fast_component(latency) if near_capacity else 1.0, limits))
    interval_s = elapsed_s if no_signal_lost else _STEP_S_DEFAULT
    reported_s = reported_step_s(signal)
    return BrokerEstimate(
        sampled_at_ms=signal.sampled_at_ms,
        step_s=interval_s if reported_s is None else reported_s,
        margin=margin,
        directions=directions,
        margin_held_until_ms=held_until_ms,
        latency=latency,
        signal_interval_s=interval_s,
    )


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


def _update_margin(
    signal: BrokerSignal,
    before: BrokerEstimate | None,
    directions: Mapping[Side, DirectionEstimate],
    latency: LatencyFilter,
    fills_link: bool,
    objective: Objective,
    limits: ControlLimits,
    *,
    low_headroom: bool,
) -> tuple[float, int]:
    """Returns the margin, and the time (epoch ms) until which it is held."""
    margin, held_until_ms = limits.margin_start, 0
    if before is not None:
        margin, held_until_ms = before.margin, before.margin_held_until_ms
    latency_ratio = current_p99_ms(produce_p99_ms(signal, limits), latency, limits) / objective.latency_ms
    # If a new load level caused the miss of the objective, the forecast answers that level, and the margin stays. Only a negative
    # margin ends, because it was learned at the previous load level.
    new_level = before is not None and any(
        _is_new_level(before.directions[side], directions[side]) for side in directions
    )
    if new_level and latency_ratio > 1.0:
        margin = max(margin, 0.0)
    if latency_ratio > 0.0 and not new_level:
        held = signal.sampled_at_ms < held_until_ms
        margin = next_margin(
            margin,
            latency_ratio,
            fills_link=fills_link and not held,
            limits=limits,
            low_headroom=low_headroom,
            fast_component=fast_component(latency),
        )
        # If an ISR shrinks while clients wait, in-sync replication lacks bandwidth too. Otherwise a stopped broker is the more
        # likely cause of the shrink.
        if (signal.isr_shrinks_per_s or 0.0) > 0.0 and latency_ratio > limits.latency_aim and not held:
            margin = min(limits.margin_max, max(limits.margin_min, margin) + limits.isr_shrink_margin)
            held_until_ms = signal.sampled_at_ms + round(limits.margin_hold_s * 1000)
    return margin, held_until_ms


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
            directions[side] = replace(previous, network=StepRates(), catch_up=StepRates(), jumped=False)
        else:
            directions[side] = _update_direction(previous, *newest, step_s, limits)
    return directions


def steps_in_window(signal: BrokerSignal) -> int:
    """Returns how many source intervals lie between the first and the last sample of the window; at least 1.

    Additional samples, which a collector takes when a move starts, do not make the window longer.
    """
    expected = round(signal.samples / signal.completeness) if signal.completeness > 0 else signal.samples
    return max(1, min(signal.samples, expected) - 1)


def produce_p99_ms(signal: BrokerSignal, limits: ControlLimits) -> float:
    """Returns the produce p99 (ms); 0 if it is not known or says nothing.

    Kafka's p99 covers the last thousand requests. On a broker that clients hardly write to, those reach back to its start. Fetch
    times are not used: a consumer at the end of its topic waits for the next record, by default half a second.
    """
    written = signal.client_in_bytes_per_s
    if written is not None and written < limits.clients_bytes_per_s_min:
        return 0.0
    return signal.produce_p99_ms or 0.0


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


def _is_new_level(previous: DirectionEstimate, current: DirectionEstimate) -> bool:
    """Returns whether the load has jumped, and has not merely fallen back after a jump up."""
    if not current.jumped or previous.load is None or current.load is None:
        return False
    return not previous.jumped or current.load.level_bytes_per_s > previous.load.level_bytes_per_s


def _update_direction(
    previous: DirectionEstimate, network: StepRates, catch_up: StepRates, step_s: float, limits: ControlLimits
) -> DirectionEstimate:
    other_bytes_per_s = max(0.0, (network.newest or 0.0) - (catch_up.newest or 0.0))
    jumped = previous.load is not None and is_load_jump(previous.load, other_bytes_per_s, step_s, limits)
    return DirectionEstimate(network, catch_up, update_load(previous.load, other_bytes_per_s, step_s, limits), jumped)
