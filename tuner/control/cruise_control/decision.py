"""The decisions about Cruise Control's concurrency, as values: an action, a reason for programs, and a sentence for operators."""

from __future__ import annotations

from enum import StrEnum

from tuner.core.value import value


class CruiseControlReason(StrEnum):
    """Why a decision was made."""

    NO_ANSWER = "no_answer"
    NO_EXECUTION = "no_execution"
    PAUSED = "paused"
    ADJUSTED_BY_TOOL = "adjusted_by_tool"
    NO_THROTTLE = "no_throttle"
    VETOED = "vetoed"
    WATCHED = "watched"
    FITS_THROTTLE = "fits_throttle"
    RAISED_RECENTLY = "raised_recently"
    FOLLOWS_THROTTLE = "follows_throttle"


@value
class HoldMovements:
    """Change nothing."""

    reason: CruiseControlReason
    text: str


@value
class SetMovements:
    """Change how many partitions Cruise Control moves per broker at a time, for the execution in progress."""

    current: int
    movements: int
    reason: CruiseControlReason
    text: str


MovementDecision = HoldMovements | SetMovements


def action_of(decision: MovementDecision) -> str:
    """Returns the action's name in metrics and in the journal."""
    return "set_movements" if isinstance(decision, SetMovements) else "hold_movements"
