"""What the stream would say of the simulated cluster: its signals, as late and as incomplete as the world wants them.

Every scrape looks at all brokers at once; each broker's look may be lost, and its signals arrive some seconds later. The
meaning of every field is contract.py's; what the simulation has no model of stays None: lag in messages, handler idle,
under-min-ISR and the largest partitions. The client p99 is that of the last scrape interval, where Kafka's histogram would
still remember minutes.

A step that spans a lost scrape is the sum of its parts, so a partition that came or went inside counts by its part of it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streaming.contract import BrokerSignal, MoveSignal, MoveStep, Side, Signal, ThrottledBy
from tuner.simulation.cluster import TOTALS, Cluster
from tuner.simulation.latency import client_p99_ms
from tuner.simulation.numbers import Bools, Floats, sums
from tuner.simulation.world import SignalOutage

CLUSTER = "simulated"


@dataclass(frozen=True, slots=True)
class _Scrape:
    """Everything that counters showed at one moment; copies."""

    at_ms: int
    written: Floats  # By partition.
    gained: Floats  # By row.
    lag: Floats
    adding: Bools
    totals: Floats  # By kind and broker.
    seen: Bools  # By broker: not lost.


@dataclass(slots=True)
class _Sum:
    """One side of one broker since its last scrape that was not lost."""

    dt_s: float = 0.0
    gained: float = 0.0
    written: float = 0.0
    closed: float = 0.0
    moving: bool = False


class Stream:
    def __init__(self, cluster: Cluster, epoch_ms: int) -> None:
        self._cluster = cluster
        self._epoch_ms = epoch_ms
        self._delivery = cluster.world.delivery
        self._rng = np.random.default_rng([cluster.world.seed, 3])
        self._outages = [d for d in cluster.world.disturbances if isinstance(d, SignalOutage)]
        scrapes = max(2, round(self._delivery.window_s / self._delivery.scrape_every_s))
        self._history: deque[_Scrape] = deque(maxlen=scrapes)
        self._sums: dict[tuple[int, Side], _Sum] = {}
        self._steps: dict[tuple[int, Side], deque[tuple[MoveStep, float]]] = {}
        self._next_s = 0.0
        self._on_the_way: list[tuple[float, int, Signal]] = []
        self._sent = 0

    def advance(self) -> None:
        """Scrapes when it is time to."""
        now_s = self._cluster.now_s
        if now_s + 1e-9 >= self._next_s:
            self._next_s += self._delivery.scrape_every_s
            self._scrape(now_s)

    def arrived(self) -> list[Signal]:
        """What has come by now and was not taken yet, in the order of arrival."""
        found = []
        while self._on_the_way and self._on_the_way[0][0] <= self._cluster.now_s:
            found.append(heapq.heappop(self._on_the_way)[2])
        return found

    def _scrape(self, now_s: float) -> None:
        cluster, replicas, delivery = self._cluster, self._cluster.replicas, self._delivery
        lost = self._rng.random(cluster.count) < delivery.loss_ratio
        delay_s = self._rng.uniform(delivery.delay_s_min, delivery.delay_s_max, cluster.count)
        for outage in self._outages:
            if outage.at_s <= now_s < outage.until_s:
                lost[[replicas.index_of[b] for b in outage.brokers]] = True
        now = _Scrape(
            at_ms=self._epoch_ms + round(now_s * 1000),
            written=replicas.written_bytes.copy(),
            gained=replicas.gained_bytes.copy(),
            lag=replicas.lag_bytes.copy(),
            adding=replicas.adding.copy(),
            totals=cluster.totals.copy(),
            seen=replicas.alive & ~lost,
        )
        if self._history:
            self._add_step(self._history[-1], now)
        self._history.append(now)
        loads = _SideLoads(cluster, self._history)
        for i in np.flatnonzero(now.seen):
            due_s = now_s + float(delay_s[i])
            for signal in self._signals(int(i), now, loads):
                self._sent += 1
                heapq.heappush(self._on_the_way, (due_s, self._sent, signal))

    def _add_step(self, before: _Scrape, now: _Scrape) -> None:
        """Into the books of every side in which something was moving."""
        replicas, count = self._cluster.replicas, self._cluster.count
        rows = np.flatnonzero(before.adding | now.adding)
        dt_s = (now.at_ms - before.at_ms) / 1000
        if len(rows) == 0:
            return
        # A replica that was not there before has not been seen in both.
        rows = rows[before.adding[rows] | (before.lag[rows] > 0) | now.adding[rows]]
        partition, target = replicas.partition[rows], replicas.broker[rows]
        written = (now.written - before.written)[partition]
        gained = now.gained[rows] - before.gained[rows]
        closed = np.where(before.adding[rows], now.lag[rows] - before.lag[rows], 0.0)
        source = replicas.leader[partition]
        led = source >= 0
        once = np.zeros(len(rows), dtype=np.bool_)
        once[np.unique(partition, return_index=True)[1]] = True  # A partition is written once, to however many it goes.
        moving_in, moving_out = np.bincount(target, minlength=count), np.bincount(source[led], minlength=count)
        sums_in = [sums(target, values, count) for values in (gained, written, closed)]
        sums_out = [sums(source[led], values[led], count) for values in (gained * 0.0, written * once, closed)]
        for side, moving, found in ((Side.FOLLOWER, moving_in, sums_in), (Side.LEADER, moving_out, sums_out)):
            for i in np.flatnonzero(moving):
                book = self._sums.setdefault((int(i), side), _Sum())
                book.dt_s += dt_s
                book.gained += float(found[0][i])
                book.written += float(found[1][i])
                book.closed += float(found[2][i])
                book.moving = True

    def _signals(self, i: int, now: _Scrape, loads: _SideLoads) -> list[Signal]:
        found: list[Signal] = [self._broker(i, now)]
        for side in (Side.LEADER, Side.FOLLOWER):
            steps = self._steps.setdefault((i, side), deque())
            book = self._sums.pop((i, side), None)
            if book is not None:
                step = MoveStep(now.at_ms, book.dt_s, book.gained, book.written, float(loads.remaining[side][i]))
                steps.append((step, book.closed))
            while steps and now.at_ms - steps[0][0].at_ms >= (self._delivery.window_s - 5.0) * 1000:
                steps.popleft()
            if loads.moving[side][i] or loads.listed[side][i] or loads.done[side][i]:
                found.append(self._move(i, side, now, loads, list(steps)))
        return found

    def _move(
        self, i: int, side: Side, now: _Scrape, loads: _SideLoads, steps: Sequence[tuple[MoveStep, float]]
    ) -> MoveSignal:
        samples = self._samples(i)
        slope, r2 = slope_of(steps)
        gains = [step.at_ms for step, _ in steps if step.gained_bytes > 0]
        keep_up, write = loads.keep_up, loads.write
        return MoveSignal(
            CLUSTER,
            self._cluster.replicas.brokers[i],
            side,
            window_end_ms=self._window_end_ms(now.at_ms),
            sampled_at_ms=now.at_ms,
            samples=samples,
            completeness=samples * self._delivery.scrape_every_s / self._delivery.window_s,
            moving_partitions=int(loads.moving[side][i]),
            listed_partitions=int(loads.listed[side][i]),
            done_partitions=int(loads.done[side][i]),
            remaining_bytes=float(loads.remaining[side][i]),
            remaining_slope_bytes_per_s=slope,
            remaining_slope_r2=r2,
            keep_up_bytes_per_s=float(keep_up[side][i]) if samples > 1 else None,
            write_bytes_per_s=float(write[side][i]) if samples > 1 else None,
            progress_age_s=(now.at_ms - max(gains)) / 1000 if gains else None,
            steps=tuple(step for step, _ in steps),
        )

    def _broker(self, i: int, now: _Scrape) -> BrokerSignal:
        cluster = self._cluster
        seen = [scrape for scrape in self._history if scrape.seen[i]]
        oldest, last = seen[0], seen[-2] if len(seen) > 1 else None
        over_s = (now.at_ms - oldest.at_ms) / 1000
        rate = dict.fromkeys(TOTALS, None) if over_s <= 0 else {
            name: float((now.totals[k, i] - oldest.totals[k, i]) / over_s) for k, name in enumerate(TOTALS)
        }  # fmt: skip
        p99_ms = None
        if last is not None:
            used = (now.totals[-1, i] - last.totals[-1, i]) / ((now.at_ms - last.at_ms) / 1000)
            p99_ms = float(client_p99_ms(np.array(used), cluster.world.latency))
        broker = cluster.replicas.brokers[i]
        measured, rates = cluster.quotas.rate_bytes_per_s, cluster.controller.rates
        leader_rate, follower_rate = rates.get((broker, Side.LEADER)), rates.get((broker, Side.FOLLOWER))
        return BrokerSignal(
            CLUSTER,
            broker,
            window_end_ms=self._window_end_ms(now.at_ms),
            sampled_at_ms=now.at_ms,
            samples=len(seen),
            completeness=len(seen) * self._delivery.scrape_every_s / self._delivery.window_s,
            leader_throttled_bytes_per_s=float(measured[i]),
            follower_throttled_bytes_per_s=float(measured[i + cluster.count]),
            throttled_by=ThrottledBy.QUOTA,
            leader_rate_bytes_per_s=leader_rate,
            follower_rate_bytes_per_s=follower_rate,
            replication_in_bytes_per_s=_both(rate["steady_in"], rate["caught_in"]),
            replication_out_bytes_per_s=_both(rate["steady_out"], rate["caught_out"]),
            reassignment_in_bytes_per_s=rate["caught_in"],
            reassignment_out_bytes_per_s=rate["caught_out"],
            client_in_bytes_per_s=rate["client_in"],
            client_out_bytes_per_s=rate["client_out"],
            network_in_bytes_per_s=_both(_both(rate["client_in"], rate["steady_in"]), rate["caught_in"]),
            network_out_bytes_per_s=_both(_both(rate["client_out"], rate["steady_out"]), rate["caught_out"]),
            produce_p99_ms=p99_ms,
            fetch_p99_ms=p99_ms,
        )

    def _samples(self, i: int) -> int:
        return sum(bool(scrape.seen[i]) for scrape in self._history)

    def _window_end_ms(self, at_ms: int) -> int:
        hop_ms = 5_000
        return at_ms - at_ms % hop_ms + hop_ms


class _SideLoads:
    """What every side of every broker has to do, by the newest scrape; rates are those of the window."""

    def __init__(self, cluster: Cluster, history: Sequence[_Scrape]) -> None:
        replicas, count = cluster.replicas, cluster.count
        oldest, now = history[0], history[-1]
        over_s = max((now.at_ms - oldest.at_ms) / 1000, 1e-9)
        rate = (now.written - oldest.written) / over_s
        row_rate, source = rate[replicas.partition], replicas.leader[replicas.partition]
        adding = np.flatnonzero(now.adding & (source >= 0))
        ever = np.flatnonzero(np.logical_or.reduce([s.adding for s in history]) & ~now.adding & (source >= 0))
        on_leader, on_follower = (
            np.flatnonzero(replicas.counted_on_leader),
            np.flatnonzero(replicas.counted_on_follower),
        )
        moving, listed = np.unique(replicas.partition[adding]), np.unique(replicas.partition[on_leader])
        done = np.unique(replicas.partition[ever])
        target, leader = replicas.broker, replicas.leader
        ones = np.ones(len(source))
        self.remaining = {
            Side.FOLLOWER: sums(target[adding], now.lag[adding], count),
            Side.LEADER: sums(source[adding], now.lag[adding], count),
        }
        self.moving = {
            Side.FOLLOWER: sums(target[adding], ones[adding], count),
            Side.LEADER: np.bincount(leader[moving], minlength=count),
        }
        self.listed = {
            Side.FOLLOWER: sums(target[on_follower], ones[on_follower], count),
            Side.LEADER: np.bincount(leader[listed], minlength=count),
        }
        self.done = {
            Side.FOLLOWER: sums(target[ever], ones[ever], count),
            Side.LEADER: np.bincount(leader[done], minlength=count),
        }
        self.keep_up = {
            Side.FOLLOWER: sums(target[on_follower], row_rate[on_follower], count),
            Side.LEADER: sums(source[on_leader], row_rate[on_leader], count),
        }
        self.write = {
            Side.FOLLOWER: sums(target[adding], row_rate[adding], count),
            Side.LEADER: sums(leader[moving], rate[moving], count),
        }


def slope_of(steps: Sequence[tuple[MoveStep, float]]) -> tuple[float | None, float | None]:
    """Least squares through the running sum of what the steps closed: bytes/s and r²; None where two points say nothing."""
    if not steps:
        return None, None
    x = y = sx = sy = sxx = sxy = syy = 0.0  # The first point is (0, 0).
    for step, closed in steps:
        x, y = x + step.dt_s, y + closed
        sx, sy, sxx, sxy, syy = sx + x, sy + y, sxx + x * x, sxy + x * y, syy + y * y
    points = len(steps) + 1
    xx, xy, yy = points * sxx - sx * sx, points * sxy - sx * sy, points * syy - sy * sy
    r2 = 1.0 if yy <= 0 else min(1.0, xy * xy / (xx * yy))
    return xy / xx, r2 if points > 2 else None


def _both(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
