"""Estimates when reassignments end. The page, the API, the metrics, `rheostat status` and `rheostat reassign` show this estimate.

    without a plan   the end of the slowest destination, which copies its remaining bytes at its current rate
    with plans       the end of the last plan, which copies its remaining bytes at its mean rate since its start; not before the
                     running moves end

If the load or the limits are forecast to change, the time of each side is multiplied by ``Observation.eta_ratios`` of the side. The
time of a leader counts only if the forecast slows the leader down, because it may then end after all destinations.

The end is not known while a move is stalled, while a plan is paused or cancelled, and for the first seconds of a plan. The rate of
a new plan rises from a twelfth of its final value for about fifteen seconds, so neither its mean nor its current value predicts the
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from streaming.shared.contract import MoveSignal, Side
from tuner.core.cluster import BrokerSide

ETA_S_MAX = 10 * 365 * 86_400.0
# Seconds of copying at the full rate that a plan loses at its start: some seconds until the tuner notices the plan, and half of the
# fifteen seconds in which the rate rises. Without a throttle the plan loses a few seconds less.
START_COST_S = 10.0
# No estimate is given before this time. After it, the error is at most a third.
ESTIMATE_AFTER_S = 45.0


class Progress(NamedTuple):
    """Progress of a plan.

    Attributes:
        total_bytes: bytes that the whole plan copies.
        copied_bytes: bytes copied so far.
        elapsed_s: seconds since the start of the plan, without its pauses; below 0 before a planned start.
        is_advancing: the plan may copy; False while it is paused or cancelled, or if its progress is unknown.
    """

    total_bytes: float
    copied_bytes: float
    elapsed_s: float
    is_advancing: bool


UNKNOWN = Progress(0.0, 0.0, 0.0, is_advancing=False)


class ExpectedEnd(NamedTuple):
    """When all moves and plans end.

    Attributes:
        eta_s: seconds from now; None: no end is known.
        plans_eta_s: seconds until each plan ends, by plan id; None: not known.
    """

    eta_s: float | None = None
    plans_eta_s: Mapping[str, float | None] = {}


def expected_end(
    moves: Iterable[MoveSignal],
    *,
    stalled: bool,
    plans: Mapping[str, Progress],
    eta_ratios: Mapping[BrokerSide, float] = MappingProxyType({}),
) -> ExpectedEnd:
    """Returns when everything ends and when each plan ends.

    Args:
        moves: the current move signals of all sides.
        stalled: whether any of these moves has stalled.
        plans: plans that have not ended, by id.
        eta_ratios: by side, as in ``Observation``.
    """
    if stalled:
        return ExpectedEnd(None, dict.fromkeys(plans))
    ratios: list[float] = []
    etas_s: list[float | None] = []
    for signal in moves:
        ratio = eta_ratios.get((signal.broker, signal.side), 1.0)
        eta_s = move_eta_s(signal, ratio)
        if signal.side is Side.LEADER and (ratio <= 1.0 or eta_s is None):
            continue
        ratios.append(ratio)
        etas_s.append(eta_s)
    moves_s, plan_ratio = _latest_s(etas_s), max(ratios, default=1.0)
    if not plans:
        return ExpectedEnd(moves_s)
    plans_eta_s: dict[str, float | None] = {}
    for plan, progress in plans.items():
        own_s = plan_eta_s(progress)
        plans_eta_s[plan] = None if own_s is None else max(own_s * plan_ratio, moves_s or 0.0)
    return ExpectedEnd(_latest_s([*plans_eta_s.values()]), plans_eta_s)


def move_eta_s(signal: MoveSignal, eta_ratio: float = 1.0) -> float | None:
    """Returns the seconds until a move ends; None: it makes no progress, or too little is known.

    Args:
        eta_ratio: expected time ÷ time at the current rate.
    """
    remaining, slope = signal.remaining_bytes, signal.remaining_slope_bytes_per_s
    if remaining == 0:
        return 0.0
    if remaining is None or slope is None or slope >= 0:
        return None
    eta_s = remaining / -slope * eta_ratio
    return eta_s if eta_s <= ETA_S_MAX else None


def plan_eta_s(progress: Progress) -> float | None:
    """Returns the seconds until a plan ends, at its mean rate; None: it is not advancing, has copied nothing, or has just begun.

    The mean rate is the copied bytes ÷ (elapsed time − ``START_COST_S``).
    """
    if not progress.is_advancing or progress.copied_bytes <= 0 or progress.elapsed_s < ESTIMATE_AFTER_S:
        return None
    remaining = max(0.0, progress.total_bytes - progress.copied_bytes)
    return remaining * (progress.elapsed_s - START_COST_S) / progress.copied_bytes


def _latest_s(etas_s: list[float | None]) -> float | None:
    """Returns the largest time; None if the list is empty or a time is unknown."""
    known = [eta_s for eta_s in etas_s if eta_s is not None]
    return max(known, default=None) if len(known) == len(etas_s) else None
