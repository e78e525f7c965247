"""Tests which topics a calibration deletes, and on which clusters it does not run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from rheostat.plan.cluster_layout import ClusterLayout
from rheostat.quotas.calibrate.own_topics import (
    MARKER,
    RunName,
    find_leftovers,
    is_calibration_topic,
    is_run_active,
    remove_topics,
)
from rheostat.quotas.calibrate.preconditions import partitions_within_limits, quota_in_force, unrest_text
from streaming.shared.contract.quotas import Default, QuotaEntity
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.topic_mutations import TopicMutationClient
from streaming.shared.kafka.values import ClusterError, Endpoint, PartitionState
from tuner.core.operator_orders import QuotaTrial, QuotaTrialKind
from tuner.core.partition_limits import PartitionCounts, PartitionLimits

KAFKA = KafkaSettings(bootstrap_servers="127.0.0.1:9")
OWN, FOREIGN = RunName("rheostat", "0a1b2c3d"), "rheostat.calibrate.0a1b2c3d.000007"


class Cluster:
    """The topics of a cluster: name → retention and end offset (None: its leader does not answer)."""

    def __init__(self, topics: dict[str, tuple[str, int | None]], undeletable: Iterable[str] = ()) -> None:
        self.topics = topics
        self.deleted: list[tuple[int, str]] = []
        self.undeletable = set(undeletable)

    def partitions(self) -> list[PartitionState]:
        return [PartitionState(topic, 0, leader=1, replicas=(1,), isr=(1,)) for topic in self.topics]

    def topic_configs(self, topics: Iterable[str], keys: Iterable[str]) -> dict[str, dict[str, str]]:
        (key,) = keys
        return {topic: {key: self.topics[topic][0]} for topic in topics}

    def end_offsets(self, partitions: Iterable[PartitionState]) -> dict[tuple[str, int], int]:
        ends = {(state.topic, 0): self.topics[state.topic][1] for state in partitions}
        return {key: end for key, end in ends.items() if end is not None}

    def brokers(self) -> list[Endpoint]:
        return [Endpoint(2, "b", 1), Endpoint(1, "a", 1)]

    def delete_through(self, broker: int, topic: str) -> ClusterError | None:
        if topic in self.undeletable:
            return ClusterError("topic deletion is disabled")
        self.deleted.append((broker, topic))
        del self.topics[topic]
        return None


@pytest.mark.parametrize(
    "name",
    ["rheostat.journal", "orders", "rheostat.calibrate.x", "other.calibrate.0a1b2c3d.000001", f"{FOREIGN}.copy"],
)
def test_other_names_are_no_calibration_topics(name: str) -> None:
    assert is_calibration_topic("rheostat", OWN.topic(3))
    assert not is_calibration_topic("rheostat", name)


def test_new_run_has_its_own_names() -> None:
    assert RunName.new("p").topic(1) != RunName.new("p").topic(1)


def test_leftovers_need_name_marker_and_no_records() -> None:
    marker = MARKER["retention.ms"]
    cluster = Cluster(
        {
            OWN.topic(1): (marker, 0),
            OWN.topic(2): ("604800000", 0),
            OWN.topic(3): (marker, 5),
            OWN.topic(4): (marker, None),
            "orders": (marker, 0),
        }
    )
    assert find_leftovers(cast("ClusterClient", cluster), "rheostat") == [OWN.topic(1)]
    assert find_leftovers(cast("ClusterClient", cluster), "rheostat", RunName("rheostat", "ffffffff")) == []


def test_all_topics_are_deleted_through_all_brokers() -> None:
    names = [OWN.topic(n) for n in range(4)]
    cluster = Cluster(dict.fromkeys(names, (MARKER["retention.ms"], 0)))
    client = cast("TopicMutationClient", cluster)
    pauses: list[float] = []
    left = remove_topics(
        client,
        lambda: find_leftovers(client, "rheostat", OWN),
        topics_per_s=20,
        notify=pytest.fail,
        sleep=pauses.append,
    )
    assert left == []
    assert cluster.deleted == [(1, names[0]), (2, names[1]), (1, names[2]), (2, names[3])]
    assert pauses.count(0.05) == 4


def test_topic_that_cannot_be_deleted_is_reported_with_cause() -> None:
    cluster = Cluster({OWN.topic(1): (MARKER["retention.ms"], 0)}, undeletable=[OWN.topic(1)])
    client, now, told = cast("TopicMutationClient", cluster), [0.0], list[str]()

    def sleep(seconds: float) -> None:
        now[0] += seconds + 1

    left = remove_topics(
        client, lambda: list(cluster.topics), topics_per_s=20, notify=told.append, monotonic=lambda: now[0], sleep=sleep
    )
    assert left == [OWN.topic(1)]
    assert told == ["1 topic could not be deleted: topic deletion is disabled."]


def test_run_counts_as_active_until_its_time_is_over() -> None:
    trial = QuotaTrial(QuotaTrialKind.CALIBRATE, at_ms=1_000, until_ms=9_000, by="ops")
    assert is_run_active(trial, 8_999)
    assert not is_run_active(trial, 9_000)
    assert not is_run_active(None, 0)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, None),
        ({"adding": (3,)}, "1 partition is being reassigned"),
        ({"leader": -1}, "1 partition has no leader"),
        ({"isr": (1,)}, "1 partition is under-replicated"),
    ],
)
def test_unrest_of_cluster_is_named(changes: dict[str, Any], text: str | None) -> None:
    values: dict[str, Any] = {"leader": 1, "replicas": (1, 2), "isr": (1, 2)} | changes
    state = PartitionState("orders", 0, **values)
    assert unrest_text(ClusterLayout("", {1: None, 2: None}, {("orders", 0): state})) == text


def test_quota_for_every_client_would_limit_calibration() -> None:
    default = QuotaEntity(client_id=Default.DEFAULT)
    assert quota_in_force({default: 5.0}, KAFKA, "rheostat-calibrate") == (default, 5.0)
    exempt = QuotaEntity(client_id="rheostat-calibrate")
    assert quota_in_force({default: 5.0, exempt: 1e9}, KAFKA, "rheostat-calibrate") is None
    assert quota_in_force({QuotaEntity("alice"): 5.0}, KAFKA, "rheostat-calibrate") is None


def test_partition_limits_leave_room_for_evenly_placed_replicas() -> None:
    counts = PartitionCounts({1: 90, 2: 50})
    assert partitions_within_limits(counts, PartitionLimits(), 2, 2) == 10_000_000
    assert partitions_within_limits(counts, PartitionLimits(broker_partitions_max=100), 2, 2) == 8
    assert partitions_within_limits(counts, PartitionLimits(partitions_max=150), 2, 2) == 5
    assert partitions_within_limits(counts, PartitionLimits(partitions_max=100), 2, 2) == 0
