"""Computes the fields of ``BrokerSignal`` from the counters and gauges of one scrape.

Rates are increases between the first and the last scrape of the window that saw the broker.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streaming.shared.contract import BrokerSignal, Side, ThrottledBy
from tuner.simulation.cluster import TOTALS, Cluster
from tuner.simulation.latency import client_mean_ms, client_p99_ms
from tuner.simulation.numbers import Floats, sums
from tuner.simulation.side_loads import CounterSample

CLUSTER = "simulated"


class BrokerFigures:
    def __init__(self, cluster: Cluster, history: Sequence[CounterSample]) -> None:
        self._cluster = cluster
        now = self._now = history[-1]
        seen = np.array([scrape.seen for scrape in history])
        self.samples: list[int] = seen.sum(axis=0).tolist()
        first = seen.argmax(axis=0)
        at_s = np.array([scrape.at_ms / 1000 for scrape in history])
        totals = np.array([scrape.totals for scrape in history])
        brokers = np.arange(cluster.count)
        over_s = at_s[-1] - at_s[first]
        passed = (now.totals - totals[first, :, brokers].T) / np.maximum(over_s, 1e-9)
        self._rates: dict[str, list[float]] = dict(zip(TOTALS, passed.tolist(), strict=True))
        by_kind = dict(zip(TOTALS, passed, strict=True))
        for direction in ("in", "out"):
            replication = by_kind[f"steady_{direction}"] + by_kind[f"catch_up_{direction}"]
            self._rates[f"replication_{direction}"] = replication.tolist()
            self._rates[f"network_{direction}"] = (replication + by_kind[f"client_{direction}"]).tolist()
        # The last earlier scrape that saw the broker; this one itself if there is none.
        before = len(history) - 1 - np.maximum(seen[:-1][::-1].argmax(axis=0) + 1, 1) if len(history) > 1 else first
        interval_s = at_s[-1] - at_s[before]
        step_means = (now.totals - totals[before, :, brokers].T) / np.maximum(interval_s, 1e-9)
        self._step_s: list[float] = interval_s.tolist()
        newest = dict(zip(TOTALS, step_means, strict=True))
        self._steps: dict[str, list[float]] = {}
        for direction in ("in", "out"):
            catch_up = newest[f"catch_up_{direction}"]
            self._steps[f"reassignment_{direction}"] = catch_up.tolist()
            self._steps[f"network_{direction}"] = (
                catch_up + newest[f"steady_{direction}"] + newest[f"client_{direction}"]
            ).tolist()
        used = step_means[-1]
        self._p99_ms: list[float] = client_p99_ms(used, cluster.world.latency).tolist()
        self._mean_ms: list[float] = self._window_mean_ms(at_s, totals[:, -1], first).tolist()
        self._idle: list[float] = np.clip(1.0 - used, 0.0, 1.0).tolist()
        self._measured: list[float] = cluster.quotas.rate_bytes_per_s.tolist()
        self._gauges()

    def _window_mean_ms(self, at_s: Floats, busy_s: Floats, first: NDArray[np.intp]) -> Floats:
        """Returns the mean latency over all steps since the broker was first seen; counters go on during lost scrapes."""
        dt_s = np.diff(at_s)[:, None]
        inside = np.arange(len(dt_s))[:, None] >= first
        waited = client_mean_ms(np.diff(busy_s, axis=0) / np.maximum(dt_s, 1e-9), self._cluster.world.latency) * dt_s
        mean: Floats = (waited * inside).sum(axis=0) / np.maximum((dt_s * inside).sum(axis=0), 1e-9)
        return mean

    def _gauges(self) -> None:
        cluster, replicas, count = self._cluster, self._cluster.replicas, self._cluster.count
        present = replicas.present
        led = replicas.leader >= 0
        self._partitions: list[int] = np.bincount(replicas.broker[present], minlength=count).tolist()
        self._leaders: list[int] = np.bincount(replicas.leader[led], minlength=count).tolist()
        in_sync = np.bincount(replicas.partition[present & replicas.in_sync], minlength=len(led))
        needs = np.minimum(np.bincount(replicas.partition[present], minlength=len(led)), cluster.world.min_in_sync)
        self._under_min: list[int] = np.bincount(replicas.leader[led & (in_sync < needs)], minlength=count).tolist()
        behind = replicas.behind
        lag_messages = self._now.reported_lag / cluster.world.record_bytes
        self._lag_sum: list[float] = sums(replicas.broker[behind], lag_messages[behind], count).tolist()
        largest: Floats = np.zeros(count)
        np.maximum.at(largest, replicas.broker[behind], lag_messages[behind])
        self._lag_max: list[float] = largest.tolist()

    def signal(self, i: int, window_end_ms: int, completeness: float) -> BrokerSignal:
        cluster, samples = self._cluster, self.samples[i]
        broker, rates = cluster.replicas.brokers[i], cluster.controller.rates
        several = samples > 1  # A single scrape yields no rate.

        def rate(kind: str) -> float | None:
            return self._rates[kind][i] if several else None

        def step(kind: str) -> float | None:
            return self._steps[kind][i] if several else None

        p99_ms = self._p99_ms[i] if several else None
        return BrokerSignal(
            CLUSTER,
            broker,
            window_end_ms=window_end_ms,
            sampled_at_ms=self._now.at_ms,
            samples=samples,
            completeness=completeness,
            leader_throttled_bytes_per_s=self._measured[i],
            follower_throttled_bytes_per_s=self._measured[i + cluster.count],
            throttled_by=ThrottledBy.QUOTA,
            leader_rate_bytes_per_s=rates.get((broker, Side.LEADER)),
            follower_rate_bytes_per_s=rates.get((broker, Side.FOLLOWER)),
            replication_in_bytes_per_s=rate("replication_in"),
            replication_out_bytes_per_s=rate("replication_out"),
            reassignment_in_bytes_per_s=rate("catch_up_in"),
            reassignment_out_bytes_per_s=rate("catch_up_out"),
            client_in_bytes_per_s=rate("client_in"),
            client_out_bytes_per_s=rate("client_out"),
            network_in_bytes_per_s=rate("network_in"),
            network_out_bytes_per_s=rate("network_out"),
            step_s=self._step_s[i] if several else None,
            step_reassignment_in_bytes_per_s=step("reassignment_in"),
            step_reassignment_out_bytes_per_s=step("reassignment_out"),
            step_network_in_bytes_per_s=step("network_in"),
            step_network_out_bytes_per_s=step("network_out"),
            produce_p99_ms=p99_ms,
            produce_mean_ms=self._mean_ms[i] if several else None,
            fetch_p99_ms=p99_ms,
            request_handler_idle_ratio=self._idle[i] if several else None,
            isr_shrinks_per_s=rate("isr_shrinks"),
            isr_expands_per_s=rate("isr_expands"),
            replica_lag_max_messages=self._lag_max[i],
            replica_lag_sum_messages=self._lag_sum[i],
            under_min_isr_partitions=float(self._under_min[i]),
            partitions=float(self._partitions[i]),
            leaders=float(self._leaders[i]),
        )
