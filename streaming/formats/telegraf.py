"""What Telegraf's jolokia2 plugin calls things, and which of them are ours; shared by its two wire formats.

A Telegraf metric is a measurement with tags and fields: one MBean, or several with the same tags. Both the example
configuration that comes with Telegraf and the one that comes with us (conf/collectors/telegraf.conf) are understood,
together or alone; ``FIELDS`` is the whole of it. Whatever else is on the topic, cpu and disks or a topic's own traffic,
is good and holds nothing of ours: no scrape, and no reject even if its host is unknown.

A measurement is known by how its name ends: ``kafka_topics``, ``prod.kafka.topics`` and ``topics`` are the same, since
everybody may choose ``name_prefix``. What only happens to end so has none of the fields.

Vocabulary:
    kind     the end of the measurement's name that is a key of ``FIELDS``; "" when there is none.
    metric   one measurement at one time: a struct with a field ``kind``, otherwise as its format has it; ``Reader`` says
             how to look into it.
    told     the node id as the tag has it, which need not be a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats.common import NO_NODE, SAMPLES_TYPE, Source, is_number, let, node_of, scrape
from streaming.formats.prometheus_names import REQUESTS
from streaming.shared.contract import Metric, NodeRole

# Kind → field → name. The first four are in Telegraf's own example, the others in ours.
FIELDS: dict[str, dict[str, str]] = {
    "topics": {
        "BytesInPerSec.Count": Metric.CLIENT_IN,
        "BytesOutPerSec.Count": Metric.CLIENT_OUT,
        "ReplicationBytesInPerSec.Count": Metric.REPLICATION_IN,
        "ReplicationBytesOutPerSec.Count": Metric.REPLICATION_OUT,
        "ReassignmentBytesInPerSec.Count": Metric.REASSIGNMENT_IN,
        "ReassignmentBytesOutPerSec.Count": Metric.REASSIGNMENT_OUT,
    },
    "replica_manager": {
        "IsrShrinksPerSec.Count": Metric.ISR_SHRINKS,
        "IsrExpandsPerSec.Count": Metric.ISR_EXPANDS,
        "UnderMinIsrPartitionCount.Value": Metric.UNDER_MIN_ISR,
        "PartitionCount.Value": Metric.PARTITION_COUNT,
        "LeaderCount.Value": Metric.LEADER_COUNT,
    },
    "request": {
        "TotalTimeMs.99thPercentile": Metric.TOTAL_TIME_P99,
        "TotalTimeMs.Mean": Metric.TOTAL_TIME_MEAN,
        "TotalTimeMs.Count": Metric.TOTAL_TIME_COUNT,
    },
    "controller": {
        "ActiveControllerCount.Value": Metric.ACTIVE_CONTROLLER,
        "EventQueueTimeMs.99thPercentile": Metric.EVENT_QUEUE_TIME_P99,
        "EventQueueTimeMs.Mean": Metric.EVENT_QUEUE_TIME_MEAN,
        "EventQueueTimeMs.Count": Metric.EVENT_QUEUE_TIME_COUNT,
        "EventQueueProcessingTimeMs.99thPercentile": Metric.EVENT_PROCESSING_P99,
        "EventQueueProcessingTimeMs.Mean": Metric.EVENT_PROCESSING_MEAN,
        "EventQueueProcessingTimeMs.Count": Metric.EVENT_PROCESSING_COUNT,
        "AvgIdleRatio.Value": Metric.CONTROLLER_IDLE,
        "EventQueueOperationsStartedCount.Value": Metric.OPERATIONS_STARTED,
        "EventQueueOperationsTimedOutCount.Value": Metric.OPERATIONS_TIMED_OUT,
        "TimedOutBrokerHeartbeatCount.Value": Metric.HEARTBEATS_TIMED_OUT,
        "GlobalTopicCount.Value": Metric.CLUSTER_TOPICS,
        "GlobalPartitionCount.Value": Metric.CLUSTER_PARTITIONS,
        "ActiveBrokerCount.Value": Metric.ACTIVE_BROKERS,
        "FencedBrokerCount.Value": Metric.FENCED_BROKERS,
        "LastAppliedRecordLagMs.Value": Metric.METADATA_LAG,
        "LastCommittedRecordOffset.Value": Metric.METADATA_COMMITTED,
    },
    "leader_replication": {"byte-rate": Metric.LEADER_THROTTLED},
    "follower_replication": {"byte-rate": Metric.FOLLOWER_THROTTLED},
    "broker_metadata": {"last-applied-record-lag-ms": Metric.BROKER_METADATA_LAG},
    "fetcher_manager": {"MaxLag.Value": Metric.REPLICA_LAG_MAX},
    "request_handler": {"RequestHandlerAvgIdlePercent.OneMinuteRate": Metric.HANDLER_IDLE},
    "socket_server": {"incoming-byte-total": Metric.NETWORK_IN, "outgoing-byte-total": Metric.NETWORK_OUT},
    "request_errors": {"Count": Metric.MUTATIONS_REJECTED},
    "controller_mutation": {
        "mutation-rate": Metric.MUTATION_RATE,
        "tokens": Metric.MUTATION_TOKENS,
        "throttle-time": Metric.MUTATION_THROTTLE_TIME,
    },
}
# Kind → label → tag, labels in their canonical order.
_LABELS: dict[str, dict[str, str]] = {
    "request": {"request": "request"},
    "request_errors": {"request": "request"},
    "socket_server": {"listener": "listener", "networkprocessor": "networkProcessor"},
    "controller_mutation": {"client_id": "client-id", "user": "user"},
}
# Kind → tag → the values that are ours; () for metrics without that tag only.
_ONLY: dict[str, dict[str, tuple[str, ...]]] = {
    # Some fifty kinds of request come, each with its time; these are the ones that clients and replicas wait for.
    "request": {"request": tuple(REQUESTS.values())},
    "request_errors": {"error": ("THROTTLING_QUOTA_EXCEEDED",)},
    "topics": {"topic": ()},  # A topic's own traffic under the name of the sum over all would be added to it.
}
_NODE_TAGS = ("broker_id", "node_id")
_HOST_TAGS = ("jolokia_agent_url", "host")
TAGS = tuple(
    dict.fromkeys(
        [*_NODE_TAGS, *_HOST_TAGS, "cluster", "role"]
        + [tag for labels in _LABELS.values() for tag in labels.values()]
        + [tag for only in _ONLY.values() for tag in only]
    )
)

_KIND = rf"(?:^|[^A-Za-z0-9])({'|'.join(FIELDS)})$"


@dataclass(frozen=True, slots=True)
class Reader:
    """How to look into a metric of one format. Each answer is NULL where the metric has none."""

    tag: Callable[[Column, str], Column]
    number: Callable[[Column, str], Column]  # Of a field; NaN and the infinite may be among them.
    time: Callable[[Column], Column]  # Text; see ``time_ms``.


def kind_of(name: Column) -> Column:
    return F.coalesce(F.regexp_extract(name, _KIND, 1), F.lit(""))


def time_ms(text: Column) -> Column:
    """Epoch ms from s, ms, µs or ns, told apart by their size (until the year 5138), or from a date with its time."""
    n = text.try_cast("long")
    within = [n.between(-(10**digits), 10**digits) for digits in (11, 14, 17)]
    epoch = (
        F.when(within[0], n * 1000)
        .when(within[1], n)
        .when(within[2], F.call_function("div", n, F.lit(10**3)))
        .when(n.isNotNull(), F.call_function("div", n, F.lit(10**6)))
    )
    return F.coalesce(epoch, F.unix_millis(text.try_cast("timestamp")))


def scrapes(reason: Column, metrics: Column, reader: Reader, source: Source) -> Column:
    """Of a record: a scrape for each metric with samples, or the one of a refused record.

    A record is refused whole: half of it in the signals and half of it in the rejects would be neither.

    Args:
        reason: why the format refuses the record.
        metrics: those of the record, when it does not.
    """
    return let(reason, lambda why: F.when(why.isNotNull(), _refusal(why)).otherwise(_good(metrics, reader, source)))


def _refusal(reason: Column) -> Column:
    none = F.lit(None)
    return F.array(scrape(reason=reason, cluster=none, node=none, role=none, ts=none, samples=none))


def _good(metrics: Column, reader: Reader, source: Source) -> Column:
    ours = F.filter(metrics, lambda m: m["kind"] != "")
    read = F.filter(F.transform(ours, lambda m: _read(m, reader)), lambda r: F.size(r["samples"]) > 0)
    return let(F.transform(read, lambda r: _judged(r, source)), _one_refused_or_all)


def _read(m: Column, reader: Reader) -> Column:
    return F.struct(
        F.coalesce(*[reader.tag(m, tag) for tag in _NODE_TAGS]).alias("told"),
        *[reader.tag(m, tag).alias(tag) for tag in (*_HOST_TAGS, "cluster", "role")],
        reader.time(m).alias("time"),
        _samples(m, reader).alias("samples"),
    )


def _judged(r: Column, source: Source) -> Column:
    # The agent's address first: one Telegraf may ask the agents of many brokers, all from its own host.
    node = F.coalesce(*[node_of(r["told"], r[tag], source) for tag in _HOST_TAGS])
    ts = time_ms(r["time"])
    reason = (
        F.when(
            node.isNull() & r["told"].isNotNull(),
            F.concat(F.lit("no node: the tag broker_id is not a whole number: "), r["told"][0:40]),
        )
        .when(node.isNull(), _no_node(F.concat_ws(" at ", r["host"], r["jolokia_agent_url"])))
        .when(
            r["time"].isNotNull() & ts.isNull(),
            F.concat(F.lit("timestamp is neither a whole number nor a date: "), r["time"][0:40]),
        )
    )
    return scrape(
        reason=reason,
        cluster=F.coalesce(r["cluster"], F.lit(source.cluster)),
        node=node,
        role=F.when(r["role"].isin([role.value for role in NodeRole]), r["role"]),
        ts=ts,
        samples=r["samples"],
    )


def _no_node(where: Column) -> Column:
    before, after = NO_NODE.split("{}")
    named = F.when(where == "", "its sender, which names no host,").otherwise(where[0:200])
    return F.concat(F.lit(before), named, F.lit(after))


def _one_refused_or_all(judged: Column) -> Column:
    refused = F.filter(judged, lambda r: r["reason"].isNotNull())
    return F.when(F.exists(judged, lambda r: r["reason"].isNotNull()), F.slice(refused, 1, 1)).otherwise(judged)


def _samples(m: Column, reader: Reader) -> Column:
    found = F.when(F.lit(False), F.array().cast(SAMPLES_TYPE))
    for kind, fields in FIELDS.items():
        pairs = [
            # A client id may hold what separates labels; Kafka writes users so anyway.
            F.concat(
                F.lit(f"{label}="),
                F.replace(F.replace(reader.tag(m, tag), F.lit("="), F.lit("%3D")), F.lit(","), F.lit("%2C")),
            )
            for label, tag in _LABELS.get(kind, {}).items()
        ]
        labels = F.concat_ws(",", *pairs) if pairs else F.lit("")
        samples = [
            F.struct(F.lit(name).alias("n"), labels.alias("l"), reader.number(m, field).alias("v"))
            for field, name in fields.items()
        ]
        is_it = m["kind"] == kind
        for tag, values in _ONLY.get(kind, {}).items():
            value = reader.tag(m, tag)
            is_it &= F.coalesce(value.isin(list(values)), F.lit(False)) if values else value.isNull()
        found = found.when(is_it, F.array(*samples))
    return F.filter(found.otherwise(F.array().cast(SAMPLES_TYPE)), lambda s: is_number(s.v))
