"""The follower reads the last week once a week is asked for, then new periods; forged records, errors, a missing topic."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import kafka.errors
import pytest
from kafka import TopicPartition
from tuner_cases import CLUSTER, NOW_MS
from week_cases import history_week

from streaming.shared.contract import HistoryPeriod, encode_history
from tuner.api.week_store import WeekStore
from tuner.runtime.clock import Clock
from tuner.runtime.observe import background_reader
from tuner.runtime.observe import history_follower as follower_module
from tuner.runtime.observe.history_follower import history_follower

TOPIC = "rheostat.history"
PARTITION = TopicPartition(TOPIC, 0)
PERIODS = history_week(CLUSTER, (1,), NOW_MS, 0.5)
WAIT_S = 10.0


class Record(NamedTuple):
    value: bytes | None
    key: bytes | None = f"{CLUSTER}|1".encode()
    partition: int = 0
    offset: int = 7


class Offset(NamedTuple):
    offset: int


def record_of(period: HistoryPeriod) -> Record:
    return Record(encode_history(period))


class FakeConsumer:
    """A KafkaConsumer of one partition. Records beyond ``log`` arrive through ``later``; an exception there is raised."""

    def __init__(self, log: list[Record], *, exists: bool = True) -> None:
        self.log, self.exists = log, exists
        self.later: queue.Queue[Record | Exception] = queue.Queue()
        self.at = -1
        self.since_ms = 0
        self.closed = threading.Event()

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        assert topic == TOPIC
        return {0} if self.exists else None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        assert list(partitions) == ([PARTITION] if self.exists else [])

    def end_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {PARTITION: len(self.log)}

    def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, Offset | None]:
        self.since_ms = times[PARTITION]
        return {PARTITION: Offset(1) if len(self.log) > 1 else None}

    def seek(self, _: TopicPartition, offset: int) -> None:
        self.at = offset

    def position(self, _: TopicPartition) -> int:
        return self.at

    def assignment(self) -> set[TopicPartition]:
        return {PARTITION} if self.exists else set()

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


@pytest.fixture(autouse=True)
def _short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "_POLL_MS", 20)


@contextmanager
def following(*consumers: FakeConsumer | Exception) -> Iterator[WeekStore]:
    """Runs a follower that gets these consumers one after another."""
    left = list(consumers)

    def create() -> FakeConsumer:
        made = left.pop(0)
        if isinstance(made, Exception):
            raise made
        return made

    store = WeekStore(CLUSTER)
    follower = history_follower(create, TOPIC, store, Clock(lambda: NOW_MS / 1000))
    follower.start()
    try:
        yield store
    finally:
        follower.stop()


def length(store: WeekStore) -> int:
    week = store.week(1, NOW_MS)
    return len(week.copied) if week is not None else 0


def test_first_request_reads_the_week_and_later_records_follow() -> None:
    consumer = FakeConsumer([record_of(period) for period in PERIODS[:-1]])
    with following(consumer) as store:
        assert consumer.at == -1  # Nothing is read before the request.
        assert store.unread_reason(WAIT_S) is None
        assert consumer.since_ms == NOW_MS - 7 * 86_400_000
        assert length(store) == len(PERIODS) - 2  # The first record is older than a week.
        consumer.later.put(record_of(PERIODS[-1]))
        consumer.later.put(kafka.errors.KafkaConnectionError("stop here"))
        assert consumer.closed.wait(WAIT_S)
        assert length(store) == len(PERIODS) - 1


def test_older_weeks_are_read_once_a_request_asks_for_them() -> None:
    consumer = FakeConsumer([record_of(period) for period in history_week(CLUSTER, (1,), NOW_MS, 20)])
    with following(consumer) as store:
        assert store.unread_reason(WAIT_S) is None
        assert consumer.since_ms == NOW_MS - 7 * 86_400_000
        is_read = threading.Event()
        store.mark_older_read = is_read.set  # type: ignore[method-assign]
        assert store.older_unread_reason() is not None
        assert is_read.wait(WAIT_S)
        assert consumer.since_ms == NOW_MS - 35 * 86_400_000
        series = store.series(1, NOW_MS - 19 * 86_400_000, NOW_MS, NOW_MS, 336)
        assert None not in series.columns["client_in_bytes_per_s"][1:-1]


def test_forged_and_deleted_records_change_nothing() -> None:
    good = [record_of(period) for period in PERIODS]
    progress = Record(b'{"v": 1, "kind": "progress"}', b"progress")
    forged = [Record(b"\xff"), Record(b'{"v": 9, "kind": "period"}'), Record(None), progress]
    with following(FakeConsumer([good[0], *forged, *good])) as store:
        assert store.unread_reason(WAIT_S) is None
        assert length(store) == len(PERIODS)


def test_missing_topic_is_an_empty_history_until_it_appears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_reader, "_AGAIN_S", 0.01)
    later = FakeConsumer([record_of(period) for period in (PERIODS[0], *PERIODS)])
    with following(FakeConsumer([], exists=False), later) as store:
        assert store.unread_reason(WAIT_S) is None
        later.later.put(kafka.errors.KafkaConnectionError("stop here"))
        assert later.closed.wait(WAIT_S)
        assert length(store) == len(PERIODS)


def test_unreadable_topic_is_named_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Event()
    monkeypatch.setattr(background_reader, "_AGAIN_S", 0.2)
    later = FakeConsumer([record_of(period) for period in (PERIODS[0], *PERIODS)])
    with following(kafka.errors.KafkaConnectionError("no answer"), later) as store:

        def mark(problem: str) -> None:
            WeekStore.mark_unreadable(store, problem)
            tried.set()

        monkeypatch.setattr(store, "mark_unreadable", mark)
        store.on_request()
        assert tried.wait(WAIT_S)
        assert "the history topic rheostat.history cannot be read: " in (store._problem or "")
        assert store._is_read.wait(WAIT_S)
        assert store.unread_reason(0.0) is None


def test_empty_topic_begins_at_its_end() -> None:
    consumer = FakeConsumer([])
    with following(consumer) as store:
        assert store.unread_reason(WAIT_S) is None
        assert (consumer.at, store.is_empty) == (0, True)
