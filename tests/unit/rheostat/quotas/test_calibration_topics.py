"""Tests which topics a calibration deletes, and on which clusters it does not run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from rheostat.errors import CommandError
from rheostat.plan.cluster_layout import ClusterLayout
from rheostat.quotas.calibrate.own_topics import (
    MARKER,
    RunName,
    RunTopics,
    find_leftovers,
    is_calibration_topic,
    is_run_active,
    remove_topics,
)
from rheostat.quotas.calibrate.preconditions import partitions_within_limits, quota_in_force, unrest_text
from rheostat.quotas.calibrate.session import try_topic
from streaming.shared.contract.quotas import Default, QuotaEntity
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.topic_mutations import MutationRefused, TopicMutationClient
from streaming.shared.kafka.values import ClusterError, Endpoint, MissingPermission, PartitionState, Unreachable
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


class Hidden:
    """Brokers list topics only from ``shown_at_s`` on, although the controller has them. ``errors`` answer the deletions, in order."""

    def __init__(self, topics: Iterable[str], shown_at_s: float, errors: Iterable[ClusterError | None] = ()) -> None:
        self.topics, self.now_s = set(topics), 0.0
        self.deletions: list[tuple[int, str]] = []
        self._shown_at_s, self._errors = shown_at_s, list(errors)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def listed(self) -> list[str]:
        return sorted(self.topics) if self.now_s >= self._shown_at_s else []

    def brokers(self) -> list[Endpoint]:
        return [Endpoint(1, "a", 1), Endpoint(2, "b", 1)]

    def delete_through(self, broker: int, topic: str) -> ClusterError | None:
        self.deletions.append((broker, topic))
        error = self._errors.pop(0) if self._errors else None
        if error is None:
            self.topics.discard(topic)
        return error

    def remove(self, *possible: str, unanswered_s: float = 10.0) -> tuple[list[str], list[str]]:
        """Returns the topics that are left, and the messages."""
        told = list[str]()
        left = remove_topics(
            cast("TopicMutationClient", self),
            self.listed,
            possible=possible,
            unanswered_s=unanswered_s,
            topics_per_s=20,
            notify=told.append,
            monotonic=lambda: self.now_s,
            sleep=self.sleep,
        )
        return left, told


def test_topic_that_appears_within_a_request_timeout_is_deleted() -> None:
    cluster = Hidden([OWN.topic(1)], shown_at_s=9.0)
    assert cluster.remove() == ([], [])
    assert cluster.topics == set()
    assert cluster.now_s >= 19.0, "the time begins again with each topic"


def test_possible_topics_are_deleted_by_name_before_a_broker_lists_them() -> None:
    cluster = Hidden([OWN.topic(1)], shown_at_s=1e9)
    assert cluster.remove(OWN.topic(1), OWN.topic(2), unanswered_s=0.0) == ([], [])
    assert (cluster.topics, len(cluster.deletions)) == (set(), 2)


def test_deletion_without_answer_is_sent_again_through_another_broker() -> None:
    cluster = Hidden([OWN.topic(1), OWN.topic(2)], shown_at_s=1e9, errors=[Unreachable("time-out")])
    assert cluster.remove(*cluster.topics) == ([], [])
    assert cluster.deletions == [(1, OWN.topic(1)), (2, OWN.topic(1)), (1, OWN.topic(2))]


def test_missing_right_to_delete_is_not_tried_again() -> None:
    refused = MissingPermission("Delete on Topic", "to delete")
    cluster = Hidden([OWN.topic(1)], shown_at_s=0.0, errors=[refused] * 2)
    left, (message,) = cluster.remove()
    assert (left, len(cluster.deletions)) == ([OWN.topic(1)], 1)
    assert "missing right: Delete on Topic" in message


def test_unreachable_cluster_is_no_proof_that_no_topic_is_left() -> None:
    cluster = Hidden([OWN.topic(1)], shown_at_s=0.0)

    def fail() -> list[str]:
        raise ClusterError("no broker answers")

    cluster.listed = fail  # type: ignore[method-assign]
    left, (message,) = cluster.remove(OWN.topic(1))
    assert left == [OWN.topic(1)]
    assert "no broker answers" in message
    left, (message,) = cluster.remove()
    assert "It is unknown whether topics are left: no broker answers" in message


class Broker:
    """Answers creations and deletions with these errors, in order; None afterwards."""

    def __init__(self, creations: Iterable[ClusterError | None] = (), deletions: Iterable[ClusterError | None] = ()):
        self._creations, self._deletions = list(creations), list(deletions)
        self.requests: list[str] = []

    def brokers(self) -> list[Endpoint]:
        return [Endpoint(1, "a", 1)]

    def create_through(self, _: int, topic: str, partitions: int, factor: int, configs: Any) -> ClusterError | None:
        assert (partitions, factor, configs) == (1, 3, MARKER)
        self.requests.append(f"create {topic[-1]}")
        return self._creations.pop(0) if self._creations else None

    def delete_through(self, _: int, topic: str) -> ClusterError | None:
        self.requests.append(f"delete {topic[-1]}")
        return self._deletions.pop(0) if self._deletions else None


@pytest.mark.parametrize(
    ("error", "may_exist"),
    [
        (None, True),
        (Unreachable("time-out"), True),
        (ClusterError("error 7 RequestTimedOut"), True),
        (MutationRefused("quota"), False),
        (MissingPermission("Create", "to create"), False),
    ],
)
def test_topic_may_exist_unless_its_creation_was_refused(error: ClusterError | None, *, may_exist: bool) -> None:
    topics, broker = RunTopics(OWN, 3), Broker([error], [Unreachable("time-out")])
    client = cast("TopicMutationClient", broker)
    assert topics.create(client, 1, OWN.topic(1), 1) is error
    expected = {OWN.topic(1)} if may_exist else set()
    assert topics.possible == expected
    topics.delete(client, 1, OWN.topic(1))
    assert topics.possible == expected, "the deletion is not confirmed"
    topics.delete(client, 1, OWN.topic(1))
    assert topics.possible == set()


def try_on(broker: Broker) -> RunTopics:
    topics = RunTopics(OWN, 3)
    try_topic(cast("TopicMutationClient", broker), topics, OWN.topic(1))
    return topics


def test_trial_creates_and_deletes_one_topic() -> None:
    broker = Broker()
    assert try_on(broker).possible == set()
    assert broker.requests == ["delete 1", "create 1", "delete 1"]


@pytest.mark.parametrize(
    ("broker", "requests", "text"),
    [
        (Broker(deletions=[ClusterError("error 73")]), ["delete 1"], "cannot delete its topics: error 73"),
        (Broker(creations=[MissingPermission("Create", "it")]), ["delete 1", "create 1"], "cannot be created: missing"),
        (
            Broker(deletions=[None, MissingPermission("Delete", "it")]),
            ["delete 1", "create 1", "delete 1"],
            "cannot delete its topics: missing right: Delete",
        ),
    ],
    ids=["deletion-disabled", "no-create", "no-delete"],
)
def test_calibration_without_right_ends_at_its_trial(broker: Broker, requests: list[str], text: str) -> None:
    with pytest.raises(CommandError, match=text):
        try_on(broker)
    assert broker.requests == requests


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
