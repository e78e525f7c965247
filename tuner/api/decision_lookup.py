"""Finds the decision with an id: in the tuner's memory, or else in the journal."""

from __future__ import annotations

from typing import NamedTuple

from tuner.api.api_state import ApiState
from tuner.api.decisions import EventRow, is_tick_number, time_of_number

# The first request makes the tuner read the journal. Most journals are read within this time.
_READ_S_MAX = 1.5
MISSING = (
    "The journal has no decision with this id. It keeps the newest 100,000 decisions and the newest 100,000 changes of the "
    "control law"
)


class FoundDecision(NamedTuple):
    """A decision, or a sentence that says why the decision cannot be shown."""

    row: EventRow | None
    reason: str | None


def find_decision(state: ApiState, number: int) -> FoundDecision:
    """Returns the decision with this id. May wait for the journal.

    The id of a decision is derived from the time of the first act in its row. A process that did not keep that first act in memory
    gave the row a later id. Therefore a row is also found by the time of any of its acts.
    """
    store = state.observers.decisions
    if (row := store.row(number)) is not None:
        return FoundDecision(row, None)
    reason = state.journal.unread_reason(_READ_S_MAX)
    row = state.journal.row(number) or store.row_at(time_of_number(number), steering_tick=is_tick_number(number))
    if row is not None:
        return FoundDecision(row, None)
    return FoundDecision(None, MISSING if reason is None else f"{reason[:1].upper()}{reason[1:]}")
