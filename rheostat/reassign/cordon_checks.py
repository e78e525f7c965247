"""Checks a plan against cordoned brokers and log directories (KIP-1066), and the cordons that it orders. Does no I/O."""

from __future__ import annotations

from rheostat.reassign.plan_input import PlanChanges, PlanClusterState
from streaming.shared import kafka_names
from streaming.shared.cordons import cordoned_brokers
from streaming.shared.kafka.cordons import find_missing
from streaming.shared.kafka.reassignments import Disk
from tuner.control.reassignment.explain import name_partitions


def cordon_violations(changes: PlanChanges, cluster: PlanClusterState) -> list[str]:
    """Returns a violation for each cordoned broker to which the plan adds replicas, and for cordons that Kafka does not support."""
    texts = []
    added = {key: {*p.target} - {*p.original_replicas} for key, p in changes.partitions.items()}
    cordoned = cordoned_brokers(cluster.cordons)
    for broker in sorted(cordoned):
        keys = [key for key, brokers in added.items() if broker in brokers]
        if keys:
            texts.append(
                f"{name_partitions(keys)}: the plan adds replicas on broker {broker}, which is cordoned "
                f"({kafka_names.CORDONED_LOG_DIRS}): lift the cordon, or make a plan without this broker"
            )
    for broker in changes.cordon:
        keys = [key for key, brokers in added.items() if broker in brokers]
        if keys:
            texts.append(
                f"{name_partitions(keys)}: the plan adds replicas on broker {broker}, which it also cordons: take broker {broker} "
                'out of "cordon" or of the replicas'
            )
    if (missing := find_missing(cluster.versions, changes.cordon)) is not None:
        texts.append(f'"cordon" in the plan: {missing}. Take "cordon" out of the plan to move without it')
    return texts


def open_disks(broker: int, cluster: PlanClusterState) -> tuple[Disk, ...]:
    """Returns the disks of a broker that take new replicas."""
    disks = cluster.disks.get(broker, ())
    cordon = cluster.cordons.get(broker)
    if cordon is None or cordon.is_broker_cordoned:
        return disks
    return tuple(disk for disk in disks if disk.directory not in cordon.cordoned)
