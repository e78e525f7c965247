"""Simulates fetcher threads that catch up. Each has one request in flight; it checks quotas before a transfer and records bytes
after it.

A thread sends a request, waits for one round trip, receives a response, and sends the next request. If the follower's quota is used
up, the follower leaves its listed lagging partitions out of the request. If the leader's quota is used up, the leader leaves these
partitions out of the response. If no partition is left, the thread backs off (follower side), or waits at the leader for data that
does not come. So a throttle is an on–off switch in front of a link at line rate, which causes bursts and silences.

Invariant: no more bytes pass in a tick than links and disks carry, and no replica receives more than it lacks.

Within a tick every thread has its own time, and checks and records the quotas at that time.

Simplifications, each smaller than the differences measured between real brokers:

- Within a response, a partition that lacks less than its share gets all that it lacks, and the other partitions get equal shares.
  Kafka serves ten partitions per response, in turn.
- Requests that finish within one tick, and that the quotas let pass, are merged into one.
- A thread with in-sync partitions sends its next request when one of them is written to, or else after its wait. With more than
  twenty brokers the thread does so at most once per tick, to keep the simulation fast.

Terms, in addition to the terms of replicas.py (row, cell) and quota.py (sensor, room):
    thread    a fetcher thread, by the index of its cell.
    idle      a thread whose last transfer has finished, so that it sends its next request.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tuner.simulation.numbers import NEARLY_ZERO, Bools, Floats, Ints, sums
from tuner.simulation.quota import SimulatedQuotas
from tuner.simulation.replicas import Replicas
from tuner.simulation.sharing import max_min
from tuner.simulation.world import FetchSettings

_BEAT_OFFSET = 0.618  # Phase difference between two threads, in beats, so that they do not wake at the same moment.
_EXACT_BROKERS_MAX = 20
_ROUNDS_MAX = 64  # A bound for the loop; a handful of rounds is usual.
_NO_ROWS: Ints = np.zeros(0, dtype=np.int64)


class _Requests(NamedTuple):
    """The requests of idle threads."""

    # One entry for each row that the idle threads fetch.
    rows: Ints
    cell: Ints
    lacks: Floats  # Bytes that the row's replica lacks.
    leader_listed: Bools
    follower_listed: Bools
    # One entry for each thread as seen by its leader's quota, then one for each as seen by its follower's quota.
    at_s: Floats  # Time of the check.
    room: Floats  # Bytes that the quota lets pass (``SimulatedQuotas.room_at``).
    grows: Floats  # Bytes/s by which the room grows.


class Fetchers:
    """All fetcher threads that catch up, and their requests in flight."""

    def __init__(
        self, replicas: Replicas, quotas: SimulatedQuotas, settings: FetchSettings, record_bytes: float
    ) -> None:
        self._replicas = replicas
        self._quotas = quotas
        self._settings = settings
        self._record_bytes = record_bytes  # Bytes per write to an in-sync partition.
        self._brokers = len(replicas.brokers)
        self._in_flight: Floats = np.zeros(len(replicas.partition))  # By row: the bytes of the response in flight.
        # By row: the bytes in flight are all that the replica lacks.
        self._completes: Bools = np.zeros(len(replicas.partition), dtype=np.bool_)
        self._now_s = 0.0
        self._keys: Ints = np.zeros(0, dtype=np.int64)  # By thread: its ``Replicas.cell_keys``.
        # The sensors of all threads' leaders, then of their followers.
        self._sensors: Ints = np.zeros(0, dtype=np.int64)
        # By thread:
        self._wait_s: Floats = np.zeros(0)  # Time until its next transfer begins or its next request is sent.
        self._left_bytes: Floats = np.zeros(0)  # Bytes of the current transfer still to be sent.
        self._spread_s: Floats = np.zeros(0)  # Time from the first to the last of merged requests.
        # Within a tick, by thread: bytes of its merged responses, start and end of their transfer, and all bytes of the tick.
        self._group_bytes: Floats = np.zeros(0)
        self._start_s: Floats = np.zeros(0)
        self._finish_s: Floats = np.zeros(0)
        self._due_bytes: Floats = np.zeros(0)
        self.rebuild()

    def rebuild(self) -> None:
        """Adapts to changed replicas: threads that continue keep their request, and new threads start."""
        new_keys = self._replicas.cell_keys
        continues = np.isin(new_keys, self._keys)
        old_index = np.searchsorted(self._keys, new_keys[continues])
        columns = []
        for old_column in (self._wait_s, self._left_bytes, self._spread_s):
            column = np.zeros(len(new_keys))
            column[continues] = old_column[old_index]
            columns.append(column)
        self._keys, (self._wait_s, self._left_bytes, self._spread_s) = new_keys, columns
        self._sensors = np.concatenate((self._replicas.cell_leader, self._replicas.cell_follower + self._brokers))
        fetching = np.zeros(len(self._in_flight), dtype=np.bool_)
        fetching[self._replicas.fetching] = True
        self._in_flight[~fetching] = 0.0
        self._completes[~fetching] = False

    def advance(
        self, now_s: float, dt_s: float, out_bytes_per_s: Floats, in_bytes_per_s: Floats
    ) -> tuple[Floats, Floats, Ints]:
        """Advances by one tick.

        Args:
            now_s: the start of the tick.
            dt_s: the length of the tick.
            out_bytes_per_s: capacity of each broker to send, in addition to its clients' traffic.
            in_bytes_per_s: capacity of each broker to receive, in addition to its clients' traffic.

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
            return np.zeros(self._brokers), np.zeros(self._brokers), _NO_ROWS
        rate = np.full(len(leader), NEARLY_ZERO)
        limit = settings.thread_bytes_per_s_max
        rate[awake] = max_min(leader[awake], follower[awake], out_bytes_per_s, in_bytes_per_s, limit)
        # Each round handles the threads whose transfer has finished: they receive their response and send the next request.
        self._start_s, self._group_bytes, self._due_bytes = self._wait_s, self._left_bytes, self._left_bytes.copy()
        self._finish_s = self._start_s + self._group_bytes / rate
        for _ in range(_ROUNDS_MAX):
            idle = self._finish_s < dt_s - NEARLY_ZERO
            if not np.count_nonzero(idle):
                break
            idle_rows = idle[replicas.row_cell]
            rows, cell = replicas.fetching[idle_rows], replicas.row_cell[idle_rows]
            after_s = self._finish_s.copy()
            completed = self._receive(rows, (after_s - self._spread_s)[cell], after_s[cell])
            lacking_nothing = self._send_requests(idle, rows, cell, after_s, dt_s, rate)
            caught_up += [done for done in (completed, lacking_nothing) if len(done)]
        self._wait_s = np.maximum(self._start_s - dt_s, 0.0)
        sent_bytes = np.maximum(dt_s - self._start_s, 0.0) * rate
        self._left_bytes = np.maximum(self._group_bytes - sent_bytes, 0.0)
        transferred = self._due_bytes - self._left_bytes
        sent, received = sums(leader, transferred, self._brokers), sums(follower, transferred, self._brokers)
        return sent, received, np.unique(np.concatenate(caught_up)) if caught_up else _NO_ROWS

    def _receive(self, rows: Ints, first_s: Floats, last_s: Floats) -> Ints:
        """Appends received responses to the replicas, and records them in the followers' quotas.

        Returns the rows that have caught up.
        """
        replicas = self._replicas
        received = self._in_flight[rows]
        if not np.count_nonzero(received):
            return _NO_ROWS
        replicas.gained_bytes[rows] += received
        replicas.lag_bytes[rows] = np.maximum(replicas.lag_bytes[rows] - received, 0.0)
        counted = received * replicas.follower_listed[rows]
        self._record(replicas.broker[rows] + self._brokers, counted, first_s, last_s)
        self._in_flight[rows] = 0.0
        completed = self._completes[rows]
        if not np.count_nonzero(completed):
            return _NO_ROWS
        self._completes[rows] = False
        return rows[completed]

    def _send_requests(self, idle: Bools, rows: Ints, cell: Ints, after_s: Floats, dt_s: float, rate: Floats) -> Ints:
        """Sends the next requests of idle threads. Returns the rows that lack nothing."""
        replicas, quotas, cells = self._replicas, self._quotas, len(idle)
        time_left_s = dt_s - after_s
        # Times of the checks, first for the leaders' quotas, then for the followers' quotas.
        check_s = np.concatenate((after_s, after_s))
        room, grows = quotas.room_at(self._sensors, check_s)
        requests = _Requests(
            rows=rows,
            cell=cell,
            lacks=replicas.lag_bytes[rows],
            leader_listed=replicas.leader_listed[rows],
            follower_listed=replicas.follower_listed[rows],
            at_s=check_s,
            room=room,
            grows=grows,
        )
        leader_exceeded, follower_exceeded = room[:cells] < 0.0, room[cells:] < 0.0
        refused_by_follower = requests.follower_listed & follower_exceeded[cell]
        refused_by_leader = requests.leader_listed & leader_exceeded[cell] & ~refused_by_follower
        # Rows that the follower leaves out of its request report no new lag.
        if np.count_nonzero(refused_by_follower):
            replicas.reported_lag_bytes[rows[~refused_by_follower]] = requests.lacks[~refused_by_follower]
        else:
            replicas.reported_lag_bytes[rows] = requests.lacks
        lacking = requests.lacks > 0.0
        allowed = lacking & ~(refused_by_follower | refused_by_leader)
        refused = idle.copy()
        if np.count_nonzero(allowed):
            refused[cell[allowed]] = False
            self._grant(requests, allowed, idle, after_s, time_left_s, rate)
        if np.count_nonzero(refused):
            settings, threads = self._settings, np.flatnonzero(refused)
            # The leader holds a request that it refuses; a follower that refuses backs off.
            waits_at_leader = sums(cell, refused_by_leader.astype(np.float64), cells)[threads] > 0
            pause_s = np.where(waits_at_leader, settings.wait_s, settings.backoff_s)
            shared = replicas.cell_shared[threads]
            if np.count_nonzero(shared):
                # New data of in-sync partitions on the same thread ends the wait, and the quota is checked again. Checks that the
                # quota will refuse are skipped.
                waiting = threads[shared]
                refusing_s = np.minimum(self._refusing_s(requests, waiting, cells), time_left_s[waiting])
                next_write_s = refusing_s + self._next_write_s(waiting, after_s[waiting] + refusing_s, dt_s)
                pause_s[shared] = np.minimum(next_write_s, settings.wait_s)
            self._start_s[threads] = self._finish_s[threads] = after_s[threads] + pause_s
            self._group_bytes[threads] = 0.0
        return rows[~lacking]

    def _refusing_s(self, requests: _Requests, threads: Ints, cells: int) -> Floats:
        """Returns by thread how long its quotas keep refusing, if no other thread transfers bytes."""
        sides = np.concatenate((threads, threads + cells))
        at_s, room = requests.at_s[sides], requests.room[sides]
        opens_s = self._quotas.opens_after_s(self._sensors[sides], at_s, room, requests.grows[sides])
        refusing_s: Floats = np.where(room < 0.0, opens_s, -np.inf) - at_s
        count = len(threads)
        longest_s: Floats = np.maximum(np.maximum(refusing_s[:count], refusing_s[count:]), 0.0)
        return longest_s

    def _next_write_s(self, threads: Ints, after_s: Floats, dt_s: float) -> Floats:
        """Returns by thread the time until the next write to one of its in-sync partitions.

        Writes come at a fixed interval (beat), which each thread has for itself.
        """
        beat_s_min = dt_s if self._brokers > _EXACT_BROKERS_MAX else 0.0
        shared_bytes_per_s = np.maximum(self._replicas.cell_shared_bytes_per_s[threads], NEARLY_ZERO)
        beat_s = np.maximum(self._record_bytes / shared_bytes_per_s, max(beat_s_min, self._settings.round_trip_s))
        beats: Floats = (self._now_s + after_s) / beat_s + _BEAT_OFFSET * threads
        return (1.0 - beats % 1.0) * beat_s

    def _grant(
        self, requests: _Requests, allowed: Bools, idle: Bools, after_s: Floats, time_left_s: Floats, rate: Floats
    ) -> None:
        """Grants responses to the threads that no quota refuses, merging as many requests as fit into the tick."""
        replicas, settings, cells = self._replicas, self._settings, len(idle)
        rows, cell, lacks = requests.rows, requests.cell, requests.lacks
        # A single request of each thread: its bytes by row and by thread, and the time from sending it to the end of the transfer.
        single = np.minimum(lacks, settings.partition_bytes_max) * allowed
        single_bytes = np.minimum(sums(cell, single, cells), settings.response_bytes_max)
        single_s = settings.round_trip_s + single_bytes / rate
        threads = idle.astype(np.float64)
        # All idle threads of a sensor use its room at the same time.
        threads_of_sensor = sums(self._sensors, np.concatenate((threads, threads)), 2 * self._brokers)[self._sensors]
        # The bytes of a single request that count against its leader's quota, then against its follower's quota.
        counted = np.concatenate(
            (sums(cell, single * requests.leader_listed, cells), sums(cell, single * requests.follower_listed, cells))
        )
        passing = _requests_that_pass(
            requests.room, counted * threads_of_sensor, np.concatenate((single_s, single_s)) * requests.grows
        )
        merged = np.minimum(np.floor(time_left_s / single_s), np.minimum(passing[:cells], passing[cells:]))
        merged = np.maximum(merged, 1.0)  # By thread: the number of requests to merge.

        requested = np.minimum(lacks, settings.partition_bytes_max * merged[cell]) * allowed
        fits = settings.response_bytes_max * merged
        is_small = (requested >= lacks) & allowed  # The request covers all that the replica lacks.
        if np.count_nonzero(is_small):
            small = sums(cell, requested * is_small, cells)
            large = sums(cell, requested, cells) - small
            share_small = np.minimum(1.0, fits / np.maximum(small, 1.0))
            share_large = np.minimum(np.maximum(fits - small, 0.0) / np.maximum(large, 1.0), 1.0)
            granted = requested * np.where(is_small, share_small[cell], share_large[cell])
            self._completes[rows] = is_small & (share_small[cell] >= 1.0)
        else:
            granted = requested * np.minimum(fits / np.maximum(sums(cell, requested, cells), 1.0), 1.0)[cell]
        self._in_flight[rows] = granted

        # The leaders' quotas count the bytes when they are sent.
        self._spread_s[idle] = ((merged - 1.0) * single_s)[idle]
        first_s = after_s + settings.round_trip_s
        last_s = first_s + self._spread_s
        self._record(replicas.cell_leader[cell], granted * requests.leader_listed, first_s[cell], last_s[cell])
        total = sums(cell, granted, cells)
        self._due_bytes += total
        answered = total > 0.0
        start_s = after_s + settings.round_trip_s * merged
        self._group_bytes[answered] = total[answered]
        self._start_s[answered] = start_s[answered]
        self._finish_s[answered] = (start_s + total / rate)[answered]

    def _record(self, sensors: Ints, counted_bytes: Floats, first_s: Floats, last_s: Floats) -> None:
        """Records bytes in the quotas, with the mean of their first and last times per sensor."""
        count = 2 * self._brokers
        total = sums(sensors, counted_bytes, count)
        if not np.count_nonzero(total):
            return
        divisor = np.maximum(total, NEARLY_ZERO)
        first = sums(sensors, counted_bytes * first_s, count) / divisor
        last = sums(sensors, counted_bytes * last_s, count) / divisor
        self._quotas.record(total, first, last)


def _requests_that_pass(room: Floats, counted: Floats, grows: Floats) -> Floats:
    """Returns how many requests in a row a quota lets pass before it refuses one.

    Args:
        room: bytes left before the first request; negative where no request is sent.
        counted: bytes of the room that each request uses.
        grows: bytes by which the room grows during each request.
    """
    net = counted - grows
    passing = np.floor(np.maximum(room, 0.0) / np.maximum(net, 1.0)) + 1.0
    return np.where((counted > 0.0) & (net > 0.0), passing, np.inf)
