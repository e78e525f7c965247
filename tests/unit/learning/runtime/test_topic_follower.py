"""The follower of a topic while Kafka does not answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka import TopicPartition

from learning.runtime.topic_follower import TopicFollower

PARTITION = TopicPartition("t", 0)


class Consumer:
    """A topic whose offsets are known once ``answers`` is true; every look-up has a time-out."""

    def __init__(self, end: int) -> None:
        self.answers = False
        self.end = end
        self.read = 0

    def partitions_for_topic(self, _: str) -> set[int]:
        return {0}

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        assert partitions == [PARTITION]

    def seek_to_beginning(self, *_: TopicPartition) -> None: ...

    def end_offsets(self, _: Sequence[TopicPartition], timeout_ms: int) -> Mapping[TopicPartition, int]:
        assert timeout_ms <= 5_000
        return {PARTITION: self.end}

    def poll(self, timeout_ms: int) -> Mapping[TopicPartition, list[str]]:
        assert timeout_ms <= 1_000
        if not self.answers or self.read == self.end:
            return {}
        self.read += 1
        return {PARTITION: [f"record {self.read}"]}

    def position(self, _: TopicPartition, timeout_ms: int) -> int | None:
        assert timeout_ms <= 1_000
        return self.read if self.answers else None


def test_follower_is_at_end_only_once_its_position_is_known() -> None:
    for end in (0, 2):
        consumer = Consumer(end)
        client: Any = consumer
        follower = TopicFollower(client, "t")
        assert list(follower.poll(1_000)) == []
        assert not follower.is_at_end, "the start of the topic is not known yet"
        consumer.answers = True
        assert len(list(follower.poll(1_000))) == end
        assert follower.is_at_end
