"""Fetcher threads that catch up: one request under way each, whole responses, the quota asked before and told after.

Intuition: a thread asks, waits for one round trip, receives a response, and asks again. Before it asks, the follower side
leaves out the listed partitions that are behind if its quota is used up; when the leader answers, its side does the same.
A thread that nothing is left for backs off (follower side) or waits at the leader for data that does not come. So the
throttle is an on–off switch in front of a pipe at line rate, and all its bursts and silences follow from that.

Invariant: no more bytes pass in a tick than the links and disks can carry, and no replica receives what it does not lack.

Within a tick every thread has its own time, and the quotas are asked and told at that time; threads take turns.

Simplifications, each smaller than what is measured on real brokers:
    Within a response, partitions that lack less than their share are served whole and the others evenly; Kafka serves ten
    in turn. Requests that finish within one tick and that the quotas would let pass anyway are put together to one.
    A thread with in-sync partitions asks again when they are written to, and after its wait otherwise; on more than twenty
    brokers at most once a tick, as an hour of them would else take minutes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tuner.simulation.numbers import NEARLY_ZERO, Bools, Floats, Ints, sums
from tuner.simulation.quota import SimulatedQuotas
from tuner.simulation.replicas import Replicas
from tuner.simulation.sharing import max_min
from tuner.simulation.world import FetchSettings

_OFF_BEAT = 0.618  # Of a beat: two threads do not hear in the same moment.
_EXACT_BROKERS_MAX = 20
_ROUNDS_MAX = 64  # A bound for the loop; a handful is what happens.
_NONE: Ints = np.zeros(0, dtype=np.int64)


class _Asked(NamedTuple):
    """What idle threads ask for, by row of theirs; and by thread, leaders before followers, what the quotas say to it."""

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
        self._record_bytes = record_bytes  # What comes at a time of what is written to in-sync partitions.
        self._brokers = len(replicas.brokers)
        self._in_flight: Floats = np.zeros(len(replicas.partition))  # By row: what a response brings it.
        self._whole: Bools = np.zeros(len(replicas.partition), dtype=np.bool_)  # By row: and that is all it lacks.
        self._now_s = 0.0
        self._keys: Ints = np.zeros(0, dtype=np.int64)
        self._sensors: Ints = np.zeros(0, dtype=np.int64)  # Of every thread's leader, then of its follower.
        self._wait_s: Floats = np.zeros(0)
        self._left_bytes: Floats = np.zeros(0)
        self._spread_s: Floats = np.zeros(0)  # From the first to the last of requests put together.
        # Within a tick, by thread: its group of responses, from when to when that is sent, and all that is to be sent.
        self._group_bytes: Floats = np.zeros(0)
        self._start_s: Floats = np.zeros(0)
        self._finish_s: Floats = np.zeros(0)
        self._due_bytes: Floats = np.zeros(0)
        self.rebuild()

    def rebuild(self) -> None:
        """The replicas have changed: threads that go on keep their request, the others begin."""
        new = self._replicas.cell_keys
        kept = np.isin(new, self._keys)
        old = np.searchsorted(self._keys, new[kept])
        goes_on = []
        for before in (self._wait_s, self._left_bytes, self._spread_s):
            now = np.zeros(len(new))
            now[kept] = before[old]
            goes_on.append(now)
        self._keys, (self._wait_s, self._left_bytes, self._spread_s) = new, goes_on
        self._sensors = np.concatenate((self._replicas.cell_leader, self._replicas.cell_follower + self._brokers))
        fetching = np.zeros(len(self._in_flight), dtype=np.bool_)
        fetching[self._replicas.fetching] = True
        self._in_flight[~fetching] = 0.0
        self._whole[~fetching] = False

    def advance(
        self, now_s: float, dt_s: float, out_bytes_per_s: Floats, in_bytes_per_s: Floats
    ) -> tuple[Floats, Floats, Ints]:
        """One tick.

        Args:
            now_s: when it begins.
            out_bytes_per_s: what every broker can send beside its clients.
            in_bytes_per_s: what every broker can take beside its clients.

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
        # At its finish a thread asks again.
        self._start_s, self._group_bytes, self._due_bytes = self._wait_s, self._left_bytes, self._left_bytes.copy()
        self._finish_s = self._start_s + self._group_bytes / rate
        for _ in range(_ROUNDS_MAX):
            idle = self._finish_s < dt_s - NEARLY_ZERO
            if not np.count_nonzero(idle):
                break
            of_idle = idle[replicas.row_cell]
            rows, cell = replicas.fetching[of_idle], replicas.row_cell[of_idle]
            after_s = self._finish_s.copy()
            whole = self._receive(rows, (after_s - self._spread_s)[cell], after_s[cell])
            lacking_nothing = self._ask(idle, rows, cell, after_s, dt_s, rate)
            caught_up += [found for found in (whole, lacking_nothing) if len(found)]
        self._wait_s = np.maximum(self._start_s - dt_s, 0.0)
        sent_bytes = np.maximum(dt_s - self._start_s, 0.0) * rate
        self._left_bytes = np.maximum(self._group_bytes - sent_bytes, 0.0)
        passed = self._due_bytes - self._left_bytes
        sent, received = sums(leader, passed, self._brokers), sums(follower, passed, self._brokers)
        return sent, received, np.unique(np.concatenate(caught_up)) if caught_up else _NONE

    def _receive(self, rows: Ints, first_s: Floats, last_s: Floats) -> Ints:
        """A response has come: it is appended, and then counts on the follower side."""
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

    def _ask(self, idle: Bools, rows: Ints, cell: Ints, after_s: Floats, dt_s: float, rate: Floats) -> Ints:
        """Idle threads ask for more; who lacks nothing has caught up."""
        replicas, quotas, cells = self._replicas, self._quotas, len(idle)
        time_left_s = dt_s - after_s
        both_s = np.concatenate((after_s, after_s))
        asked = _Asked(
            rows,
            cell,
            replicas.lag_bytes[rows],
            replicas.leader_listed[rows],
            replicas.follower_listed[rows],
            both_s,
            *quotas.room_at(self._sensors, both_s),
        )
        exceeded = asked.room < 0.0
        by_follower = asked.follower_listed & exceeded[cells:][cell]
        by_leader = asked.leader_listed & exceeded[:cells][cell] & ~by_follower
        if np.count_nonzero(by_follower):
            replicas.reported_lag_bytes[rows[~by_follower]] = asked.lacks[~by_follower]
        else:
            replicas.reported_lag_bytes[rows] = asked.lacks
        lacking = asked.lacks > 0.0
        allowed = lacking & ~(by_follower | by_leader)
        refused = idle.copy()
        if np.count_nonzero(allowed):
            refused[cell[allowed]] = False
            self._grant(asked, allowed, idle, after_s, time_left_s, rate)
        if np.count_nonzero(refused):
            settings, threads = self._settings, np.flatnonzero(refused)
            at_leader = sums(cell, by_leader.astype(np.float64), cells)[threads] > 0
            pause_s = np.where(at_leader, settings.wait_s, settings.backoff_s)
            shared = replicas.cell_shared[threads]
            if np.count_nonzero(shared):
                # Data of in-sync partitions ends the wait, and the quota is asked again.
                those = threads[shared]
                shut_s = np.minimum(self._shut_s(asked, those, cells), time_left_s[those])
                heard_s = shut_s + self._hears_s(those, after_s[those] + shut_s, dt_s)
                pause_s[shared] = np.minimum(heard_s, settings.wait_s)
            self._start_s[threads] = self._finish_s[threads] = after_s[threads] + pause_s
            self._group_bytes[threads] = 0.0
        return rows[~lacking]

    def _shut_s(self, asked: _Asked, threads: Ints, cells: int) -> Floats:
        """By thread given, how long the quotas that refuse it go on to, if nobody else passes."""
        sides = np.concatenate((threads, threads + cells))
        at_s, room = asked.at_s[sides], asked.room[sides]
        opens_s = self._quotas.opens_after_s(self._sensors[sides], at_s, room, asked.grows[sides])
        shut_s: Floats = np.where(room < 0.0, opens_s, -np.inf) - at_s
        count = len(threads)
        longest_s: Floats = np.maximum(np.maximum(shut_s[:count], shut_s[count:]), 0.0)
        return longest_s

    def _hears_s(self, threads: Ints, after_s: Floats, dt_s: float) -> Floats:
        """By thread given, how long until something is written to what it has in sync: each at a beat of its own."""
        least_s = dt_s if self._brokers > _EXACT_BROKERS_MAX else 0.0
        shared_bytes_per_s = np.maximum(self._replicas.cell_shared_bytes_per_s[threads], NEARLY_ZERO)
        beat_s = np.maximum(self._record_bytes / shared_bytes_per_s, max(least_s, self._settings.round_trip_s))
        beats: Floats = (self._now_s + after_s) / beat_s + _OFF_BEAT * threads
        return (1.0 - beats % 1.0) * beat_s

    def _grant(
        self, asked: _Asked, allowed: Bools, idle: Bools, after_s: Floats, time_left_s: Floats, rate: Floats
    ) -> None:
        """The responses to those whom no quota refuses, as many as fit together."""
        replicas, settings, cells = self._replicas, self._settings, len(idle)
        rows, cell, lacks = asked.rows, asked.cell, asked.lacks
        one = np.minimum(lacks, settings.partition_bytes_max) * allowed
        one_bytes = np.minimum(sums(cell, one, cells), settings.response_bytes_max)
        takes_s = settings.round_trip_s + one_bytes / rate
        threads = idle.astype(np.float64)
        sharing = sums(self._sensors, np.concatenate((threads, threads)), 2 * self._brokers)[self._sensors]
        counted = np.concatenate(
            (sums(cell, one * asked.leader_listed, cells), sums(cell, one * asked.follower_listed, cells))
        )
        passes = _passes(asked.room, counted * sharing, np.concatenate((takes_s, takes_s)) * asked.grows)
        times = np.minimum(np.floor(time_left_s / takes_s), np.minimum(passes[:cells], passes[cells:]))
        times = np.maximum(times, 1.0)

        wanted = np.minimum(lacks, settings.partition_bytes_max * times[cell]) * allowed
        fits = settings.response_bytes_max * times
        whole = (wanted >= lacks) & allowed
        if np.count_nonzero(whole):
            small = sums(cell, wanted * whole, cells)
            big = sums(cell, wanted, cells) - small
            share_small = np.minimum(1.0, fits / np.maximum(small, 1.0))
            share_big = np.minimum(np.maximum(fits - small, 0.0) / np.maximum(big, 1.0), 1.0)
            granted = wanted * np.where(whole, share_small[cell], share_big[cell])
            self._whole[rows] = whole & (share_small[cell] >= 1.0)
        else:
            granted = wanted * np.minimum(fits / np.maximum(sums(cell, wanted, cells), 1.0), 1.0)[cell]
        self._in_flight[rows] = granted

        self._spread_s[idle] = ((times - 1.0) * takes_s)[idle]
        first_s = after_s + settings.round_trip_s
        last_s = first_s + self._spread_s
        self._record(replicas.cell_leader[cell], granted * asked.leader_listed, first_s[cell], last_s[cell])
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


def _passes(room: Floats, counted: Floats, grows: Floats) -> Floats:
    """How many requests a quota lets pass, one after the other, before it refuses one.

    Args:
        room: bytes before the first; nothing is asked where it is negative.
        counted: bytes by which each lessens it.
        grows: bytes by which the window widens while each is under way.
    """
    lessens = counted - grows
    passes = np.floor(np.maximum(room, 0.0) / np.maximum(lessens, 1.0)) + 1.0
    return np.where((counted > 0.0) & (lessens > 0.0), passes, np.inf)
