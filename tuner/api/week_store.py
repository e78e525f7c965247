"""The last five weeks of each broker from the history topic, for the API and the page.

The last week has periods of ten minutes, older weeks have means of an hour. Rows are arrays of C floats: 52 kB for each broker, so
52 MB for a thousand brokers. All brokers share the same rings of slots. A slot stores the number of its period, so that a slot of
an earlier round shows as a gap.

Invariant: a value that was not measured is a gap, never 0 and never an older value.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from streaming.shared.contract import PERIOD_S, BrokerHistory, BrokerProfile, ChangeEvent, HistoryPeriod
from tuner.api.read_on_request import ReadOnRequest

PERIOD_MS = PERIOD_S * 1000
SLOTS = 7 * 24 * 3600 // PERIOD_S
HOUR_MS = 3_600_000
HOURS = 35 * 24  # The history topic keeps its periods for 35 days.
_PERIODS_PER_HOUR = HOUR_MS // PERIOD_MS
BROKERS_MAX = 2_000  # A client with random broker ids must not fill the memory.
COLUMNS = (
    "client_in_bytes_per_s",
    "client_out_bytes_per_s",
    "replication_in_bytes_per_s",
    "replication_out_bytes_per_s",
    "produce_p99_ms",
    "lag_messages",
    "copied",
)
WEEK_COLUMNS = COLUMNS[:5]  # The columns that the week of a broker shows.
_WIDTH = len(COLUMNS)
_COPIED = COLUMNS.index("copied")
_HIGHEST = ("produce_p99_ms", "lag_messages")
_NAN = math.nan
_EMPTY = array("f", [_NAN]) * _WIDTH


class BrokerWeek(NamedTuple):
    """The known periods of one broker.

    Attributes:
        start_ms: start of the first period; epoch.
        columns: by name, one value for each period; None is a gap.
        copied: for each period, whether the broker copied replicas; None if not known.
    """

    start_ms: int
    columns: Mapping[str, Sequence[float | None]]
    copied: Sequence[bool | None]


class BrokerSeries(NamedTuple):
    """The measurements of one broker in a range of time.

    Attributes:
        start_ms, step_ms: start of the first step, and the length of a step.
        columns: by name, one value for each step; None is a gap. For a longer step, a rate is the mean of its periods; latency and
            lag are the highest values.
    """

    start_ms: int
    step_ms: int
    columns: Mapping[str, Sequence[float | None]]


class WeekStore(ReadOnRequest):
    """The last weeks of all brokers of one cluster. Thread-safe: the follower of the history topic writes, the server reads.

    Attributes:
        profiles: what `rheostat learn` has published, by broker.
        events: the changes that `rheostat learn` has found, the newest first.
        wants_older: whether a request has asked for more than the last week. The follower then reads the older weeks too.
    """

    def __init__(self, cluster: str) -> None:
        super().__init__("the history of the last week")
        self.cluster = cluster
        self.profiles: Mapping[int, BrokerProfile] = {}
        self.events: Sequence[ChangeEvent] = ()
        self.wants_older = False
        self._has_older = False
        self._lock = threading.Lock()
        self._numbers = array("q", [-1]) * SLOTS
        self._rows: dict[int, array[float]] = {}
        self._hours = _HourRing()
        self._last_numbers: dict[int, int] = {}  # By broker: the number of its newest period.
        self._revision = 0

    # -- called by the follower ------------------------------------------------------------------------------------------

    def add(self, period: HistoryPeriod, now_ms: int) -> None:
        """Adds a period, which replaces an earlier record of the same period. Ignores other clusters, and times out of range."""
        number, now_number = period.start_ms // PERIOD_MS, now_ms // PERIOD_MS
        if period.cluster != self.cluster or period.start_ms % PERIOD_MS:
            return
        if not now_number - HOURS * _PERIODS_PER_HOUR < number <= now_number:
            return
        with self._lock:
            self._revision += 1
            if number <= now_number - SLOTS or number < self._numbers[number % SLOTS]:
                self._hours.add(number, {history.broker: _values(history) for history in period.brokers})
            else:
                self._add_to_week(number, period)
            self._forget_removed(now_number)

    def _add_to_week(self, number: int, period: HistoryPeriod) -> None:
        slot = number % SLOTS
        span = slice(slot * _WIDTH, (slot + 1) * _WIDTH)
        previous, self._numbers[slot] = self._numbers[slot], number
        if previous not in (-1, number):
            self._hours.add(previous, {broker: row[span] for broker, row in self._rows.items()})
        for row in self._rows.values():
            row[span] = _EMPTY
        for history in period.brokers:
            if history.broker not in self._rows:
                if len(self._rows) >= BROKERS_MAX:
                    continue
                self._rows[history.broker] = _EMPTY * SLOTS
            self._rows[history.broker][span] = array("f", _values(history))
            self._last_numbers[history.broker] = max(number, self._last_numbers.get(history.broker, number))

    def _forget_removed(self, now_number: int) -> None:
        for broker in [b for b, last in self._last_numbers.items() if last <= now_number - SLOTS]:
            del self._rows[broker], self._last_numbers[broker]

    def mark_older_read(self) -> None:
        """Records that the weeks before the last one are read too."""
        self._has_older = True

    # -- called by the server --------------------------------------------------------------------------------------------

    def older_unread_reason(self) -> str | None:
        """Returns why the weeks before the last one are not read yet; None if they are read. Makes the follower read them."""
        if self._has_older:
            return None
        self.wants_older = True
        self.on_request()
        return "the tuner is still reading the weeks before the last one"

    def revision(self) -> object:
        """Returns a value that changes whenever an answer from this history may change."""
        return self._revision, self.is_read, self._has_older, self.profiles, self.events

    @property
    def is_empty(self) -> bool:
        return not self._rows

    def week(self, broker: int, now_ms: int) -> BrokerWeek | None:
        """Returns the periods from the broker's first period to the cluster's newest period; None if the broker has none in the
        last week."""
        now_number = now_ms // PERIOD_MS
        with self._lock:
            row = self._rows.get(broker)
            stored = self._numbers[:]
            copy = row[:] if row is not None else None
        if copy is None:
            return None
        numbers = [n for n in range(now_number - SLOTS + 1, now_number + 1) if stored[n % SLOTS] == n]
        known = [n for n in numbers if not _is_gap(copy, n)]
        if not known:
            return None
        periods = range(known[0], numbers[-1] + 1)
        starts = [n % SLOTS * _WIDTH if stored[n % SLOTS] == n else None for n in periods]
        columns = {
            name: [_rounded(copy[start + offset]) if start is not None else None for start in starts]
            for offset, name in enumerate(WEEK_COLUMNS)
        }
        flags = [_rounded(copy[start + _COPIED]) if start is not None else None for start in starts]
        return BrokerWeek(periods[0] * PERIOD_MS, columns, [None if flag is None else flag > 0 for flag in flags])

    def series(self, broker: int, from_ms: int, to_ms: int, now_ms: int, steps_max: int) -> BrokerSeries:
        """Returns the measurements from ``from_ms`` to ``to_ms``, in steps of ten minutes or, before the last week, of an hour.

        Args:
            steps_max: the greatest number of steps; a longer range has longer steps.
        """
        is_week = from_ms // PERIOD_MS > now_ms // PERIOD_MS - SLOTS
        unit_ms, slots = (PERIOD_MS, SLOTS) if is_week else (HOUR_MS, HOURS)
        with self._lock:
            if is_week:
                row, numbers = self._rows.get(broker, _EMPTY * SLOTS)[:], self._numbers[:]
            else:
                row, numbers = self._hours.joined(broker, self._rows.get(broker), self._numbers)
        first, last = from_ms // unit_ms, to_ms // unit_ms
        width = max(1, -(-(last - first + 1) // steps_max))
        first -= first % width
        # The slot of each period (or hour) of the range; for an unknown period, the slot behind the last one, which holds a gap.
        slots_of_range = [n % slots if numbers[n % slots] == n else slots for n in range(first, last + 1)]
        columns = {}
        for offset, name in enumerate(COLUMNS[:_COPIED]):
            column = [*row[offset::_WIDTH], _NAN]
            values = [column[slot] for slot in slots_of_range]
            columns[name] = [_combined(name, values[at : at + width]) for at in range(0, len(values), width)]
        return BrokerSeries(first * unit_ms, width * unit_ms, columns)


class _HourRing:
    """A ring of hours with the means of the ten-minute periods that left the ring of the week."""

    def __init__(self) -> None:
        self._numbers = array("q", [-1]) * HOURS
        self._counts = array("B", [0]) * HOURS
        self._rows: dict[int, array[float]] = {}

    def add(self, period: int, values: Mapping[int, Sequence[float]]) -> None:
        """Adds a period to the means of its hour.

        Args:
            period: the number of the period.
            values: by broker, a value for each column.
        """
        hour = period // _PERIODS_PER_HOUR
        slot = hour % HOURS
        if self._numbers[slot] > hour:
            return
        if self._numbers[slot] != hour:
            self._numbers[slot], self._counts[slot] = hour, 0
            for row in self._rows.values():
                row[slot * _WIDTH : (slot + 1) * _WIDTH] = _EMPTY
        self._counts[slot] = min(255, self._counts[slot] + 1)
        for broker, columns in values.items():
            if broker not in self._rows:
                if len(self._rows) >= BROKERS_MAX:
                    continue
                self._rows[broker] = _EMPTY * HOURS
            _add_to_means(self._rows[broker], slot * _WIDTH, columns, self._counts[slot])

    def joined(
        self, broker: int, week: array[float] | None, week_numbers: array[int]
    ) -> tuple[array[float], array[int]]:
        """Returns the row and the numbers of all hours. The means of this ring are joined with the periods of the last week."""
        row, numbers = self._rows.get(broker, _EMPTY * HOURS)[:], self._numbers[:]
        if week is None:
            return row, numbers
        slots_by_hour: dict[int, list[int]] = {}
        for slot, period in enumerate(week_numbers):
            if period >= 0:
                slots_by_hour.setdefault(period // _PERIODS_PER_HOUR, []).append(slot)
        columns = [week[offset::_WIDTH] for offset in range(_WIDTH)]
        for hour, slots in slots_by_hour.items():
            hour_slot = hour % HOURS
            if numbers[hour_slot] > hour:
                continue
            count = self._counts[hour_slot] if numbers[hour_slot] == hour else 0
            start = hour_slot * _WIDTH
            if not count:
                numbers[hour_slot] = hour
                row[start : start + _WIDTH] = array(
                    "f", [_mean([column[slot] for slot in slots]) for column in columns]
                )
            for slot in slots if count else ():
                count = min(255, count + 1)
                _add_to_means(row, start, week[slot * _WIDTH : (slot + 1) * _WIDTH], count)
        return row, numbers


def _mean(values: Sequence[float]) -> float:
    """Returns the mean of the known values; NaN if no value is known."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else _NAN


def _add_to_means(row: array[float], start: int, columns: Sequence[float], count: int) -> None:
    for offset, value in enumerate(columns):
        if math.isnan(value):
            continue
        mean = row[start + offset]
        row[start + offset] = value if math.isnan(mean) else mean + (value - mean) / count


def _combined(name: str, values: Sequence[float]) -> float | None:
    """Returns the value of a longer step: the highest latency or lag, and the mean of the other columns."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return None
    return _rounded(max(known) if name in _HIGHEST else sum(known) / len(known))


def _is_gap(row: array[float], number: int) -> bool:
    start = number % SLOTS * _WIDTH
    return all(math.isnan(value) for value in row[start : start + _WIDTH])


def _values(history: BrokerHistory) -> list[float]:
    """Returns the columns of a period. A number below 0 is no measurement, so it becomes a gap."""
    measured = [
        history.client_in_bytes_per_s,
        history.client_out_bytes_per_s,
        history.replication_in_bytes_per_s,
        history.replication_out_bytes_per_s,
        history.produce_p99_ms,
        history.lag_sum_messages,
        _copied(history),
    ]
    return [_NAN if value is None or value < 0 else value for value in measured]


def _copied(history: BrokerHistory) -> float | None:
    """Returns 1 if the broker copied replicas in this period, also between its log directories; None if not known."""
    measures = (
        history.moving_partitions_max,
        history.reassignment_in_bytes_per_s,
        history.reassignment_out_bytes_per_s,
        history.log_dir_copied_bytes_per_s,
    )
    known = [value for value in measures if value is not None]
    return float(any(value > 0 for value in known)) if known else None


def _rounded(value: float) -> float | None:
    """Returns the value with the precision of a chart, which keeps responses small; None for a gap."""
    if math.isnan(value):
        return None
    return round(value) if value >= 1000 else round(value, 2)
