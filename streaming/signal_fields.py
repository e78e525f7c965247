"""Tables that map samples to the fields of signals. No logic.

A row stores its values in arrays, in the order of these tables. The order is therefore part of the checkpoint's format.
"""

from __future__ import annotations

from streaming.formats import cruise_control
from streaming.shared.contract import MUTATION_REFUSED_FROM_VERSION, Metric

SMOOTHED = "_smoothed"  # Suffix of a mean rate from Cruise Control's reporter; used only if a broker has no counter.

# Field → sample name and labels. There are three kinds of labels: "" selects the sample without labels; a tuple selects the sum
# over the labels in the tuple; None selects the sum over all labels or, for a gauge, the largest value.
Labels = str | tuple[str, ...] | None
FieldSamples = dict[str, tuple[str, Labels]]


_VERSION_MAX = 40  # Request versions; Kafka 4.2 has none above 18.


def _old_versions(request: str) -> tuple[str, Labels]:
    """Returns the samples of a kind of request in the versions that Kafka delays instead of refusing."""
    versions = range(MUTATION_REFUSED_FROM_VERSION[request])
    return Metric.REQUESTS_BY_VERSION, tuple(f"request={request},version={version}" for version in versions)


def _refusable_versions() -> tuple[str, Labels]:
    """Returns the samples of all kinds of request in the versions that Kafka can refuse."""
    return Metric.REQUESTS_BY_VERSION, tuple(
        f"request={request},version={version}"
        for request, first in MUTATION_REFUSED_FROM_VERSION.items()
        for version in range(first, _VERSION_MAX)
    )


# A counter is named after the rate that is computed from it.
BROKER_COUNTERS: FieldSamples = {
    "replication_in_bytes_per_s": (Metric.REPLICATION_IN, ""),
    "replication_out_bytes_per_s": (Metric.REPLICATION_OUT, ""),
    "reassignment_in_bytes_per_s": (Metric.REASSIGNMENT_IN, ""),
    "reassignment_out_bytes_per_s": (Metric.REASSIGNMENT_OUT, ""),
    "client_in_bytes_per_s": (Metric.CLIENT_IN, ""),
    "client_out_bytes_per_s": (Metric.CLIENT_OUT, ""),
    "isr_shrinks_per_s": (Metric.ISR_SHRINKS, ""),
    "isr_expands_per_s": (Metric.ISR_EXPANDS, ""),
    "network_in_bytes_per_s": (Metric.NETWORK_IN, None),
    "network_out_bytes_per_s": (Metric.NETWORK_OUT, None),
    "produced_per_s": (Metric.TOTAL_TIME_COUNT, "request=Produce"),  # Not in signals; used by BROKER_TOTALS.
}
BROKER_GAUGES: FieldSamples = {
    "leader_throttled_bytes_per_s": (Metric.LEADER_THROTTLED, ""),
    "follower_throttled_bytes_per_s": (Metric.FOLLOWER_THROTTLED, ""),
    "leader_rate_bytes_per_s": (Metric.LEADER_RATE, ""),
    "follower_rate_bytes_per_s": (Metric.FOLLOWER_RATE, ""),
    "produce_p99_ms": (Metric.TOTAL_TIME_P99, "request=Produce"),
    # Consumers only: a throttled follower's fetches wait long on purpose.
    "fetch_p99_ms": (Metric.TOTAL_TIME_P99, "request=FetchConsumer"),
    "request_handler_idle_ratio": (Metric.HANDLER_IDLE, ""),
    "replica_lag_max_messages": (Metric.REPLICA_LAG_MAX, ""),
    "replica_lag_sum_messages": (Metric.REPLICA_LAG_SUM, ""),
    "under_min_isr_partitions": (Metric.UNDER_MIN_ISR, ""),
    "partitions": (Metric.PARTITION_COUNT, ""),
    "leaders": (Metric.LEADER_COUNT, ""),
    "metadata_lag_ms": (Metric.BROKER_METADATA_LAG, ""),
    # One field for each rate of Cruise Control's reporter.
    **{f"{field}{SMOOTHED}": (name, "") for name, field in cruise_control.RATES.items()},
    "produce_mean": (Metric.TOTAL_TIME_MEAN, "request=Produce"),
    "log_dir_copied_bytes_per_s": (Metric.LOG_DIR_COPIED, ""),
    "link_speed_bytes_per_s": (Metric.LINK_SPEED, None),
}
CONTROLLER_COUNTERS: FieldSamples = {
    "events_per_s": (Metric.EVENT_QUEUE_TIME_COUNT, ""),
    "operations_per_s": (Metric.OPERATIONS_STARTED, ""),
    "operations_timed_out_per_s": (Metric.OPERATIONS_TIMED_OUT, ""),
    "heartbeats_timed_out_per_s": (Metric.HEARTBEATS_TIMED_OUT, ""),
    "mutations_rejected_per_s": (Metric.MUTATIONS_REJECTED, None),
    "metadata_records_per_s": (Metric.METADATA_COMMITTED, ""),
    "create_requests_per_s": (Metric.TOTAL_TIME_COUNT, "request=CreateTopics"),
    "delete_requests_per_s": (Metric.TOTAL_TIME_COUNT, "request=DeleteTopics"),
    "addition_requests_per_s": (Metric.TOTAL_TIME_COUNT, "request=CreatePartitions"),
    "old_create_requests_per_s": _old_versions("CreateTopics"),
    "old_delete_requests_per_s": _old_versions("DeleteTopics"),
    "old_addition_requests_per_s": _old_versions("CreatePartitions"),
    "refusable_requests_per_s": _refusable_versions(),
    # Not in signals; used by CONTROLLER_TOTALS.
    "processed_per_s": (Metric.EVENT_PROCESSING_COUNT, ""),
}
CONTROLLER_GAUGES: FieldSamples = {
    "active": (Metric.ACTIVE_CONTROLLER, ""),
    "event_queue_time_p99_ms": (Metric.EVENT_QUEUE_TIME_P99, ""),
    "event_processing_p99_ms": (Metric.EVENT_PROCESSING_P99, ""),
    "idle_ratio": (Metric.CONTROLLER_IDLE, ""),
    "metadata_lag_ms": (Metric.METADATA_LAG, ""),
    "topics": (Metric.CLUSTER_TOPICS, ""),
    "partitions": (Metric.CLUSTER_PARTITIONS, ""),
    "active_brokers": (Metric.ACTIVE_BROKERS, ""),
    "fenced_brokers": (Metric.FENCED_BROKERS, ""),
    "queue_mean": (Metric.EVENT_QUEUE_TIME_MEAN, ""),
    "processing_mean": (Metric.EVENT_PROCESSING_MEAN, ""),
    "create_mean": (Metric.TOTAL_TIME_MEAN, "request=CreateTopics"),
    "delete_mean": (Metric.TOTAL_TIME_MEAN, "request=DeleteTopics"),
    "addition_mean": (Metric.TOTAL_TIME_MEAN, "request=CreatePartitions"),
}
# Total → mean and count since JVM start. Mean × count is a counter of the milliseconds spent; the total is named after its rate.
Totals = dict[str, tuple[str, str]]

BROKER_TOTALS: Totals = {"produced_ms_per_s": ("produce_mean", "produced_per_s")}
CONTROLLER_TOTALS: Totals = {
    "queued_ms_per_s": ("queue_mean", "events_per_s"),
    "processed_ms_per_s": ("processing_mean", "processed_per_s"),
    "created_ms_per_s": ("create_mean", "create_requests_per_s"),
    "deleted_ms_per_s": ("delete_mean", "delete_requests_per_s"),
    "added_ms_per_s": ("addition_mean", "addition_requests_per_s"),
}
# Field → total and count. Increase of the total ÷ increase of the count = mean over the window.
BROKER_MEANS: Totals = {"produce_mean_ms": ("produced_ms_per_s", "produced_per_s")}
CONTROLLER_MEANS: Totals = {
    "event_queue_time_mean_ms": ("queued_ms_per_s", "events_per_s"),
    "event_processing_mean_ms": ("processed_ms_per_s", "processed_per_s"),
    "create_mean_ms": ("created_ms_per_s", "create_requests_per_s"),
    "delete_mean_ms": ("deleted_ms_per_s", "delete_requests_per_s"),
    "addition_mean_ms": ("added_ms_per_s", "addition_requests_per_s"),
}
TENANT_GAUGES = {
    "mutation_rate_per_s": Metric.MUTATION_RATE,
    "tokens": Metric.MUTATION_TOKENS,
    "throttle_time_ms": Metric.MUTATION_THROTTLE_TIME,
}
# The lags of a follower; which sources send them: streaming/collector/lags.py.
LAG_GAUGES = {
    "partitions": Metric.LAG_PARTITIONS,
    "lag_sum_messages": Metric.LAG_SUM,
    "lag_max_messages": Metric.LAG_MAX,
    "adding_partitions": Metric.LAG_ADDING_PARTITIONS,
    "adding_lag_sum_messages": Metric.LAG_ADDING_SUM,
    "thread_count": Metric.LAG_THREADS,
}
ROW_TABLES = (BROKER_COUNTERS, BROKER_GAUGES, CONTROLLER_COUNTERS, CONTROLLER_GAUGES, TENANT_GAUGES, LAG_GAUGES)
# Samples that identify a node as a broker. Metrics of request handlers, sockets and topics are left out: controllers have them too.
BROKER_ONLY_SAMPLES = sorted(
    {
        Metric.LEADER_THROTTLED,
        Metric.FOLLOWER_THROTTLED,
        Metric.ISR_SHRINKS,
        Metric.ISR_EXPANDS,
        Metric.UNDER_MIN_ISR,
        Metric.PARTITION_COUNT,
        Metric.LEADER_COUNT,
        Metric.REPLICA_LAG_MAX,
        Metric.REPLICA_LAG_SUM,
        *cruise_control.RATES,
    }
)
CONTROLLER_ONLY_SAMPLES = sorted(
    {
        name
        for name, _ in [*CONTROLLER_COUNTERS.values(), *CONTROLLER_GAUGES.values()]
        if name.startswith("kafka_controller_")
    }
)
