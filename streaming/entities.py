"""Scrapes in, entity rows out: reduces each scrape to a few small rows before any state.

State is the main cost of a stream processor. A scrape has dozens of samples or thousands of partitions; a signal needs two short
arrays per entity. So sample names are resolved here once (kernel/Fold.java).

Vocabulary:
    entity    the subject of a signal, keyed by ``cluster, kind, node, part``: a broker, a controller, one side of a broker
              with moving or throttled replicas (part: the side), or a tenant on a controller (part: its labels).
    kind      a signal kind of the contract, or ``reject``. A refused record travels as an entity (part: its slot, one of a fixed
              number per partition), because a second output would parse the topic a second time.
    at_ms     Kafka's timestamp of the record; windows and watermark use it. All other clocks may be wrong.
    own_ms    the sender's clock; rates use it, because its error cancels out.
    ts        the time to show: the sender's if it agrees with Kafka's, otherwise Kafka's.
    every_ms  the source's scrape interval; it decides how long a gauge is valid.
    whole     a format that brings a whole scrape in one record. Other formats bring one metric per record; ``signals`` joins them
              by ``own_ms``, so nothing may be summed or multiplied across samples here.
    sure      the row alone proves that the node is a broker, or a controller; many metrics exist on both.
    sums      counters that are summed over labels: index of the counter, labels, value. Only in rows that are not whole.
    row       the binary form of all of this in the state (kernel/Row.java).
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
    """Returns rows of ``KEYS``, ``time`` (event time: ``at_ms``) and ``row`` for records (``formats.common.RAW``) of one source.

    Args:
        every_ms: the source's scrape interval.
        kafka: id of the Kafka cluster with the topics; two clusters may use the same topic name.
        apart_ms: how long the watermark waits for the slowest source, in addition to the watermark delay.
        places: slots in the state for refused records, per partition; None: no limit (no state). Offsets of a batch are
            consecutive, so refused records share a slot only if a batch has more of one partition than slots.
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
