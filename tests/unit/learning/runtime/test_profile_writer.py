from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any

import kafka.errors
import pytest

from learning.runtime.learn_counts import LearnCounts
from learning.runtime.profile_writer import ProfileWriter
from streaming.shared.contract.learned_encoding import encode_profile, profile_key
from streaming.shared.contract.profiles import BrokerProfile

GO_ON = threading.Event()
PROFILE = BrokerProfile(cluster="c", broker=1, made_at_ms=3_600_000, start_ms=3_600_000, history_s=3600.0)


@dataclass
class Sent:
    """A future of kafka-python."""

    exception: Exception | None = None

    def succeeded(self) -> bool:
        return self.exception is None

    def failed(self) -> bool:
        return self.exception is not None


@dataclass
class Producer:
    """Keeps the records; refuses those of the broker ``refuses``."""

    records: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    refuses: bytes | None = None

    def send(self, topic: str, *, key: bytes, value: bytes | None) -> Sent:
        assert topic == "t.profiles"
        if key == self.refuses:
            return Sent(kafka.errors.NotEnoughReplicasError("too few"))
        self.records.append((key, value))
        return Sent()

    def flush(self, timeout: float) -> None:
        assert timeout > 0


@dataclass
class Record:
    key: bytes
    value: bytes | None


@pytest.fixture
def producer() -> Producer:
    return Producer()


def writer_of(producer: Producer, *topic: Any) -> ProfileWriter:
    writer = ProfileWriter(producer, "t.profiles", "c", LearnCounts())
    for record in topic:
        writer.register(record)
    return writer


def record_of(profile: BrokerProfile) -> Record:
    return Record(profile_key(profile), encode_profile(profile))


def test_unchanged_profile_is_written_once(producer: Producer) -> None:
    writer = writer_of(producer)
    assert writer.write([PROFILE], GO_ON)
    assert writer.write([PROFILE], GO_ON)
    assert producer.records == [(b"c|broker|1", encode_profile(PROFILE))]


def test_profile_that_the_topic_has_already_is_not_written(producer: Producer) -> None:
    assert writer_of(producer, record_of(PROFILE)).write([PROFILE], GO_ON)
    assert producer.records == []
    assert writer_of(producer, record_of(replace(PROFILE, history_s=1.0))).write([PROFILE], GO_ON)
    assert len(producer.records) == 1


def test_records_that_are_no_result_are_deleted(producer: Producer) -> None:
    gone, forged = record_of(replace(PROFILE, broker=2)), Record(b"c|broker|x", b"no profile")
    assert writer_of(producer, gone, forged, Record(b"other|broker|1", b"")).write([PROFILE], GO_ON)
    assert sorted(producer.records, key=lambda record: record[0])[1:] == [(b"c|broker|2", None), (b"c|broker|x", None)]


def test_refused_record_is_sent_again(producer: Producer) -> None:
    other = replace(PROFILE, broker=2)
    producer.refuses = profile_key(other)
    writer = writer_of(producer)
    assert not writer.write([PROFILE, other], GO_ON)
    producer.refuses = None
    assert writer.write([PROFILE, other], GO_ON)
    assert [key for key, _ in producer.records] == [b"c|broker|1", b"c|broker|2"]


class HangingProducer(Producer):
    """Kafka does not answer; ``stop`` is set while the writer waits."""

    flushes = 0

    def flush(self, timeout: float) -> None:
        assert timeout <= 1.0
        self.flushes += 1
        if self.flushes == 2:
            STOP.set()
        raise kafka.errors.KafkaTimeoutError("no answer")


STOP = threading.Event()


def test_writer_that_waits_for_kafka_returns_once_it_is_stopped() -> None:
    producer = HangingProducer()
    writer_of(producer).write([PROFILE], STOP)
    assert producer.flushes == 2
