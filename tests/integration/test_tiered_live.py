"""Tiered topics on real brokers: the bytes that a new replica copies, with KIP-1023, without it, and without the remote storage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_parts import until, wait_for_metadata
from tiered_kit import RemoteStorage, lacking_bytes, local_size, make_tiered_topic

from rheostat.jvm.kafka_versions import kafka_versions
from rheostat.lab.cluster import Lab
from streaming.collector.admin import AdminReader, FullScanResult
from streaming.shared.kafka.default_config import DefaultConfigClient
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.kafka.tiered import new_replica_bytes
from tuner.core.reassignment_plan import ReassignmentSnapshot
from tuner.runtime.reassignment.actuator import KafkaReassignmentActuator

MB = 1_000_000
TOTAL, LOCAL, SEGMENT = 26 * MB, 8 * MB, 1_100_000
# Kafka lets the bytes of a whole quota window pass at once, so a third of the local log takes a while.
THROTTLE_BYTES_PER_S = 350_000
RATES = {1: "leader.replication.throttled.rate", 2: "follower.replication.throttled.rate"}
LISTS = {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"}
SLACK = 0.97  # A record takes some bytes more than its value.
SKIPS_UPLOADED = "follower.fetch.last.tiered.offset.enable"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> RemoteStorage:
    return RemoteStorage.compile(tmp_path_factory.mktemp("remote"))


@pytest.fixture(scope="module")
def lab(storage: RemoteStorage) -> Iterator[Lab]:
    with Lab(storage.lab_spec(kafka_versions()[-1])) as running:
        yield running


@pytest.fixture(scope="module")
def client(lab: Lab) -> Iterator[ReassignmentClient]:
    with ReassignmentClient(lab.kafka_settings(), "test") as made:
        yield made


def start_move(client: ReassignmentClient, topic: str) -> None:
    """Adds a replica on broker 2, throttled on both sides. Broker 1 keeps its replica, and stays the leader."""
    rates = {broker: {key: str(THROTTLE_BYTES_PER_S)} for broker, key in RATES.items()}
    assert set(client.alter_broker_configs(rates).values()) == {None}
    assert set(client.alter_topic_configs({topic: LISTS}).values()) == {None}
    assert client.alter_reassignments({(topic, 0): (1, 2)}, allow_replication_factor_change=True) == {(topic, 0): None}


def watch(client: ReassignmentClient, topic: str, *, skips_uploaded: bool = False) -> list[int]:
    """Returns the remaining bytes that the collector measured until the move ended.

    They fall all the time. So each measurement must be between the true values before and after it.
    """
    key = (topic, 0)
    reader, actuator = AdminReader(client, FullScanResult), KafkaReassignmentActuator(client)
    measured: list[int] = []

    def ended() -> bool:
        before = lacking_bytes(client, topic, 2, skips_uploaded=skips_uploaded)
        answers, snapshot = reader.read([1, 2]), actuator.read_snapshot({topic}, [key])
        after = lacking_bytes(client, topic, 2, skips_uploaded=skips_uploaded)
        assert isinstance(snapshot, ReassignmentSnapshot), snapshot
        if not client.reassignments():
            return True
        collected = answers.sizes[1][key] - answers.sizes[2][key]
        executed = snapshot.log_bytes[1][key] - snapshot.log_bytes[2][key]
        true = [before / SLACK, collected, executed, after * SLACK]
        assert true == sorted(true, reverse=True), true
        measured.append(collected)
        return False

    until(ended, 90, "the move ends", every_s=0.5)
    return measured


def test_move_of_a_tiered_topic_copies_the_local_log(lab: Lab, client: ReassignmentClient) -> None:
    size = make_tiered_topic(lab, client, "orders", total_bytes=TOTAL, local_bytes=LOCAL, segment_bytes=SEGMENT)
    assert new_replica_bytes(client, {("orders", 0): size}, {("orders", 0): 1}) == {("orders", 0): size}
    start_move(client, "orders")
    measured = watch(client, "orders")
    assert len(measured) > 3
    assert 0.2 * size < measured[0] <= size
    assert measured[-1] < 0.3 * size


@pytest.mark.campaign
def test_move_continues_when_remote_storage_is_switched_off(lab: Lab, client: ReassignmentClient) -> None:
    size = make_tiered_topic(lab, client, "refunds", total_bytes=TOTAL, local_bytes=LOCAL, segment_bytes=SEGMENT)
    start_move(client, "refunds")
    until(lambda: local_size(client, 2, "refunds"), 20, "the copy has begun")
    off = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
    assert set(client.alter_topic_configs({"refunds": off}).values()) == {None}
    measured = watch(client, "refunds")
    assert measured
    assert max(measured) <= size


def test_move_with_kip_1023_copies_what_is_not_uploaded(lab: Lab, client: ReassignmentClient) -> None:
    size = make_tiered_topic(lab, client, "clicks", total_bytes=TOTAL, local_bytes=3 * LOCAL, segment_bytes=SEGMENT)
    key = ("clicks", 0)
    assert new_replica_bytes(client, {key: size}, {key: 1}) == {key: size}
    with DefaultConfigClient(lab.kafka_settings(), "test-default") as defaults:
        assert defaults.alter_default_config(SKIPS_UPLOADED, "true") is None
        try:
            until(
                lambda: new_replica_bytes(client, {key: size}, {key: 1})[key] < 0.2 * size,
                20,
                "the setting is in force",
            )
            wait_for_metadata(lab)
            start_move(client, "clicks")
            measured = watch(client, "clicks", skips_uploaded=True)
        finally:
            assert defaults.alter_default_config(SKIPS_UPLOADED, None) is None
    assert max(measured, default=0) < 0.2 * size, "the remaining bytes never were the size of the local log"
    assert local_size(client, 2, "clicks") < 0.2 * size, "the move has ended with replicas of unlike size"


def test_replica_waits_while_the_remote_storage_is_away(
    lab: Lab, client: ReassignmentClient, storage: RemoteStorage
) -> None:
    size = make_tiered_topic(lab, client, "payments", total_bytes=TOTAL, local_bytes=LOCAL, segment_bytes=SEGMENT)
    key, reader = ("payments", 0), AdminReader(client, FullScanResult)
    storage.take_away()
    try:
        start_move(client, "payments")
        until(
            lambda: local_size(client, 1, "payments") and reader.read([1, 2]).awaiting_remote, 20, "the replica waits"
        )
        for _ in range(3):
            answers = reader.read([1, 2])
            assert answers.awaiting_remote == {key: frozenset({2})}
            assert answers.sizes[2][key] == 0
            assert answers.sizes[1][key] == size
    finally:
        storage.bring_back()
    until(lambda: not client.reassignments(), 60, "the move ends after the remote storage has come back")
