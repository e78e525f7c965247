"""Estimates when reassignments end. The page, the API, the metrics, `rheostat status` and `rheostat reassign` show this number.

    without a plan   when the slowest destination has copied its remaining bytes at its current rate
    with plans       when the last plan has copied everything at its mean rate since its start, and not before the running moves end

If the forecast of the next hours differs from this hour, each time is multiplied by its side's ratio in ``Observation.eta_ratios``.
A leader that the forecast slows down counts as well, because it may end after all destinations.

No end is known while a move is stalled, or while a plan is paused or cancelled. The end is also unknown at the start of a plan: the
rate then rises from a twelfth of its final value for about fifteen seconds, so neither its mean nor its current value is of use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from streaming.shared.contract import MoveSignal, Side
from tuner.core.cluster import BrokerSide

ETA_S_MAX = 10 * 365 * 86_400.0
# Seconds of copying at the full rate that a plan loses at its start: the tuner has to notice the plan, and half of the
# fifteen-second ramp is lost. Without a throttle the loss is a few seconds smaller.
START_COST_S = 10.0
# After this time the estimate is accurate within a third.
ESTIMATE_AFTER_S = 45.0


class Progress(NamedTuple):
    """Progress of a plan.

    Attributes:
        total_bytes: bytes that the whole plan copies.
        copied_bytes: bytes copied so far.
        elapsed_s: seconds since the plan was submitted or its later start, without its pauses; below 0 before the start.
        is_advancing: the plan copies or may begin to; False while it is paused or cancelled, or its progress is unknown.
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
        moves: the current signal of the moves onto each broker; those of leaders matter only if they have a ratio.
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
    """Returns the seconds until a plan ends, at its mean rate without the slow start.

    None: the plan is not advancing, has copied nothing, or has just begun.
    """
    if not progress.is_advancing or progress.copied_bytes <= 0 or progress.elapsed_s < ESTIMATE_AFTER_S:
        return None
    remaining = max(0.0, progress.total_bytes - progress.copied_bytes)
    return remaining * (progress.elapsed_s - START_COST_S) / progress.copied_bytes


def _latest_s(etas_s: list[float | None]) -> float | None:
    """Returns the largest time; None if the list is empty or a time is unknown."""
    known = [eta_s for eta_s in etas_s if eta_s is not None]
    return max(known, default=None) if len(known) == len(etas_s) else None
