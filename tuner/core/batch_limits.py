"""Chooses which partitions take their next reassignment step now: as KIP-435, but without waiting for the end of a batch.

The module chooses the steps in this order, and keeps the caller's order within each kind:

1. steps that bring a partition back to min.insync.replicas, because Kafka refuses its producers;
2. steps that move a leader, because they relieve a broker, up to the limit of leader movements;
3. all other steps.

The module chooses a new step as soon as a running step ends. The KIP's controller instead waits for the slowest step of a batch,
which leaves brokers idle. The KIP's text and its pseudocode differ on the limit of leader movements. This module follows the text:
it leaves out steps over the limit, and chooses other steps instead.

Invariant: running steps and chosen steps together stay within the limits. After a limit is lowered, running steps continue,
and no step is chosen until there is room.

Only a benchmark uses ``next_batch``, to compare KIP-435 with rheostat (benchmarks/moves/rivals.py). The executor of plans uses only
``BatchLimits``. Its own order (tuner/control/reassignment/scheduler.py) starts with the broker that has most to copy.
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
    replica_movements_max: int = UNLIMITED  # Per partition.

    def __post_init__(self) -> None:
        assert min(self.leader_movements_max, self.partition_movements_max, self.replica_movements_max) >= 1


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Steps to request now, and the partitions that cannot take a step, with the reason."""

    steps: tuple[ReassignmentStep, ...]
    waits: tuple[Wait, ...]


def next_batch(
    transitions: Iterable[PartitionTransition],
    online: AbstractSet[int],
    limits: BatchLimits,
    running: Sequence[ReassignmentStep] = (),
) -> StepBatch:
    """Returns the steps to request now.

    Args:
        transitions: partitions without a running step, by priority. Partitions that have reached their target are skipped.
        online: brokers that are alive.
        running: steps in progress.
    """
    candidates: list[ReassignmentStep] = []
    waits: list[Wait] = []
    for transition in transitions:
        match next_step(transition, online, limits.replica_movements_max):
            case ReassignmentStep() as step:
                candidates.append(step)
            case Wait() as wait:
                waits.append(wait)
    free_partitions = limits.partition_movements_max - len(running)
    free_leaders = limits.leader_movements_max - sum(step.moves_leader for step in running)
    chosen: list[ReassignmentStep] = []
    for step in sorted(candidates, key=_priority):  # A stable sort keeps the caller's order within a kind.
        if len(chosen) >= free_partitions:
            break
        if step.moves_leader:
            if free_leaders <= 0:
                continue
            free_leaders -= 1
        chosen.append(step)
    return StepBatch(tuple(chosen), tuple(waits))


def _priority(step: ReassignmentStep) -> int:
    if step.reason is StepReason.MIN_IN_SYNC:
        return 0
    return 1 if step.moves_leader else 2
