"""Simulates the stream of signals, with the delays and losses that the world defines.

Each scrape reads all brokers at once. The scrape of a broker may be lost, and the signals of a broker arrive some seconds later.
The fields have the same meaning as in the contract, with two differences:

- The world defines the time that the client p99 covers (latency_signal.py).
- The busy ratio of request handlers is the utilisation of the broker's busier direction in the last scrape interval.

If scrapes of a broker are lost, its step is the sum over the lost scrapes too. A partition counts in this sum only for the scrapes
between which it moved.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

import numpy as np

from streaming.shared.contract import MoveSignal, MoveStep, Side, Signal
from tuner.simulation.broker_figures import CLUSTER, BrokerFigures
from tuner.simulation.cluster import Cluster
from tuner.simulation.latency_signal import P99Signal
from tuner.simulation.numbers import sums
from tuner.simulation.side_loads import CounterSample, SideLoads, fit_slope
from tuner.simulation.world import SignalOutage

_SLIDE_MS = 5_000  # Windows end at multiples of this time, as in the production stream.
_USUAL_STEP_S = 5.0  # The usual time between two scrapes.


@dataclass(slots=True)
class _Sum:
    """The sums, in bytes, of one side of one broker since its last successful scrape."""

    dt_s: float = 0.0
    gained: float = 0.0
    written: float = 0.0
    lag_change: float = 0.0
    moving: bool = False


class Stream:
    """Scrapes the simulated cluster and delivers signals with delay; ``arrived`` returns the signals."""

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
        self._p99 = P99Signal(cluster)
        self._next_s = 0.0
        self._in_transit: list[tuple[float, int, Signal]] = []  # A heap: (time of arrival, order, signal).
        self._sent = 0

    def advance(self) -> None:
        """Scrapes if a scrape is due."""
        now_s = self._cluster.now_s
        self._p99.advance()
        if now_s + 1e-9 >= self._next_s:
            self._next_s += self._delivery.scrape_every_s
            self._scrape(now_s)

    def arrived(self) -> list[Signal]:
        """Returns the signals that have arrived since the last call, in order of arrival."""
        arrived = []
        while self._in_transit and self._in_transit[0][0] <= self._cluster.now_s:
            arrived.append(heapq.heappop(self._in_transit)[2])
        return arrived

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
        loads, figures = SideLoads(cluster, self._history), BrokerFigures(cluster, self._history, self._p99)
        for i in np.flatnonzero(now.seen).tolist():
            due_s = now_s + float(delay_s[i])
            for signal in self._signals(i, now, loads, figures):
                self._sent += 1
                heapq.heappush(self._in_transit, (due_s, self._sent, signal))

    def _add_step(self, before: CounterSample, now: CounterSample) -> None:
        """Adds the step between two scrapes to the sums of every side with moving partitions."""
        replicas, count = self._cluster.replicas, self._cluster.count
        rows = np.flatnonzero(before.adding | now.adding)
        dt_s = (now.at_ms - before.at_ms) / 1000
        if len(rows) == 0:
            return
        partition, target = replicas.partition[rows], replicas.broker[rows]
        written = (now.written - before.written)[partition]
        gained = now.gained[rows] - before.gained[rows]
        # A replica that is new in this scrape has no change yet.
        lag_change = np.where(before.adding[rows], now.lag[rows] - before.lag[rows], 0.0)
        source = replicas.leader[partition]
        led = source >= 0
        # A partition counts once on the leader side, also if several replicas are added.
        is_first_row = np.zeros(len(rows), dtype=np.bool_)
        is_first_row[np.unique(partition, return_index=True)[1]] = True
        moving_in, moving_out = np.bincount(target, minlength=count), np.bincount(source[led], minlength=count)
        sums_in = [sums(target, values, count) for values in (gained, written, lag_change)]
        leader_values = (gained * 0.0, written * is_first_row, lag_change)  # A leader gains nothing.
        sums_out = [sums(source[led], values[led], count) for values in leader_values]
        for side, moving, side_sums in ((Side.FOLLOWER, moving_in, sums_in), (Side.LEADER, moving_out, sums_out)):
            for i in np.flatnonzero(moving):
                side_sum = self._sums.setdefault((int(i), side), _Sum())
                side_sum.dt_s += dt_s
                side_sum.gained += float(side_sums[0][i])
                side_sum.written += float(side_sums[1][i])
                side_sum.lag_change += float(side_sums[2][i])
                side_sum.moving = True

    def _signals(self, i: int, now: CounterSample, loads: SideLoads, figures: BrokerFigures) -> list[Signal]:
        """Returns the signals of one broker, and of each of its sides with partitions that move, are listed or have ended."""
        samples = figures.samples[i]
        completeness = samples * self._delivery.scrape_every_s / self._delivery.window_s
        window_end_ms = self._window_end_ms(now.at_ms)
        signals: list[Signal] = [figures.signal(i, window_end_ms, completeness)]
        for side in (Side.LEADER, Side.FOLLOWER):
            steps, side_sum = self._steps.get((i, side)), self._sums.pop((i, side), None)
            if steps is None:
                if side_sum is None and not (loads.listed[side][i] or loads.moving[side][i]):
                    continue
                steps = self._steps[(i, side)] = deque()
            if side_sum is not None:
                step = MoveStep(
                    now.at_ms,
                    side_sum.dt_s,
                    gained_bytes=side_sum.gained,
                    written_bytes=side_sum.written,
                    remaining_bytes=loads.remaining[side][i],
                )
                steps.append((step, side_sum.lag_change))
            # A step that ended this long ago began before the window.
            while steps and now.at_ms - steps[0][0].at_ms >= (self._delivery.window_s - _USUAL_STEP_S) * 1000:
                steps.popleft()
            if loads.moving[side][i] or loads.listed[side][i] or loads.done[side][i]:
                slope, r2 = fit_slope(steps)
                gains = [step.at_ms for step, _ in steps if step.gained_bytes > 0]
                signals.append(
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
        return signals

    def _window_end_ms(self, at_ms: int) -> int:
        return at_ms - at_ms % _SLIDE_MS + _SLIDE_MS
