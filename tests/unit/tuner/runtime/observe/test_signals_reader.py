"""The newest signal of each entity, backlog signals, refused records, and a signals topic that fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import kafka.errors
import pytest
import structlog
from kafka import TopicPartition
from tuner_cases import CLUSTER, NOW_MS, SOURCE, TARGET, broker_signal, move_signal

from streaming.shared.contract import (
    STEP_S,
    BrokerProfile,
    ControllerSignal,
    ReplicationSignal,
    Side,
    Signal,
    TenantSignal,
    encode_signal,
)
from tuner.journal.topic_tail import POLLS_MAX, TopicTail
from tuner.runtime.observe.signals_reader import SignalCache, SignalReader

TOPIC = "rheostat.signals"


class Offset(NamedTuple):
    offset: int


class Record(NamedTuple):
    value: bytes | None
    at_ms: int = 0
    partition: int = 0
    offset: int = 7
    key: bytes | None = None


class FakeConsumer:
    """A KafkaConsumer with one log for each partition; it never waits."""

    def __init__(self, *logs: list[Record]) -> None:
        self.logs = {TopicPartition(TOPIC, i): log for i, log in enumerate(logs)}
        self.positions: dict[TopicPartition, int] = {}
        self.begins: dict[TopicPartition, int] = {}
        self.error: Exception | None = None
        self.polls = 0

    def partitions_for_topic(self, topic: str) -> set[int]:
        assert topic == TOPIC
        return {p.partition for p in self.logs}

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.positions = {p: self.begins.get(p, 0) for p in partitions}

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self.positions |= {p: len(self.logs[p]) for p in partitions}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert self.begins.get(partition, 0) <= offset <= len(self.logs[partition])
        self.positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {p: len(self.logs[p]) for p in partitions}

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {p: self.begins.get(p, 0) for p in partitions}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Offset | None]:
        def first(partition: TopicPartition, at_ms: int) -> Offset | None:
            return next((Offset(i) for i, r in enumerate(self.logs[partition]) if r.at_ms >= at_ms), None)

        return {p: first(p, at_ms) for p, at_ms in times.items()}

    def poll(self, max_records: int = 500, **_other: int) -> dict[TopicPartition, list[Record]]:
        self.polls += 1
        if self.error is not None:
            raise self.error
        found = {p: self.logs[p][at : at + max_records] for p, at in self.positions.items()}
        self.positions |= {p: self.positions[p] + len(records) for p, records in found.items()}
        return {p: records for p, records in found.items() if records}


LAG = ReplicationSignal(CLUSTER, 3, NOW_MS, NOW_MS, 6, 1.0, lag_sum_messages=7.0)
CONTROLLER = ControllerSignal(CLUSTER, 100, NOW_MS, NOW_MS, 6, 1.0, active=1.0)
TENANT = TenantSignal(CLUSTER, 100, NOW_MS, NOW_MS, 6, 1.0, user="alice", tokens=-3.0)


def reader_of(*signals: Signal) -> SignalReader:
    consumer = FakeConsumer([])
    reader = SignalReader(consumer, TOPIC, CLUSTER)
    assert reader.poll() == 0  # From the end on.
    consumer.logs[TopicPartition(TOPIC, 0)] += [Record(encode_signal(s)) for s in signals]
    assert reader.poll() == len(signals)
    return reader


def kept_by(reader: SignalReader) -> list[Signal]:
    by_kind = (reader.brokers, reader.moves, reader.replication, reader.controllers, reader.tenants)
    return [signal for signals in by_kind for signal in signals.values()]


def test_signals_are_kept_by_kind_and_entity() -> None:
    other = replace(TENANT, client_id="loader")
    reader = reader_of(
        broker_signal(1), broker_signal(3), move_signal(*SOURCE), move_signal(*TARGET), LAG,
        CONTROLLER, replace(CONTROLLER, node=101, active=0.0), TENANT, other, replace(TENANT, node=101),
    )  # fmt: skip
    assert set(reader.brokers) == {1, 3}
    assert set(reader.moves) == {SOURCE, TARGET}
    assert reader.replication == {3: LAG}
    assert {node: s.active for node, s in reader.controllers.items()} == {100: 1.0, 101: 0.0}
    assert set(reader.tenants) == {(100, "alice", None), (100, "alice", "loader"), (101, "alice", None)}


@pytest.mark.parametrize("signal", [broker_signal(1), move_signal(*SOURCE), LAG, CONTROLLER, TENANT])
def test_backlog_signal_is_counted_and_replaces_nothing(signal: Signal) -> None:
    live = replace(signal, samples=1)
    newer = replace(signal, backlog=True, sampled_at_ms=signal.sampled_at_ms + 1)
    reader = reader_of(live, newer)
    kept = kept_by(reader)
    assert kept == [live]
    assert reader.backlog == 1


@pytest.mark.parametrize("signal", [broker_signal(1), move_signal(*SOURCE), LAG, CONTROLLER, TENANT])
@pytest.mark.parametrize(
    ("later_ms", "samples", "wins"),
    [(1, 1, True), (0, 6, True), (0, 7, True), (0, 5, False), (-1, 9, False), (-600_001, 1, True)],
)
def test_newest_sample_wins_then_fullest_window(signal: Signal, later_ms: int, samples: int, wins: bool) -> None:
    """Last case: the clock of the first signal was ten minutes ahead."""
    second = replace(signal, sampled_at_ms=signal.sampled_at_ms + later_ms, samples=samples)
    reader = reader_of(signal, second)
    kept = kept_by(reader)
    assert kept == [second if wins else signal]


def test_signals_ten_minutes_old_are_forgotten() -> None:
    old = NOW_MS - 600_000
    reader = reader_of(
        broker_signal(1, age_s=599), broker_signal(3, age_s=600), move_signal(*SOURCE, age_s=600), move_signal(*TARGET),
        replace(CONTROLLER, sampled_at_ms=old), replace(TENANT, sampled_at_ms=old), replace(TENANT, user="bob"),
        replace(LAG, sampled_at_ms=old),
    )  # fmt: skip
    reader.forget_old(NOW_MS)
    assert (set(reader.brokers), set(reader.moves), set(reader.controllers)) == ({1}, {TARGET}, set())
    assert set(reader.tenants) == {(100, "bob", None)}
    assert reader.replication == {}


def test_records_of_other_clusters_and_unreadable_ones_are_skipped() -> None:
    consumer = FakeConsumer([])
    reader = SignalReader(consumer, TOPIC, CLUSTER)
    reader.poll()
    values = [None, b"", b"{}", encode_signal(replace(CONTROLLER, cluster="other")), encode_signal(CONTROLLER)]
    consumer.logs[TopicPartition(TOPIC, 0)] += [Record(v) for v in values]
    assert reader.poll() == 5
    assert (reader.refused.count, set(reader.controllers)) == (3, {100})


HOSTILE = {
    "huge": encode_signal(CONTROLLER).replace(b'"sampled_at_ms": ', b'"sampled_at_ms": 1' + b"0" * 400),
    "nested": encode_signal(CONTROLLER)[:-1] + b', "later": ' + b"[" * 100_000,
    "infinite": encode_signal(CONTROLLER).replace(b"1.0", b"1e999"),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_hostile_record_is_refused_and_others_are_read(hostile: bytes) -> None:
    consumer = FakeConsumer([])
    reader = SignalReader(consumer, TOPIC, CLUSTER)
    reader.poll()
    good = [Record(encode_signal(replace(CONTROLLER, node=node))) for node in range(200)]
    consumer.logs[TopicPartition(TOPIC, 0)] += [*good[:100], Record(hostile), *good[100:]]
    assert reader.poll() == 201
    assert (len(reader.controllers), reader.refused.count) == (200, 1)


def test_refused_records_are_logged_once_a_minute_with_offset() -> None:
    now_s = 0.0
    consumer = FakeConsumer([])
    reader = SignalReader(consumer, TOPIC, CLUSTER, monotonic=lambda: now_s)
    reader.poll()
    with structlog.testing.capture_logs() as lines:
        for now_s in (0.0, 1.0, 59.0, 61.0):
            consumer.logs[TopicPartition(TOPIC, 0)].append(Record(b"{}", offset=int(now_s), key=b"\x1b[31m"))
            reader.poll()
    assert [(line["offset"], line["refused_since"]) for line in lines] == [(0, 1), (61, 3)]
    assert lines[0]["key"] == "b'\\x1b[31m'"


def test_number_of_entities_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.runtime.observe.signals_reader.ENTITIES_MAX", 3)
    newer = replace(CONTROLLER, node=0, sampled_at_ms=NOW_MS + 1)
    reader = reader_of(*(replace(CONTROLLER, node=node) for node in range(9)), newer)
    assert set(reader.controllers) == {0, 1, 2}
    assert reader.controllers[0] == newer


def test_sample_from_far_future_is_forgotten() -> None:
    reader = reader_of(replace(CONTROLLER, sampled_at_ms=NOW_MS + 600_000), replace(TENANT, sampled_at_ms=NOW_MS + 1))
    reader.forget_old(NOW_MS)
    assert (len(reader.controllers), len(reader.tenants)) == (0, 1)


@pytest.mark.parametrize("error", [kafka.errors.KafkaTimeoutError("away"), RuntimeError("closed"), OSError("reset")])
def test_unreadable_signals_topic_is_read_after_recovery(error: Exception) -> None:
    consumer = FakeConsumer([Record(encode_signal(CONTROLLER))])
    reader = SignalReader(consumer, TOPIC, CLUSTER)
    consumer.error = error
    assert reader.poll() == 0
    reader.rewind()
    assert reader.controllers == {}
    consumer.error = None
    reader.rewind()
    assert set(reader.controllers) == {100}


def test_missing_signals_topic_is_read_once_created() -> None:
    consumer = FakeConsumer()
    reader = SignalReader(consumer, TOPIC, CLUSTER)
    assert reader.poll() == 0
    reader.rewind()
    consumer.logs[TopicPartition(TOPIC, 0)] = []
    assert reader.poll() == 0
    consumer.logs[TopicPartition(TOPIC, 0)].append(Record(encode_signal(CONTROLLER)))
    assert reader.poll() == 1


def test_endless_signals_stop_after_maximum_polls() -> None:
    class Endless(FakeConsumer):
        def poll(self, **_limits: int) -> dict[TopicPartition, list[Record]]:
            self.polls += 1
            return {TopicPartition(TOPIC, 0): [Record(encode_signal(CONTROLLER))]}

    consumer = Endless([])
    assert SignalReader(consumer, TOPIC, CLUSTER).poll() == POLLS_MAX


# -- the first read of a topic -------------------------------------------------------------------------------------------


def log_of(count: int, now_ms: int, every_ms: int) -> list[Record]:
    return [Record(b"%d" % i, now_ms - (count - 1 - i) * every_ms) for i in range(count)]


@pytest.fixture
def now_ms(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("tuner.runtime.observe.signals_reader.time.time", lambda: NOW_MS / 1000)
    return NOW_MS


@pytest.fixture(autouse=True)
def newest_timestamps(monkeypatch: pytest.MonkeyPatch) -> None:
    def newest_ms(consumer: FakeConsumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {p: max(record.at_ms for record in consumer.logs[p]) for p in partitions if consumer.logs[p]}

    monkeypatch.setattr("tuner.journal.topic_tail.newest_timestamps_ms", newest_ms)


def read_recent(consumer: FakeConsumer, records: int = 0) -> list[int]:
    return [int(r.value or b"-1") for r in TopicTail(consumer, TOPIC).read_recent(records)]


def test_read_recent_includes_whole_last_minute(now_ms: int) -> None:
    """One record every 100 ms: a minute has 601 of them."""
    consumer = FakeConsumer(log_of(2_000, now_ms, 100))
    assert read_recent(consumer) == list(range(2_000 - 601, 2_000))
    assert read_recent(consumer, 700) == list(range(1_300, 2_000))


def test_read_recent_of_stopped_stream_returns_its_last_minute(now_ms: int) -> None:
    consumer = FakeConsumer(log_of(2_000, now_ms - 3_600_000, 100), [])
    assert read_recent(consumer) == list(range(2_000 - 601, 2_000))


def test_read_recent_counts_a_future_timestamp_as_now(now_ms: int) -> None:
    consumer = FakeConsumer([*log_of(100, now_ms, 1_000), Record(b"100", now_ms + 86_400_000)])
    assert read_recent(consumer) == list(range(100 - 61, 101))


def test_rewind_after_stop_reads_signals_of_1000_brokers(now_ms: int) -> None:
    kinds = (broker_signal, lambda broker: replace(LAG, broker=broker), lambda broker: move_signal(broker, Side.LEADER))
    stopped_ms = now_ms - 86_400_000
    log = [Record(encode_signal(kind(broker)), stopped_ms + 5 * broker) for broker in range(1_000) for kind in kinds]
    reader = SignalReader(FakeConsumer(log), TOPIC, CLUSTER)
    reader.rewind()
    assert (len(reader.brokers), len(reader.replication), len(reader.moves)) == (1_000, 1_000, 1_000)


def test_read_recent_starts_no_earlier_than_retention(now_ms: int) -> None:
    consumer = FakeConsumer(log_of(20, now_ms - 3_600_000, 100))
    consumer.begins = {TopicPartition(TOPIC, 0): 15}
    assert read_recent(consumer, 10) == list(range(15, 20))


def test_poll_after_read_recent_returns_newer_records(now_ms: int) -> None:
    consumer = FakeConsumer(log_of(3, now_ms, 100))
    tail = TopicTail(consumer, TOPIC)
    assert len(list(tail.read_recent(10))) == 3
    consumer.logs[TopicPartition(TOPIC, 0)].append(Record(b"3"))
    assert [r.value for r in tail.poll()] == [b"3"]


def test_read_recent_of_unresponsive_partition_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mute(FakeConsumer):
        def poll(self, **_limits: int) -> dict[TopicPartition, list[Record]]:
            self.polls += 1
            return {}

    clock = iter(range(1_000))
    monkeypatch.setattr("tuner.runtime.observe.signals_reader.time.monotonic", lambda: float(next(clock)))
    consumer = Mute([Record(b"0")])
    assert read_recent(consumer, 10) == []
    assert consumer.polls <= 5


class FetchingAhead(FakeConsumer):
    """As kafka-python: a poll returns the records fetched ahead; only a poll with a timeout returns newer ones."""

    def __init__(self, *logs: list[Record]) -> None:
        super().__init__(*logs)
        self.ahead: dict[TopicPartition, list[Record]] = {}

    def poll(self, max_records: int = 500, *, timeout_ms: int = 0, **_other: int) -> dict[TopicPartition, list[Record]]:
        found, self.ahead = self.ahead, {}
        return found or (super().poll(max_records) if timeout_ms > 0 else {})


def test_poll_returns_records_beyond_those_fetched_ahead() -> None:
    consumer = FetchingAhead([])
    reader = SignalReader(consumer, TOPIC, CLUSTER)
    assert reader.poll() == 0
    log = consumer.logs[TopicPartition(TOPIC, 0)]
    log.append(Record(encode_signal(broker_signal(1))))
    consumer.ahead = FakeConsumer.poll(consumer)
    log.append(Record(encode_signal(broker_signal(3))))
    assert reader.poll() == 2
    assert set(reader.brokers) == {1, 3}


def test_new_tuner_has_the_learned_baseline_until_it_has_measured_one() -> None:
    cache, broker = SignalCache(), SOURCE[0]
    hour_ms = NOW_MS - NOW_MS % (STEP_S * 1000)
    cache.profiles = {broker: BrokerProfile(CLUSTER, broker, NOW_MS, hour_ms, 86_400.0, quiet_p99_ms=(40.0,))}
    for number in range(6):
        quiet = replace(
            broker_signal(broker),
            sampled_at_ms=NOW_MS + number * 5000,
            produce_p99_ms=10.0,
            client_in_bytes_per_s=1e6,
            reassignment_in_bytes_per_s=0.0,
            reassignment_out_bytes_per_s=0.0,
        )
        cache.add(quiet)
        found = cache.baselines[broker]
        expected = (40.0, True) if number < 4 else (10.0, False)  # After 20 s.
        assert (found.p99_ms, found.is_learned) == expected, number
