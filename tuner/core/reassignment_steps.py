"""The next step of one partition on its way to the replicas that it shall have: KIP-435's algorithm.

Intuition: a partition that changes all of its five replicas at once has ten that fetch, and one number, the throttle, for
all of them. Going there a few replicas at a time asks less of everybody, and is slower. Every step is a target of its own
for AlterPartitionReassignments: Kafka copies what the step adds, waits until all of the step's replicas are in sync, and only then
drops what the step drops.

    (0,1,2,3,4) → (5,0,1,2,3,4) → (5,6,2,3,4) → (5,6,7,8,4) → (5,6,7,8,9)      the KIP's example, two replicas at a time

Invariant: after a step the partition has at least as many replicas in sync as before it, or as its target has, whichever is
less. So it never falls below min.insync.replicas through a step, unless the target itself does.

Where the KIP says two things, this is what is done:
    how many replicas   Its pseudocode bounds the replicas of one partition (reassignment.parallel.replica.count), its table
                        describes that number under the name of another and a bound on all of them under this one. Taken is
                        the pseudocode's; partitions at a time × this is then the bound on all, as the table also says.
    min.insync          "Even if it exceeds the limit" (the text) against min(min.insync.replicas, limit) (the pseudocode). The
                        text: a partition that refuses its producers is worth more than an even pace. It counts replicas
                        in sync, as the text's example does, not those online, as the pseudocode: that is what producers need.
    the first step      The pseudocode drops the first replicas at once and adds up to the limit, the example only adds the new
                        leader. The example. So the next step adds one less than it drops, as the example's second does.
    the default         "We practically default to the current behaviour" against "in the first step we'll elect the new preferred
                        leader". A way that fits into one step is one step, as Kafka does it today; else the leader comes first.
    n                   is worked out and never used, with a max that would lift the limit where replicas are added. Left out.

And two things that the KIP's own controller didn't need and Kafka's does, as it ends a step only when all that the step
leaves are in sync: a replica on a dead broker that the target doesn't have is dropped with whatever step comes first, and a
partition that keeps one on a dead broker waits for it, unless producers are refused.

Vocabulary (the KIP's):
    CR, FTR   current replicas, final target replicas.
    NR, DR    new replicas, dropped replicas of this step.
    ER        excess replicas: in CR, not in FTR.
    TR        target replicas of this step: CR + NR − DR; those of FTR first, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum

UNLIMITED = 2**31 - 1  # The KIP's default for all of its limits.


@dataclass(frozen=True, slots=True)
class PartitionTransition:
    """A partition as it stands, and where it shall be. No reassignment of it is under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...]  # CR.
    target: tuple[int, ...]  # FTR; at least one, each once.
    leader: int  # -1: none.
    isr: frozenset[int]
    min_in_sync: int = 1

    def __post_init__(self) -> None:
        assert self.target
        assert len(set(self.target)) == len(self.target)


class StepReason(StrEnum):
    MIN_IN_SYNC = "min_in_sync"  # Producers are refused: as many as it takes, whatever the limit.
    PREFERRED_LEADER = "preferred_leader"  # The new leader first, so that the old one is relieved.
    REPLICAS = "replicas"  # As many as the limit allows.


class WaitReason(StrEnum):
    NO_LEADER = "no_leader"  # Nobody to copy from.
    BROKERS_OFFLINE = "brokers_offline"  # What is to be added, or what stays, is on brokers that are down.


@dataclass(frozen=True, slots=True)
class ReassignmentStep:
    topic: str
    partition: int
    replicas: tuple[int, ...]  # TR: what AlterPartitionReassignments is asked for.
    adding: tuple[int, ...]  # NR.
    dropping: tuple[int, ...]  # DR.
    reason: StepReason
    moves_leader: bool  # Another broker leads once it is done.
    needs_election: bool  # It does so only when the preferred leader is elected: the old one stays a replica.
    is_last: bool  # Ends at the target, in its order.


@dataclass(frozen=True, slots=True)
class Wait:
    topic: str
    partition: int
    reason: WaitReason
    brokers: tuple[int, ...] = ()  # That it waits for.


def next_step(
    way: PartitionTransition, online: AbstractSet[int], replica_movements_max: int = UNLIMITED
) -> ReassignmentStep | Wait | None:
    """The step to ask for now; None: the partition is where it shall be.

    Args:
        online: brokers that are alive.
        replica_movements_max: replicas that one step adds, and that it drops; 1 or more.
    """
    if way.replicas == way.target:
        return None
    if way.leader not in online or way.isr.isdisjoint(online):
        return Wait(way.topic, way.partition, WaitReason.NO_LEADER)
    missing = [b for b in way.target if b not in way.replicas]
    excess = [b for b in way.replicas if b not in way.target]
    most = max(len(missing), len(excess))
    # Nearly always all are alive and in sync, and one step will do.
    if most <= replica_movements_max and len(way.isr) >= way.min_in_sync and _all_online_and_in_sync(online, way):
        return _last_step(way, missing, excess)
    addable = [b for b in missing if b in online]
    away = [b for b in way.target if b not in online]
    dead = [b for b in excess if b not in online]
    live = [b for b in excess if b in online]

    lacking = way.min_in_sync - sum(b in online for b in way.isr)
    if lacking > 0 and addable:
        return _step(way, addable[:lacking], dead, StepReason.MIN_IN_SYNC)
    if any(b in way.replicas for b in away):
        return Wait(way.topic, way.partition, WaitReason.BROKERS_OFFLINE, tuple(away))
    if addable == missing and max(len(missing), len(live)) <= replica_movements_max:
        return _step(way, missing, excess, StepReason.REPLICAS)
    if addable and addable[0] == way.target[0]:
        return _step(way, addable[:1], dead, StepReason.PREFERRED_LEADER)

    standing = len(way.replicas) - len(dead)
    add, drop = _change_counts(standing, len(way.target), len(addable), len(live), replica_movements_max)
    if not (add or drop or dead):
        return Wait(way.topic, way.partition, WaitReason.BROKERS_OFFLINE, tuple(away))
    return _step(way, addable[:add], [*dead, *live[:drop]], StepReason.REPLICAS)


def _all_online_and_in_sync(online: AbstractSet[int], way: PartitionTransition) -> bool:
    return way.isr <= online and online >= {*way.replicas, *way.target}


def _last_step(way: PartitionTransition, adding: Sequence[int], dropping: Sequence[int]) -> ReassignmentStep:
    """All that is missing, all that is too much: as ``_step`` would tell it."""
    elected = way.target[0] not in (way.leader, way.replicas[0])
    gone = way.leader in dropping
    return ReassignmentStep(
        way.topic,
        way.partition,
        way.target,
        tuple(adding),
        tuple(dropping),
        StepReason.REPLICAS,
        moves_leader=elected or gone,
        needs_election=elected and not gone,
        is_last=True,
    )


def _change_counts(standing: int, wanted: int, addable: int, live: int, most: int) -> tuple[int, int]:
    """How many to add and to drop: never fewer replicas than at the lesser end, nor more than at the greater."""
    drop = min(most, live)
    add = min(most, addable, max(0, wanted - (standing - drop)))
    return add, min(drop, standing + add - min(standing, wanted))


def _step(
    way: PartitionTransition, adding: Sequence[int], dropping: Sequence[int], reason: StepReason
) -> ReassignmentStep:
    stays = [b for b in way.replicas if b not in dropping]
    mine = {*stays, *adding}
    replicas = (*(b for b in way.target if b in mine), *(b for b in stays if b not in way.target))
    elected = replicas[0] not in (way.leader, way.replicas[0])
    return ReassignmentStep(
        way.topic,
        way.partition,
        replicas,
        tuple(adding),
        tuple(b for b in way.replicas if b in dropping),
        reason,
        moves_leader=elected or way.leader in dropping,
        needs_election=elected and way.leader not in dropping,
        is_last=replicas == way.target,
    )


def all_steps(way: PartitionTransition, replica_movements_max: int = UNLIMITED) -> tuple[ReassignmentStep, ...]:
    """All steps to the target, if every broker of it is alive and every step ends."""
    online = {*way.replicas, *way.target}
    found: list[ReassignmentStep] = []
    while isinstance(step := next_step(way, online, replica_movements_max), ReassignmentStep):
        found.append(step)
        if step.is_last:
            break
        way = apply_step(way, step)
    return tuple(found)


def apply_step(way: PartitionTransition, step: ReassignmentStep) -> PartitionTransition:
    """The partition once the step is done, as Kafka leaves it: all replicas in sync, the leader elected."""
    leader = step.replicas[0] if step.moves_leader else way.leader
    return replace(way, replicas=step.replicas, leader=leader, isr=frozenset(step.replicas))
