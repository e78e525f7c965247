"""What is known of a broker: its load by direction, as new as it can be had, and the margin that its clients need.

Invariant: a signal counts once. What an old one has taught stays until a newer one comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.contract import BrokerSignal, Side
from tuner.decide.headroom import Load, next_margin, with_step
from tuner.decide.newest import Steps, with_mean
from tuner.model.objectives import LawLimits, Objective

_STEP_S = 5.0  # Of the stream; the first signal of a broker cannot tell.
_STEP_CHANGE = 1.5  # A step so much longer than the one before it spans a look that was lost.


@dataclass(frozen=True, slots=True)
class Direction:
    """What is known of one direction of one broker; the leader side sends, the follower side receives."""

    network: Steps = field(default_factory=Steps)
    caught: Steps = field(default_factory=Steps)
    load: Load | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """What is known of one broker."""

    sampled_at_ms: int
    step_s: float
    margin: float
    directions: Mapping[Side, Direction]


def seen(signal: BrokerSignal, before: Sight | None, fills: bool, objective: Objective, limits: LawLimits) -> Sight:
    """One broker after its newest signal; the same signal twice changes nothing.

    Args:
        fills: a side of it runs at its ceiling.
    """
    if before is not None and signal.sampled_at_ms <= before.sampled_at_ms:
        return before
    step_s = (signal.sampled_at_ms - before.sampled_at_ms) / 1000 if before is not None else _STEP_S
    whole = before is not None and step_s < _STEP_CHANGE * before.step_s
    steps = max(1, signal.samples - 1)
    directions = {}
    for side in (Side.LEADER, Side.FOLLOWER):
        old = before.directions[side] if before is not None else Direction()
        directions[side] = _direction(old, _means(signal, side), steps, step_s, whole, limits)
    margin = before.margin if before is not None else limits.margin_start
    latencies = [ms for ms in (signal.produce_p99_ms, signal.fetch_p99_ms) if ms is not None]
    if latencies:
        margin = next_margin(margin, max(latencies) / objective.latency_ms, fills, limits)
    return Sight(signal.sampled_at_ms, step_s if whole else _STEP_S, margin, directions)


def _means(signal: BrokerSignal, side: Side) -> tuple[float | None, float | None]:
    if side is Side.LEADER:
        return signal.network_out_bytes_per_s, signal.reassignment_out_bytes_per_s
    return signal.network_in_bytes_per_s, signal.reassignment_in_bytes_per_s


def _direction(
    old: Direction, means: tuple[float | None, float | None], steps: int, step_s: float, whole: bool, limits: LawLimits
) -> Direction:
    network_mean, caught_mean = means
    if network_mean is None or caught_mean is None:
        return old
    network = with_mean(old.network if whole else Steps(), network_mean, steps)
    caught = with_mean(old.caught if whole else Steps(), caught_mean, steps)
    used = max(0.0, (network.newest or 0.0) - (caught.newest or 0.0))
    return Direction(network, caught, with_step(old.load, used, step_s, limits))
