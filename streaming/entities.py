"""Scrapes in, entity rows out: everything a scrape says, folded to a few small rows before any state.

Intuition: state is what a stream processor pays for. A scrape has dozens of samples, or thousands of partitions; what the
signals are made of is two short arrays an entity. So names are looked up here, once, and never again (kernel/Fold.java).

Vocabulary:
    entity    what a signal is about, by ``cluster, kind, node, part``: a broker, a controller, one side of a broker that
              moves or throttles replicas (part: the side), a tenant on a controller (part: its labels).
    kind      one of contract.py's, or ``reject``: a refused record travels as an entity (part: its place, one of so many for
              each partition), since a second way out would be a second parsing of the topic.
    at_ms     when Kafka took the record; what windows and watermark go by. Every clock but that one may be wrong.
    own_ms    the sender's clock; what rates are measured by. Its error cancels out.
    ts        the time to show: the sender's while it agrees with Kafka's, otherwise Kafka's.
    every_ms  the source's scrape interval; how long a gauge is good for.
    whole     a format that brings all of a scrape in one record. Others bring a metric a record; ``signals`` puts them
              together again by ``own_ms``, so here nothing may be summed or multiplied across samples.
    sure      this row alone tells that the node is a broker, or a controller. Much is measured on both.
    sums      of counters that are summed over labels: index of the counter, labels, value. Only in rows that are not whole.
    row       all of that, as the state keeps it (kernel/Row.java).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streaming import kernel
from streaming.formats.common import Source
from streaming.formats.registry import FORMATS, QUICK, WHOLE
from streaming.settings import FormatName

REJECT = "reject"
KEYS = ("cluster", "kind", "node", "part")


def entities(
    raw: DataFrame,
    format_: FormatName,
    source: Source,
    every_ms: int,
    *,
    kafka: str = "",
    apart_ms: int = 0,
    places: int | None = None,
) -> DataFrame:
    """Records of one source (``formats.common.RAW``) → rows of ``KEYS``, ``time`` (event time: ``at_ms``) and ``row``.

    Args:
        every_ms: the source's scrape interval.
        kafka: which Kafka cluster has its topics; two of them may use one name for a topic.
        apart_ms: by how much longer than lateness alone asks the watermark waits for the slowest source.
        places: for refused records of each partition; None: one for each of them, where there is no state to be filled.
            The offsets of a batch follow one another, so as long as it has no more of a partition, each has a place of its own.
    """
    taken_ms = F.unix_millis("timestamp")
    rows = kernel.entities(
        FORMATS[format_](source),
        taken_ms=taken_ms,
        every_ms=every_ms,
        whole=format_ in WHOLE,
        kafka=kafka,
        apart_ms=apart_ms,
        places=places,
    )
    if format_ in QUICK:
        rows = F.coalesce(QUICK[format_](taken_ms=taken_ms, every_ms=every_ms), rows)
    return raw.select(F.inline(rows))
