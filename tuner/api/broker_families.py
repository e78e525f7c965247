"""Prometheus metric families of brokers: signal age, client latency and traffic, capacity, number of partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from streaming.shared.contract import BrokerSignal
from streaming.shared.metric_defs import TunerMetric
from streaming.shared.metric_page import Labels, metric_family
from tuner.api.latency_limits import latency_limits
from tuner.api.series_limit import nonzero_values
from tuner.api.status_store import CycleResult, StatusStore
from tuner.core.freshness import age_s
from tuner.core.partition_fill import partition_fills
from tuner.core.partition_limits import PartitionLimits, limit_or_none

Signals = Mapping[int, BrokerSignal]


def broker_families(store: StatusStore, result: CycleResult, now_ms: int, labels: Labels) -> Iterator[Metric]:
    if store.objective is not None:
        limits = latency_limits(store.objective, result.observation)
        yield metric_family(
            TunerMetric.LATENCY_OBJECTIVE_SECONDS,
            {(*labels, str(broker)): limit.p99_ms_max / 1000 for broker, limit in limits.items()},
        )
        finish_at_ms = store.objective.finish_at_ms
        yield metric_family(TunerMetric.DEADLINE, {labels: finish_at_ms / 1000} if finish_at_ms is not None else {})
    yield from _capacity_families(store, labels)
    brokers = result.observation.broker_signals if result.observation is not None else {}
    if not brokers:
        return
    ages = {broker: age_s(signal, now_ms) for broker, signal in brokers.items()}
    yield metric_family(TunerMetric.SIGNAL_AGE_SECONDS, {(*labels, str(b)): age for b, age in ages.items()})
    # A broker without fresh signals is left out: its last values may no longer be true.
    fresh = {b: s for b, s in brokers.items() if ages[b] <= store.limits.signal_age_s_max}
    yield from _traffic_families(fresh, labels)
    yield from _partition_families(store, brokers, now_ms, labels)


def _traffic_families(fresh: Signals, labels: Labels) -> Iterator[Metric]:
    def by_broker(values: Iterator[tuple[int, float | None]]) -> dict[Labels, float]:
        return {(*labels, str(broker)): value for broker, value in values if value is not None}

    def by_direction(
        first_label: str, second_label: str, values: Iterator[tuple[int, float | None, float | None]]
    ) -> dict[Labels, float]:
        series = {}
        for broker, first, second in values:
            if first is not None:
                series[(*labels, str(broker), first_label)] = float(round(first))
            if second is not None:
                series[(*labels, str(broker), second_label)] = float(round(second))
        return series

    yield metric_family(
        TunerMetric.PRODUCE_P99_SECONDS, by_broker((b, _seconds(s.produce_p99_ms)) for b, s in fresh.items())
    )
    yield metric_family(
        TunerMetric.PRODUCE_MEAN_SECONDS, by_broker((b, _seconds(s.produce_mean_ms)) for b, s in fresh.items())
    )
    throttled = ((b, s.leader_throttled_bytes_per_s, s.follower_throttled_bytes_per_s) for b, s in fresh.items())
    yield metric_family(TunerMetric.THROTTLED_BYTES, by_direction("leader", "follower", throttled))
    traffic = ((b, s.client_in_bytes_per_s, s.client_out_bytes_per_s) for b, s in fresh.items())
    yield metric_family(TunerMetric.CLIENT_BYTES, by_direction("in", "out", traffic))
    speeds = by_broker((b, s.link_speed_bytes_per_s) for b, s in fresh.items())
    yield metric_family(TunerMetric.LINK_SPEED_BYTES, speeds)
    yield metric_family(
        TunerMetric.UNDER_MIN_ISR, nonzero_values(by_broker((b, s.under_min_isr_partitions) for b, s in fresh.items()))
    )
    shrinks = [s.isr_shrinks_per_s for s in fresh.values() if s.isr_shrinks_per_s is not None]
    yield metric_family(TunerMetric.ISR_SHRINKS, {labels: sum(shrinks)} if shrinks else {})


def _capacity_families(store: StatusStore, labels: Labels) -> Iterator[Metric]:
    """Yields the configured capacities. An empty broker label means: all brokers without a capacity of their own."""
    if store.capacity is None:
        return
    capacities = {"": store.capacity} | {str(b): capacity for b, capacity in store.capacity_by_broker.items()}
    inbound = {(*labels, broker, "in"): capacity.in_bytes_per_s for broker, capacity in capacities.items()}
    yield metric_family(
        TunerMetric.CAPACITY_BYTES,
        inbound | {(*labels, b, "out"): capacity.out_bytes_per_s for b, capacity in capacities.items()},
    )


def _partition_families(store: StatusStore, brokers: Signals, now_ms: int, labels: Labels) -> Iterator[Metric]:
    """Yields the numbers of partitions and their limits. An empty broker label means: brokers without a limit of their own."""
    limits = store.partition_limits if store.partition_limits is not None else PartitionLimits()
    rows = partition_fills(brokers, limits, now_ms, store.limits.signal_age_s_max, store.read_internal())
    cluster = next((row for row in rows if row.broker is None), None)  # The row of the whole cluster has no broker.
    partitions = {(*labels, str(row.broker)): row.partitions for row in rows if row.broker is not None}
    yield metric_family(TunerMetric.CLUSTER_PARTITIONS, {labels: cluster.partitions} if cluster is not None else {})
    cluster_limit = cluster.limit if cluster is not None else None
    yield metric_family(
        TunerMetric.CLUSTER_PARTITIONS_LIMIT, {labels: float(cluster_limit)} if cluster_limit is not None else {}
    )
    yield metric_family(TunerMetric.PARTITIONS, partitions)
    common_limit = limit_or_none(limits.broker_partitions_max)
    named = {(*labels, str(b)): float(n) for b, n in limits.by_broker.items() if b in brokers}
    yield metric_family(
        TunerMetric.PARTITIONS_LIMIT, ({(*labels, ""): float(common_limit)} if common_limit is not None else {}) | named
    )


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else round(ms / 1000, 6)
