"""Checks of a plan against cordons: targets that take no replicas, directories without room, and cordons that Kafka lacks."""

from __future__ import annotations

from rheostat.plan.cluster_layout import ClusterLayout
from rheostat.reassign.cordon_checks import cordon_violations, open_disks
from rheostat.reassign.plan_input import PlanChanges, PlanClusterState
from streaming.shared.cordons import BrokerCordon
from streaming.shared.kafka.reassignments import Disk
from streaming.shared.kafka.versions import BrokerVersion
from tuner.core.reassignment_plan import PlanPartition

A, B = Disk("/a", 100, 10), Disk("/b", 100, 90)
NEW = BrokerVersion(31, 31, True)
PARTITIONS = {("t", 0): PlanPartition((1, 3), (1, 2))}


def cluster(entries: tuple[str, ...], version: BrokerVersion = NEW) -> PlanClusterState:
    cordons = {3: BrokerCordon(("/a", "/b"), entries)}
    layout = ClusterLayout("here", {1: None, 2: None, 3: None}, {})
    return PlanClusterState(layout, {}, {3: (A, B)}, {}, 1, cordons=cordons, versions=dict.fromkeys((1, 2, 3), version))


def test_target_on_a_cordoned_broker_is_a_violation() -> None:
    (text,) = cordon_violations(PlanChanges((), PARTITIONS), cluster(("*",)))
    assert text.startswith("t-0: the plan adds replicas on broker 3, which is cordoned (cordoned.log.dirs)")
    assert cordon_violations(PlanChanges((), PARTITIONS), cluster(("/b",))) == []
    assert cordon_violations(PlanChanges((), {("t", 0): PlanPartition((3, 1), (1, 3))}), cluster(("*",))) == []


def test_plan_must_not_cordon_its_own_target() -> None:
    (text,) = cordon_violations(PlanChanges((), PARTITIONS, (3,)), cluster(()))
    assert text.startswith("t-0: the plan adds replicas on broker 3, which it also cordons")


def test_cordon_on_an_older_version_is_a_violation() -> None:
    old = cluster((), BrokerVersion(29, 29, True))
    (text,) = cordon_violations(PlanChanges((), PARTITIONS, (2,)), old)
    assert "broker 2 cannot be cordoned: cordoned log directories need Kafka 4.3 or newer" in text


def test_only_directories_without_a_cordon_have_room() -> None:
    assert open_disks(3, cluster(("/b",))) == (A,)
    assert open_disks(3, cluster(())) == (A, B)
