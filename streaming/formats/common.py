"""What the formats share: the common schema, who a sample is of, what counts as a number.

A format is an expression: from the columns of ``RAW`` to an array of scrapes, usually of one. It refuses record by record
and never fails: one bad sender must not stop everybody's signals.

It is an expression and not a stage: between two stages Spark writes rows into its binary form, and reads every element that a
lambda looks at back through a look-up of its configuration. What it yields goes straight into the kernel.

Vocabulary:
    scrape    what was measured of one node at one time, or a part of it: several may share node and time.
    reason    why the record is refused; NULL when it is good, and only then do the other fields hold. A refused record is
              one scrape. A good record that holds nothing of ours may be none at all.
    ts        the scrape's own time, epoch ms, by the clock of whoever took it; NULL when it does not tell.
    role      one of contract.Role; NULL when the format does not tell.
    samples   under the names of contract.Metric with canonical labels. What is no number or has no name is left out later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streaming.shared.contract.bounds import NUMBER_MAX

RAW = "value binary, topic string, partition int, offset long, timestamp timestamp"
SAMPLES_TYPE = "array<struct<n string, l string, v double>>"
SCRAPE_TYPE = f"struct<reason string, cluster string, node int, role string, ts long, samples {SAMPLES_TYPE}>"

VALUE_MAX = NUMBER_MAX  # Kafka's own largest is about 1e20; kernel/Fold.java has the same bound.


@dataclass(frozen=True, slots=True)
class Source:
    """What a topic's records do not say themselves."""

    cluster: str  # Of records that name none.
    hosts: Mapping[str, int] = field(default_factory=dict)  # Host as the records name it → node id.


Format = Callable[[Source], Column]


def scrape(*, reason: Column, cluster: Column, node: Column, role: Column, ts: Column, samples: Column) -> Column:
    """A struct of ``SCRAPE_TYPE``."""
    return F.struct(
        reason.cast("string").alias("reason"),
        cluster.cast("string").alias("cluster"),
        node.cast("int").alias("node"),
        role.cast("string").alias("role"),
        ts.cast("long").alias("ts"),
        samples.cast(SAMPLES_TYPE).alias("samples"),
    )


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """``body(value)`` with the value computed once: a lambda's body has no common subexpressions.

    As the end of a sum over nothing that begins with the value: what leaves ``transform`` is copied, string by string, and
    in nested ones at every level again.
    """
    return F.aggregate(F.array(), value, lambda same, _: same, body)


def table(raw: DataFrame, format_: Format, source: Source) -> DataFrame:
    """The scrapes as rows beside topic, partition and offset: to look at, as tests do."""
    return raw.select("topic", "partition", "offset", F.inline(format_(source)))


def is_number(value: Column) -> Column:
    """Neither NULL, NaN (which Spark orders above every number) nor beyond ``VALUE_MAX``; never NULL itself."""
    return F.coalesce(F.abs(value) < VALUE_MAX, F.lit(False))


def node_of(told: Column, host: Column, source: Source) -> Column:
    """The node id: what the record says itself (text), else ``source.hosts`` by the host, with or without scheme, port and
    path; NULL when neither knows it. Ids are not negative.
    """
    own = F.when(told.rlike(r"^\d{1,9}$"), told.try_cast("int"))
    if not source.hosts:
        return own
    known = F.create_map(*[F.lit(part) for pair in source.hosts.items() for part in pair])
    bare = F.regexp_extract(host, r"^(?:[A-Za-z][A-Za-z0-9+.-]*://)?(\[[^\]]*\]|[^:/\[\]]+)", 1)
    with_port = F.regexp_extract(host, r"^(?:[A-Za-z][A-Za-z0-9+.-]*://)?(\[[^\]]*\]:\d+|[^:/\[\]]+:\d+)", 1)
    return F.coalesce(
        own, F.try_element_at(known, host), F.try_element_at(known, with_port), F.try_element_at(known, bare)
    )


NO_NODE = "no node: {} is neither in stream.sources[].hosts nor does the record carry a tag broker_id"
