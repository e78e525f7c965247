"""A standby that cannot read the journal ahead. The normal case is in tests/integration/test_read_ahead_live.py."""

from __future__ import annotations

from typing import Any, NamedTuple

import kafka.errors
import pytest
from structlog.testing import capture_logs

from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.unpacking import OnUnreadableBatch, UnreadableBatch
from tuner.journal.entries import memory_key
from tuner.journal.read_ahead import RETRY_S, ReadAhead

TOPIC, CLUSTER = "journal", "c"


class Record(NamedTuple):
    key: bytes
    value: bytes
    partition: int = 0
    offset: int = 0


class Reader:
    def __init__(self, partitions: int = 1, *answers: Any) -> None:
        self.partitions, self.answers, self.closed = partitions, list(answers), False

    on_unreadable_batch: OnUnreadableBatch

    def partitions_for_topic(self, topic: str) -> set[int]:
        assert topic == TOPIC
        return set(range(self.partitions))

    def assign(self, partitions: list[Any]) -> None:
        (self.partition,) = partitions

    def seek_to_beginning(self, partition: Any) -> None:
        self.seek(partition, 0)

    def seek(self, partition: Any, offset: int) -> None:
        assert partition == self.partition
        self.began = self.at = offset

    def poll(self, timeout_ms: int, max_records: int) -> dict[Any, list[Record]]:
        assert 0 < timeout_ms < 1000
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, UnreadableBatch):
            self.on_unreadable_batch(answer)
            answer = [UNKNOWN]  # As kafka-python goes on behind it.
        assert len(answer) <= max_records
        found = [record._replace(offset=self.at + n) for n, record in enumerate(answer)]
        self.at += len(answer)
        return {self.partition: found} if found else {}

    def close(self, timeout_ms: int) -> None:
        assert timeout_ms
        self.closed = True


class Rig:
    def __init__(self, *readers: Reader) -> None:
        self.readers, self.left = readers, list(readers)
        self.now_s, self.id, self.asked = 0.0, "one", 0
        self.away = False
        self.ahead = ReadAhead(
            self.reader,
            TOPIC,
            CLUSTER,
            self.topic_ids,
            monotonic=lambda: self.now_s,
        )

    def reader(self, on_unreadable_batch: OnUnreadableBatch) -> Any:
        made = self.left.pop(0)
        made.on_unreadable_batch = on_unreadable_batch
        return made

    def topic_ids(self, topics: tuple[str, ...]) -> dict[str, str]:
        self.asked += 1
        if self.away:
            raise ClusterError("nobody answers")
        return {topic: self.id for topic in topics if self.id}


UNKNOWN = Record(b"a kind that came later|c|1", b"{}")
UNREADABLE = Record(memory_key(CLUSTER), b'{"v": 99}')


def test_read_ahead_knowledge_is_taken_once_and_reader_closed() -> None:
    rig = Rig(Reader(1, [UNKNOWN] * 3, [UNKNOWN]))
    rig.ahead.step()
    known = rig.ahead.take_knowledge()
    assert known is not None
    assert known.next_offsets == {0: 4}
    assert rig.readers[0].closed
    assert rig.ahead.take_knowledge() is None


def test_read_ahead_undecompressable_batch_discards_knowledge() -> None:
    """Who takes over reads the journal from its beginning then, and says what is wrong with it."""
    rig = Rig(Reader(1, [UNKNOWN], UnreadableBatch(TOPIC, 0, 1, 3, 0, 9, "compressed with zstd"), [UNKNOWN]))
    with capture_logs() as said:
        rig.ahead.step()
        rig.ahead.step()
    assert rig.ahead.take_knowledge() is None
    assert [line["event"] for line in said] == ["the standby cannot read the journal in advance; it tries again later"]
    assert rig.readers[0].closed


def test_read_ahead_step_ends_after_its_time() -> None:
    reader = Reader(1, *([UNKNOWN] for _ in range(10)))
    rig = Rig(reader)
    rig.ahead.step(0.0)
    assert reader.at == 1
    rig.ahead.step(0.0)
    assert reader.at == 2


def test_read_ahead_knowledge_outlives_a_lost_lease() -> None:
    """The journal could not be taken over: its leader was on the machine that was lost."""
    rig = Rig(Reader(1, [UNKNOWN] * 3), Reader(1, [UNKNOWN]))
    rig.ahead.step()
    rig.ahead.stop()
    rig.ahead.step()
    assert rig.readers[1].began == 3
    known = rig.ahead.take_knowledge()
    assert known is not None
    assert known.next_offsets == {0: 4}


def test_read_ahead_recreated_topic_discards_knowledge() -> None:
    rig = Rig(Reader(1, [UNKNOWN]))
    rig.ahead.step()
    rig.id = "another"
    assert rig.ahead.take_knowledge() is None


def test_read_ahead_recreated_topic_is_read_again() -> None:
    rig = Rig(Reader(1, [UNKNOWN] * 3), Reader(1, [UNKNOWN]))
    rig.ahead.step()
    rig.id, rig.now_s = "another", RETRY_S
    rig.ahead.step()
    assert rig.readers[0].closed
    assert rig.readers[1].began == 0
    known = rig.ahead.take_knowledge()
    assert known is not None
    assert known.next_offsets == {0: 1}


@pytest.mark.parametrize("away", [False, True])
def test_read_ahead_without_topic_id_reads_nothing(away: bool) -> None:
    rig = Rig(Reader(1, [UNKNOWN]))
    rig.id, rig.away = "", away
    for _ in range(3):
        rig.ahead.step()
    assert rig.asked == 1, "it is not asked all the time"
    assert rig.left == list(rig.readers)
    rig.away = False
    assert rig.ahead.take_knowledge() is None


def test_read_ahead_unknown_topic_id_is_asked_again() -> None:
    rig = Rig(Reader(1, [UNKNOWN]))
    rig.ahead.step()
    rig.away = True
    with pytest.raises(ClusterError):
        rig.ahead.take_knowledge()
    rig.away = False
    assert rig.ahead.take_knowledge() is not None


def test_read_ahead_empty_journal_has_no_knowledge() -> None:
    rig = Rig(Reader())
    rig.ahead.step()
    assert rig.ahead.take_knowledge() is None


def test_read_ahead_continues_after_an_error() -> None:
    rig = Rig(Reader(1, [UNKNOWN], kafka.errors.KafkaConnectionError("gone")), Reader(1, [UNKNOWN] * 2))
    with capture_logs() as said:
        rig.ahead.step()
    assert [line["reason"] for line in said] == ["KafkaConnectionError: KafkaConnectionError: gone"]
    assert rig.readers[0].closed
    rig.now_s = RETRY_S - 1
    rig.ahead.step()
    assert len(rig.left) == 1
    rig.now_s = RETRY_S
    rig.ahead.step()
    assert rig.readers[1].began == 1
    known = rig.ahead.take_knowledge()
    assert known is not None
    assert known.next_offsets == {0: 3}


def test_read_ahead_truncated_journal_discards_knowledge() -> None:
    """Its last replica in sync has lost what was not on its disk yet."""
    rig = Rig(Reader(1, [UNKNOWN] * 9, kafka.errors.OffsetOutOfRangeError()), Reader(1, [UNKNOWN]))
    rig.ahead.step()
    assert rig.ahead.take_knowledge() is None
    rig.now_s = 2 * RETRY_S
    rig.ahead.step()
    assert rig.readers[1].began == 0


def test_read_ahead_unreadable_record_keeps_its_offset() -> None:
    rig = Rig(Reader(1, [UNKNOWN, UNREADABLE, UNKNOWN]))
    rig.ahead.step()
    known = rig.ahead.take_knowledge()
    assert known is not None
    assert [each.offset for each in known.state.unreadable.values()] == [1]
    assert known.next_offsets == {0: 3}


@pytest.mark.parametrize(
    "reader",
    [Reader(2, [UNKNOWN]), Reader(1, [UNKNOWN], AttributeError("nobody foresaw it"))],
    ids=["two", "unforeseen"],
)
def test_read_ahead_unexpected_error_gives_up(reader: Reader) -> None:
    rig = Rig(reader, Reader(1, [UNKNOWN]))
    rig.ahead.step()
    rig.now_s = 1e6
    rig.ahead.step()
    assert reader.closed
    assert len(rig.left) == 1
    assert rig.ahead.take_knowledge() is None
