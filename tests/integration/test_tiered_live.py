"""Tiered topics on real brokers: what a new replica has to copy, with and without KIP-1023, and without the remote storage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_parts import until
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
TOTAL, LOCAL, SEGMENT = 40 * MB, 12 * MB, 1_100_000
# Kafka lets the bytes of a whole quota window pass at once, so about half of the local log takes a while.
THROTTLE_BYTES_PER_S = 500_000
RATES = {1: "leader.replication.throttled.rate", 2: "follower.replication.throttled.rate"}
LISTS = {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"}
pytestmark = pytest.mark.timeout(240)


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


def watch(client: ReassignmentClient, topic: str) -> tuple[list[int], list[int]]:
    """Returns what the collector and the plan executor measured as remaining until the move ended, and the truth."""
    key = (topic, 0)
    reader, actuator = AdminReader(client, FullScanResult), KafkaReassignmentActuator(client)
    measured, true = [], []

    def ended() -> bool:
        answers, snapshot = reader.read([1, 2]), actuator.read_snapshot({topic}, [key])
        true.append(lacking_bytes(client, topic, 2))
        if not client.reassignments():
            return True
        measured.append(answers.sizes[1][key] - answers.sizes[2][key])
        assert isinstance(snapshot, ReassignmentSnapshot), snapshot
        executor = snapshot.log_bytes[1][key] - snapshot.log_bytes[2][key]
        assert abs(executor - measured[-1]) <= 3 * MB, "both read the same cluster, one after the other"
        return False

    until(ended, 60, "the move ends", every_s=0.5)
    return measured, true[: len(measured)]


def test_move_of_a_tiered_topic_copies_the_local_log(lab: Lab, client: ReassignmentClient) -> None:
    size = make_tiered_topic(lab, client, "orders", total_bytes=TOTAL, local_bytes=LOCAL, segment_bytes=SEGMENT)
    assert new_replica_bytes(client, {("orders", 0): size}, {("orders", 0): 1}) == {("orders", 0): size}
    start_move(client, "orders")
    measured, true = watch(client, "orders")
    assert 0.5 * size < measured[0] <= size
    errors = [abs(m - t) for m, t in zip(measured, true, strict=True)]
    assert max(errors) < 0.25 * size, list(zip(measured, true, strict=True))
    assert measured[-1] < 0.3 * size
    assert measured == sorted(measured, reverse=True)


@pytest.mark.campaign
def test_move_continues_when_remote_storage_is_switched_off(lab: Lab, client: ReassignmentClient) -> None:
    size = make_tiered_topic(lab, client, "refunds", total_bytes=TOTAL, local_bytes=LOCAL, segment_bytes=SEGMENT)
    start_move(client, "refunds")
    until(lambda: local_size(client, 2, "refunds"), 20, "the copy has begun")
    off = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
    assert set(client.alter_topic_configs({"refunds": off}).values()) == {None}
    measured, _ = watch(client, "refunds")
    assert measured
    assert max(measured) <= size
    assert measured == sorted(measured, reverse=True)


def test_move_with_kip_1023_copies_what_is_not_uploaded(lab: Lab, client: ReassignmentClient) -> None:
    size = make_tiered_topic(lab, client, "clicks", total_bytes=TOTAL, local_bytes=3 * LOCAL, segment_bytes=SEGMENT)
    key = ("clicks", 0)
    assert new_replica_bytes(client, {key: size}, {key: 1}) == {key: size}
    with DefaultConfigClient(lab.kafka_settings(), "test-default") as defaults:
        assert defaults.alter_default_config("follower.fetch.last.tiered.offset.enable", "true") is None

    def is_known() -> bool:
        return new_replica_bytes(client, {key: size}, {key: 1})[key] < 0.2 * size

    until(is_known, 20, "only the active segment has to be copied")
    start_move(client, "clicks")
    measured, _ = watch(client, "clicks")
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
            assert answers.sizes[2] == {key: 0}
            assert answers.sizes[1][key] == size
    finally:
        storage.bring_back()
    until(lambda: not client.reassignments(), 60, "the move ends after the remote storage has come back")
