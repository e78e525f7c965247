"""Samples from answers of the Admin API."""

from __future__ import annotations

from dataclasses import replace

from streaming.collector.facts import AdminAnswers, adding_by_node, followed_by_node, samples_by_node
from streaming.shared.contract import Metric, Sample
from streaming.shared.kafka.cluster import PartitionState
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle

MB = 1_000_000
# Partition 0 of "orders", led by 1, in sync on 2, being added on 3, throttled with exact lists.
MOVE = PartitionState("orders", 0, leader=1, replicas=(1, 3, 2), isr=(1, 2), adding=(3,), removing=(2,))
EXACT = {"orders": TopicThrottle(ThrottledReplicas.parse("0:1,0:2"), ThrottledReplicas.parse("0:3"))}
SIZES = {1: {("orders", 0): 100 * MB}, 2: {("orders", 0): 100 * MB}, 3: {("orders", 0): 30 * MB}}
LABELS = "partition=0,topic=orders"


def values(samples: list[Sample]) -> dict[str, float]:
    assert all(s.labels in (LABELS, "") for s in samples)
    return {s.name: s.value for s in samples}


def test_samples_throttled_move_appears_on_both_sides() -> None:
    found = samples_by_node(AdminAnswers([MOVE], EXACT, SIZES))
    # In-sync follower 2 and adding replica 3 both use up the leader's quota.
    assert values(found[1]) == {
        Metric.LED_SIZE: 100 * MB, Metric.LED_COUNTED: 2, Metric.LED_REMAINING: 70 * MB,
    }  # fmt: skip
    assert values(found[3]) == {
        Metric.FOLLOWED_SIZE: 30 * MB, Metric.FOLLOWED_LEADER_SIZE: 100 * MB, Metric.FOLLOWED_COUNTED: 1, Metric.FOLLOWED_ADDING: 1,
    }  # fmt: skip
    assert values(found[2])[Metric.FOLLOWED_COUNTED] == 0
    assert values(found[2])[Metric.FOLLOWED_ADDING] == 0


def test_samples_tell_which_replica_awaits_the_remote_storage() -> None:
    answers = AdminAnswers([MOVE], EXACT, SIZES, awaiting_remote={("orders", 0): frozenset({3})})
    found = samples_by_node(answers)
    assert values(found[3])[Metric.FOLLOWED_AWAITS_REMOTE] == 1
    assert Metric.FOLLOWED_AWAITS_REMOTE not in values(found[2])


def test_samples_unthrottled_move_counts_no_replica() -> None:
    found = samples_by_node(AdminAnswers([MOVE], {}, SIZES))
    assert values(found[1])[Metric.LED_COUNTED] == 0
    assert values(found[3])[Metric.FOLLOWED_COUNTED] == 0


def test_samples_wildcard_counts_partitions_without_move() -> None:
    still = PartitionState("orders", 1, leader=1, replicas=(1, 2), isr=(1, 2))
    wild = {"orders": TopicThrottle(ThrottledReplicas(all_replicas=True), ThrottledReplicas(all_replicas=True))}
    sizes = {broker: {("orders", 1): 5 * MB} for broker in (1, 2)}
    found = samples_by_node(AdminAnswers([still], wild, sizes))
    assert {s.name: s.value for s in found[1]}[Metric.LED_COUNTED] == 1
    assert Metric.LED_REMAINING not in {s.name for s in found[1]}
    assert {s.name: s.value for s in found[2]}[Metric.FOLLOWED_COUNTED] == 1


def test_samples_adding_replica_in_sync_counts_once() -> None:
    joined = PartitionState("orders", 0, leader=1, replicas=(1, 3, 2), isr=(1, 2, 3), adding=(3,), removing=(2,))
    assert values(samples_by_node(AdminAnswers([joined], EXACT, SIZES))[1])[Metric.LED_COUNTED] == 2


def test_samples_replica_without_log_has_everything_to_copy() -> None:
    found = samples_by_node(AdminAnswers([MOVE], EXACT, {**SIZES, 3: {}}))
    assert values(found[3])[Metric.FOLLOWED_SIZE] == 0
    assert values(found[1])[Metric.LED_REMAINING] == 100 * MB


def test_samples_unknown_size_yields_no_sample() -> None:
    without_destination = {1: SIZES[1], 2: SIZES[2]}
    found = samples_by_node(AdminAnswers([MOVE], EXACT, without_destination))
    assert 3 not in found
    assert Metric.LED_REMAINING not in values(found[1])
    without_leader = {2: SIZES[2], 3: SIZES[3]}
    assert samples_by_node(AdminAnswers([MOVE], EXACT, without_leader)) == {}


def test_samples_partition_without_leader_is_skipped() -> None:
    orphan = PartitionState("orders", 0, leader=-1, replicas=(1, 2), isr=(), adding=(3,))
    assert samples_by_node(AdminAnswers([orphan], EXACT, SIZES)) == {}


def test_samples_rates_belong_to_their_broker() -> None:
    found = samples_by_node(AdminAnswers(rates={1: {Metric.LEADER_RATE: 4.5 * MB}, 2: {}}))
    assert found == {1: [Sample(Metric.LEADER_RATE, "", 4.5 * MB)], 2: []}


def test_followed_by_node_lists_followed_partitions() -> None:
    assert followed_by_node(AdminAnswers([MOVE], EXACT, SIZES)) == {3: [("orders", 0)], 2: [("orders", 0)]}


def test_adding_by_node_names_added_replicas_only() -> None:
    still = PartitionState("orders", 1, leader=1, replicas=(1, 2), isr=(1, 2))
    assert adding_by_node(AdminAnswers([MOVE, still])) == {3: {("orders", 0)}}


RECOVERY = PartitionState("orders", 0, leader=1, replicas=(1, 2, 3), isr=(1, 2), recovering=(3,))


def test_samples_recovering_replica_copies_like_an_adding_one() -> None:
    found = samples_by_node(AdminAnswers([RECOVERY], EXACT, SIZES))
    assert values(found[1]) == {
        Metric.LED_SIZE: 100 * MB, Metric.LED_COUNTED: 2, Metric.LED_REMAINING: 70 * MB, Metric.LED_RECOVERING: 1,
    }  # fmt: skip
    assert values(found[3])[Metric.FOLLOWED_ADDING] == 2
    assert values(found[2])[Metric.FOLLOWED_ADDING] == 0


def test_samples_partition_that_moves_and_recovers_counts_as_move() -> None:
    both = replace(RECOVERY, replicas=(1, 2, 3, 4), adding=(4,))
    found = samples_by_node(AdminAnswers([both], EXACT, {**SIZES, 4: {}}))
    assert values(found[1])[Metric.LED_REMAINING] == 170 * MB
    assert Metric.LED_RECOVERING not in values(found[1])
    assert values(found[4])[Metric.FOLLOWED_ADDING] == 1
    assert values(found[3])[Metric.FOLLOWED_ADDING] == 2


def test_samples_recovering_replica_of_unknown_size_hides_no_move() -> None:
    both = replace(RECOVERY, replicas=(1, 2, 3, 4), adding=(4,))
    found = samples_by_node(AdminAnswers([both], EXACT, {1: SIZES[1], 2: SIZES[2], 4: {}}))
    assert values(found[1])[Metric.LED_REMAINING] == 100 * MB


def test_samples_log_longer_than_leaders_leaves_nothing_to_copy() -> None:
    found = samples_by_node(AdminAnswers([RECOVERY], EXACT, {**SIZES, 3: {("orders", 0): 130 * MB}}))
    assert values(found[1])[Metric.LED_REMAINING] == 0
