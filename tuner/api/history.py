"""The history behind the charts: for each broker in a move, 15 minutes of traffic, throttle, minimum rate and latency.

Rows are arrays of C floats, as Python objects for a thousand brokers would need too much memory. All brokers share the same ring of
slots, one per cycle. Each slot stores its cycle number as a stamp, so that an old slot shows as a gap.

Invariant: a value that was not measured is a gap, never 0 and never the previous value.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streaming.shared.contract import Side
from tuner.api.min_rate import current_min_rate_bytes_per_s
from tuner.core.cluster import LiveCluster, Observation
from tuner.core.throttle_limits import ThrottleLimits

SLOTS = 180  # 15 minutes at the default interval of cycles, 5 s.
# A slot holds the cycle number as its stamp, and then these columns.
COLUMNS = (
    "leader_throttled_bytes_per_s",
    "leader_current_rate_bytes_per_s",
    "leader_steady_state_bytes_per_s",
    "leader_min_rate_bytes_per_s",
    "follower_throttled_bytes_per_s",
    "follower_current_rate_bytes_per_s",
    "follower_steady_state_bytes_per_s",
    "follower_min_rate_bytes_per_s",
    "remaining_bytes",
    "produce_p99_ms",
)
_WIDTH = len(COLUMNS) + 1
_STAMP_MAX = 2**20  # The stamp is the cycle number modulo this: a C float represents only integers up to 2**24 exactly.
_NAN = math.nan


@dataclass(frozen=True, slots=True)
class RemainingPeak:
    """The highest number of remaining bytes of a destination since its move was first observed."""

    remaining_bytes: float
    since_ms: int  # When the move was first observed; epoch.


@dataclass(frozen=True, slots=True)
class RemainingPeaks:
    """The reference values for the progress of moves.

    The total includes destinations whose move has ended; otherwise the progress would drop whenever a move ends.
    """

    by_broker: Mapping[int, RemainingPeak] = field(default_factory=dict)  # By destination of a move in progress.
    ended_bytes: float = 0.0  # Sum of the peaks of ended moves, since the cluster was last idle.

    def done_ratio(self, broker: int, remaining_bytes: float | None) -> float | None:
        """Returns the progress of one move (0 to 1), relative to its peak of remaining bytes; None if it is unknown."""
        peak = self.by_broker.get(broker)
        if peak is None or remaining_bytes is None or peak.remaining_bytes <= 0:
            return None
        return max(0.0, 1.0 - remaining_bytes / peak.remaining_bytes)

    def all_done_ratio(self, remaining: Mapping[int, float]) -> float | None:
        """Returns the progress (0 to 1) of all current and ended moves together; None if no current move has a measurement."""
        known = {broker: left for broker, left in remaining.items() if broker in self.by_broker}
        peak_bytes = sum(self.by_broker[broker].remaining_bytes for broker in known)
        if not known or peak_bytes + self.ended_bytes <= 0:
            return None
        return max(0.0, 1.0 - sum(known.values()) / (peak_bytes + self.ended_bytes))


class RateSeries(NamedTuple):
    """The data of the charts."""

    times_ms: list[int]
    columns: dict[int, dict[str, list[float | None]]]  # By broker and column, one value per time; None is a gap.
    max_rates_bytes_per_s: list[float]  # The configured maximum rate at each of these times.


class RateHistoryStore:
    """The ring of slots of all brokers. Thread-safe: the loop records cycles, the server reads series."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._slots = slots
        self._lock = threading.Lock()
        self._cycle = 0
        self._times: list[int] = []  # Epoch ms of the last cycles, newest last.
        self._max_rates: list[float] = []  # In bytes/s, one for each of these cycles.
        self._rows: dict[int, array[float]] = {}
        # By broker: the last cycle in which the broker took part in a move or had a throttle.
        self._last_cycles: dict[int, int] = {}
        self._peaks = RemainingPeaks()

    def record_cycle(self, observation: Observation, limits: ThrottleLimits) -> None:
        """Records one cycle; takes some microseconds per broker.

        Args:
            limits: the limits of this cycle; they may change while the tuner runs.
        """
        live = observation.live
        with self._lock:
            self._cycle += 1
            self._times = [*self._times[-(self._slots - 1) :], observation.now_ms]
            self._max_rates = [*self._max_rates[-(self._slots - 1) :], limits.rate_bytes_per_s_max]
            if not isinstance(live, LiveCluster):
                return
            brokers = {broker for broker, _ in (*live.rates, *observation.move_signals)}
            start = self._cycle % self._slots * _WIDTH
            for broker in brokers:
                rows = self._rows.get(broker)
                if rows is None:
                    rows = self._rows[broker] = array("f", [_NAN]) * (self._slots * _WIDTH)
                rows[start : start + _WIDTH] = array("f", self._row(broker, observation, live, limits))
                self._last_cycles[broker] = self._cycle
            # A broker that had no move and no throttle for a whole round of the ring has only outdated cycles in its row.
            inactive = [broker for broker, cycle in self._last_cycles.items() if self._cycle - cycle >= self._slots]
            for broker in inactive:
                del self._rows[broker], self._last_cycles[broker]
            self._peaks = self._update_peaks(observation, live)

    def peaks(self) -> RemainingPeaks:
        with self._lock:
            return self._peaks

    def series(self, brokers: Collection[int], since_ms: int = 0) -> RateSeries:
        """Returns the values newer than ``since_ms``. Brokers without a history are left out."""
        with self._lock:
            times = [at for at in self._times if at > since_ms]
            first_cycle = self._cycle - len(times) + 1
            columns = {b: self._columns(self._rows[b], first_cycle) for b in brokers if b in self._rows}
            return RateSeries(times, columns, self._max_rates[len(self._max_rates) - len(times) :])

    def _columns(self, rows: array[float], first_cycle: int) -> dict[str, list[float | None]]:
        columns: dict[str, list[float | None]] = {name: [] for name in COLUMNS}
        for cycle in range(first_cycle, self._cycle + 1):
            start = cycle % self._slots * _WIDTH
            is_recorded = rows[start] == cycle % _STAMP_MAX
            for offset, name in enumerate(COLUMNS, start=1):
                value = rows[start + offset]
                columns[name].append(_rounded(value) if is_recorded and not math.isnan(value) else None)
        return columns

    def _row(self, broker: int, observation: Observation, live: LiveCluster, limits: ThrottleLimits) -> list[float]:
        signal = observation.broker_signals.get(broker)
        row: list[float] = [self._cycle % _STAMP_MAX]
        for side in (Side.LEADER, Side.FOLLOWER):
            setting, move = live.rates.get((broker, side)), observation.move_signals.get((broker, side))
            throttled = None
            if signal is not None:
                throttled = (
                    signal.leader_throttled_bytes_per_s
                    if side is Side.LEADER
                    else signal.follower_throttled_bytes_per_s
                )
            steady_state = move.steady_state_bytes_per_s if move is not None else None
            row += [
                _NAN if throttled is None else throttled,
                _NAN if setting is None else setting.bytes_per_s,
                _NAN if steady_state is None else steady_state,
                _NAN
                if steady_state is None
                else current_min_rate_bytes_per_s(steady_state, observation.setpoints.get((broker, side)), limits),
            ]
        inbound = observation.move_signals.get((broker, Side.FOLLOWER))
        remaining = inbound.remaining_bytes if inbound is not None and inbound.moving_partitions else None
        row.append(_NAN if remaining is None else remaining)
        row.append(_NAN if signal is None or signal.produce_p99_ms is None else signal.produce_p99_ms)
        return row

    def _update_peaks(self, observation: Observation, live: LiveCluster) -> RemainingPeaks:
        if not live.moves:
            return RemainingPeaks()
        # Kafka's list of reassignments tells which moves run: a missing signal does not mean that a move has ended.
        destinations = {broker for move in live.moves for broker in move.adding if broker != move.leader}
        known_peaks = self._peaks.by_broker
        peaks = {broker: peak for broker, peak in known_peaks.items() if broker in destinations}
        ended_bytes = sum(peak.remaining_bytes for broker, peak in known_peaks.items() if broker not in destinations)
        for broker in destinations:
            signal = observation.move_signals.get((broker, Side.FOLLOWER))
            if signal is None or not signal.moving_partitions or signal.remaining_bytes is None:
                continue
            peak = peaks.get(broker)
            if peak is None or signal.remaining_bytes > peak.remaining_bytes:
                peaks[broker] = RemainingPeak(
                    signal.remaining_bytes, peak.since_ms if peak is not None else observation.now_ms
                )
        return RemainingPeaks(peaks, self._peaks.ended_bytes + ended_bytes)


def _rounded(value: float) -> float:
    """Returns the value with the precision of a chart, which keeps responses small."""
    if abs(value) >= 1000:
        return round(value)
    return round(value, 3 if abs(value) < 10 else 1)
