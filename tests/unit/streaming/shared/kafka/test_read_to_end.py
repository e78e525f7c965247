"""A topic is read up to its end; a silence before the end is an error, not the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from streaming.shared.kafka import read_to_end as module
from streaming.shared.kafka.read_to_end import read_to_end

FIRST, SECOND = TopicPartition("signals", 0), TopicPartition("signals", 1)


class Reader:
    """A consumer of which each poll returns the next record of each partition that answers."""

    def __init__(self, ends: dict[TopicPartition, int], silent: frozenset[TopicPartition] = frozenset()) -> None:
        self.ends = ends
        self.silent = silent
        self.positions: dict[TopicPartition, int] = {}

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self.ends[partition] for partition in partitions}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:  # noqa: ARG002 - kafka-python's shape
        batches = {}
        for partition, position in self.positions.items():
            if partition not in self.silent and position < self.ends[partition]:
                self.positions[partition] = position + 1
                batches[partition] = [SimpleNamespace(offset=position)]
        return batches


def test_reading_ends_at_the_end_of_each_partition() -> None:
    assert [r.offset for r in read_to_end(Reader({FIRST: 4, SECOND: 9}), {FIRST: 1, SECOND: 8})] == [1, 8, 2, 3]
    assert [r.offset for r in read_to_end(Reader({FIRST: 9}), {FIRST: 1}, {FIRST: 3})] == [1, 2]
    assert list(read_to_end(Reader({}), {})) == []


def test_silence_before_the_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SILENCE_S_MAX", 0.01)
    records = read_to_end(Reader({FIRST: 2, SECOND: 2}, silent=frozenset({SECOND})), {FIRST: 0, SECOND: 0})
    assert [next(records).offset, next(records).offset] == [0, 1]
    with pytest.raises(KafkaTimeoutError, match=r"signals: no record came for 0 s before the end of partition 1"):
        next(records)
