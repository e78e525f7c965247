"""Computes the next reassignment step of a partition: KIP-435's algorithm.

A partition that changes all of its five replicas at once has ten replicas that use the throttle. Changing a few replicas at a time
loads the cluster less, but takes longer. Each step is one call of AlterPartitionReassignments with an intermediate target: Kafka
copies the added replicas, waits until all replicas of the step are in sync, and only then drops the others.

    (0,1,2,3,4) → (5,0,1,2,3,4) → (5,6,2,3,4) → (5,6,7,8,4) → (5,6,7,8,9)      the KIP's example, two replicas at a time

Invariant: after a step, at least as many replicas are in sync as before it, or as many as the target has, whichever is less. So a
step never takes a partition below min.insync.replicas, unless the target itself does.

In some places the KIP's text, table, example and pseudocode contradict each other. This module decides as follows:
    replica limit       As the pseudocode: a limit for the replicas of one partition (reassignment.parallel.replica.count). The
                        table describes a limit for all replicas, which is this limit × the partitions at a time.
    min.insync          As the text: restore it "even if it exceeds the limit", because Kafka refuses producers. The count is of
                        replicas in sync, as in the example, not of replicas online.
    first step          As the example: it only adds the new leader; the pseudocode also drops replicas. So the second step adds
                        one replica less than it drops.
    default             A transition that fits into one step is one step, as in Kafka today. Otherwise the new leader comes first.
    n                   The pseudocode computes n but never uses it. This module has no n.

Kafka ends a step only when all replicas of the step are in sync. A replica on a dead broker cannot be in sync. So this module adds
two rules to the KIP. If the target does not contain the replica, the next step drops it. If the target contains the replica, the
partition waits until the broker is back, unless the partition is below min.insync.replicas.

Vocabulary (the KIP's):
    CR, FTR   current replicas, final target replicas.
    NR, DR    new replicas, dropped replicas of this step.
    TR        target replicas of this step: CR + NR − DR; replicas of FTR come first, in its order.
    excess    replicas in CR that are not in FTR (the KIP's ER).
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum

UNLIMITED = 2**31 - 1  # The default of all the KIP's limits.


@dataclass(frozen=True, slots=True)
class PartitionTransition:
    """A partition and its target. No reassignment of it is in progress."""

    topic: str
    partition: int
    replicas: tuple[int, ...]  # CR.
    target: tuple[int, ...]  # FTR: at least one, without duplicates.
    leader: int  # -1: none.
    isr: frozenset[int]
    min_in_sync: int = 1

    def __post_init__(self) -> None:
        assert self.target
        assert len(set(self.target)) == len(self.target)

    @property
    def is_below_min_in_sync(self) -> bool:
        return len(self.isr) < self.min_in_sync


class StepReason(StrEnum):
    """Why a step is taken now."""

    # The partition is below min.insync.replicas. The step adds as many replicas as needed, even above the limit.
    MIN_IN_SYNC = "min_in_sync"
    PREFERRED_LEADER = "preferred_leader"  # The step adds only the new leader, to relieve the old leader early.
    REPLICAS = "replicas"  # The step changes as many replicas as the limit allows.


class StepOutcomeReason(StrEnum):
    """Reason of a journal entry about the outcome of steps."""

    DONE = "done"  # The plan has ended: every partition has its target.
    CANCELLED = "cancelled"  # The plan has ended or its steps are stopped, because an operator cancelled it.
    ENDED = "ended"  # Steps have ended, and the plan continues.
    NOT_ACCEPTED = "not_accepted"  # Kafka refused a requested step, or its answer is unknown.
    CORDONED = "cordoned"  # Steps are stopped, because they add a replica on a broker that was cordoned.
    DEFERRED = "deferred"  # A step is recorded, but not requested yet.


class WaitReason(StrEnum):
    """Why a partition cannot take a step."""

    NO_LEADER = "no_leader"  # There is no replica to copy from.
    BROKERS_OFFLINE = "brokers_offline"  # Brokers of replicas to add or to keep are down.


@dataclass(frozen=True, slots=True)
class ReassignmentStep:
    """One request to AlterPartitionReassignments for one partition."""

    topic: str
    partition: int
    replicas: tuple[int, ...]  # TR: the argument of AlterPartitionReassignments.
    adding: tuple[int, ...]  # NR.
    dropping: tuple[int, ...]  # DR.
    reason: StepReason
    moves_leader: bool  # Another broker leads after the step.
    # The old leader stays a replica, so the leader changes only by an election of the preferred leader.
    needs_election: bool
    is_last: bool  # The step ends at the target, in its order.


@dataclass(frozen=True, slots=True)
class Wait:
    """A partition that cannot take a step, and the brokers that it waits for."""

    topic: str
    partition: int
    reason: WaitReason
    brokers: tuple[int, ...] = ()


def next_step(
    transition: PartitionTransition, online: AbstractSet[int], replica_movements_max: int = UNLIMITED
) -> ReassignmentStep | Wait | None:
    """Returns the step to request now; None: the partition has reached its target.

    Args:
        online: brokers that are alive.
        replica_movements_max: how many replicas one step may add, and how many it may drop; 1 or more.
    """
    if transition.replicas == transition.target:
        return None
    if transition.leader not in online or transition.isr.isdisjoint(online):
        return Wait(transition.topic, transition.partition, WaitReason.NO_LEADER)
    missing = [b for b in transition.target if b not in transition.replicas]
    excess = [b for b in transition.replicas if b not in transition.target]
    changes = max(len(missing), len(excess))
    is_healthy = len(transition.isr) >= transition.min_in_sync and _all_online_and_in_sync(online, transition)
    if changes <= replica_movements_max and is_healthy:  # The usual case, kept cheap.
        return _last_step(transition, missing, excess)
    addable = [b for b in missing if b in online]
    offline_targets = [b for b in transition.target if b not in online]
    dead_excess = [b for b in excess if b not in online]
    live_excess = [b for b in excess if b in online]

    lacking_in_sync = transition.min_in_sync - sum(b in online for b in transition.isr)
    if lacking_in_sync > 0 and addable:
        return _step(transition, addable[:lacking_in_sync], dead_excess, StepReason.MIN_IN_SYNC)
    if any(b in transition.replicas for b in offline_targets):
        return Wait(transition.topic, transition.partition, WaitReason.BROKERS_OFFLINE, tuple(offline_targets))
    if addable == missing and max(len(missing), len(live_excess)) <= replica_movements_max:
        return _step(transition, missing, excess, StepReason.REPLICAS)
    if addable and addable[0] == transition.target[0]:
        return _step(transition, addable[:1], dead_excess, StepReason.PREFERRED_LEADER)

    current = len(transition.replicas) - len(dead_excess)
    add, drop = _change_counts(current, len(transition.target), len(addable), len(live_excess), replica_movements_max)
    if not (add or drop or dead_excess):
        return Wait(transition.topic, transition.partition, WaitReason.BROKERS_OFFLINE, tuple(offline_targets))
    return _step(transition, addable[:add], [*dead_excess, *live_excess[:drop]], StepReason.REPLICAS)


def _all_online_and_in_sync(online: AbstractSet[int], transition: PartitionTransition) -> bool:
    return transition.isr <= online and online >= {*transition.replicas, *transition.target}


def _last_step(transition: PartitionTransition, adding: Sequence[int], dropping: Sequence[int]) -> ReassignmentStep:
    """Returns the step that makes all changes at once. The result is the same as that of ``_step``, but is computed faster."""
    preferred_leader_changes = transition.target[0] not in (transition.leader, transition.replicas[0])
    leader_is_dropped = transition.leader in dropping
    return ReassignmentStep(
        transition.topic,
        transition.partition,
        replicas=transition.target,
        adding=tuple(adding),
        dropping=tuple(dropping),
        reason=StepReason.REPLICAS,
        moves_leader=preferred_leader_changes or leader_is_dropped,
        needs_election=preferred_leader_changes and not leader_is_dropped,
        is_last=True,
    )


def _change_counts(current: int, target: int, addable: int, droppable: int, changes_max: int) -> tuple[int, int]:
    """Returns how many replicas to add and to drop. The number of replicas stays between its current and its target value."""
    drop = min(changes_max, droppable)
    add = min(changes_max, addable, max(0, target - (current - drop)))
    return add, min(drop, current + add - min(current, target))


def _step(
    transition: PartitionTransition, adding: Sequence[int], dropping: Sequence[int], reason: StepReason
) -> ReassignmentStep:
    kept = [b for b in transition.replicas if b not in dropping]
    members = {*kept, *adding}
    in_target = [b for b in transition.target if b in members]
    replicas = (*in_target, *(b for b in kept if b not in transition.target))
    preferred_leader_changes = replicas[0] not in (transition.leader, transition.replicas[0])
    return ReassignmentStep(
        transition.topic,
        transition.partition,
        replicas,
        adding=tuple(adding),
        dropping=tuple(b for b in transition.replicas if b in dropping),
        reason=reason,
        moves_leader=preferred_leader_changes or transition.leader in dropping,
        needs_election=preferred_leader_changes and transition.leader not in dropping,
        is_last=replicas == transition.target,
    )


def all_steps(transition: PartitionTransition, replica_movements_max: int = UNLIMITED) -> tuple[ReassignmentStep, ...]:
    """Returns all steps to the target, provided that every broker is alive and every step ends."""
    online = {*transition.replicas, *transition.target}
    steps: list[ReassignmentStep] = []
    while isinstance(step := next_step(transition, online, replica_movements_max), ReassignmentStep):
        steps.append(step)
        if step.is_last:
            break
        transition = apply_step(transition, step)
    return tuple(steps)


def apply_step(transition: PartitionTransition, step: ReassignmentStep) -> PartitionTransition:
    """Returns the partition as Kafka leaves it after the step: all replicas in sync, the leader elected."""
    leader = step.replicas[0] if step.moves_leader else transition.leader
    return replace(transition, replicas=step.replicas, leader=leader, isr=frozenset(step.replicas))
