"""Finds where a stream continues after another stream: at the newest windows in the signals topic.

A stream that gets the lease after another stream does not continue from its own checkpoint, because the other stream has already
written the signals since then. It begins in a new live folder, early enough that its first windows are complete. It writes again
the windows that the other stream may have left unfinished. A signal that is written again has the same key as the earlier
signal, and readers use the last record of a key.

    signals topic   ... |---- windows of the predecessor ----| newest end
    read                |------- window -------|
    written                                    | from here: newest end - slide - watermark delay
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any

import kafka.errors
import structlog
from kafka import KafkaConsumer, TopicPartition

from streaming.checkpoint import CheckpointRecord
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.clients import consumer
from streaming.shared.kafka.read_to_end import read_to_end
from streaming.shared.kafka.unpacking import UnreadableBatch
from streaming.signals import WindowShape

_CLIENT = "rheostat-stream-seam"
_RECORDS = 500  # Number of records that are read at the end of each partition.
_WRITTEN_AGAIN = (
    "the stream may write signals again that another stream has already written, because the newest window in the signals topic "
    "cannot be read"
)

log = structlog.get_logger("stream")


def newest_window_end_ms(kafka_: KafkaSettings, topic: str, slide_s: int) -> int | None:
    """Returns the end of the newest window in the signals topic; None if the topic has no readable signal.

    Logs a warning if the end is not known or may be too old: a right is missing, or Spark writes with a codec that kafka-python
        does
    not read.

    Raises:
        kafka.errors.KafkaError: Kafka does not answer, or is silent before the end of the topic.
    """
    unreadable: list[UnreadableBatch] = []
    with closing(consumer(kafka_, _CLIENT, on_unreadable_batch=unreadable.append)) as reader:
        try:
            end_ms = newest_end_ms(_last_records(reader, topic), slide_s * 1000)
        except kafka.errors.TopicAuthorizationFailedError:
            log.warning(_WRITTEN_AGAIN, reason=f"missing right: Read on Topic {topic}")
            return None
    if unreadable:
        log.warning(_WRITTEN_AGAIN, reason=unreadable[-1].text)
    return end_ms


def newest_end_ms(records: Iterable[Any], slide_ms: int) -> int | None:
    """Returns the newest window end in the keys of these records; None if there is none.

    Because of a wrong clock, a window may end in the future, and the stream would write nothing until then. So the end of a window
    counts as at most one slide after the time at which its record was written.
    """
    ends_ms = []
    for record in records:
        end = (record.key or b"").rpartition(b"|")[2]
        if end.isdigit():
            ends_ms.append(min(int(end), record.timestamp + slide_ms))
    return max(ends_ms, default=None)


def following(
    record: CheckpointRecord, newest_end_ms: int, shape: WindowShape, extra_delay_s: int = 0
) -> CheckpointRecord:
    """Returns the checkpoint record of a stream that continues after a window of another stream, in a new live folder.

    Args:
        extra_delay_s: how long after the watermark delay a late record still counts.
    """
    slide_ms, delay_ms = shape.slide_s * 1000, (shape.watermark_delay_s + extra_delay_s) * 1000
    whole_from_ms = newest_end_ms - newest_end_ms % slide_ms - slide_ms - delay_ms
    return replace(
        record,
        live=record.next_live(),
        live_from_ms=whole_from_ms - shape.window_s * 1000,
        whole_from_ms=whole_from_ms,
        failing=None,
    )


def _last_records(reader: KafkaConsumer, topic: str) -> Iterable[Any]:
    partitions = [TopicPartition(topic, number) for number in reader.partitions_for_topic(topic) or ()]
    reader.assign(partitions)
    begins = reader.beginning_offsets(partitions) if partitions else {}
    ends = reader.end_offsets(partitions) if partitions else {}
    return read_to_end(reader, {p: max(begins[p], ends[p] - _RECORDS) for p in partitions})
