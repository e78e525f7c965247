"""When reassignments end: one number with one meaning, for the page, the API, the metrics, `rheostat status` and `rheostat
reassign`.

    without a plan   when the slowest destination has copied what it lacks, at its rate now
    with plans       when the last plan has copied everything, at its mean rate since its throttle was up, and no sooner
                     than the moves under way

A stalled move has no end, nor has a plan that is paused or taken back. A plan that has just begun has none either: its rate
rises from a twelfth for some fifteen seconds, and neither its mean nor the rate now tells how fast it will be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streaming.shared.contract import MoveSignal

ETA_S_MAX = 10 * 365 * 86_400.0
# A plan copies so much less at its start as it copies in this time at its full rate: a tuner has to take it up, and a rate that
# rises over fifteen seconds costs half of them. Without a throttle it is a few seconds less.
START_COST_S = 10.0
# From then on that estimate is right within a third, and the rates of moves are measured after the start.
ESTIMATE_AFTER_S = 45.0


class Progress(NamedTuple):
    """How far a plan is.

    Attributes:
        total_bytes: all that the plan copies.
        copied_bytes: what of that has been copied.
        elapsed_s: seconds since the plan was given, without its pauses.
        goes_on: whether it copies or may begin to; False while it is paused, taken back, or its progress is not known.
    """

    total_bytes: float
    copied_bytes: float
    elapsed_s: float
    is_advancing: bool


UNKNOWN = Progress(0.0, 0.0, 0.0, is_advancing=False)


class ExpectedEnd(NamedTuple):
    """When everything ends that moves or that a plan has still to move.

    Attributes:
        eta_s: seconds from now; None: no end is known.
        plans_s: the same for each plan alone, by its id.
    """

    eta_s: float | None = None
    plans_eta_s: Mapping[str, float | None] = {}


def expected_end(moves: Iterable[MoveSignal], *, stalled: bool, plans: Mapping[str, Progress]) -> ExpectedEnd:
    """Returns when everything ends, and when each plan does, in seconds from now; None where no end is known.

    Args:
        moves: what is measured now of the moves onto each broker.
        stalled: whether any of them has stalled.
        plans: those that have not ended.
    """
    if stalled:
        return ExpectedEnd(None, dict.fromkeys(plans))
    moves_s = _latest_s([move_eta_s(signal) for signal in moves])
    if not plans:
        return ExpectedEnd(moves_s)
    paces = {plan: plan_eta_s(progress) for plan, progress in plans.items()}
    plans_s = {plan: None if own_s is None else max(own_s, moves_s or 0.0) for plan, own_s in paces.items()}
    return ExpectedEnd(_latest_s([*plans_s.values()]), plans_s)


def move_eta_s(signal: MoveSignal) -> float | None:
    """Returns the seconds until a move ends at its rate now; None: it comes no nearer to its end, or too little is known."""
    left, slope = signal.remaining_bytes, signal.remaining_slope_bytes_per_s
    if left == 0:
        return 0.0
    if left is None or slope is None or slope >= 0:
        return None
    ends_s = left / -slope
    return ends_s if ends_s <= ETA_S_MAX else None


def plan_eta_s(progress: Progress) -> float | None:
    """Returns the seconds until a plan ends at its mean rate without the start.

    None: it does not go on, or has copied nothing, or has just begun.
    """
    if not progress.is_advancing or progress.copied_bytes <= 0 or progress.elapsed_s < ESTIMATE_AFTER_S:
        return None
    left = max(0.0, progress.total_bytes - progress.copied_bytes)
    return left * (progress.elapsed_s - START_COST_S) / progress.copied_bytes


def _latest_s(ends_s: list[float | None]) -> float | None:
    """None where there are none, or one of them is not known."""
    known = [end_s for end_s in ends_s if end_s is not None]
    return max(known, default=None) if len(known) == len(ends_s) else None
