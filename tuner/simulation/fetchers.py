"""Fetcher threads that catch up: one request under way each, whole responses, the quota asked before and told after.

Intuition: a thread asks, waits for one round trip, receives a response, and asks again. Before it asks, the follower side
leaves out the listed partitions that are behind if its quota is used up; when the leader answers, its side does the same.
A thread that nothing is left for backs off (follower side) or waits at the leader for data that does not come. So the
throttle is an on–off switch in front of a pipe at line rate, and all its bursts and silences follow from that.

Invariant: no more bytes pass in a tick than the links and disks can carry, and no replica receives what it does not lack.

Simplifications, each smaller than what is measured on real brokers:
    Within a response, partitions that lack less than their share are served whole and the others evenly; Kafka serves ten
    in turn. Requests that finish within one tick and that the quotas would let pass anyway are put together to one.
    A thread with in-sync partitions asks again in the next tick when they are written to, and after its wait otherwise.
"""

from __future__ import annotations

import numpy as np

from tuner.simulation.numbers import NEARLY_ZERO, Bools, Floats, Ints, sums
from tuner.simulation.quota import Quotas
from tuner.simulation.replicas import Replicas
from tuner.simulation.sharing import max_min
from tuner.simulation.world import FetchSettings

_ROUNDS_MAX = 64  # A bound for the loop; a handful is what happens.


class Fetchers:
    def __init__(self, replicas: Replicas, quotas: Quotas, settings: FetchSettings) -> None:
        self._replicas = replicas
        self._quotas = quotas
        self._settings = settings
        self._brokers = len(replicas.brokers)
        self._in_flight: Floats = np.zeros(len(replicas.partition))  # By row: what a response brings it.
        self._whole: Bools = np.zeros(len(replicas.partition), dtype=np.bool_)  # By row: and that is all it lacks.
        self._keys: Ints = np.zeros(0, dtype=np.int64)
        self._wait_s: Floats = np.zeros(0)
        self._left_bytes: Floats = np.zeros(0)
        self.rebuild()

    def rebuild(self) -> None:
        """The replicas have changed: threads that go on keep their request, the others begin."""
        new = self._replicas.cell_keys
        wait_s, left_bytes = np.zeros(len(new)), np.zeros(len(new))
        kept = np.isin(new, self._keys)
        old = np.searchsorted(self._keys, new[kept])
        wait_s[kept], left_bytes[kept] = self._wait_s[old], self._left_bytes[old]
        self._keys, self._wait_s, self._left_bytes = new, wait_s, left_bytes
        fetching = np.zeros(len(self._in_flight), dtype=np.bool_)
        fetching[self._replicas.fetching] = True
        self._in_flight[~fetching] = 0.0
        self._whole[~fetching] = False

    def advance(self, dt_s: float, out_bytes_per_s: Floats, in_bytes_per_s: Floats) -> tuple[Floats, Floats, Ints]:
        """One tick.

        Args:
            out_bytes_per_s: what every broker can send beside its clients.
            in_bytes_per_s: what every broker can take beside its clients.

        Returns:
            Bytes sent and bytes received by broker, and the rows that have caught up.
        """
        replicas, settings = self._replicas, self._settings
        leader, follower = replicas.cell_leader, replicas.cell_follower
        caught_up: list[Ints] = []
        awake = self._wait_s < dt_s
        if not awake.any():
            self._wait_s -= dt_s
            return np.zeros(self._brokers), np.zeros(self._brokers), np.zeros(0, dtype=np.int64)
        rate = np.full(len(leader), NEARLY_ZERO)
        rate[awake] = max_min(
            leader[awake], follower[awake], out_bytes_per_s, in_bytes_per_s, settings.thread_bytes_per_s_max
        )
        time_left_s = np.full(len(leader), dt_s)
        passed = np.zeros(len(leader))
        for _ in range(_ROUNDS_MAX):
            waited_s = np.minimum(self._wait_s, time_left_s)
            self._wait_s -= waited_s
            time_left_s -= waited_s
            ready = (self._wait_s <= NEARLY_ZERO) & (time_left_s > NEARLY_ZERO)
            if not ready.any():
                break
            moved = np.where(ready, np.minimum(self._left_bytes, rate * time_left_s), 0.0)
            self._left_bytes -= moved
            time_left_s -= moved / rate
            passed += moved
            idle = ready & (self._left_bytes <= 1.0)
            if not idle.any():
                break
            self._left_bytes[idle] = 0.0
            rows = replicas.fetching[idle[replicas.row_cell]]
            caught_up.append(self._receive(rows))
            idle &= time_left_s > NEARLY_ZERO
            if idle.any():
                caught_up.append(self._ask(idle, time_left_s, rate))
        sent, received = sums(leader, passed, self._brokers), sums(follower, passed, self._brokers)
        return sent, received, np.unique(np.concatenate(caught_up)) if caught_up else np.zeros(0, dtype=np.int64)

    def _receive(self, rows: Ints) -> Ints:
        """A response has come: it is appended, and then counts on the follower side."""
        replicas = self._replicas
        got = self._in_flight[rows]
        replicas.gained_bytes[rows] += got
        replicas.lag_bytes[rows] = np.maximum(replicas.lag_bytes[rows] - got, 0.0)
        listed = replicas.follower_listed[rows]
        self._record(replicas.broker[rows[listed]] + self._brokers, got[listed])
        caught_up = rows[self._whole[rows]]
        self._in_flight[rows] = 0.0
        self._whole[rows] = False
        return caught_up

    def _ask(self, idle: Bools, time_left_s: Floats, rate: Floats) -> Ints:
        """Idle threads ask for more; who lacks nothing has caught up."""
        replicas, quotas, settings = self._replicas, self._quotas, self._settings
        of_idle = idle[replicas.row_cell]
        rows, cell = replicas.fetching[of_idle], replicas.row_cell[of_idle]
        cells = len(idle)
        leader, follower = replicas.cell_leader[cell], replicas.cell_follower[cell]
        exceeded = quotas.exceeded
        lacks = replicas.lag_bytes[rows]
        by_follower = replicas.follower_listed[rows] & exceeded[follower + self._brokers]
        by_leader = replicas.leader_listed[rows] & exceeded[leader] & ~by_follower
        allowed = (~by_follower & ~by_leader).astype(np.float64)
        one = np.minimum(lacks, settings.partition_bytes_max) * allowed
        one_bytes = np.minimum(sums(cell, one, cells), settings.response_bytes_max)

        times = self._times(idle, one_bytes, time_left_s, rate, rows, cell, one)
        wanted = np.minimum(lacks, settings.partition_bytes_max * times[cell]) * allowed
        whole = (wanted >= lacks) & (allowed > 0)
        room = settings.response_bytes_max * times
        small = sums(cell, np.where(whole, wanted, 0.0), cells)
        big = sums(cell, np.where(whole, 0.0, wanted), cells)
        share_small = np.minimum(1.0, room / np.maximum(small, 1.0))
        share_big = np.clip((room - small) / np.maximum(big, 1.0), 0.0, 1.0)
        granted = wanted * np.where(whole, share_small[cell], share_big[cell])
        self._in_flight[rows] = granted
        self._whole[rows] = whole & (share_small[cell] >= 1.0) & (lacks > 0)

        counted = replicas.leader_listed[rows]
        self._record(leader[counted], granted[counted])
        total = sums(cell, granted, cells)
        answered = idle & (total > 0)
        self._left_bytes[answered] = total[answered]
        self._wait_s[answered] = settings.round_trip_s * times[answered]
        refused = idle & ~answered
        if refused.any():
            at_leader = sums(cell, by_leader.astype(np.float64), cells) > 0
            pause_s = np.where(at_leader | replicas.cell_shared, settings.wait_s, settings.backoff_s)
            # Data of in-sync partitions ends the wait, and the quota is asked again.
            pause_s = np.where(replicas.cell_shared_bytes_per_s > 0, np.maximum(time_left_s, 0.01), pause_s)
            self._wait_s[refused] = pause_s[refused]
        caught_up: Ints = rows[lacks <= 0.0]
        return caught_up

    def _times(
        self, idle: Bools, one_bytes: Floats, time_left_s: Floats, rate: Floats, rows: Ints, cell: Ints, one: Floats
    ) -> Floats:
        """How many requests of every thread are put together: those that end in this tick and that no quota refuses."""
        replicas, settings = self._replicas, self._settings
        takes_s = settings.round_trip_s + one_bytes / rate
        in_time = np.floor(time_left_s / takes_s)
        room = self._quotas.room_bytes
        threads = idle.astype(np.float64)
        allowed = in_time
        for sensors, listed in (
            (replicas.cell_leader, replicas.leader_listed),
            (replicas.cell_follower + self._brokers, replicas.follower_listed),
        ):
            counted = sums(cell, one * listed[rows], len(idle))
            sharing = np.maximum(sums(sensors, threads, 2 * self._brokers), 1.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                passes = np.where(counted > 0, room[sensors] / sharing[sensors] / counted, np.inf)
            allowed = np.minimum(allowed, np.floor(passes) + 1.0)
        return np.maximum(np.where(one_bytes > 0, allowed, 1.0), 1.0)

    def _record(self, sensors: Ints, counted_bytes: Floats) -> None:
        self._quotas.record(sums(sensors, counted_bytes, 2 * self._brokers))
