"""The newest decisions with all that is on record of them: what they stood on, what was before and after, what came of it.

Intuition: the journal has an entry before an act and one after it. A person asks for one thing, so here the two are one row: the
outcome is put to the newest act that says the same and has none yet.

Invariant: what stands here is on record. An entry comes here after the journal has taken it, and never if it has not.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.journal.entries import ORDER, QUOTAS, TURN, Entry

ROWS_MAX = 5_000
TURNS_MAX = 600  # Seconds of the law; in a deque of their own, or they would push everything else out.
_LOOK_BACK = 500  # For the act that an outcome belongs to.
_TOPICS_MAX = 20
# A row's number is made of when it was decided, which is on record, so that a link to it holds across restarts: so many for each
# millisecond, and every other one for the law's seconds. With today's clock that is below 2^53, which every program reads exactly.
_NUMBERS_PER_MS = 2_000
_FROM_TO = {
    "set": ("live_bytes_per_s", "wanted_bytes_per_s"),
    "start": (None, "value_bytes_per_s"),
    "put_back": ("live_bytes_per_s", "value_bytes_per_s"),
    "let_go": ("ours_bytes_per_s", "found_bytes_per_s"),
    "steer": ("live_bytes_per_s", None),
}


@dataclass(slots=True)
class Row:
    number: int
    entry: Entry
    outcome: Entry | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """What is asked for; None is everything."""

    broker: int | None = None
    side: str | None = None
    action: str | None = None
    reason: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None  # Itself included.
    acts: bool = False  # Only those that changed something, or would have.

    def fits(self, entry: Entry) -> bool:
        if self.from_ms is not None and entry.at_ms < self.from_ms:
            return False
        if self.to_ms is not None and entry.at_ms > self.to_ms:
            return False
        if self.action is not None and entry.action != self.action:
            return False
        if self.reason is not None and entry.reason != self.reason:
            return False
        if self.acts and entry.kind == "decision" and entry.action not in ("let_go", ORDER):
            return False
        return (self.broker is None and self.side is None) or any(
            self.broker in (None, broker) and self.side in (None, side) for broker, side in _sides(entry)
        )


class Decisions:
    def __init__(self, rows_max: int = ROWS_MAX, turns_max: int = TURNS_MAX) -> None:
        self._lock = threading.Lock()
        self._rows: deque[Row] = deque(maxlen=rows_max)
        self._turns: deque[Row] = deque(maxlen=turns_max)
        self._numbers = {False: 0, True: 0}  # The last of the decisions, and of the seconds of the law.
        self._changes = {False: 0, True: 0}  # Of the decisions, and of the seconds of the law.

    def changes(self, *, turns: bool = False) -> int:
        """Another number whenever a page of them may be another."""
        return self._changes[turns]

    def take(self, entries: Iterable[Entry]) -> None:
        with self._lock:
            for entry in entries:
                self._take(entry)

    def begin_with(self, entries: Sequence[Entry]) -> None:
        """What was on record before this process; what has come meanwhile stays behind it."""
        with self._lock:
            since = [row.entry for row in (*self._rows, *self._turns)]
            known = {_identity(entry) for entry in since}
            outcomes = [row.outcome for row in self._rows if row.outcome is not None]
            known |= {_identity(entry) for entry in outcomes}
            older = [entry for entry in entries if _identity(entry) not in known]
            self._rows.clear()
            self._turns.clear()
            self._numbers = {False: 0, True: 0}
            # An outcome of the same millisecond comes after its act: the sort keeps the order of what is alike.
            for entry in sorted((*older, *since, *outcomes), key=lambda each: (each.at_ms, each.kind == "outcome")):
                self._take(entry)

    def page(
        self, wanted: Filter, limit: int, *, before: int | None = None, turns: bool = False
    ) -> tuple[list[Row], int | None]:
        """The newest first.

        Args:
            before: only rows with a smaller number.
            turns: the seconds of the law instead of decisions.

        Returns:
            The rows, and what ``before`` is to be for those after them; None: there are no more.
        """
        with self._lock:
            rows = list(self._turns if turns else self._rows)
        found: list[Row] = []
        for row in reversed(rows):
            if (before is not None and row.number >= before) or not wanted.fits(row.entry):
                continue
            if len(found) == limit:
                return found, found[-1].number
            found.append(row)
        return found, None

    def row(self, number: int) -> Row | None:
        with self._lock:
            return next((row for row in (*self._rows, *self._turns) if row.number == number), None)

    def _take(self, entry: Entry) -> None:
        if entry.kind == "outcome" and (act := self._act_of(entry)) is not None:
            act.outcome = entry
            self._changes[False] += 1
            return
        turns = entry.kind == TURN
        # What comes later has a larger one, whatever the clock says: pages go by it.
        number = max(entry.at_ms * _NUMBERS_PER_MS + turns, self._numbers[turns] + 2)
        self._numbers[turns] = number
        self._changes[turns] += 1
        (self._turns if turns else self._rows).append(Row(number, entry))

    def _act_of(self, outcome: Entry) -> Row | None:
        for back, row in enumerate(reversed(self._rows)):
            if back == _LOOK_BACK:
                return None
            same = row.entry.action == outcome.action and row.entry.text == outcome.text
            if same and row.entry.kind == "intent" and row.outcome is None:
                return row
        return None


class OnRecord:
    """A journal that tells what it has taken."""

    def __init__(self, write: Callable[..., None], decisions: Decisions) -> None:
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


def row_json(row: Row, *, inputs: bool = True) -> dict[str, Any]:
    entry, outcome = row.entry, row.outcome
    before, after = _from_to(entry)
    return {
        "id": row.number,
        "at_ms": entry.at_ms,
        "kind": entry.kind,
        "action": entry.action,
        "reason": entry.reason,
        "text": entry.text,
        "broker": entry.decision.get("broker"),
        "side": _text(entry.decision.get("side")),
        "topics": _topics(entry.decision),
        "before_bytes_per_s": before,
        "after_bytes_per_s": after,
        "rates": [
            {"broker": b, "side": _text(s), "before_bytes_per_s": live, "after_bytes_per_s": wanted}
            for b, s, live, wanted in entry.decision.get("rates", ())
        ],
        "quotas": [
            {"entity": entity, "before_per_s": live, "after_per_s": wanted, "reason": reason}
            for entity, live, wanted, reason in entry.decision.get("quotas", ())
        ],
        "outcome": _outcome(entry, outcome),
        "failure": (outcome or entry).failure,
        "outcome_at_ms": outcome.at_ms if outcome is not None else None,
        "dry_run": entry.dry_run,
        "inputs": dict(entry.inputs) if inputs else None,
    }


def _outcome(entry: Entry, outcome: Entry | None) -> str:
    if (outcome or entry).failure is not None:
        return "failed"
    if outcome is not None or entry.kind == "outcome":
        return "done"
    if entry.dry_run:
        return "dry_run"
    if entry.kind in (TURN, QUOTAS):
        return "begun"  # What does not stand afterwards is told by an entry of its own.
    return "under_way" if entry.kind == "intent" else "nothing_to_do"


def _from_to(entry: Entry) -> tuple[int | None, int | None]:
    before, after = _FROM_TO.get(entry.action, (None, None))
    said = entry.decision
    return said.get(before) if before else None, said.get(after) if after else None


def _sides(entry: Entry) -> Iterator[tuple[int | None, str | None]]:
    yield entry.decision.get("broker"), entry.decision.get("side")
    for broker, side, *_ in entry.decision.get("rates", ()):
        yield broker, side


def _topics(decision: Mapping[str, Any]) -> list[str]:
    if (topic := decision.get("topic")) is not None:
        return [topic]
    return [row[0] for row in decision.get("topics", ())[:_TOPICS_MAX]]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _identity(entry: Entry) -> tuple[object, ...]:
    return entry.at_ms, entry.kind, entry.action, entry.text
