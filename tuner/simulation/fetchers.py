"""Simulates fetcher threads that catch up: one request in flight each, with quota checks before and quota records after.

A thread sends a request, waits for one round trip, receives a response, and sends the next. If the follower's quota is used up, the
follower leaves its listed lagging partitions out of the request. If the leader's quota is used up, the leader leaves them out
of the response. A thread without any partition left backs off (follower side), or waits at the leader for data that does not
come. So a throttle is an on–off switch in front of a link at line rate. Its bursts and silences follow from that.

Invariant: no more bytes pass in a tick than links and disks carry, and no replica receives more than it lacks.

Within a tick every thread has its own time, and checks and records the quotas at that time.

Simplifications, each smaller than the differences measured between real brokers:

- Within a response, partitions that lack less than their share are served whole and the others evenly. Kafka serves ten in turn.
- Requests that finish within one tick, and that the quotas let pass, are merged into one.
- A thread with in-sync partitions sends its next request when they are written to, or else after its wait. With more than twenty
  brokers it does so at most once per tick, to keep the simulation fast.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tuner.simulation.numbers import NEARLY_ZERO, Bools, Floats, Ints, sums
from tuner.simulation.quota import SimulatedQuotas
from tuner.simulation.replicas import Replicas
from tuner.simulation.sharing import max_min
from tuner.simulation.world import FetchSettings

_BEAT_OFFSET = 0.618  # A part of a beat, so that two threads do not wake at the same moment.
_EXACT_BROKERS_MAX = 20
_ROUNDS_MAX = 64  # A bound for the loop; a handful of rounds is usual.
_NONE: Ints = np.zeros(0, dtype=np.int64)


class _Requests(NamedTuple):
    """The requests of idle threads.

    rows to follower_listed are by row of these threads; at_s to grows are by thread, first for the leaders and then the followers.
    """

    rows: Ints
    cell: Ints
    lacks: Floats
    leader_listed: Bools
    follower_listed: Bools
    at_s: Floats
    room: Floats
    grows: Floats


class Fetchers:
    def __init__(
        self, replicas: Replicas, quotas: SimulatedQuotas, settings: FetchSettings, record_bytes: float
    ) -> None:
        self._replicas = replicas
        self._quotas = quotas
        self._settings = settings
        self._record_bytes = record_bytes  # Bytes per write to an in-sync partition.
        self._brokers = len(replicas.brokers)
        self._in_flight: Floats = np.zeros(len(replicas.partition))  # By row: the bytes of the response in flight.
        # By row: these bytes are all that the replica lacks.
        self._whole: Bools = np.zeros(len(replicas.partition), dtype=np.bool_)
        self._now_s = 0.0
        self._keys: Ints = np.zeros(0, dtype=np.int64)
        # The sensors of all threads' leaders, then of their followers.
        self._sensors: Ints = np.zeros(0, dtype=np.int64)
        self._wait_s: Floats = np.zeros(0)
        self._left_bytes: Floats = np.zeros(0)
        self._spread_s: Floats = np.zeros(0)  # Time from the first to the last of merged requests.
        # Within a tick, by thread: bytes of its merged responses, start and end of their transfer, and all bytes to send.
        self._group_bytes: Floats = np.zeros(0)
        self._start_s: Floats = np.zeros(0)
        self._finish_s: Floats = np.zeros(0)
        self._due_bytes: Floats = np.zeros(0)
        self.rebuild()

    def rebuild(self) -> None:
        """Adapts to changed replicas: threads that continue keep their request, and the others start."""
        new = self._replicas.cell_keys
        kept = np.isin(new, self._keys)
        old = np.searchsorted(self._keys, new[kept])
        continued = []
        for before in (self._wait_s, self._left_bytes, self._spread_s):
            now = np.zeros(len(new))
            now[kept] = before[old]
            continued.append(now)
        self._keys, (self._wait_s, self._left_bytes, self._spread_s) = new, continued
        self._sensors = np.concatenate((self._replicas.cell_leader, self._replicas.cell_follower + self._brokers))
        fetching = np.zeros(len(self._in_flight), dtype=np.bool_)
        fetching[self._replicas.fetching] = True
        self._in_flight[~fetching] = 0.0
        self._whole[~fetching] = False

    def advance(
        self, now_s: float, dt_s: float, out_bytes_per_s: Floats, in_bytes_per_s: Floats
    ) -> tuple[Floats, Floats, Ints]:
        """Advances by one tick.

        Args:
            now_s: the start of the tick.
            dt_s: its length.
            out_bytes_per_s: what each broker can send in addition to its clients' traffic.
            in_bytes_per_s: what each broker can take in addition to its clients' traffic.

        Returns:
            Bytes sent and bytes received by broker, and the rows that have caught up.
        """
        self._now_s = now_s
        replicas, settings = self._replicas, self._settings
        leader, follower = replicas.cell_leader, replicas.cell_follower
        caught_up: list[Ints] = []
        awake = self._wait_s < dt_s
        if not awake.any():
            self._wait_s -= dt_s
            return np.zeros(self._brokers), np.zeros(self._brokers), _NONE
        rate = np.full(len(leader), NEARLY_ZERO)
        limit = settings.thread_bytes_per_s_max
        rate[awake] = max_min(leader[awake], follower[awake], out_bytes_per_s, in_bytes_per_s, limit)
        # When its transfer finishes, a thread sends the next request.
        self._start_s, self._group_bytes, self._due_bytes = self._wait_s, self._left_bytes, self._left_bytes.copy()
        self._finish_s = self._start_s + self._group_bytes / rate
        for _ in range(_ROUNDS_MAX):
            idle = self._finish_s < dt_s - NEARLY_ZERO
            if not np.count_nonzero(idle):
                break
            idle_rows = idle[replicas.row_cell]
            rows, cell = replicas.fetching[idle_rows], replicas.row_cell[idle_rows]
            after_s = self._finish_s.copy()
            whole = self._receive(rows, (after_s - self._spread_s)[cell], after_s[cell])
            lacking_nothing = self._send_requests(idle, rows, cell, after_s, dt_s, rate)
            caught_up += [done for done in (whole, lacking_nothing) if len(done)]
        self._wait_s = np.maximum(self._start_s - dt_s, 0.0)
        sent_bytes = np.maximum(dt_s - self._start_s, 0.0) * rate
        self._left_bytes = np.maximum(self._group_bytes - sent_bytes, 0.0)
        passed = self._due_bytes - self._left_bytes
        sent, received = sums(leader, passed, self._brokers), sums(follower, passed, self._brokers)
        return sent, received, np.unique(np.concatenate(caught_up)) if caught_up else _NONE

    def _receive(self, rows: Ints, first_s: Floats, last_s: Floats) -> Ints:
        """Appends a received response, which then counts on the follower side; returns the rows that have caught up."""
        replicas = self._replicas
        got = self._in_flight[rows]
        if not np.count_nonzero(got):
            return _NONE
        replicas.gained_bytes[rows] += got
        replicas.lag_bytes[rows] = np.maximum(replicas.lag_bytes[rows] - got, 0.0)
        counted = got * replicas.follower_listed[rows]
        self._record(replicas.broker[rows] + self._brokers, counted, first_s, last_s)
        self._in_flight[rows] = 0.0
        whole = self._whole[rows]
        if not np.count_nonzero(whole):
            return _NONE
        self._whole[rows] = False
        return rows[whole]

    def _send_requests(self, idle: Bools, rows: Ints, cell: Ints, after_s: Floats, dt_s: float, rate: Floats) -> Ints:
        """Sends the next requests of idle threads; returns the rows that lack nothing."""
        replicas, quotas, cells = self._replicas, self._quotas, len(idle)
        time_left_s = dt_s - after_s
        both_s = np.concatenate((after_s, after_s))
        requests = _Requests(
            rows,
            cell,
            replicas.lag_bytes[rows],
            replicas.leader_listed[rows],
            replicas.follower_listed[rows],
            both_s,
            *quotas.room_at(self._sensors, both_s),
        )
        exceeded = requests.room < 0.0
        by_follower = requests.follower_listed & exceeded[cells:][cell]
        by_leader = requests.leader_listed & exceeded[:cells][cell] & ~by_follower
        if np.count_nonzero(by_follower):
            replicas.reported_lag_bytes[rows[~by_follower]] = requests.lacks[~by_follower]
        else:
            replicas.reported_lag_bytes[rows] = requests.lacks
        lacking = requests.lacks > 0.0
        allowed = lacking & ~(by_follower | by_leader)
        refused = idle.copy()
        if np.count_nonzero(allowed):
            refused[cell[allowed]] = False
            self._grant(requests, allowed, idle, after_s, time_left_s, rate)
        if np.count_nonzero(refused):
            settings, threads = self._settings, np.flatnonzero(refused)
            at_leader = sums(cell, by_leader.astype(np.float64), cells)[threads] > 0
            pause_s = np.where(at_leader, settings.wait_s, settings.backoff_s)
            shared = replicas.cell_shared[threads]
            if np.count_nonzero(shared):
                # Data of in-sync partitions ends the wait, and the quota is checked again.
                waiting = threads[shared]
                refusing_s = np.minimum(self._refusing_s(requests, waiting, cells), time_left_s[waiting])
                next_write_s = refusing_s + self._next_write_s(waiting, after_s[waiting] + refusing_s, dt_s)
                pause_s[shared] = np.minimum(next_write_s, settings.wait_s)
            self._start_s[threads] = self._finish_s[threads] = after_s[threads] + pause_s
            self._group_bytes[threads] = 0.0
        return rows[~lacking]

    def _refusing_s(self, requests: _Requests, threads: Ints, cells: int) -> Floats:
        """Returns by thread how long its quotas keep refusing, if no other thread passes bytes."""
        sides = np.concatenate((threads, threads + cells))
        at_s, room = requests.at_s[sides], requests.room[sides]
        opens_s = self._quotas.opens_after_s(self._sensors[sides], at_s, room, requests.grows[sides])
        refusing_s: Floats = np.where(room < 0.0, opens_s, -np.inf) - at_s
        count = len(threads)
        longest_s: Floats = np.maximum(np.maximum(refusing_s[:count], refusing_s[count:]), 0.0)
        return longest_s

    def _next_write_s(self, threads: Ints, after_s: Floats, dt_s: float) -> Floats:
        """Returns by thread the time until the next write to one of its in-sync partitions; each thread has its own beat."""
        least_s = dt_s if self._brokers > _EXACT_BROKERS_MAX else 0.0
        shared_bytes_per_s = np.maximum(self._replicas.cell_shared_bytes_per_s[threads], NEARLY_ZERO)
        beat_s = np.maximum(self._record_bytes / shared_bytes_per_s, max(least_s, self._settings.round_trip_s))
        beats: Floats = (self._now_s + after_s) / beat_s + _BEAT_OFFSET * threads
        return (1.0 - beats % 1.0) * beat_s

    def _grant(
        self, requests: _Requests, allowed: Bools, idle: Bools, after_s: Floats, time_left_s: Floats, rate: Floats
    ) -> None:
        """Grants responses to the threads that no quota refuses, merging as many requests as fit into the tick."""
        replicas, settings, cells = self._replicas, self._settings, len(idle)
        rows, cell, lacks = requests.rows, requests.cell, requests.lacks
        one = np.minimum(lacks, settings.partition_bytes_max) * allowed
        one_bytes = np.minimum(sums(cell, one, cells), settings.response_bytes_max)
        takes_s = settings.round_trip_s + one_bytes / rate
        threads = idle.astype(np.float64)
        sharing = sums(self._sensors, np.concatenate((threads, threads)), 2 * self._brokers)[self._sensors]
        counted = np.concatenate(
            (sums(cell, one * requests.leader_listed, cells), sums(cell, one * requests.follower_listed, cells))
        )
        passes = _requests_that_pass(
            requests.room, counted * sharing, np.concatenate((takes_s, takes_s)) * requests.grows
        )
        times = np.minimum(np.floor(time_left_s / takes_s), np.minimum(passes[:cells], passes[cells:]))
        times = np.maximum(times, 1.0)

        requested = np.minimum(lacks, settings.partition_bytes_max * times[cell]) * allowed
        fits = settings.response_bytes_max * times
        whole = (requested >= lacks) & allowed
        if np.count_nonzero(whole):
            small = sums(cell, requested * whole, cells)
            big = sums(cell, requested, cells) - small
            share_small = np.minimum(1.0, fits / np.maximum(small, 1.0))
            share_big = np.minimum(np.maximum(fits - small, 0.0) / np.maximum(big, 1.0), 1.0)
            granted = requested * np.where(whole, share_small[cell], share_big[cell])
            self._whole[rows] = whole & (share_small[cell] >= 1.0)
        else:
            granted = requested * np.minimum(fits / np.maximum(sums(cell, requested, cells), 1.0), 1.0)[cell]
        self._in_flight[rows] = granted

        self._spread_s[idle] = ((times - 1.0) * takes_s)[idle]
        first_s = after_s + settings.round_trip_s
        last_s = first_s + self._spread_s
        self._record(replicas.cell_leader[cell], granted * requests.leader_listed, first_s[cell], last_s[cell])
        total = sums(cell, granted, cells)
        self._due_bytes += total
        answered = total > 0.0
        start_s = after_s + settings.round_trip_s * times
        self._group_bytes[answered] = total[answered]
        self._start_s[answered] = start_s[answered]
        self._finish_s[answered] = (start_s + total / rate)[answered]

    def _record(self, sensors: Ints, counted_bytes: Floats, first_s: Floats, last_s: Floats) -> None:
        count = 2 * self._brokers
        total = sums(sensors, counted_bytes, count)
        if not np.count_nonzero(total):
            return
        of_all = np.maximum(total, NEARLY_ZERO)
        first = sums(sensors, counted_bytes * first_s, count) / of_all
        last = sums(sensors, counted_bytes * last_s, count) / of_all
        self._quotas.record(total, first, last)


def _requests_that_pass(room: Floats, counted: Floats, grows: Floats) -> Floats:
    """Returns how many requests in a row a quota lets pass before it refuses one.

    Args:
        room: bytes left before the first request; negative where no request is sent.
        counted: bytes that each request uses of it.
        grows: bytes that the window gains during each request.
    """
    lessens = counted - grows
    passes = np.floor(np.maximum(room, 0.0) / np.maximum(lessens, 1.0)) + 1.0
    return np.where((counted > 0.0) & (lessens > 0.0), passes, np.inf)
