"""The follower of the journal: entries of this cluster, forged records, new records, a missing topic, slices, errors."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import kafka.errors
import pytest
from kafka import TopicPartition
from tuner_cases import CLUSTER, NOW_MS, SOURCE

from tuner.api.journal_history import JournalHistory
from tuner.control.throttle.decision import Reason, SetRate
from tuner.core.throttle_limits import MB
from tuner.journal.entries import RING, Entry, encode_entry, entry_key, entry_of
from tuner.runtime.observe import background_reader, journal_follower

TOPIC = "rheostat.journal"
PARTITION = TopicPartition(TOPIC, 0)
RAISE = SetRate(*SOURCE, 10 * MB, 50 * MB, Reason.STALLED_THROTTLE_BOUND, "broker 1 leader throttle: up")
WAIT_S = 10.0


def number_of(entry: Entry) -> int:
    """Returns the id of the first decision of its millisecond."""
    return entry.at_ms * 2_000 + (entry.kind == "steering")


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    offset: int
    topic: str = TOPIC


def intents(count: int) -> list[Entry]:
    return [entry_of("intent", RAISE, NOW_MS + number * 60_000) for number in range(count)]


def record_of(entry: Entry, offset: int, cluster: str = CLUSTER) -> Record:
    return Record(entry_key("entry", cluster, offset % RING), encode_entry(entry), offset)


class FakeConsumer:
    """A KafkaConsumer of one partition. Records beyond ``log`` arrive through ``later``; an exception there is raised."""

    def __init__(self, log: list[Record], *, exists: bool = True) -> None:
        self.log, self.exists = log, exists
        self.later: queue.Queue[Record | Exception] = queue.Queue()
        self.at = 0
        self.closed = threading.Event()

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0} if self.exists and topic == TOPIC else None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        assert list(partitions) == ([PARTITION] if self.exists else [])

    def beginning_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {PARTITION: 0}

    def end_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {PARTITION: len(self.log)}

    def seek(self, _: TopicPartition, offset: int) -> None:
        self.at = offset

    def position(self, _: TopicPartition) -> int:
        return self.at

    def poll(self, *, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        records = self.log[self.at : self.at + 3]
        if not records:
            try:
                came = self.later.get(timeout=timeout_ms / 1000)
            except queue.Empty:
                return {}
            if isinstance(came, Exception):
                raise came
            records = [came]
        self.at += len(records)
        return {PARTITION: records}

    def close(self, *, timeout_ms: int) -> None:
        assert timeout_ms
        self.closed.set()


@contextmanager
def following(*consumers: FakeConsumer | Exception) -> Iterator[JournalHistory]:
    """Runs a follower that gets these consumers one after another."""
    left = list(consumers)

    def create() -> FakeConsumer:
        made = left.pop(0)
        if isinstance(made, Exception):
            raise made
        return made

    store = JournalHistory(CLUSTER)
    follower = journal_follower.journal_follower(create, TOPIC, store)
    follower.start()
    try:
        yield store
    finally:
        follower.stop()


@pytest.fixture(autouse=True)
def _short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_follower, "_POLL_MS", 20)


def texts(store: JournalHistory) -> list[int]:
    return [mark.at_ms for mark in store.marks(1, 0, 2 * NOW_MS, 100)[0]]


def test_first_request_reads_the_journal_and_later_records_follow() -> None:
    entries = intents(5)
    consumer = FakeConsumer([record_of(each, offset) for offset, each in enumerate(entries[:4])])
    with following(consumer) as store:
        assert texts(store) == []  # Nothing is read before the request.
        assert store.unread_reason(WAIT_S) is None
        assert texts(store) == [each.at_ms for each in entries[:4]]
        consumer.later.put(record_of(entries[4], 4))
        consumer.later.put(kafka.errors.KafkaConnectionError("stop here"))
        assert consumer.closed.wait(WAIT_S)
        assert texts(store) == [each.at_ms for each in entries]


def test_forged_records_and_other_clusters_change_nothing() -> None:
    good = record_of(intents(1)[0], 0)
    forged = [
        Record(good.key, b"\xff", 1), Record(None, good.value, 2), Record(good.key, None, 3),
        record_of(intents(1)[0], 4, "other"), Record(b"memory|" + CLUSTER.encode(), b"{}", 5),
    ]  # fmt: skip
    with following(FakeConsumer([good, *forged])) as store:
        assert store.unread_reason(WAIT_S) is None
        assert texts(store) == [NOW_MS]


def test_missing_journal_is_an_empty_history() -> None:
    with following(FakeConsumer([], exists=False)) as store:
        assert store.unread_reason(WAIT_S) is None
        assert store.first_ms is None


def test_unreadable_journal_is_named_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_reader, "_AGAIN_S", 0.2)
    read = FakeConsumer([record_of(intents(1)[0], 0)])
    problems: list[str] = []
    with following(kafka.errors.KafkaConnectionError("no answer"), read) as store:
        monkeypatch.setattr(store, "mark_unreadable", problems.append)
        store.on_request()
        assert store._is_read.wait(WAIT_S)
        assert "the journal rheostat.journal cannot be read: " in problems[0]
        assert texts(store) == [NOW_MS]


def test_decision_is_read_from_its_place_in_the_journal() -> None:
    entries = intents(50)
    log = [record_of(each, offset) for offset, each in enumerate(entries)]
    with following(FakeConsumer(log), FakeConsumer(log)) as store:
        assert store.unread_reason(WAIT_S) is None
        row = store.row(number_of(entries[30]))
        assert row is not None
        assert row.entry.at_ms == entries[30].at_ms


def test_decision_is_missing_while_kafka_does_not_answer() -> None:
    entries = intents(3)
    log = [record_of(each, offset) for offset, each in enumerate(entries)]
    with following(FakeConsumer(log), kafka.errors.KafkaConnectionError("no answer"), FakeConsumer(log)) as store:
        assert store.unread_reason(WAIT_S) is None
        assert store.row(number_of(entries[1])) is None
        assert store.row(number_of(entries[1])) is not None
