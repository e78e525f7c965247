"""The last week of each broker, in periods of ten minutes, from the history topic; for the API and the page.

Rows are arrays of C floats: 24 kB for each broker, so 24 MB for a thousand brokers. All brokers share the same ring of slots, one
for each period. A slot stores the number of its period, so that a slot of an older week shows as a gap.

Invariant: a value that was not measured is a gap, never 0 and never an older value.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from streaming.shared.contract import PERIOD_S, BrokerHistory, BrokerProfile, ChangeEvent, HistoryPeriod

PERIOD_MS = PERIOD_S * 1000
SLOTS = 7 * 24 * 3600 // PERIOD_S
BROKERS_MAX = 2_000  # A client with random broker ids must not fill the memory.
COLUMNS = (
    "client_in_bytes_per_s",
    "client_out_bytes_per_s",
    "replication_in_bytes_per_s",
    "replication_out_bytes_per_s",
    "produce_p99_ms",
    "copied",
)
_WIDTH = len(COLUMNS)
_COPIED = COLUMNS.index("copied")
_NAN = math.nan
_EMPTY = array("f", [_NAN]) * _WIDTH


class BrokerWeek(NamedTuple):
    """The known periods of one broker.

    Attributes:
        start_ms: start of the first period; epoch.
        columns: by name, one value for each period; None is a gap.
        copied: for each period, whether the broker copied replicas; None: not known.
    """

    start_ms: int
    columns: Mapping[str, Sequence[float | None]]
    copied: Sequence[bool | None]


class WeekStore:
    """The last week of all brokers of one cluster. Thread-safe: the follower of the history topic writes, the server reads.

    Attributes:
        on_request: called with each request, so that the history is read only once a week is asked for.
        profiles: what `rheostat learn` has published, by broker.
        events: the changes that `rheostat learn` has found, the newest first.
    """

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.on_request: Callable[[], None] = lambda: None
        self.profiles: Mapping[int, BrokerProfile] = {}
        self.events: Sequence[ChangeEvent] = ()
        self._lock = threading.Lock()
        self._numbers = array("q", [-1]) * SLOTS
        self._rows: dict[int, array[float]] = {}
        self._last_numbers: dict[int, int] = {}  # By broker: the number of its newest period.
        self._is_read = threading.Event()
        self._problem: str | None = None

    # -- called by the follower ------------------------------------------------------------------------------------------

    def add(self, period: HistoryPeriod, now_ms: int) -> None:
        """Adds a period, which replaces an earlier record of the same period. Other clusters and other weeks are left out."""
        number, now_number = period.start_ms // PERIOD_MS, now_ms // PERIOD_MS
        if period.cluster != self.cluster or period.start_ms % PERIOD_MS:
            return
        if not now_number - SLOTS < number <= now_number:
            return
        slot = number % SLOTS
        span = slice(slot * _WIDTH, (slot + 1) * _WIDTH)
        with self._lock:
            self._numbers[slot] = number
            for row in self._rows.values():
                row[span] = _EMPTY
            for history in period.brokers:
                if history.broker not in self._rows:
                    if len(self._rows) >= BROKERS_MAX:
                        continue
                    self._rows[history.broker] = _EMPTY * SLOTS
                self._rows[history.broker][span] = array("f", _values(history))
                self._last_numbers[history.broker] = max(number, self._last_numbers.get(history.broker, number))
            for broker in [b for b, last in self._last_numbers.items() if last <= now_number - SLOTS]:
                del self._rows[broker], self._last_numbers[broker]

    def mark_read(self) -> None:
        """Notes that the whole week is read."""
        self._problem = None
        self._is_read.set()

    def mark_unreadable(self, problem: str) -> None:
        """Notes why the history cannot be read. The periods that were read before stay."""
        self._problem = problem
        self._is_read.clear()

    # -- called by the server --------------------------------------------------------------------------------------------

    def unread_reason(self, wait_s: float) -> str | None:
        """Returns why the week is not read yet; None: it is read.

        Args:
            wait_s: how long to wait for the follower. The first request starts it.
        """
        self.on_request()
        # After an error the follower retries only after a pause, so waiting would not help.
        if self._is_read.wait(wait_s if self._problem is None else 0):
            return None
        return self._problem or "the tuner is still reading the history of the last week: ask again in some seconds"

    @property
    def is_empty(self) -> bool:
        return not self._rows

    def week(self, broker: int, now_ms: int) -> BrokerWeek | None:
        """Returns the periods from the broker's first one to the cluster's newest one; None if the broker has none in the last
        week."""
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
            for offset, name in enumerate(COLUMNS)
            if offset != _COPIED
        }
        flags = [_rounded(copy[start + _COPIED]) if start is not None else None for start in starts]
        return BrokerWeek(periods[0] * PERIOD_MS, columns, [None if flag is None else flag > 0 for flag in flags])


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
        _copied(history),
    ]
    return [_NAN if value is None or value < 0 else value for value in measured]


def _copied(history: BrokerHistory) -> float | None:
    """Returns 1 if the broker copied replicas in this period, also between its log directories; None: not known."""
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
