"""The newest decisions with all that is on record of them: what they stood on, what was before and after, what came of it.

Intuition: the journal has an entry before an act and one after it, for each throttle. A person asks for one thing, so here the two
are one act, and the acts of one event (the end of a move, say) are one row with a list.

Invariant: what stands here is on record. An entry comes here after the journal has taken it, and never if it has not.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.journal.entries import ORDER, STEERING, Entry
from tuner.journal.event_lines import (
    CLEANUP_MS_MAX,
    SAME_CYCLE_MS_MAX,
    event_key,
    is_cleanup,
    subject_of,
)

ROWS_MAX = 5_000
STEERING_TICKS_MAX = 600  # Seconds of the law; in a deque of their own, or they would push everything else out.
_LOOK_BACK = 500  # For the act that an outcome belongs to.
_EVENTS_BACK = 20  # For the event that a record belongs to: a cycle has few kinds of them.
# A row's number is made of when it was decided, which is on record, so that a link to it holds across restarts: so many for each
# millisecond, and every other one for the law's seconds. With today's clock that is below 2^53, which every program reads exactly.
_NUMBERS_PER_MS = 2_000


@dataclass(slots=True)
class JournaledAct:
    """One record of the journal, and what came of it."""

    entry: Entry
    outcome: Entry | None = None


@dataclass(slots=True)
class EventRow:
    """One event."""

    number: int
    acts: list[JournaledAct]
    event: Hashable | None = None
    subjects: set[Hashable] = field(default_factory=set)  # Each is named once in an event.

    @property
    def entry(self) -> Entry:
        return self.acts[0].entry

    def takes(self, entry: Entry) -> bool:
        """Whether this record belongs to the same event, given that ``event`` is the same."""
        apart_ms = entry.at_ms - self.acts[-1].entry.at_ms
        most_ms = CLEANUP_MS_MAX if is_cleanup(entry) else SAME_CYCLE_MS_MAX
        return 0 <= apart_ms <= most_ms and subject_of(entry) not in self.subjects


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """What is asked for; None is everything."""

    broker: int | None = None
    side: str | None = None
    action: str | None = None
    reason: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None  # Itself included.
    changes_only: bool = False  # Only those that changed something, or would have.

    def fits(self, entry: Entry) -> bool:
        if self.from_ms is not None and entry.at_ms < self.from_ms:
            return False
        if self.to_ms is not None and entry.at_ms > self.to_ms:
            return False
        if self.action is not None and entry.action != self.action:
            return False
        if self.reason is not None and entry.reason != self.reason:
            return False
        if self.changes_only and entry.kind == "decision" and entry.action not in ("relinquish", ORDER):
            return False
        return (self.broker is None and self.side is None) or any(
            self.broker in (None, broker) and self.side in (None, side) for broker, side in throttles_of(entry)
        )


class DecisionStore:
    def __init__(self, rows_max: int = ROWS_MAX, turns_max: int = STEERING_TICKS_MAX) -> None:
        self._lock = threading.Lock()
        self._rows: deque[EventRow] = deque()
        self._records, self._records_max = 0, rows_max  # Of the journal, in all rows.
        self._turns: deque[EventRow] = deque(maxlen=turns_max)
        self._numbers = {False: 0, True: 0}  # The last of the decisions, and of the seconds of the law.
        self._changes = {False: 0, True: 0}  # Of the decisions, and of the seconds of the law.

    def changes(self, *, steering_ticks: bool = False) -> int:
        """Another number whenever a page of them may be another."""
        return self._changes[steering_ticks]

    def take(self, entries: Iterable[Entry]) -> None:
        with self._lock:
            for entry in entries:
                self._take(entry)

    def load_history(self, entries: Sequence[Entry]) -> None:
        """What was on record before this process; what has come meanwhile stays behind it."""
        with self._lock:
            acts = [act for row in (*self._rows, *self._turns) for act in row.acts]
            since = [act.entry for act in acts]
            known = {_identity(entry) for entry in since}
            outcomes = [act.outcome for act in acts if act.outcome is not None]
            known |= {_identity(entry) for entry in outcomes}
            older = [entry for entry in entries if _identity(entry) not in known]
            self._rows.clear()
            self._turns.clear()
            self._records = 0
            self._numbers = {False: 0, True: 0}
            # An outcome of the same millisecond comes after its act: the sort keeps the order of what is alike.
            for entry in sorted((*older, *since, *outcomes), key=lambda each: (each.at_ms, each.kind == "outcome")):
                self._take(entry)

    def page(
        self, wanted: DecisionFilter, limit: int, *, before: int | None = None, steering_ticks: bool = False
    ) -> tuple[list[EventRow], int | None]:
        """The newest first.

        Args:
            before: only rows with a smaller number.
            steering_ticks: the seconds of the law instead of decisions.

        Returns:
            The rows, and what ``before`` is to be for those after them; None: there are no more.
        """
        with self._lock:
            rows = list(self._turns if steering_ticks else self._rows)
        found: list[EventRow] = []
        for row in reversed(rows):
            fits = (wanted.fits(act.entry) for act in row.acts)
            if (before is not None and row.number >= before) or not any(fits):
                continue
            if len(found) == limit:
                return found, found[-1].number
            found.append(row)
        return found, None

    def row(self, number: int) -> EventRow | None:
        with self._lock:
            return next((row for row in (*self._rows, *self._turns) if row.number == number), None)

    def _take(self, entry: Entry) -> None:
        if entry.kind == "outcome" and (act := self._act_of(entry)) is not None:
            act.outcome = entry
            self._changes[False] += 1
            return
        turns = entry.kind == STEERING
        self._changes[turns] += 1
        event = event_key(entry)
        if not turns and (row := self._row_of(event, entry)) is not None:
            row.acts.append(JournaledAct(entry))
            row.subjects.add(subject_of(entry))
        else:
            # What comes later has a larger one, whatever the clock says: pages go by it.
            number = max(entry.at_ms * _NUMBERS_PER_MS + turns, self._numbers[turns] + 2)
            self._numbers[turns] = number
            row = EventRow(number, [JournaledAct(entry)], event, {subject_of(entry)})
            (self._turns if turns else self._rows).append(row)
        if not turns:
            self._records += 1
            while self._records > self._records_max and len(self._rows) > 1:
                self._records -= len(self._rows.popleft().acts)

    def _row_of(self, event: Hashable | None, entry: Entry) -> EventRow | None:
        """The row of the event that this record belongs to; None: it begins one."""
        if event is None:
            return None
        for back, row in enumerate(reversed(self._rows)):
            if back == _EVENTS_BACK:
                return None
            if row.event == event:
                return row if row.takes(entry) else None
        return None

    def _act_of(self, outcome: Entry) -> JournaledAct | None:
        looked = 0
        for row in reversed(self._rows):
            for act in reversed(row.acts):
                if looked == _LOOK_BACK:
                    return None
                looked += 1
                same = act.entry.action == outcome.action and act.entry.text == outcome.text
                if same and act.entry.kind == "intent" and act.outcome is None:
                    return act
        return None


class RecordedJournal:
    """A journal that tells what it has taken."""

    def __init__(self, write: Callable[..., None], decisions: DecisionStore) -> None:
        """
        Args:
            write: the journal's own; what it takes besides entries is its own matter.
        """
        self._write = write
        self._decisions = decisions

    def write(self, entries: Sequence[Entry] = (), **more: Any) -> None:
        """
        Raises:
            JournalError: as the journal itself.
        """
        self._write(entries, **more)
        self._decisions.take(entries)


def throttles_of(entry: Entry) -> Iterator[tuple[int | None, str | None]]:
    """Returns the throttles that a record is about."""
    yield entry.decision.get("broker"), entry.decision.get("side")
    for broker, side, *_ in entry.decision.get("rates", ()):
        yield broker, side


def _identity(entry: Entry) -> tuple[object, ...]:
    return entry.at_ms, entry.kind, entry.action, entry.text
