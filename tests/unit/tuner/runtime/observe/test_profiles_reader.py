"""Profiles and events of one cluster, read from the start of the topic; forged, unreadable and deleted records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import kafka.errors
import pytest
from kafka import TopicPartition
from tuner_cases import CLUSTER, NOW_MS

from streaming.shared.contract import (
    STEP_S,
    STEPS_MAX,
    BrokerProfile,
    ChangedMeasure,
    ChangeEvent,
    LearnedCapacity,
    LoadForecast,
    Profile,
    encode_profile,
    profile_key,
)
from tuner.runtime.observe.profiles_reader import ProfilesReader

TOPIC = "rheostat.profiles"
PARTITION = TopicPartition(TOPIC, 0)
PROFILE = BrokerProfile(
    cluster=CLUSTER,
    broker=1,
    made_at_ms=NOW_MS,
    start_ms=NOW_MS - NOW_MS % (STEP_S * 1000),
    history_s=1e6,
    client_in=LoadForecast(bytes_per_s=(1e6, None, 3e6), error_bytes_per_s=(1e5,)),
    capacity_in=LearnedCapacity(bytes_per_s=1e8, seen_at_ms=NOW_MS),
)
EVENT = ChangeEvent(
    cluster=CLUSTER,
    measure=ChangedMeasure.CLIENT_LATENCY,
    is_unusual=False,
    before=5.0,
    after=9.0,
    since_ms=NOW_MS - 60_000,
    found_at_ms=NOW_MS,
    broker=1,
)


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    partition: int = 0
    offset: int = 7


def record_of(profile: Profile) -> Record:
    return Record(profile_key(profile), encode_profile(profile))


class FakeConsumer:
    """A KafkaConsumer of one partition, whose first records are compacted away; it never waits."""

    def __init__(self, *log: Record, begin: int = 0) -> None:
        self.log = list(log)
        self.begin = begin
        self.at: int | None = None
        self.error: Exception | None = None

    def partitions_for_topic(self, topic: str) -> set[int]:
        assert topic == TOPIC
        return {0}

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        assert list(partitions) == [PARTITION]

    def seek(self, _: TopicPartition, offset: int) -> None:
        assert self.begin <= offset <= len(self.log)
        self.at = offset

    def position(self, _: TopicPartition) -> int:
        assert self.at is not None
        return self.at

    def end_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {PARTITION: len(self.log)}

    def beginning_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {PARTITION: self.begin}

    def poll(self, **_: int) -> dict[TopicPartition, list[Record]]:
        if self.error is not None:
            raise self.error
        assert self.at is not None
        records, self.at = self.log[self.at : self.at + 2], min(self.at + 2, len(self.log))
        return {PARTITION: records} if records else {}


def reader_of(*records: Record) -> ProfilesReader:
    reader = ProfilesReader(FakeConsumer(*records), TOPIC, CLUSTER)
    assert reader.poll() == len(records)
    return reader


def test_profiles_and_events_are_read_from_the_begin() -> None:
    other = replace(PROFILE, broker=2)
    newer = replace(PROFILE, made_at_ms=NOW_MS + 1)
    later_event = replace(EVENT, is_unusual=True, found_at_ms=NOW_MS + 1)
    reader = reader_of(*map(record_of, (PROFILE, EVENT, other, newer, later_event)))
    assert reader.profiles == {1: newer, 2: other}
    assert reader.events == (later_event, EVENT)
    assert reader.refused.count == 0


def test_next_poll_reads_only_new_records() -> None:
    consumer = FakeConsumer(record_of(PROFILE), record_of(PROFILE), begin=1)
    reader = ProfilesReader(consumer, TOPIC, CLUSTER)
    assert (reader.poll(), reader.poll()) == (1, 0)
    newer = replace(PROFILE, made_at_ms=NOW_MS + 1)
    consumer.log.append(record_of(newer))
    assert (reader.poll(), reader.profiles) == (1, {1: newer})


def test_deleted_profiles_and_events_are_forgotten() -> None:
    deletions = [Record(profile_key(profile), None) for profile in (PROFILE, EVENT)]
    foreign = Record(b"other|broker|2", None)
    deletions += [Record(key, None) for key in (b"2", b"test|broker|" + b"9" * 5000, b"test|broker|\xff")]
    reader = reader_of(*map(record_of, (PROFILE, replace(PROFILE, broker=2), EVENT)), *deletions, foreign)
    assert set(reader.profiles) == {2}
    assert reader.events == ()


def test_profile_of_another_cluster_is_left_out() -> None:
    reader = reader_of(record_of(replace(PROFILE, cluster="other")), record_of(replace(EVENT, cluster="other")))
    assert (reader.profiles, reader.events, reader.refused.count) == ({}, (), 0)


FORGED = {
    "no JSON": Record(b"k", b"\xff"),
    "a signal": Record(b"k", b'{"v": 1, "kind": "tenant"}'),
    "another version": Record(b"k", b'{"v": 99, "kind": "broker"}'),
    "the key of another broker": record_of(PROFILE)._replace(key=b"test|broker|2"),
    "a begin within an hour": record_of(replace(PROFILE, start_ms=PROFILE.start_ms + 1)),
    "a negative load": record_of(replace(PROFILE, client_out=LoadForecast(bytes_per_s=(-1.0,)))),
    "a negative error": record_of(replace(PROFILE, steady_in=LoadForecast(error_bytes_per_s=(-1.0,)))),
    "a negative capacity": record_of(replace(PROFILE, capacity_out=LearnedCapacity(bytes_per_s=-1.0, seen_at_ms=0))),
    "a negative latency": record_of(replace(PROFILE, quiet_p99_ms=(-1.0,))),
    "a negative history": record_of(replace(PROFILE, history_s=-1.0)),
    "too many steps": record_of(replace(PROFILE, steady_out=LoadForecast(bytes_per_s=(1.0,) * (STEPS_MAX + 1)))),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_forged_record_is_counted_and_replaces_nothing(forged: Record) -> None:
    reader = reader_of(record_of(PROFILE), forged)
    assert (reader.profiles, reader.refused.count) == ({1: PROFILE}, 1)


def test_unreadable_topic_keeps_profiles_and_is_read_again() -> None:
    consumer = FakeConsumer(record_of(PROFILE))
    reader = ProfilesReader(consumer, TOPIC, CLUSTER)
    consumer.error = kafka.errors.KafkaConnectionError("no answer")
    assert (reader.poll(), reader.profiles) == (0, {})
    consumer.error = None
    assert (reader.poll(), reader.profiles) == (1, {1: PROFILE})
