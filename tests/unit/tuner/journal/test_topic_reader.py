"""Reading a whole topic with kafka-python's batch reader: a batch that cannot be unpacked is not skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.record import MemoryRecords
from test_unpacking import ZSTD, batch, labelled

from tuner.journal.topic_reader import UnreadableBatchError, read_records

TOPIC = "rheostat.orders"


class Consumer:
    """One answer to a fetch with these batches, then nothing more."""

    def __init__(self, *batches: bytes) -> None:
        self._fetcher = SimpleNamespace(PartitionRecords=Fetcher.PartitionRecords)
        self._batches = batches
        self._position = 0

    def partitions_for_topic(self, _: str) -> set[int]:
        return {0}

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        (self._partition,) = partitions

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, len(self._batches))

    def seek_to_beginning(self, *_: TopicPartition) -> None:
        self._position = 0

    def highwater(self, _: TopicPartition) -> int:
        return len(self._batches)

    def position(self, _: TopicPartition) -> int:
        return self._position

    def poll(self, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Any]]:  # noqa: ARG002 - the client's shape
        answer = self._fetcher.PartitionRecords(
            0, self._partition, MemoryRecords(b"".join(self._batches)), check_crcs=False
        )
        records = answer.take()
        self._position = answer.next_fetch_offset
        return {self._partition: records}


@pytest.mark.parametrize("bad_at", [0, 1, 2])
def test_read_records_undecompressable_batch_is_an_error(bad_at: int) -> None:
    batches = [batch(n, b"v") for n in range(3)]
    batches[bad_at] = labelled(batches[bad_at], ZSTD)
    consumer: Any = Consumer(*batches)
    with pytest.raises(UnreadableBatchError) as refused:
        list(read_records(consumer, TOPIC))
    assert str(refused.value).startswith(
        f"records {bad_at} to {bad_at} of {TOPIC}, partition 0, are not read: they are compressed with zstd"
    )
    assert consumer._fetcher.PartitionRecords is Fetcher.PartitionRecords


def test_read_records_readable_topic_is_read_to_its_end() -> None:
    consumer: Any = Consumer(*(batch(n, b"v%d" % n) for n in range(3)))
    assert [(record.offset, record.value) for record in read_records(consumer, TOPIC)] == [
        (0, b"v0"), (1, b"v1"), (2, b"v2"),
    ]  # fmt: skip
