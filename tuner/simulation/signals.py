"""What the stream would say of the simulated cluster: its signals, as late and as incomplete as the world wants them.

Every scrape looks at all brokers at once; each broker's look may be lost, and its signals arrive some seconds later. The
meaning of every field is the contract's. The client p99 is that of the last scrape interval, where Kafka's histogram would
still remember minutes; the mean beside it is of the whole window, as it is there. Request handlers are as busy
as the busiest direction of their broker was in that interval.

A step that spans a lost scrape is the sum of its parts, so a partition that came or went inside counts by its part of it.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

import numpy as np

from streaming.shared.contract import MoveSignal, MoveStep, Side, Signal
from tuner.simulation.broker_figures import CLUSTER, BrokerFigures
from tuner.simulation.cluster import Cluster
from tuner.simulation.numbers import sums
from tuner.simulation.side_loads import CounterSample, SideLoads, fit_slope
from tuner.simulation.world import SignalOutage


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
        self._history: deque[CounterSample] = deque(maxlen=scrapes)
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
        now = CounterSample(
            at_ms=self._epoch_ms + round(now_s * 1000),
            written=replicas.written_bytes.copy(),
            gained=replicas.gained_bytes.copy(),
            lag=replicas.lag_bytes.copy(),
            reported_lag=replicas.reported_lag_bytes.copy(),
            adding=replicas.adding.copy(),
            totals=cluster.totals.copy(),
            seen=replicas.alive & ~lost,
        )
        if self._history:
            self._add_step(self._history[-1], now)
        self._history.append(now)
        loads, figures = SideLoads(cluster, self._history), BrokerFigures(cluster, self._history)
        for i in np.flatnonzero(now.seen).tolist():
            due_s = now_s + float(delay_s[i])
            for signal in self._signals(i, now, loads, figures):
                self._sent += 1
                heapq.heappush(self._on_the_way, (due_s, self._sent, signal))

    def _add_step(self, before: CounterSample, now: CounterSample) -> None:
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

    def _signals(self, i: int, now: CounterSample, loads: SideLoads, figures: BrokerFigures) -> list[Signal]:
        samples = figures.samples[i]
        completeness = samples * self._delivery.scrape_every_s / self._delivery.window_s
        window_end_ms = self._window_end_ms(now.at_ms)
        found: list[Signal] = [figures.signal(i, window_end_ms, completeness)]
        for side in (Side.LEADER, Side.FOLLOWER):
            steps, book = self._steps.get((i, side)), self._sums.pop((i, side), None)
            if steps is None:
                if book is None and not (loads.listed[side][i] or loads.moving[side][i]):
                    continue
                steps = self._steps[(i, side)] = deque()
            if book is not None:
                step = MoveStep(now.at_ms, book.dt_s, book.gained, book.written, loads.remaining[side][i])
                steps.append((step, book.closed))
            while steps and now.at_ms - steps[0][0].at_ms >= (self._delivery.window_s - 5.0) * 1000:
                steps.popleft()
            if loads.moving[side][i] or loads.listed[side][i] or loads.done[side][i]:
                slope, r2 = fit_slope(steps)
                gains = [step.at_ms for step, _ in steps if step.gained_bytes > 0]
                found.append(
                    MoveSignal(
                        CLUSTER,
                        self._cluster.replicas.brokers[i],
                        side,
                        window_end_ms=window_end_ms,
                        sampled_at_ms=now.at_ms,
                        samples=samples,
                        completeness=completeness,
                        moving_partitions=int(loads.moving[side][i]),
                        listed_partitions=int(loads.listed[side][i]),
                        done_partitions=int(loads.done[side][i]),
                        remaining_bytes=loads.remaining[side][i],
                        lag_messages=loads.lag_messages[i] if side is Side.FOLLOWER else None,
                        remaining_slope_bytes_per_s=slope,
                        remaining_slope_r2=r2,
                        steady_state_bytes_per_s=loads.steady_state[side][i] if samples > 1 else None,
                        write_bytes_per_s=loads.write[side][i] if samples > 1 else None,
                        progress_age_s=(now.at_ms - max(gains)) / 1000 if gains else None,
                        steps=tuple(step for step, _ in steps),
                        largest=loads.largest[side].get(i, ()),
                    )
                )
        return found

    def _window_end_ms(self, at_ms: int) -> int:
        hop_ms = 5_000
        return at_ms - at_ms % hop_ms + hop_ms
