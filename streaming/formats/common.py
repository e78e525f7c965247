"""Defines the common schema of all wire formats, and the functions that several formats use.

A format is a Spark expression that turns the columns of ``RAW`` into an array of scrapes, usually of one scrape. It refuses single
records and never fails, because one bad sender must not stop the signals of other brokers.

A format is an expression and not a separate stage of the query. Between two stages, Spark would convert rows to its binary form and
back. The result of an expression goes straight into the Java kernel.

Vocabulary:
    scrape    measurements of one node at one time, or a part of them; several scrapes may share node and time.
    reason    why the record is refused; NULL for a valid record. The other fields are valid only if the reason is NULL. A refused
              record yields one scrape, with its reason. A valid record without a known metric may yield no scrape at all.
    ts        the time of the scrape in epoch ms by the sender's clock; NULL if the record has none.
    role      one of contract.NodeRole; NULL if the record has none.
    samples   named as in contract.Metric, with canonical labels. The kernel drops samples without name or number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streaming.shared import envelopes
from streaming.shared.contract.bounds import NUMBER_MAX

RAW = "value binary, topic string, partition int, offset long, timestamp timestamp"
SAMPLES_TYPE = "array<struct<n string, l string, v double>>"
SCRAPE_TYPE = f"struct<reason string, cluster string, node int, role string, ts long, samples {SAMPLES_TYPE}>"

VALUE_MAX = NUMBER_MAX  # Kafka's largest value is about 1e20; kernel/Fold.java has the same bound.


@dataclass(frozen=True, slots=True)
class Source:
    """Facts from the settings about the records of a topic, for records that lack these facts."""

    cluster: str  # For records without a cluster name.
    hosts: Mapping[str, int] = field(default_factory=dict)  # Host as named in the records → node id.


Format = Callable[[Source], Column]


def scrape(*, reason: Column, cluster: Column, node: Column, role: Column, ts: Column, samples: Column) -> Column:
    """Returns a struct of ``SCRAPE_TYPE``."""
    return F.struct(
        reason.cast("string").alias("reason"),
        cluster.cast("string").alias("cluster"),
        node.cast("int").alias("node"),
        role.cast("string").alias("role"),
        ts.cast("long").alias("ts"),
        samples.cast(SAMPLES_TYPE).alias("samples"),
    )


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """Returns ``body(value)`` with the value computed once; Spark does not share subexpressions inside a lambda.

    Uses ``aggregate`` over an empty array with the value as initial state, because ``transform`` would copy its results.
    """
    return F.aggregate(F.array(), value, lambda state, _: state, body)


def table(raw: DataFrame, format_: Format, source: Source) -> DataFrame:
    """Returns the scrapes as rows with topic, partition and offset; for tests and inspection."""
    return raw.select("topic", "partition", "offset", F.inline(format_(source)))


def is_number(value: Column) -> Column:
    """Returns whether the value is a number within ``VALUE_MAX``: false for NULL and NaN, never NULL itself."""
    return F.coalesce(F.abs(value) < VALUE_MAX, F.lit(False))


def envelope_or(reason: str | None) -> Column:
    """Returns the text about an envelope that wraps the record (``envelopes.envelope_text``); ``reason`` if there is no
    envelope."""
    digits = F.hex(F.substring("value", 1, 16))
    magic, id_end = envelopes.REGISTRY_MAGIC.hex(), 2 * (len(envelopes.REGISTRY_MAGIC) + envelopes.REGISTRY_ID_BYTES)
    schema_id = F.conv(F.substring(digits, len(magic) + 1, id_end - len(magic)), 16, 10)
    kind = F.lit(envelopes.REGISTRY_OTHER_KIND)
    for first, name in envelopes.REGISTRY_KINDS.items():
        begins = F.startswith(F.substring(digits, id_end + 1, 32), F.lit(first.hex().upper()))
        kind = F.when(begins, name).otherwise(kind)
    text = F.lit(envelopes.REGISTRY_TEXT)
    registry = F.replace(F.replace(text, F.lit("{kind}"), kind), F.lit("{id}"), schema_id)
    is_registry = F.startswith(digits, F.lit(magic)) & (F.length(digits) > id_end) & (schema_id != "0")
    result = F.when(is_registry, registry).otherwise(F.lit(reason))
    for prefix, text_of_prefix in envelopes.PREFIXES.items():
        is_prefix = F.startswith(digits, F.lit(prefix.hex().upper()))
        result = F.when(is_prefix, text_of_prefix).otherwise(result)
    return result


def node_of(node_text: Column, host: Column, source: Source) -> Column:
    """Returns the node id, which is never negative; NULL if it is unknown.

    Args:
        node_text: the id in the record; NULL if it has none.
        host: the host in the record, with or without scheme, port and path. Without an id, it is looked up in ``source.hosts``.
    """
    stated_node = F.when(node_text.rlike(r"^\d{1,9}$"), node_text.try_cast("int"))
    if not source.hosts:
        return stated_node
    nodes = F.create_map(*[F.lit(part) for pair in source.hosts.items() for part in pair])
    bare_host = F.regexp_extract(host, r"^(?:[A-Za-z][A-Za-z0-9+.-]*://)?(\[[^\]]*\]|[^:/\[\]]+)", 1)
    host_and_port = F.regexp_extract(host, r"^(?:[A-Za-z][A-Za-z0-9+.-]*://)?(\[[^\]]*\]:\d+|[^:/\[\]]+:\d+)", 1)
    return F.coalesce(
        stated_node,
        F.try_element_at(nodes, host),
        F.try_element_at(nodes, host_and_port),
        F.try_element_at(nodes, bare_host),
    )


# Reason for refusing a record of an unknown host; {} is the host.
NO_NODE = "no node: {} is not in stream.sources[].hosts, and the record has no tag broker_id"
NOT_JSON = "not JSON: one object and nothing else is expected"
