"""The newest decisions for the API, grouped by event: with inputs, values before and after, and outcome.

For each throttle that the tuner changes, the journal has one entry before the act and one entry with its outcome. Here both entries
form one act, and all acts of one event (such as the end of a move) form one row.

Invariant: an entry is added only after the journal has stored it.
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
from tuner.journal.term_entries import BEGIN_TERM, FOLLOW_SETTINGS

ENTRIES_MAX = 5_000
# A steering tick is one run of the control law, each second. Ticks are kept apart from decisions, which they would displace.
STEERING_TICKS_MAX = 600
_ACTS_SEARCHED_MAX = 500  # When looking for the act of an outcome.
_EVENTS_SEARCHED_MAX = 20  # When looking for the event of an entry; a cycle has few events.
# A row's number is derived from its recorded time, so that links hold across restarts. Even numbers are decisions, odd numbers are
# steering ticks. The numbers stay below 2^53, which JSON numbers represent exactly.
_NUMBERS_PER_MS = 2_000

_CHANGES_WITHOUT_WRITE = frozenset({"relinquish", "relinquish_log_dir", ORDER, BEGIN_TERM, FOLLOW_SETTINGS})


@dataclass(slots=True)
class JournaledAct:
    """A journal entry and the entry of its outcome; ``outcome`` is None until the act has ended."""

    entry: Entry
    outcome: Entry | None = None


@dataclass(slots=True)
class EventRow:
    """One event: the acts that belong together."""

    number: int
    acts: list[JournaledAct]
    event: Hashable | None = None
    subjects: set[Hashable] = field(default_factory=set)  # Throttles and topics; each occurs once in an event.

    @property
    def entry(self) -> Entry:
        return self.acts[0].entry

    def accepts(self, entry: Entry) -> bool:
        """Returns whether the entry, whose event key equals ``event``, belongs to this row. A later event may have the same key."""
        gap_ms = entry.at_ms - self.acts[-1].entry.at_ms
        gap_ms_max = CLEANUP_MS_MAX if is_cleanup(entry) else SAME_CYCLE_MS_MAX
        return 0 <= gap_ms <= gap_ms_max and subject_of(entry) not in self.subjects


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """Selects decisions; None selects everything."""

    broker: int | None = None
    side: str | None = None
    action: str | None = None
    reason: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None  # Inclusive.
    changes_only: bool = False  # Only decisions that changed something, or would have in a dry run.

    def matches(self, entry: Entry) -> bool:
        if self.from_ms is not None and entry.at_ms < self.from_ms:
            return False
        if self.to_ms is not None and entry.at_ms > self.to_ms:
            return False
        if self.action is not None and entry.action != self.action:
            return False
        if self.reason is not None and entry.reason != self.reason:
            return False
        # Entries of the kind "decision" wrote nothing to Kafka. Some of them are changes nevertheless: a throttle left to another
        # owner, an order, another tuner, other settings.
        if self.changes_only and entry.kind == "decision" and entry.action not in _CHANGES_WITHOUT_WRITE:
            return False
        return (self.broker is None and self.side is None) or any(
            self.broker in (None, broker) and self.side in (None, side) for broker, side in throttles_of(entry)
        )


class DecisionStore:
    """Holds the newest events in memory. Thread-safe: the loop adds entries, the server reads pages."""

    def __init__(self, entries_max: int = ENTRIES_MAX, ticks_max: int = STEERING_TICKS_MAX) -> None:
        self._lock = threading.Lock()
        self._rows: deque[EventRow] = deque()
        self._entry_count, self._entries_max = 0, entries_max  # Journal entries in all rows.
        self._ticks: deque[EventRow] = deque(maxlen=ticks_max)
        # By kind of row: False for decisions, True for steering ticks.
        self._numbers = {False: 0, True: 0}  # The last row number.
        self._revisions = {False: 0, True: 0}  # The number of changes.

    def revision(self, *, steering_ticks: bool = False) -> int:
        """Returns a number that changes whenever a page may have changed."""
        return self._revisions[steering_ticks]

    def add(self, entries: Iterable[Entry]) -> None:
        with self._lock:
            for entry in entries:
                self._add(entry)

    def add_numbered(self, entry: Entry) -> int | None:
        """Adds an entry, and returns the number of its row; None for an outcome, which belongs to an earlier row."""
        with self._lock:
            return self._add(entry)

    def load_history(self, entries: Sequence[Entry]) -> None:
        """Adds entries that were written before the start. Newer entries were added meanwhile, so all rows are rebuilt in order of
        time."""
        with self._lock:
            acts = [act for row in (*self._rows, *self._ticks) for act in row.acts]
            newer = [act.entry for act in acts]
            known = {_identity(entry) for entry in newer}
            outcomes = [act.outcome for act in acts if act.outcome is not None]
            known |= {_identity(entry) for entry in outcomes}
            older = [entry for entry in entries if _identity(entry) not in known]
            self._rows.clear()
            self._ticks.clear()
            self._entry_count = 0
            self._numbers = {False: 0, True: 0}
            # Within a millisecond an outcome sorts after its act; the sort is stable.
            for entry in sorted((*older, *newer, *outcomes), key=lambda entry: (entry.at_ms, entry.kind == "outcome")):
                self._add(entry)

    def page(
        self, selection: DecisionFilter, limit: int, *, before: int | None = None, steering_ticks: bool = False
    ) -> tuple[list[EventRow], int | None]:
        """Returns the newest rows first, and the value of ``before`` for the next page (None on the last page).

        Args:
            before: only rows with a smaller number.
            steering_ticks: return steering ticks instead of decisions.
        """
        with self._lock:
            rows = list(self._ticks if steering_ticks else self._rows)
        page: list[EventRow] = []
        for row in reversed(rows):
            matches = (selection.matches(act.entry) for act in row.acts)
            if (before is not None and row.number >= before) or not any(matches):
                continue
            if len(page) == limit:
                return page, page[-1].number
            page.append(row)
        return page, None

    def row(self, number: int) -> EventRow | None:
        with self._lock:
            return next((row for row in (*self._rows, *self._ticks) if row.number == number), None)

    def row_at(self, at_ms: int, *, steering_tick: bool) -> EventRow | None:
        """Returns the first row with an act that was recorded at this time; None if there is none."""
        with self._lock:
            rows = list(self._ticks if steering_tick else self._rows)
        return next((row for row in rows if any(act.entry.at_ms == at_ms for act in row.acts)), None)

    def _add(self, entry: Entry) -> int | None:
        """Returns the number of the row that the entry is in; None for an outcome, which belongs to an earlier row."""
        if entry.kind == "outcome" and (act := self._act_of(entry)) is not None:
            act.outcome = entry
            self._revisions[False] += 1
            return None
        is_tick = entry.kind == STEERING
        self._revisions[is_tick] += 1
        event = event_key(entry)
        if not is_tick and (row := self._row_of(event, entry)) is not None:
            row.acts.append(JournaledAct(entry))
            row.subjects.add(subject_of(entry))
        else:
            # Even for decisions, odd for steering ticks. Numbers grow even if the clock goes back, as pages rely on their order.
            number = max(entry.at_ms * _NUMBERS_PER_MS + is_tick, self._numbers[is_tick] + 2)
            self._numbers[is_tick] = number
            row = EventRow(number, [JournaledAct(entry)], event, {subject_of(entry)})
            (self._ticks if is_tick else self._rows).append(row)
        if not is_tick:
            self._entry_count += 1
            while self._entry_count > self._entries_max and len(self._rows) > 1:
                self._entry_count -= len(self._rows.popleft().acts)
        return row.number

    def _row_of(self, event: Hashable | None, entry: Entry) -> EventRow | None:
        """Returns the row that the entry belongs to; None if it starts a new row."""
        if event is None:
            return None
        for back, row in enumerate(reversed(self._rows)):
            if back == _EVENTS_SEARCHED_MAX:
                return None
            if row.event == event:
                return row if row.accepts(entry) else None
        return None

    def _act_of(self, outcome: Entry) -> JournaledAct | None:
        """Returns the newest act without an outcome that has the outcome's action and text; None if there is none."""
        searched = 0
        for row in reversed(self._rows):
            for act in reversed(row.acts):
                if searched == _ACTS_SEARCHED_MAX:
                    return None
                searched += 1
                same = act.entry.action == outcome.action and act.entry.text == outcome.text
                if same and act.entry.kind == "intent" and act.outcome is None:
                    return act
        return None


class RecordedJournal:
    """Wraps a journal: adds every stored entry to the decision store."""

    def __init__(self, write: Callable[..., None], decisions: DecisionStore) -> None:
        """
        Args:
            write: the method of the wrapped journal. It receives the entries and all further arguments unchanged.
        """
        self._write = write
        self._decisions = decisions

    def write(self, entries: Sequence[Entry] = (), **further_arguments: Any) -> None:
        """Writes to the journal, then adds the entries to the decision store.

        Raises:
            JournalError: the journal has not stored the entries.
        """
        self._write(entries, **further_arguments)
        self._decisions.add(entries)


def is_tick_number(number: int) -> bool:
    """Returns whether a decision with this number is a steering tick."""
    return number % 2 == 1


def time_of_number(number: int) -> int:
    """Returns when the decision with this number was recorded (epoch, ms)."""
    return number // _NUMBERS_PER_MS


def throttles_of(entry: Entry) -> Iterator[tuple[int | None, str | None]]:
    """Yields the throttles (broker, side) that an entry is about."""
    yield entry.decision.get("broker"), entry.decision.get("side")
    for row in entry.decision.get("rates", ()):
        broker, side = row[:2]
        yield broker, side


def _identity(entry: Entry) -> tuple[object, ...]:
    return entry.at_ms, entry.kind, entry.action, entry.text
