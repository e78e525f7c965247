"""What is known of a broker: its load by direction, as new as it can be had, and the margin that its clients need.

What passed in the newest step is taken as the signal tells it; where it does not, or tells a part above the whole, it is
worked out of the means of its window (newest.py).

Invariant: a signal counts once. What an old one has taught stays until a newer one comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from streaming.shared.contract import BrokerSignal, Side
from tuner.control.throttle.objective import LawLimits, Objective
from tuner.control.throttle.steering.headroom import (
    DirectionLoad,
    jumped,
    least_margin,
    next_margin,
    with_step,
)
from tuner.control.throttle.steering.latency_filter import LatencyFilter, felt_ms, momentary, with_window
from tuner.control.throttle.steering.latest_step import Steps, with_mean
from tuner.core.value import value

_STEP_S = 5.0  # Of the stream; the first signal of a broker cannot tell.
_STEP_S_MAX = 60.0  # A stream tells none that is longer.
_PART_RATIO_MAX = 1.1  # Counters are read one after the other.
_STEP_CHANGE = 1.5  # A step so much longer than the one before it spans a look that was lost.


@value
class Direction:
    """What is known of one direction of one broker; the leader side sends, the follower side receives."""

    network: Steps = field(default_factory=Steps)
    caught: Steps = field(default_factory=Steps)
    load: DirectionLoad | None = None
    jumped: bool = False  # The newest step was another load than the one that was known.


@value
class BrokerEstimate:
    """What is known of one broker."""

    sampled_at_ms: int
    step_s: float  # The newest; what passed in it is in ``directions``.
    margin: float
    directions: Mapping[Side, Direction]
    rests_until_ms: int = 0  # After a cut nothing is given back until then.
    felt: LatencyFilter = field(default_factory=LatencyFilter)
    apart_s: float = _STEP_S  # The newest two signals.


def seen(
    signal: BrokerSignal,
    before: BrokerEstimate | None,
    fills: bool,
    objective: Objective,
    limits: LawLimits,
    *,
    tight: bool = False,
    crowded: bool = False,
) -> BrokerEstimate:
    """One broker after its newest signal; the same signal twice changes nothing.

    Args:
        fills: a side of it runs at its ceiling, and what is measured says so too.
        tight: a side of it can do little more than keep up.
        crowded: one direction of it was nearly full, so what clients felt was with a link like that.
    """
    if before is not None and signal.sampled_at_ms <= before.sampled_at_ms:
        return before
    step_s = (signal.sampled_at_ms - before.sampled_at_ms) / 1000 if before is not None else _STEP_S
    whole = before is not None and step_s < _STEP_CHANGE * before.apart_s
    steps = _steps(signal)
    directions = {}
    for side in (Side.LEADER, Side.FOLLOWER):
        old = before.directions[side] if before is not None else Direction()
        newest = _newest(old, signal, side, steps, whole)
        # What passed in this step is not known, and what passed in another is not said of it.
        unknown = replace(old, network=Steps(), caught=Steps(), jumped=False)
        directions[side] = unknown if newest is None else _direction(old, *newest, step_s, limits)
    margin, rests_until_ms = (before.margin, before.rests_until_ms) if before is not None else (limits.margin_start, 0)
    past = before.felt if before is not None else LatencyFilter()
    p99_ms = _p99_ms(signal, limits)
    felt = with_window(past, signal.produce_mean_ms, p99_ms, step_s, steps, whole, limits)
    latency_ratio = felt_ms(p99_ms, felt, limits) / objective.latency_ms
    momentary_part = momentary(felt)
    # A miss that another load has brought is answered by the forecast, and says nothing of the margin; but what was given of the
    # last tenth was for the load before. A load that goes to and fro is one load.
    another = before is not None and any(_is_another(before.directions[side], directions[side]) for side in directions)
    if another and latency_ratio > 1.0:
        margin = max(margin, 0.0)
    if latency_ratio > 0.0 and not another:
        rests = signal.sampled_at_ms < rests_until_ms
        fills_now = fills and not rests
        margin = next_margin(margin, latency_ratio, fills_now, limits, tight=tight, momentary=momentary_part)
        # Followers fall behind while clients wait: both starve. A shrink alone may be a broker that has stopped.
        if (signal.isr_shrinks_per_s or 0.0) > 0.0 and latency_ratio > limits.latency_aim and not rests:
            margin = min(limits.margin_max, max(limits.margin_min, margin) + limits.shrink_cut)
            rests_until_ms = signal.sampled_at_ms + round(limits.rest_s * 1000)
    # What was given of the last tenth was for clients who were seen to bear it, on a link that was as full.
    margin = max(margin, least_margin(momentary_part if crowded else 1.0, limits))
    apart_s = step_s if whole else _STEP_S
    told_s = told_step_s(signal)
    newest_s = apart_s if told_s is None else told_s
    return BrokerEstimate(signal.sampled_at_ms, newest_s, margin, directions, rests_until_ms, felt, apart_s)


def _steps(signal: BrokerSignal) -> int:
    """Of the source's interval, between the first and the last sample of the window. Where a collector has looked in between, as
    it does when a move begins, there are more samples, and the window is no longer for it."""
    expected = round(signal.samples / signal.completeness) if signal.completeness > 0 else signal.samples
    return max(1, min(signal.samples, expected) - 1)


def _p99_ms(signal: BrokerSignal, limits: LawLimits) -> float:
    """What producers feel; 0 where it is not known. The time of a consumer's fetch says nothing: at the end of its topic it waits
    for the next record, half a second by default, on a cluster where nothing is slow. Nor does the p99 of a broker to which
    almost nobody writes: Kafka tells it of the last thousand requests, and there those reach back to its start."""
    written = signal.client_in_bytes_per_s
    if written is not None and written < limits.clients_bytes_per_s_min:
        return 0.0
    return signal.produce_p99_ms or 0.0


def means(signal: BrokerSignal, side: Side) -> tuple[float | None, float | None]:
    """Everything, and of it what catches up, in bytes/s over the signal's window."""
    if side is Side.LEADER:
        return signal.network_out_bytes_per_s, signal.reassignment_out_bytes_per_s
    return signal.network_in_bytes_per_s, signal.reassignment_in_bytes_per_s


def stepped(signal: BrokerSignal, side: Side) -> tuple[float | None, float | None]:
    """As ``means``, over the newest step alone; not every stream and every source tells it."""
    if side is Side.LEADER:
        return signal.step_network_out_bytes_per_s, signal.step_reassignment_out_bytes_per_s
    return signal.step_network_in_bytes_per_s, signal.step_reassignment_in_bytes_per_s


def told_step_s(signal: BrokerSignal) -> float | None:
    return signal.step_s if signal.step_s is not None and 0.0 < signal.step_s <= _STEP_S_MAX else None


def _newest(old: Direction, signal: BrokerSignal, side: Side, steps: int, whole: bool) -> tuple[Steps, Steps] | None:
    """All that passed in the newest step, and of it what caught up; None where one of the two is not known."""
    told = stepped(signal, side) if told_step_s(signal) is not None else (None, None)
    if _is_possible(*told):
        known = steps - 1 if whole else 0
        return _appended(old.network, told[0], known), _appended(old.caught, told[1], known)
    network, caught = means(signal, side)
    if network is None or caught is None:
        return None
    return (
        with_mean(old.network if whole else Steps(), network, steps),
        with_mean(old.caught if whole else Steps(), caught, steps),
    )


def _is_possible(network: float | None, caught: float | None) -> bool:
    """A part that is more than the whole: one of the two is wrong, and all of the link would seem to be free."""
    return network is not None and caught is not None and caught <= _PART_RATIO_MAX * max(0.0, network)


def _appended(steps: Steps, bytes_per_s: float | None, known: int) -> Steps:
    """As many as a window has are kept, for when the next is not told."""
    return Steps((*(steps.rates[-known:] if known > 0 else ()), max(0.0, bytes_per_s or 0.0)))


def _is_another(old: Direction, now: Direction) -> bool:
    """A load that goes up by steps goes up while the link is full; one that falls after it rose has only come back."""
    if not now.jumped or old.load is None or now.load is None:
        return False
    return not old.jumped or now.load.level_bytes_per_s > old.load.level_bytes_per_s


def _direction(old: Direction, network: Steps, caught: Steps, step_s: float, limits: LawLimits) -> Direction:
    used = max(0.0, (network.newest or 0.0) - (caught.newest or 0.0))
    jump = old.load is not None and jumped(old.load, used, step_s, limits)
    return Direction(network, caught, with_step(old.load, used, step_s, limits), jump)
