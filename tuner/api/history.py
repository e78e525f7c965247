"""What the charts show: for each broker that takes part, a quarter of an hour of what passed, what may pass and what must.

Intuition: a thousand brokers times a quarter of an hour are too many Python objects to keep; as rows of C floats they are a few
MB. The rows of all brokers have the same slots, one a cycle, so that a slot that a broker missed is told by its stamp.

Invariant: what is not measured is a gap, never 0 and never the value before.
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
from tuner.core.drain_time import SideLoad
from tuner.core.throttle_limits import Limits

SLOTS = 180
# One row: the cycle it is of, and then these.
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
_STAMP_MAX = 2**20  # A C float counts that far.
_NAN = math.nan


@dataclass(frozen=True, slots=True)
class RemainingPeak:
    """The most that a broker lacked since its move was first seen, and when that was."""

    remaining_bytes: float
    since_ms: int


@dataclass(frozen=True, slots=True)
class RemainingPeaks:
    """What the moves are measured against.

    Whose move has ended lacks nothing any more, but it is part of the whole: without it the rest would seem to begin anew.
    """

    by_broker: Mapping[int, RemainingPeak] = field(default_factory=dict)  # Of what goes on.
    ended_bytes: float = 0.0  # The peaks of those that have ended since something last began to move.

    def done_ratio(self, broker: int, remaining_bytes: float | None) -> float | None:
        """How far one move is, 0 to 1, of the most that it lacked since it was first seen; None: that is not known."""
        peak = self.by_broker.get(broker)
        if peak is None or remaining_bytes is None or peak.remaining_bytes <= 0:
            return None
        return max(0.0, 1.0 - remaining_bytes / peak.remaining_bytes)

    def all_done_ratio(self, remaining: Mapping[int, float]) -> float | None:
        """The same of all that moves and has moved beside it; None: of nothing that goes on it is known."""
        known = {broker: left for broker, left in remaining.items() if broker in self.by_broker}
        most = sum(self.by_broker[broker].remaining_bytes for broker in known)
        if not known or most + self.ended_bytes <= 0:
            return None
        return max(0.0, 1.0 - sum(known.values()) / (most + self.ended_bytes))


class RateSeries(NamedTuple):
    """What the charts draw."""

    times_ms: list[int]
    columns: dict[int, dict[str, list[float | None]]]  # By broker, at these times; None is a gap.
    max_rates_bytes_per_s: list[float]  # The operator's, as it was at each of these times.


class RateHistoryStore:
    def __init__(self, slots: int = SLOTS) -> None:
        self._slots = slots
        self._lock = threading.Lock()
        self._cycle = 0
        self._times: list[int] = []  # Epoch ms of the last cycles, newest last.
        self._ceilings: list[float] = []  # Bytes/s, of the same cycles.
        self._rows: dict[int, array[float]] = {}
        self._newest: dict[int, int] = {}  # The cycle in which a broker last took part.
        self._peaks = RemainingPeaks()

    def record_cycle(self, observation: Observation, limits: Limits) -> None:
        """One cycle; some microseconds a broker.

        Args:
            limits: as they are in this cycle; an operator may set others while the tuner runs.
        """
        live = observation.live
        with self._lock:
            self._cycle += 1
            self._times = [*self._times[-(self._slots - 1) :], observation.now_ms]
            self._ceilings = [*self._ceilings[-(self._slots - 1) :], limits.rate_bytes_per_s_max]
            if not isinstance(live, LiveCluster):
                return
            brokers = {broker for broker, _ in (*live.rates, *observation.moves)}
            at = self._cycle % self._slots * _WIDTH
            for broker in brokers:
                rows = self._rows.get(broker)
                if rows is None:
                    rows = self._rows[broker] = array("f", [_NAN]) * (self._slots * _WIDTH)
                rows[at : at + _WIDTH] = array("f", self._row(broker, observation, live, limits))
                self._newest[broker] = self._cycle
            gone = [broker for broker, cycle in self._newest.items() if self._cycle - cycle >= self._slots]
            for broker in gone:
                del self._rows[broker], self._newest[broker]
            self._peaks = self._peaked(observation, live)

    def peaks(self) -> RemainingPeaks:
        with self._lock:
            return self._peaks

    def series(self, brokers: Collection[int], since_ms: int = 0) -> RateSeries:
        """Returns what is newer than ``since_ms``, of those brokers that are known."""
        with self._lock:
            times = [at for at in self._times if at > since_ms]
            first = self._cycle - len(times) + 1
            rows = {b: self._columns(self._rows[b], first) for b in brokers if b in self._rows}
            return RateSeries(times, rows, self._ceilings[len(self._ceilings) - len(times) :])

    def _columns(self, rows: array[float], first: int) -> dict[str, list[float | None]]:
        found: dict[str, list[float | None]] = {name: [] for name in COLUMNS}
        for cycle in range(first, self._cycle + 1):
            at = cycle % self._slots * _WIDTH
            there = rows[at] == cycle % _STAMP_MAX
            for place, name in enumerate(COLUMNS, start=1):
                value = rows[at + place]
                found[name].append(_rounded(value) if there and not math.isnan(value) else None)
        return found

    def _row(self, broker: int, seen: Observation, live: LiveCluster, limits: Limits) -> list[float]:
        signal = seen.brokers.get(broker)
        row: list[float] = [self._cycle % _STAMP_MAX]
        for side in (Side.LEADER, Side.FOLLOWER):
            setting, move = live.rates.get((broker, side)), seen.moves.get((broker, side))
            actual = None
            if signal is not None:
                actual = (
                    signal.leader_throttled_bytes_per_s
                    if side is Side.LEADER
                    else signal.follower_throttled_bytes_per_s
                )
            steady_state = move.steady_state_bytes_per_s if move is not None else None
            row += [
                _NAN if actual is None else actual,
                _NAN if setting is None else setting.bytes_per_s,
                _NAN if steady_state is None else steady_state,
                _NAN
                if steady_state is None
                else current_min_rate_bytes_per_s(
                    SideLoad(0.0, steady_state), seen.setpoints.get((broker, side)), limits
                ),
            ]
        onto = seen.moves.get((broker, Side.FOLLOWER))
        lacks = onto.remaining_bytes if onto is not None and onto.moving_partitions else None
        row.append(_NAN if lacks is None else lacks)
        row.append(_NAN if signal is None or signal.produce_p99_ms is None else signal.produce_p99_ms)
        return row

    def _peaked(self, seen: Observation, live: LiveCluster) -> RemainingPeaks:
        if not live.moves:
            return RemainingPeaks()
        # As the controller lists them: a signal that has not come for a while is no end.
        onto = {broker for move in live.moves for broker in move.adding if broker != move.leader}
        before = self._peaks.by_broker
        found = {broker: peak for broker, peak in before.items() if broker in onto}
        ended_bytes = sum(peak.remaining_bytes for broker, peak in before.items() if broker not in onto)
        for broker in onto:
            signal = seen.moves.get((broker, Side.FOLLOWER))
            if signal is None or not signal.moving_partitions or signal.remaining_bytes is None:
                continue
            peak = found.get(broker)
            if peak is None or signal.remaining_bytes > peak.remaining_bytes:
                found[broker] = RemainingPeak(
                    signal.remaining_bytes, peak.since_ms if peak is not None else seen.now_ms
                )
        return RemainingPeaks(found, self._peaks.ended_bytes + ended_bytes)


def _rounded(value: float) -> float:
    """What a chart can show, in few letters."""
    if abs(value) >= 1000:
        return round(value)
    return round(value, 3 if abs(value) < 10 else 1)
