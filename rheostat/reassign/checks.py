"""Checks a plan before it begins: violations forbid the plan, notes only inform the operator. Does no I/O.

Only a certain failure forbids a plan: a disk that would overflow is a violation, and a disk that would be nearly full is a note.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from rheostat.plan.blocked_copies import blocked_copy_texts
from rheostat.reassign.cordon_checks import cordon_violations, open_disks
from rheostat.reassign.plan_input import PlanChanges, PlanClusterState
from streaming.shared.contract import Side
from streaming.shared.kafka.reassignments import Disk
from streaming.shared.units import rate_text, size_text, span_text
from tuner.control.reassignment.explain import name_partitions
from tuner.control.reassignment.scheduler_model import WaitingPartition, planned_partitions
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import BrokerSide, side_name
from tuner.core.partition_limits import INTERNAL_TOPICS, PartitionLimits, count_partitions
from tuner.core.reassignment_plan import Plan
from tuner.core.reassignment_steps import PartitionTransition
from tuner.core.side_load import PlannedPartition
from tuner.planning.fluid_bound import FluidBound, fluid_bound
from tuner.planning.time_estimate import estimate_s

DISK_SHARE_WARN = 0.9


@dataclass(frozen=True, slots=True)
class CheckResult:
    violations: tuple[str, ...]  # A plan with any violation is not submitted.
    notes: tuple[str, ...]
    bound: FluidBound  # The shortest possible time at the given rate, for any order of the steps.
    expected_s: float | None = None  # Estimated duration; None if the plan never ends, or it is not throttled.
    duration: tuple[str, ...] = ()  # Sentences on how much the plan copies and how long that takes.


def check_plan(
    changes: PlanChanges,
    cluster: PlanClusterState,
    *,
    rate_bytes_per_s_max: float | None,
    limits: PartitionLimits,
    may_change_factor: bool,
    batch_limits: BatchLimits | None = None,
    active_plans: Sequence[Plan] = (),
    effective_leader_ratio: float = 1.0,
    has_objective: bool = False,
) -> CheckResult:
    """Returns the violations, the notes and the estimated duration of a plan.

    Args:
        rate_bytes_per_s_max: highest rate of each side; None if the plan is not throttled.
        limits: how many partitions the cluster and each broker may host (KIP-578).
        may_change_factor: whether the operator allows the plan to change the number of replicas of a partition.
        batch_limits: how many partitions may move at a time (KIP-435); None means unlimited.
        active_plans: plans on record that have not ended.
        effective_leader_ratio: share of the rate that leaders get while the plan runs.
        has_objective: whether there is a latency objective, which may lower the rate.
    """
    rates: dict[BrokerSide, float] = {}
    if rate_bytes_per_s_max is not None:
        rates = {(b, side): rate_bytes_per_s_max for b in cluster.layout.brokers for side in Side}
    partitions = list_planned(changes, cluster)
    bound = fluid_bound(partitions, rates)
    expected_s = (
        estimate_s(bound, partitions, rates, batch_limits or BatchLimits(), effective_leader_ratio) if rates else None
    )
    added_bytes = _added_bytes(changes, cluster, active_plans)
    violations = [
        *_factor_changes(changes, may_change_factor),
        *_offline_targets(changes, cluster),
        *cordon_violations(changes, cluster),
        *_blocked_copies(changes, cluster),
        *_exceeded_limits(changes, cluster, limits, active_plans),
        *_full_disks(added_bytes, cluster),
    ]
    if rate_bytes_per_s_max is not None:
        violations += _endless_copies(bound, rate_bytes_per_s_max)
    notes = [*_waits(changes, cluster), *_fewer_racks(changes, cluster), *_nearly_full_disks(added_bytes, cluster)]
    duration = _describe_duration(bound, expected_s, rate_bytes_per_s_max, has_objective=has_objective)
    return CheckResult(tuple(violations), tuple(notes), bound, expected_s, duration)


def _blocked_copies(changes: PlanChanges, cluster: PlanClusterState) -> list[str]:
    added = {key: {*p.target} - {*p.original_replicas} for key, p in changes.partitions.items()}
    leaders = {key: cluster.layout.partitions[key].leader for key in cluster.blocked_copies}
    return blocked_copy_texts(cluster.blocked_copies, added, leaders)


def list_transitions(changes: PlanChanges, cluster: PlanClusterState) -> list[PartitionTransition]:
    """Returns the current and the target replicas of each partition that the plan changes."""
    states = cluster.layout.partitions
    return [
        PartitionTransition(
            topic,
            number,
            partition.original_replicas,
            partition.target,
            states[(topic, number)].leader,
            frozenset(states[(topic, number)].isr),
            # A partition cannot have more replicas in sync than its target has.
            min(cluster.min_in_sync.get(topic, 1), len(partition.target)),
        )
        for (topic, number), partition in sorted(changes.partitions.items())
    ]


def list_planned(changes: PlanChanges, cluster: PlanClusterState) -> list[PlannedPartition]:
    """Returns the partitions of the plan with the bytes to copy."""
    return planned_partitions(_waiting_partitions(changes, cluster))


def _waiting_partitions(changes: PlanChanges, cluster: PlanClusterState) -> list[WaitingPartition]:
    waiting = []
    for transition in list_transitions(changes, cluster):
        partition = changes.partitions[(transition.topic, transition.partition)]
        waiting.append(WaitingPartition(transition, partition.size_bytes, partition.write_bytes_per_s))
    return waiting


def _factor_changes(changes: PlanChanges, may_change: bool) -> list[str]:
    changed = [key for key, p in changes.partitions.items() if len(p.target) != len(p.original_replicas)]
    if not changed or may_change:
        return []
    partition = changes.partitions[min(changed)]
    return [
        f"{name_partitions(changed)}: {len(partition.original_replicas)} replicas now and {len(partition.target)} in the plan; "
        "give --allow-replication-factor-change to allow that"
    ]


def _offline_targets(changes: PlanChanges, cluster: PlanClusterState) -> list[str]:
    online = cluster.layout.brokers
    offline_by_key = {key: {*p.target} - {*p.original_replicas, *online} for key, p in changes.partitions.items()}
    keys = [key for key, offline in offline_by_key.items() if offline]
    if not keys:
        return []
    brokers = ", ".join(map(str, sorted({*chain(*offline_by_key.values())})))
    return [f"{name_partitions(keys)}: the plan adds replicas on brokers that are down: {brokers}; start them first"]


def _exceeded_limits(
    changes: PlanChanges, cluster: PlanClusterState, limits: PartitionLimits, active_plans: Sequence[Plan]
) -> list[str]:
    """Returns a violation for each limit (KIP-578) that is exceeded once this plan and all active plans have ended.

    A broker to which this plan adds no replica may stay above its limit.
    """
    receivers = set[int]()  # Brokers to which this plan adds a replica.
    growth = 0  # Replicas that this plan adds, minus the replicas that it removes.
    net = _net_replicas(cluster, active_plans)  # By broker; this plan is added below.
    for (topic, _), partition in changes.partitions.items():
        if topic not in INTERNAL_TOPICS:
            new = {*partition.target} - {*partition.original_replicas}
            removed = {*partition.original_replicas} - {*partition.target}
            receivers |= new
            net.update(new)
            net.subtract(removed)
            growth += len(new) - len(removed)
    states = cluster.layout.partitions
    counts = count_partitions(((key, state.replicas) for key, state in states.items()), cluster.layout.brokers)
    total = counts.total + sum(net.values())
    cluster_max = limits.cluster_max
    max_text = "not set" if cluster_max is None else cluster_max
    cluster_text = f"the cluster would have {total}, and max.partitions is {max_text}"
    texts = []
    for broker in sorted(receivers):
        count = counts.on_broker(broker) + net[broker]
        if count > limits.for_broker(broker):
            texts.append(
                f"POLICY_VIOLATION: broker {broker} would have {count} partitions, "
                f"and its max.broker.partitions is {limits.for_broker(broker)} ({cluster_text})"
            )
    # KIP-578, Compatibility: a plan that only moves replicas is allowed in a full cluster. Added replicas count as created.
    if cluster_max is not None and growth > 0 and total > cluster_max:
        texts.append(f"POLICY_VIOLATION: {cluster_text}; the plan adds {growth} replicas more than it removes")
    return texts


def _net_replicas(cluster: PlanClusterState, active_plans: Sequence[Plan]) -> Counter[int]:
    """Returns, for each broker, the number of replicas that active plans still add, minus the number that they remove."""
    net = Counter[int]()
    for plan in active_plans:
        for key, partition in plan.partitions.items():
            state = cluster.layout.partitions.get(key)
            # A plan that was cancelled without rollback adds and removes no more replicas: partitions keep their current replicas.
            if state is not None and key[0] not in INTERNAL_TOPICS and not plan.head.no_rollback:
                net.update({*plan.goal(partition)} - {*state.replicas})
                net.subtract({*state.replicas} - {*plan.goal(partition)})
    return net


def _added_bytes(changes: PlanChanges, cluster: PlanClusterState, active_plans: Sequence[Plan]) -> dict[int, float]:
    """Returns, for each broker, the bytes that this plan and all active plans copy to it.

    Replicas that leave a broker are not subtracted, because Kafka deletes them only after the copy.
    """
    added: dict[int, float] = defaultdict(float)
    for partition in changes.partitions.values():
        for broker in {*partition.target} - {*partition.original_replicas}:
            added[broker] += partition.size_bytes
    for plan in active_plans:
        for key, partition in plan.partitions.items():
            state = cluster.layout.partitions.get(key)
            complete = set() if state is None else {*state.replicas} - {*state.adding}
            for broker in {*partition.target} - complete:
                added[broker] += partition.size_bytes
    return added


def _volume_bytes(disks: Sequence[Disk]) -> tuple[float, float]:
    """Returns usable and total bytes. Directories with equal figures count as one volume, since each reports its whole disk."""
    volumes = {(disk.total_bytes, disk.usable_bytes) for disk in disks}
    return float(sum(usable for _, usable in volumes)), float(sum(total for total, _ in volumes))


def _usable_bytes_max(disks: Sequence[Disk]) -> float:
    """Returns the usable bytes if each directory has its own disk, because equal new disks also report equal figures."""
    return float(sum(disk.usable_bytes for disk in disks))


def _full_disks(added_bytes: Mapping[int, float], cluster: PlanClusterState) -> list[str]:
    """Returns a violation for each broker that cannot hold the added bytes even if each of its directories has its own disk."""
    texts = []
    for broker, added in sorted(added_bytes.items()):
        disks = open_disks(broker, cluster)
        usable = _usable_bytes_max(disks)
        _, total = _volume_bytes(disks)  # 0 if the broker does not report its disks.
        if total and added > usable:
            texts.append(
                f"broker {broker}: the plan copies {size_text(added)} to it, and its disks have {size_text(usable)} free; "
                "add disk space, or move less"
            )
    return texts


def _nearly_full_disks(added_bytes: Mapping[int, float], cluster: PlanClusterState) -> list[str]:
    texts = []
    for broker, added in sorted(added_bytes.items()):
        disks = open_disks(broker, cluster)
        usable, total = _volume_bytes(disks)
        if total and usable < added <= _usable_bytes_max(disks):
            texts.append(
                f"broker {broker}: the plan copies {size_text(added)} to it. Its {len(disks)} directories report the same free "
                f"space: if they share one disk, it has {size_text(usable)} free"
            )
        if total and added <= usable and total - usable + added > DISK_SHARE_WARN * total:
            share = (total - usable + added) / total
            texts.append(f"broker {broker}: its disks will be {share:.0%} full")
    unknown = sorted(b for b in added_bytes if b not in cluster.disks or not cluster.disks[b])
    if unknown:
        texts.append(f"the free disk space of brokers {', '.join(map(str, unknown))} is not known")
    return texts


def _endless_copies(bound: FluidBound, rate_bytes_per_s_max: float) -> list[str]:
    if not bound.never:
        return []
    keys = sorted({(topic, number) for topic, number, _ in bound.never})
    _, _, side = bound.never[0]
    return [
        f"{name_partitions(keys)}: the write rate alone needs more than the throttle of {rate_text(rate_bytes_per_s_max)}, for "
        f"example on the {side_name(side)}: the copy would never end. Raise the rate (tuner.rate_bytes_per_s_max, or --throttle "
        "if you gave it), or move these partitions when producers write less"
    ]


def _waits(changes: PlanChanges, cluster: PlanClusterState) -> list[str]:
    states = cluster.layout.partitions
    moving = [key for key in changes.partitions if states[key].adding or states[key].removing]
    leaderless = [key for key in changes.partitions if states[key].leader < 0]
    return [
        *(
            [f"{name_partitions(moving)}: already being reassigned; the plan waits until that reassignment has ended"]
            if moving
            else ()
        ),
        *(
            [f"{name_partitions(leaderless)}: no leader; the plan waits until Kafka has elected one"]
            if leaderless
            else ()
        ),
    ]


def _fewer_racks(changes: PlanChanges, cluster: PlanClusterState) -> list[str]:
    racks = cluster.layout.racks
    if not racks or None in racks.values():
        return []

    def count_racks(replicas: Sequence[int]) -> int:
        return len({racks[b] for b in replicas if b in racks})

    keys = [
        key
        for key, partition in changes.partitions.items()
        if count_racks(partition.target) < min(len(partition.target), count_racks(partition.original_replicas))
    ]
    return [f"{name_partitions(keys)}: on fewer racks than now"] if keys else []


def _describe_duration(
    bound: FluidBound, expected_s: float | None, rate_bytes_per_s_max: float | None, *, has_objective: bool
) -> tuple[str, ...]:
    if not bound.copied_bytes:
        return ()
    copies = f"The plan copies {size_text(bound.copied_bytes)}"
    if rate_bytes_per_s_max is None:
        return (f"{copies}. The time without a throttle is not known.",)
    if bound.time_s is None or expected_s is None:
        return ()
    slowest = "" if bound.slowest is None else f", because of the {side_name(bound.slowest)}"
    longer = "; longer if the latency objective lowers the rate" if has_objective else ""
    return (
        f"{copies} in about {span_text(expected_s)} at {rate_text(rate_bytes_per_s_max)}{longer}. No order of the steps takes "
        f"less than {span_text(bound.time_s)}{slowest}.",
    )
