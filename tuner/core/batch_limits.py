"""Which partitions take their next step now: KIP-435's batch, refilled as steps end.

Intuition: steps that move a leader are the ones that relieve a broker, so they go first, as many as leaders may move at a
time; whatever room is left goes to the others. A slot is filled again when its step ends: waiting for the slowest of a batch,
as the KIP's controller would, leaves brokers idle.

rheostat's own executor (refill.py) keeps these limits, and takes what the slowest broker has to do first instead of leaders: that
ends sooner. This is the KIP's order, and what the benchmark holds it against (benchmarks/moves/rivals.py).

Invariant: steps that run and steps handed out together stay within the limits. A limit that has been lowered below what
runs lets that end, and hands out nothing until there is room.

Where the KIP says two things, this is what is done: its pseudocode fills the whole batch with leader movements and never looks
at their own limit, its text disallows "those which would involve leader movement over the limit". The text; what is left out for
that makes room for others, as the text also says. Before all go the steps without which producers are refused: the KIP puts
them before every limit within a partition, so they should not stand in a queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tuner.core.reassignment_steps import UNLIMITED, PartitionTransition, ReassignmentStep, StepReason, Wait, next_step


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """KIP-435's three settings, reassignment.max.concurrent.*; each 1 or more."""

    leader_movements_max: int = UNLIMITED
    partition_movements_max: int = UNLIMITED
    replica_movements_max: int = UNLIMITED  # Of one partition.

    def __post_init__(self) -> None:
        assert min(self.leader_movements_max, self.partition_movements_max, self.replica_movements_max) >= 1


@dataclass(frozen=True, slots=True)
class StepBatch:
    steps: tuple[ReassignmentStep, ...]  # To be asked for now.
    waits: tuple[Wait, ...]  # Partitions that can't go on, and why.


def next_batch(
    ways: Iterable[PartitionTransition],
    online: AbstractSet[int],
    limits: BatchLimits,
    running: Sequence[ReassignmentStep] = (),
) -> StepBatch:
    """
    Args:
        ways: partitions that have no step under way, the ones that should go first in front; those that have arrived are
            passed over.
        online: brokers that are alive.
        running: steps under way.
    """
    candidates: list[ReassignmentStep] = []
    waits: list[Wait] = []
    for way in ways:
        match next_step(way, online, limits.replica_movements_max):
            case ReassignmentStep() as step:
                candidates.append(step)
            case Wait() as wait:
                waits.append(wait)
    partitions = limits.partition_movements_max - len(running)
    leaders = limits.leader_movements_max - sum(step.moves_leader for step in running)
    chosen: list[ReassignmentStep] = []
    for step in sorted(candidates, key=_priority):  # A stable sort: the caller's order within a kind.
        if len(chosen) >= partitions:
            break
        if step.moves_leader:
            if leaders <= 0:
                continue
            leaders -= 1
        chosen.append(step)
    return StepBatch(tuple(chosen), tuple(waits))


def _priority(step: ReassignmentStep) -> int:
    if step.reason is StepReason.MIN_IN_SYNC:
        return 0
    return 1 if step.moves_leader else 2
