"""The history that the journal tells: the rate of each throttle, marks for its charts, and the settings in force; for the API and
the page.

The journal has the entries of all tuners of the cluster, so the history is the same after a restart and on a standby. All parts are
bounded, and a part that is full drops its oldest values.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from streaming.shared.contract import Side
from tuner.api.decisions import DecisionStore, EventRow, is_tick_number, throttles_of, time_of_number
from tuner.api.plan_history import PlanHistory
from tuner.api.rate_lines import RateLines, RatePoint
from tuner.api.read_on_request import ReadOnRequest
from tuner.control.throttle.decision import Reason
from tuner.core.cluster import BrokerSide
from tuner.journal.entries import ORDER, STEERING, STEP_OUTCOMES, STEPS, Entry
from tuner.journal.term_entries import BEGIN_TERM, FOLLOW_SETTINGS, SettingsInForce, settings_of

_DECISION_MARKS_MAX = 20_000
_OTHER_MARKS_MAX = 5_000
_SETTINGS_MAX = 2_000
# The journal keeps at most four rings of 100,000 entries, and entries that Kafka has not compacted yet.
_INDEX_MAX = 500_000
_TEXT_BYTES_MAX = 160
# All entries of an event with its outcomes, such as the end of a move, are within this number of records around its first entry.
_BEFORE, _AROUND = 1_000, 4_000
_ROWS_READ_MAX = 32
# By action: the field of a decision that holds the rate which Kafka has afterwards.
_RATE_AFTER = {
    "set": "setpoint_bytes_per_s",
    "start": "value_bytes_per_s",
    "restore": "value_bytes_per_s",
    "relinquish": "current_bytes_per_s",
    "allow_steering": "current_bytes_per_s",
}
_WITH_RATE_BEFORE = ("set", "restore")
_WITHOUT_WRITE = ("relinquish", "allow_steering")
_EXTERNAL = frozenset({Reason.EXTERNAL_CHANGE.value, Reason.CLEARED_BY_TOOL.value})


class MarkKind(StrEnum):
    """What a mark on a chart stands for."""

    FAIL_OVER = "fail_over"  # Another tuner became active.
    RESTART = "restart"  # The same tuner began a leadership term.
    SETTINGS = "settings"  # Other settings are in force.
    ORDER = "order"  # An operator gave, withdrew or let expire an order.
    EXTERNAL_CHANGE = "external_change"  # An operator or another tool changed a throttle.
    DECISION = "decision"  # The tuner changed a throttle.


class HistoryMark(NamedTuple):
    """One event on a chart.

    Attributes:
        number: the id of its decision page.
    """

    at_ms: int
    kind: MarkKind
    number: int
    text: str


class _Marks:
    """The newest marks, by broker, so that the marks of one broker are found without a search."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        # The key None holds marks about the whole cluster. A mark about several brokers is in the queue of each broker.
        self._by_broker: dict[int | None, deque[HistoryMark]] = {}
        self._brokers: deque[int | None] = deque()  # The keys of all queued marks, in order of their arrival.

    def add(self, mark: HistoryMark, brokers: Iterable[int]) -> None:
        """
        Args:
            brokers: the brokers that the mark is about; empty means the whole cluster.
        """
        keys: set[int | None] = set(brokers) or {None}
        for broker in keys:
            self._by_broker.setdefault(broker, deque()).append(mark)
            self._brokers.append(broker)
            if len(self._brokers) > self._count_max:
                oldest = self._brokers.popleft()
                self._by_broker[oldest].popleft()
                if not self._by_broker[oldest]:
                    del self._by_broker[oldest]

    def select(self, broker: int) -> list[HistoryMark]:
        """Returns the marks of a broker, and the marks of the whole cluster."""
        return [*self._by_broker.get(None, ()), *self._by_broker.get(broker, ())]


class JournalHistory(ReadOnRequest):
    """The history of one cluster. Thread-safe: the follower of the journal writes, the server reads.

    Attributes:
        plans: the plans; take ``lock`` before each use.
        read_entries: reads a number of journal records, beginning at an offset. The follower of the journal sets this function.
    """

    def __init__(self, cluster: str) -> None:
        super().__init__("the journal")
        self.cluster = cluster
        self.plans = PlanHistory(cluster)
        self.read_entries: Callable[[int, int], Iterable[Entry]] = lambda _offset, _count: ()
        self.lock = threading.Lock()
        self._lines = RateLines()
        self._numbered = DecisionStore(_AROUND, _AROUND)
        self._decisions, self._others = _Marks(_DECISION_MARKS_MAX), _Marks(_OTHER_MARKS_MAX)
        self._settings: deque[tuple[int, SettingsInForce]] = deque(maxlen=_SETTINGS_MAX)
        self._holder: str | None = None
        # Of each entry: the number of its row, its time, and its offset.
        self._index_numbers, self._index_ms, self._index_offsets = array("q"), array("q"), array("q")
        self._rows_read: dict[int, EventRow] = {}
        self._first_ms: int | None = None
        self._first_tick: Entry | None = None
        self._revision = self._plans_revision = 0

    # -- called by the follower ------------------------------------------------------------------------------------------

    def add(self, entry: Entry, offset: int) -> None:
        """Adds an entry of the journal, in the order of the topic."""
        with self.lock:
            self._revision += entry.kind != STEERING
            # Counts as the memory of the tuner does, so that both have the same ids.
            number = self._numbered.add_numbered(entry) or 0
            self._index_numbers.append(number)
            self._index_ms.append(entry.at_ms)
            self._index_offsets.append(offset)
            if len(self._index_ms) > _INDEX_MAX:
                for column in (self._index_numbers, self._index_ms, self._index_offsets):
                    del column[: _INDEX_MAX // 2]
            self._first_ms = entry.at_ms if self._first_ms is None else min(self._first_ms, entry.at_ms)
            if entry.kind == STEERING and self._first_tick is None:
                self._first_tick = entry
            if entry.kind in (STEPS, STEP_OUTCOMES):
                self._plans_revision += 1
                self.plans.add_entry(entry, number)
            self._add_rates(entry)
            self._add_mark(entry, number)

    def apply_plan_record(self, key: bytes, value: bytes | None) -> None:
        """Applies a record of the journal or of the orders topic. Records that are not about plans change nothing."""
        with self.lock:
            self._plans_revision += 1
            self.plans.apply(key, value)

    def _add_rates(self, entry: Entry) -> None:
        if entry.dry_run or entry.failure is not None:
            return
        if entry.kind == STEERING:
            for steered, rate in _steered_rates(entry):
                self._lines.add(steered, entry.at_ms, rate)
            return
        field = _rate_field(entry)
        broker, side = entry.decision.get("broker"), _side(entry.decision.get("side"))
        if field is not None and isinstance(broker, int) and side is not None:
            self._lines.add((broker, side), entry.at_ms, entry.decision.get(field))

    def _add_mark(self, entry: Entry, number: int) -> None:
        settings = settings_of(entry)
        if settings is not None:
            self._settings.append((entry.at_ms, settings))
        kind = self._kind_of(entry)
        if kind is None:
            return
        mark = HistoryMark(entry.at_ms, kind, number, shorten(entry.text))
        brokers = [broker for broker, _ in throttles_of(entry) if broker is not None]
        (self._decisions if kind is MarkKind.DECISION else self._others).add(mark, brokers)

    def _kind_of(self, entry: Entry) -> MarkKind | None:
        if entry.action == BEGIN_TERM:
            holder, self._holder = self._holder, str(entry.decision.get("holder"))
            return MarkKind.RESTART if holder in (None, self._holder) else MarkKind.FAIL_OVER
        if entry.action == FOLLOW_SETTINGS:
            return MarkKind.SETTINGS
        if entry.action == ORDER:
            return MarkKind.ORDER
        if entry.kind == "decision" and entry.reason in _EXTERNAL:
            return MarkKind.EXTERNAL_CHANGE
        if entry.kind == "intent" and entry.decision.get("broker") is not None:
            return MarkKind.DECISION
        return None

    # -- called by the server --------------------------------------------------------------------------------------------

    def revision(self) -> object:
        """Returns a value that changes with each entry but the ticks of the control law, which come each second."""
        return self._revision, self.is_read

    def plans_revision(self) -> object:
        """Returns a value that changes whenever an answer about plans may change."""
        return self._plans_revision, self.is_read

    @property
    def first_ms(self) -> int | None:
        """The time of the oldest entry that the journal has; None if it has none."""
        return self._first_ms

    @property
    def ticks_since_ms(self) -> int | None:
        """Since when the journal has each rate of the control law; None if it has all of them."""
        tick = self._first_tick
        return tick.at_ms if tick is not None and tick.seq > 1 else None

    def rates(self, broker: int, side: Side, from_ms: int, to_ms: int, steps_max: int) -> list[RatePoint]:
        """Returns the rates of a throttle, as ``RateLines.points``."""
        with self.lock:
            return self._lines.points((broker, side), from_ms, to_ms, steps_max)

    def settings(self, from_ms: int, to_ms: int, count_max: int) -> list[tuple[int, SettingsInForce]]:
        """Returns the settings in force in a range, each with its start time, the oldest first, beginning with ``from_ms``."""
        with self.lock:
            known = sorted(self._settings, key=lambda each: each[0])
        before = [each for each in known if each[0] <= from_ms][-1:]
        inside = [each for each in known if from_ms < each[0] <= to_ms]
        return [*before, *inside[-count_max:]]

    def marks(self, broker: int, from_ms: int, to_ms: int, count_max: int) -> tuple[list[HistoryMark], int]:
        """Returns the marks of a broker and of the whole cluster, in order of time, and how many were left out.

        Changes of the tuner itself are left out first, because they are frequent; of the rest the oldest.
        """
        with self.lock:
            both = (self._others.select(broker), self._decisions.select(broker))
        # Both throttles of a broker may be parts of one event, which has one page.
        others, decisions = (
            sorted(
                {mark.number: mark for mark in marks if from_ms <= mark.at_ms <= to_ms}.values(),
                key=lambda mark: mark.at_ms,
            )
            for marks in both
        )
        shown = others[-count_max:]
        room = count_max - len(shown)
        shown += decisions[-room:] if room else []
        return sorted(shown, key=lambda mark: mark.at_ms), len(others) + len(decisions) - len(shown)

    def row(self, number: int) -> EventRow | None:
        """Returns the decision with this id from the journal; None if the journal does not have it, or is not read yet."""
        with self.lock:
            position = self._position_of(number)
            if position is None:
                return None
            at_ms, offset = self._index_ms[position], self._index_offsets[position]
            if (row := self._rows_read.get(number)) is not None:
                return row
        store = DecisionStore(_AROUND, _AROUND)
        store.add(self.read_entries(max(0, offset - _BEFORE), _AROUND))
        row = store.row(number) or store.row_at(at_ms, steering_tick=is_tick_number(number))
        if row is not None:
            with self.lock:
                # An open page asks again after each cycle.
                self._rows_read = (
                    {number: row} if len(self._rows_read) >= _ROWS_READ_MAX else {**self._rows_read, number: row}
                )
        return row

    def _position_of(self, number: int) -> int | None:
        """Returns the position of a row in the index. After the clock was set back, the number of a row does not tell its time."""
        for column, value in ((self._index_numbers, number), (self._index_ms, time_of_number(number))):
            try:
                return column.index(value)
            except ValueError:
                continue
        return None


def shorten(text: str) -> str:
    """Returns the beginning of a text. The limit counts bytes, so it bounds the size of an answer in every script."""
    encoded = text.encode()
    return text if len(encoded) <= _TEXT_BYTES_MAX else f"{encoded[:_TEXT_BYTES_MAX].decode(errors='ignore')}…"


def _rate_field(entry: Entry) -> str | None:
    """Returns the name of the decision's field that holds Kafka's rate at the time of the entry; None if there is no such field."""
    after = _RATE_AFTER.get(entry.action)
    if entry.kind == "intent" and entry.action in _WITH_RATE_BEFORE:
        return "current_bytes_per_s"
    return after if entry.kind == ("decision" if entry.action in _WITHOUT_WRITE else "outcome") else None


def _steered_rates(entry: Entry) -> Iterable[tuple[BrokerSide, float | None]]:
    """Yields the throttles of one steering tick with their new rates."""
    for row in entry.decision.get("rates", ()):
        side = _side(row[1])
        if side is not None:
            yield (row[0], side), row[3]


def _side(value: object) -> Side | None:
    return Side(str(value)) if str(value) in _SIDES else None


_SIDES: Sequence[str] = tuple(side.value for side in Side)
