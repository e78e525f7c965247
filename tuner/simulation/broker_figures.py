"""Computes the fields of ``BrokerSignal`` from the counters and gauges of one scrape.

A rate is the increase of a counter ÷ time, between the first and the last scrape in the window that reached the broker.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streaming.shared.contract import BrokerSignal, Side, ThrottledBy
from tuner.simulation.cluster import TOTALS, Cluster
from tuner.simulation.latency import client_mean_ms
from tuner.simulation.latency_signal import P99Signal
from tuner.simulation.numbers import Floats, sums
from tuner.simulation.side_loads import CounterSample

CLUSTER = "simulated"


class BrokerFigures:
    """The figures of all brokers at the newest scrape of ``history``; ``signal`` returns the figures of one broker."""

    def __init__(self, cluster: Cluster, history: Sequence[CounterSample], p99: P99Signal) -> None:
        self._cluster = cluster
        newest = self._newest = history[-1]
        seen = np.array([scrape.seen for scrape in history])
        self.samples: list[int] = seen.sum(axis=0).tolist()
        first = seen.argmax(axis=0)  # By broker: the index of the first scrape that saw the broker.
        at_s = np.array([scrape.at_ms / 1000 for scrape in history])
        totals = np.array([scrape.totals for scrape in history])
        brokers = np.arange(cluster.count)
        window_s = at_s[-1] - at_s[first]
        window_means = (newest.totals - totals[first, :, brokers].T) / np.maximum(window_s, 1e-9)
        self._rates: dict[str, list[float]] = dict(zip(TOTALS, window_means.tolist(), strict=True))
        mean_by_kind = dict(zip(TOTALS, window_means, strict=True))
        for direction in ("in", "out"):
            replication = mean_by_kind[f"steady_{direction}"] + mean_by_kind[f"catch_up_{direction}"]
            self._rates[f"replication_{direction}"] = replication.tolist()
            self._rates[f"network_{direction}"] = (replication + mean_by_kind[f"client_{direction}"]).tolist()
        # By broker: the index of the last scrape before the newest that saw the broker. Without this scrape, ``signal`` has no
        # rates.
        previous = first
        if len(history) > 1:
            earlier_newest_first = seen[:-1][::-1]
            previous = len(history) - 2 - earlier_newest_first.argmax(axis=0)
        step_s = at_s[-1] - at_s[previous]
        step_means = (newest.totals - totals[previous, :, brokers].T) / np.maximum(step_s, 1e-9)
        self._step_s: list[float] = step_s.tolist()
        step_mean_by_kind = dict(zip(TOTALS, step_means, strict=True))
        self._steps: dict[str, list[float]] = {}
        for direction in ("in", "out"):
            catch_up = step_mean_by_kind[f"catch_up_{direction}"]
            self._steps[f"reassignment_{direction}"] = catch_up.tolist()
            self._steps[f"network_{direction}"] = (
                catch_up + step_mean_by_kind[f"steady_{direction}"] + step_mean_by_kind[f"client_{direction}"]
            ).tolist()
        utilisation = step_mean_by_kind["utilised_s"]
        self._p99_ms: list[float] = p99.p99_ms(utilisation).tolist()
        self._mean_ms: list[float] = self._window_mean_ms(at_s, totals[:, -1], first).tolist()
        self._idle: list[float] = np.clip(1.0 - utilisation, 0.0, 1.0).tolist()
        self._throttled: list[float] = cluster.quotas.rate_bytes_per_s.tolist()  # Leader sides, then follower sides.
        self._compute_gauges()

    def _window_mean_ms(self, at_s: Floats, utilised_s: Floats, first: NDArray[np.intp]) -> Floats:
        """Returns by broker the mean latency over all steps since the broker was first seen.

        Steps with lost scrapes are included, because the counters continue during lost scrapes.
        """
        dt_s = np.diff(at_s)[:, None]
        inside = np.arange(len(dt_s))[:, None] >= first
        utilisation = np.diff(utilised_s, axis=0) / np.maximum(dt_s, 1e-9)
        weighted_ms = client_mean_ms(utilisation, self._cluster.world.latency) * dt_s
        mean: Floats = (weighted_ms * inside).sum(axis=0) / np.maximum((dt_s * inside).sum(axis=0), 1e-9)
        return mean

    def _compute_gauges(self) -> None:
        cluster, replicas, count = self._cluster, self._cluster.replicas, self._cluster.count
        present = replicas.present
        led = replicas.leader >= 0
        self._partitions: list[int] = np.bincount(replicas.broker[present], minlength=count).tolist()
        self._leaders: list[int] = np.bincount(replicas.leader[led], minlength=count).tolist()
        in_sync = np.bincount(replicas.partition[present & replicas.in_sync], minlength=len(led))
        min_in_sync = np.minimum(
            np.bincount(replicas.partition[present], minlength=len(led)), cluster.world.min_in_sync
        )
        under_min = led & (in_sync < min_in_sync)
        self._under_min_isr: list[int] = np.bincount(replicas.leader[under_min], minlength=count).tolist()
        behind = replicas.behind
        lag_messages = self._newest.reported_lag / cluster.world.record_bytes
        self._lag_sum: list[float] = sums(replicas.broker[behind], lag_messages[behind], count).tolist()
        largest: Floats = np.zeros(count)
        np.maximum.at(largest, replicas.broker[behind], lag_messages[behind])
        self._lag_max: list[float] = largest.tolist()

    def signal(self, i: int, window_end_ms: int, completeness: float) -> BrokerSignal:
        """Returns the signal of the broker with this index; its rates are None if only one scrape saw the broker."""
        cluster, samples = self._cluster, self.samples[i]
        broker, rates = cluster.replicas.brokers[i], cluster.controller.rates
        has_rates = samples > 1

        def rate(kind: str) -> float | None:
            return self._rates[kind][i] if has_rates else None

        def step(kind: str) -> float | None:
            return self._steps[kind][i] if has_rates else None

        p99_ms = self._p99_ms[i] if has_rates else None
        return BrokerSignal(
            CLUSTER,
            broker,
            window_end_ms=window_end_ms,
            sampled_at_ms=self._newest.at_ms,
            samples=samples,
            completeness=completeness,
            leader_throttled_bytes_per_s=self._throttled[i],
            follower_throttled_bytes_per_s=self._throttled[i + cluster.count],
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
            step_s=self._step_s[i] if has_rates else None,
            step_reassignment_in_bytes_per_s=step("reassignment_in"),
            step_reassignment_out_bytes_per_s=step("reassignment_out"),
            step_network_in_bytes_per_s=step("network_in"),
            step_network_out_bytes_per_s=step("network_out"),
            produce_p99_ms=p99_ms,
            produce_mean_ms=self._mean_ms[i] if has_rates else None,
            fetch_p99_ms=p99_ms,
            request_handler_idle_ratio=self._idle[i] if has_rates else None,
            isr_shrinks_per_s=rate("isr_shrinks"),
            isr_expands_per_s=rate("isr_expands"),
            replica_lag_max_messages=self._lag_max[i],
            replica_lag_sum_messages=self._lag_sum[i],
            under_min_isr_partitions=float(self._under_min_isr[i]),
            partitions=float(self._partitions[i]),
            leaders=float(self._leaders[i]),
        )
