"""Maps metrics of Telegraf's jolokia2 plugin to the contract; shared by Telegraf's two wire formats.

A Telegraf metric is a measurement with tags and fields: one MBean, or several with the same tags. ``FIELDS`` lists all supported
fields, both of Telegraf's example configuration and of conf/collectors/telegraf.conf. Other metrics on the topic, for example CPU
or disk, yield neither a scrape nor a reject, even from an unknown host.

A measurement is recognized by the end of its name, because ``name_prefix`` is a user's choice: ``kafka_topics``,
``prod.kafka.topics`` and ``topics`` are the same. Other measurements with such an end have none of the fields.

Vocabulary:
    kind     the end of the measurement's name that is a key of ``FIELDS``; "" if there is none.
    metric   one measurement at one time: a struct with a field ``kind``; its other fields depend on the format and are read by
             ``Reader``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats import link_speeds
from streaming.formats.common import NO_NODE, SAMPLES_TYPE, Source, is_number, let, node_of, scrape
from streaming.formats.prometheus_names import REQUESTS
from streaming.shared.contract import MUTATION_REFUSED_FROM_VERSION, Metric, NodeRole

# Kind → field → name. The first four kinds are in Telegraf's own example, the others in conf/collectors/telegraf.conf.
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
    "log_dir_replication": {"byte-rate": Metric.LOG_DIR_COPIED},
    "broker_metadata": {"last-applied-record-lag-ms": Metric.BROKER_METADATA_LAG},
    "fetcher_manager": {"MaxLag.Value": Metric.REPLICA_LAG_MAX},
    "request_handler": {"RequestHandlerAvgIdlePercent.OneMinuteRate": Metric.HANDLER_IDLE},
    "socket_server": {"incoming-byte-total": Metric.NETWORK_IN, "outgoing-byte-total": Metric.NETWORK_OUT},
    "request_errors": {"Count": Metric.MUTATIONS_REJECTED},
    "request_versions": {"Count": Metric.REQUESTS_BY_VERSION},
    "controller_mutation": {
        "mutation-rate": Metric.MUTATION_RATE,
        "tokens": Metric.MUTATION_TOKENS,
        "throttle-time": Metric.MUTATION_THROTTLE_TIME,
    },
    # Of Telegraf's plugins net and ethtool, in Mbit/s.
    "net": {"speed": Metric.LINK_SPEED},
    "ethtool": {"speed": Metric.LINK_SPEED},
}
# Kinds about the machine. The record's host need not be a broker.
_MACHINE_KINDS = ("net", "ethtool")
# Kind → label → tag, with labels in canonical order.
_LABELS: dict[str, dict[str, str]] = {
    "request": {"request": "request"},
    "request_errors": {"request": "request"},
    "request_versions": {"request": "request", "version": "version"},
    "socket_server": {"listener": "listener", "networkprocessor": "networkProcessor"},
    "controller_mutation": {"client_id": "client-id", "user": "user"},
    "net": {"device": "interface"},
    "ethtool": {"device": "interface"},
}
# Kind → tag → accepted values; () accepts only metrics without that tag.
_ACCEPTED_TAG_VALUES: dict[str, dict[str, tuple[str, ...]]] = {
    # Telegraf sends some fifty request types; only these are used.
    "request": {"request": tuple(REQUESTS.values())},
    "request_errors": {"error": ("THROTTLING_QUOTA_EXCEEDED",)},
    "request_versions": {"request": tuple(MUTATION_REFUSED_FROM_VERSION)},
    "topics": {"topic": ()},  # The traffic of a single topic has the same name as the sum over all topics.
}
_NODE_TAGS = ("broker_id", "node_id")
_HOST_TAGS = ("jolokia_agent_url", "host")
TAGS = tuple(
    dict.fromkeys(
        [*_NODE_TAGS, *_HOST_TAGS, "cluster", "role"]
        + [tag for labels in _LABELS.values() for tag in labels.values()]
        + [tag for accepted in _ACCEPTED_TAG_VALUES.values() for tag in accepted]
    )
)

_KIND = rf"(?:^|[^A-Za-z0-9])({'|'.join(FIELDS)})$"


@dataclass(frozen=True, slots=True)
class Reader:
    """Functions that read a metric of one format. Each returns NULL for a missing value."""

    tag: Callable[[Column, str], Column]
    number: Callable[[Column, str], Column]  # Value of a field; may be NaN or infinite.
    time: Callable[[Column], Column]  # As text, for ``time_ms``.


def kind_of(name: Column) -> Column:
    return F.coalesce(F.regexp_extract(name, _KIND, 1), F.lit(""))


def time_ms(text: Column) -> Column:
    """Returns epoch ms from an integer in s, ms, µs or ns, or from a date and time.

    The size of the integer tells its unit, until the year 5138.
    """
    n = text.try_cast("long")
    is_s, is_ms, is_us = (n.between(-(10**digits), 10**digits) for digits in (11, 14, 17))
    epoch = (
        F.when(is_s, n * 1000)
        .when(is_ms, n)
        .when(is_us, F.call_function("div", n, F.lit(10**3)))
        .when(n.isNotNull(), F.call_function("div", n, F.lit(10**6)))
    )
    return F.coalesce(epoch, F.unix_millis(text.try_cast("timestamp")))


def scrapes(reason: Column, metrics: Column, reader: Reader, source: Source) -> Column:
    """Returns a scrape for each metric with samples in a record, or one refused scrape for the whole record.

    Args:
        reason: why the format refuses the record; NULL if the record is not refused.
        metrics: metrics of the record; used only if ``reason`` is NULL.
    """
    return let(reason, lambda r: F.when(r.isNotNull(), _refusal(r)).otherwise(_metric_scrapes(metrics, reader, source)))


def _refusal(reason: Column) -> Column:
    null = F.lit(None)
    return F.array(scrape(reason=reason, cluster=null, node=null, role=null, ts=null, samples=null))


def _metric_scrapes(metrics: Column, reader: Reader, source: Source) -> Column:
    """Returns a scrape for each metric with samples; only the first refused scrape if there is one."""
    known = F.filter(metrics, lambda m: m["kind"] != "")
    values = F.filter(
        F.transform(known, lambda m: _values(m, reader)),
        lambda v: (F.size(v["samples"]) > 0) & (~v["is_of_machine"] | _node_of(v, source).isNotNull()),
    )
    return let(F.transform(values, lambda v: _scrape(v, source)), _first_refused_or_all)


def _values(m: Column, reader: Reader) -> Column:
    """Returns the parts of a metric that its scrape needs."""
    return F.struct(
        F.coalesce(*[reader.tag(m, tag) for tag in _NODE_TAGS]).alias("node_text"),
        *[reader.tag(m, tag).alias(tag) for tag in (*_HOST_TAGS, "cluster", "role")],
        reader.time(m).alias("time"),
        m["kind"].isin(*_MACHINE_KINDS).alias("is_of_machine"),
        _samples(m, reader).alias("samples"),
    )


def _scrape(values: Column, source: Source) -> Column:
    """Returns the scrape of one metric, refused if its node or time is not known."""
    node = _node_of(values, source)
    ts = time_ms(values["time"])
    reason = (
        F.when(
            node.isNull() & values["node_text"].isNotNull(),
            F.concat(F.lit("no node: the tag broker_id is not a whole number: "), values["node_text"][0:40]),
        )
        .when(node.isNull(), _no_node(F.concat_ws(" at ", values["host"], values["jolokia_agent_url"])))
        .when(
            values["time"].isNotNull() & ts.isNull(),
            F.concat(F.lit("timestamp is neither a whole number nor a date: "), values["time"][0:40]),
        )
    )
    return scrape(
        reason=reason,
        cluster=F.coalesce(values["cluster"], F.lit(source.cluster)),
        node=node,
        role=F.when(values["role"].isin([role.value for role in NodeRole]), values["role"]),
        ts=ts,
        samples=values["samples"],
    )


def _node_of(values: Column, source: Source) -> Column:
    """Returns the node of a metric; NULL if it is not known."""
    # The agent's address has priority: one Telegraf on its own host may read the agents of many brokers.
    return F.coalesce(*[node_of(values["node_text"], values[tag], source) for tag in _HOST_TAGS])


def _no_node(where: Column) -> Column:
    before, after = NO_NODE.split("{}")
    sender = F.when(where == "", "its sender, which names no host,").otherwise(where[0:200])
    return F.concat(F.lit(before), sender, F.lit(after))


def _first_refused_or_all(scrapes_: Column) -> Column:
    """Returns only the first refused scrape, because one reject for a record is enough; all scrapes if none is refused."""
    refused = F.filter(scrapes_, lambda r: r["reason"].isNotNull())
    return F.when(F.exists(scrapes_, lambda r: r["reason"].isNotNull()), F.slice(refused, 1, 1)).otherwise(scrapes_)


def _number(m: Column, field: str, name: str, reader: Reader) -> Column:
    number = reader.number(m, field)
    return number * link_speeds.BYTES_PER_MBIT if name == Metric.LINK_SPEED else number


def _samples(m: Column, reader: Reader) -> Column:
    """Returns the samples of a metric; none if a tag has a value that is not accepted."""
    samples_by_kind = F.when(F.lit(False), F.array().cast(SAMPLES_TYPE))  # Never true; the loop adds a branch per kind.
    for kind, fields in FIELDS.items():
        pairs = [
            # A client id may contain the separators of labels; Kafka itself encodes them in user names.
            F.concat(
                F.lit(f"{label}="),
                F.replace(F.replace(reader.tag(m, tag), F.lit("="), F.lit("%3D")), F.lit(","), F.lit("%2C")),
            )
            for label, tag in _LABELS.get(kind, {}).items()
        ]
        labels = F.concat_ws(",", *pairs) if pairs else F.lit("")
        samples = [
            F.struct(F.lit(name).alias("n"), labels.alias("l"), _number(m, field, name, reader).alias("v"))
            for field, name in fields.items()
        ]
        matches = m["kind"] == kind
        if kind in _MACHINE_KINDS:
            matches &= link_speeds.is_usable(reader.tag(m, "interface"), samples[0]["v"])
        for tag, accepted in _ACCEPTED_TAG_VALUES.get(kind, {}).items():
            value = reader.tag(m, tag)
            matches &= F.coalesce(value.isin(list(accepted)), F.lit(False)) if accepted else value.isNull()
        samples_by_kind = samples_by_kind.when(matches, F.array(*samples))
    return F.filter(samples_by_kind.otherwise(F.array().cast(SAMPLES_TYPE)), lambda s: is_number(s.v))
