"""Turns scrapes into entity rows: reduces each scrape to a few small rows before the rows enter Spark's state.

State is the main cost of a stream processor. A scrape has dozens of samples, or samples of thousands of partitions. A signal needs
only two short arrays per entity. So this stage resolves sample names once, into positions of these arrays (kernel/Fold.java).

Vocabulary:
    entity    the subject of a signal, keyed by ``cluster, kind, node, part``: a broker, a controller, one side of a broker
              with moving or throttled replicas (part: the side), or a tenant on a controller (part: its labels).
    kind      ``broker``, ``controller``, ``move``, ``tenant`` or ``reject``. The first four are signal kinds of the contract; the
              kernel computes ``replication`` signals from the lags in the rows of brokers. A refused record travels as an entity,
              because a second query for rejects would parse the topic a second time.
    slot      the part of a refused record's entity. Each partition has a fixed number of slots, which bounds the state.
    at_ms     Kafka's timestamp of the record; windows and watermark use it. All other clocks may be wrong.
    own_ms    the sender's clock; rates use it, because a constant error of the clock cancels out in a difference.
    ts        the time in the signal: the sender's if it agrees with Kafka's, otherwise Kafka's.
    every_ms  the source's scrape interval; it decides how long a gauge is valid.
    whole     a format that brings a whole scrape in one record. Other formats bring one metric per record; ``signals`` joins them
              by ``own_ms``, so nothing may be summed or multiplied across samples here.
    proven    the row has a sample that proves the node's kind (``BROKER_ONLY_SAMPLES``); many metrics exist on both kinds.
    sums      counters that are summed over labels: index of the counter, labels, value. Only in rows that are not whole.
    lags      how far a broker's replicas are behind: sums, fetcher threads, and the worst partitions. Only in rows of brokers.
    row       the binary form of these values in the state (kernel/Row.java).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streaming import kernel
from streaming.formats.common import Source
from streaming.formats.registry import FORMATS, KERNEL_PARSED_FORMATS, WHOLE_SCRAPE_FORMATS
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
    extra_delay_ms: int = 0,
    reject_slots: int | None = None,
) -> DataFrame:
    """Returns rows of ``KEYS``, ``time`` (event time: ``at_ms``) and ``row`` for records (``formats.common.RAW``) of one source.

    Args:
        every_ms: the source's scrape interval.
        kafka: id of the Kafka cluster with the topics; two clusters may use the same topic name.
        extra_delay_ms: how long the watermark waits for the slowest source, in addition to the watermark delay.
        reject_slots: slots in the state for refused records, per partition; None means no limit, because a batch has no state. The
            slot is the offset modulo this number. Offsets in a batch are consecutive, so two refused records share a slot only if
            the batch has more records of one partition than slots.
    """
    record_ms = F.unix_millis("timestamp")
    rows = kernel.entities(
        FORMATS[format_](source),
        record_ms=record_ms,
        every_ms=every_ms,
        whole=format_ in WHOLE_SCRAPE_FORMATS,
        kafka=kafka,
        extra_delay_ms=extra_delay_ms,
        reject_slots=reject_slots,
    )
    if format_ in KERNEL_PARSED_FORMATS:
        rows = F.coalesce(KERNEL_PARSED_FORMATS[format_](record_ms=record_ms, every_ms=every_ms), rows)
    return raw.select(F.inline(rows))
