"""What a stand-by does where the journal cannot be read ahead. That it reads what is there: tests/integration/test_read_ahead.py."""

from __future__ import annotations

from typing import Any, NamedTuple

import kafka.errors
import pytest
from structlog.testing import capture_logs

from streaming.kafka.cluster import ClusterError
from tuner.journal.entries import memory_key
from tuner.journal.read_ahead import AGAIN_S, ReadAhead

TOPIC, CLUSTER = "journal", "c"


class Record(NamedTuple):
    key: bytes
    value: bytes


class Reader:
    def __init__(self, partitions: int = 1, *answers: Any) -> None:
        self.partitions, self.answers, self.closed = partitions, list(answers), False

    def partitions_for_topic(self, topic: str) -> set[int]:
        assert topic == TOPIC
        return set(range(self.partitions))

    def assign(self, partitions: list[Any]) -> None:
        (self.partition,) = partitions

    def seek_to_beginning(self, partition: Any) -> None:
        assert partition == self.partition
        self.at = 0

    def position(self, partition: Any) -> int:
        assert partition == self.partition
        return self.at

    def poll(self, timeout_ms: int, max_records: int) -> dict[Any, list[Record]]:
        assert 0 < timeout_ms < 1000
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        assert len(answer) <= max_records
        self.at += len(answer)
        return {self.partition: answer} if answer else {}

    def close(self, timeout_ms: int) -> None:
        assert timeout_ms
        self.closed = True


class Rig:
    def __init__(self, *readers: Reader) -> None:
        self.readers, self.left = readers, list(readers)
        self.now_s, self.id = 0.0, "one"
        self.away = False
        self.ahead = ReadAhead(
            lambda: self.left.pop(0),  # type: ignore[arg-type,return-value]
            TOPIC,
            CLUSTER,
            self.topic_ids,
            monotonic=lambda: self.now_s,
        )

    def topic_ids(self, topics: tuple[str, ...]) -> dict[str, str]:
        if self.away:
            raise ClusterError("nobody answers")
        return {topic: self.id for topic in topics if self.id}


UNKNOWN = Record(b"a kind that came later|c|1", b"{}")
UNREADABLE = Record(memory_key(CLUSTER), b'{"v": 99}')


def test_what_was_read_is_known_once_and_the_reader_is_closed() -> None:
    rig = Rig(Reader(1, [UNKNOWN] * 3, [UNKNOWN]))
    rig.ahead.step()
    known = rig.ahead.known()
    assert known is not None
    assert known.read_to == {0: 4}
    assert rig.readers[0].closed
    assert rig.ahead.known() is None
    rig.ahead.step()
    assert not rig.left


def test_a_step_ends_when_its_time_is_over() -> None:
    reader = Reader(1, *([UNKNOWN] for _ in range(10)))
    rig = Rig(reader)
    rig.ahead.step(0.0)
    assert reader.at == 1
    rig.ahead.step(0.0)
    assert reader.at == 2


def test_a_topic_that_is_another_one_by_now_was_not_read() -> None:
    rig = Rig(Reader(1, [UNKNOWN]))
    rig.ahead.step()
    rig.id = "another"
    assert rig.ahead.known() is None


@pytest.mark.parametrize("there", [False, True])
def test_where_topics_are_not_told_apart_nothing_is_read_ahead(there: bool) -> None:
    rig = Rig(Reader(1, [UNKNOWN]))
    rig.id, rig.away = "", there
    rig.ahead.step()
    assert rig.left == list(rig.readers)
    assert rig.ahead.known() is None


def test_whether_it_is_still_that_topic_has_to_be_known() -> None:
    rig = Rig(Reader(1, [UNKNOWN]))
    rig.ahead.step()
    rig.away = True
    assert rig.ahead.known() is None


def test_an_empty_journal_is_read_by_whoever_takes_over() -> None:
    rig = Rig(Reader())
    rig.ahead.step()
    assert rig.ahead.known() is None


def test_after_trouble_it_begins_anew_a_while_later() -> None:
    rig = Rig(Reader(1, [UNKNOWN], kafka.errors.KafkaConnectionError("gone")), Reader(1, [UNKNOWN] * 2))
    with capture_logs() as said:
        rig.ahead.step()
    assert [line["reason"] for line in said] == ["KafkaConnectionError: KafkaConnectionError: gone"]
    assert rig.readers[0].closed
    rig.now_s = AGAIN_S - 1
    rig.ahead.step()
    assert len(rig.left) == 1
    rig.now_s = AGAIN_S
    rig.ahead.step()
    known = rig.ahead.known()
    assert known is not None
    assert known.read_to == {0: 2}


@pytest.mark.parametrize("reader", [Reader(2, [UNKNOWN]), Reader(1, [UNKNOWN, UNREADABLE])], ids=["two", "unreadable"])
def test_what_it_cannot_make_out_it_leaves_to_whoever_takes_over(reader: Reader) -> None:
    rig = Rig(reader, Reader(1, [UNKNOWN]))
    rig.ahead.step()
    rig.now_s = 1e6
    rig.ahead.step()
    assert reader.closed
    assert len(rig.left) == 1
    assert rig.ahead.known() is None
