"""Defines the decisions about cordons: each has an action, a reason for programs, and a sentence."""

from __future__ import annotations

from enum import StrEnum

from tuner.core.value import value


class CordonReason(StrEnum):
    """Why a decision was made: a word for programs, in the journal."""

    # Nothing can be decided, or an operator ordered to wait: hold.
    CORDON_UNREADABLE = "cordon_unreadable"
    PAUSED = "paused"
    # The broker is as ordered, or another tool decides: hold.
    IN_PLACE = "in_place"
    CORDONED_ALREADY = "cordoned_already"
    LIFTED_EXTERNALLY = "lifted_externally"
    # A write may still take effect: hold.
    WRITE_UNCONFIRMED = "write_unconfirmed"
    # Change the setting.
    PLAN_STARTS = "plan_starts"
    PLAN_CANCELLED = "plan_cancelled"
    RELEASED = "released"


@value
class HoldCordon:
    """Change nothing."""

    broker: int
    reason: CordonReason
    text: str


@value
class SetCordon:
    """Cordon all log directories of a broker.

    Attributes:
        plan: the plan that ordered the cordon.
        found: the entries of ``cordoned.log.dirs`` before the write.
        was_set: before the write, the setting was set on the broker itself; False: it came from the broker's file or a default.
        directories: the entries that are added, and that rheostat manages from now on.
        entries: all entries to write.
    """

    broker: int
    plan: str
    found: tuple[str, ...]
    was_set: bool
    directories: tuple[str, ...]
    entries: tuple[str, ...]
    reason: CordonReason
    text: str


@value
class LiftCordon:
    """Remove the entries that rheostat added, and keep the entries of other tools.

    Attributes:
        found: the entries of ``cordoned.log.dirs`` before the write.
        entries: all entries to write; None: remove the setting from the broker.
    """

    broker: int
    found: tuple[str, ...]
    entries: tuple[str, ...] | None
    reason: CordonReason
    text: str


@value
class RelinquishCordon:
    """Stop managing the entries, because an operator or another tool has removed them."""

    broker: int
    directories: tuple[str, ...]
    reason: CordonReason
    text: str


CordonWrite = SetCordon | LiftCordon
CordonDecision = HoldCordon | SetCordon | LiftCordon | RelinquishCordon

_ACTIONS: dict[type[CordonDecision], str] = {
    HoldCordon: "hold_cordon",
    SetCordon: "set_cordon",
    LiftCordon: "lift_cordon",
    RelinquishCordon: "relinquish_cordon",
}


def cordon_action(decision: CordonDecision) -> str:
    """Returns the action as a word for programs."""
    return _ACTIONS[type(decision)]
