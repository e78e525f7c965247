"""The inputs topic is read from a time, or from a number of records before its end."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition

from tuner.journal.inputs_topic import read_inputs
from tuner.journal.kafka_journal import JournalError

ONLY = TopicPartition("rheostat.inputs", 0)


class Consumer:
    """One partition: a record every second, of which the first three are gone, and nothing at the last offset, as after a
    transaction."""

    def __init__(self, records: int = 10) -> None:
        self.at = 0
        self.end = records + 1
        self.records = [
            SimpleNamespace(offset=i, timestamp=1000 * i, key=b"lab", value=b"{}") for i in range(3, records)
        ]
        self.broken = False

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0} if topic == ONLY.topic else None

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert partitions == [ONLY]

    def beginning_offsets(self, partitions: Any) -> dict[TopicPartition, int]:
        assert partitions == [ONLY]
        return {ONLY: 3}

    def end_offsets(self, partitions: Any) -> dict[TopicPartition, int]:
        assert partitions == [ONLY]
        return {ONLY: self.end}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        assert times[ONLY] >= 0
        return {ONLY: next((r for r in self.records if r.timestamp >= times[ONLY]), None)}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert partition == ONLY
        self.at = offset

    def position(self, partition: TopicPartition) -> int:
        assert partition == ONLY
        return self.at

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        assert timeout_ms > 0
        if self.broken:
            raise OSError("connection reset")
        found = [r for r in self.records if r.offset >= self.at][:2]
        self.at = found[-1].offset + 1 if found else self.end
        return {ONLY: found} if found else {}


def read(since_ms: int | None, back: int = 0, topic: str = ONLY.topic) -> list[int]:
    return [record.offset for record in read_inputs(Consumer(), topic, since_ms, back=back)]


def test_read_inputs_from_a_time() -> None:
    assert read(6_500) == [7, 8, 9]
    assert read(-5) == read(0) == [3, 4, 5, 6, 7, 8, 9]
    assert read(99_000) == []


def test_read_inputs_number_of_records_before_the_end() -> None:
    assert read(None, 3) == [8, 9]
    assert read(None, 500) == [3, 4, 5, 6, 7, 8, 9]


def test_read_inputs_missing_topic_is_empty_and_errors_are_raised() -> None:
    assert read(0, topic="another") == []
    consumer = Consumer()
    consumer.broken = True
    with pytest.raises(JournalError, match="OSError: connection reset"):
        list(read_inputs(consumer, ONLY.topic, 0))  # type: ignore[arg-type]
