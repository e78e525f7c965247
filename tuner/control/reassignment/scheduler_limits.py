"""Tracks the steps that the scheduler has chosen, and the capacity that each limit still leaves for further steps.

Invariant: chosen and running steps together stay within every limit, with two exceptions. Without them a plan could block for ever:

1. A step that has been stuck for long, because a broker is down, does not count against KIP-435's limits.
2. A broker from which the plan removes a partition ("vacated") may temporarily have one partition above KIP-578's limit. Otherwise
   two full brokers could not exchange partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from streaming.shared.units import rate_text
from tuner.control.reassignment.scheduler_model import (
    REQUEST_PARTITIONS_MAX,
    SLOT_PART_MIN,
    HeldBy,
    HeldPartition,
    RunningStep,
    SchedulerConstraints,
    StepStart,
    WaitingPartition,
    slots_in_use,
    steady_state,
    step_steady_state,
    steps_that_copy,
)
from tuner.core.cluster import BrokerSide, side_name
from tuner.core.partition_limits import INTERNAL_TOPICS, PartitionCounts, brokers_above_limit
from tuner.core.reassignment_steps import ReassignmentStep

# The replication of new writes may use this share of a throttle, so that a sixth remains for the copies.
STEADY_STATE_SHARE_MAX = 1 / 1.2


class RemainingCapacity:
    """The capacity that running steps leave, reduced by each step that starts.

    Attributes:
        started: steps to start, by index of the waiting partition.
        held: the limit because of which a partition waits, by index of the waiting partition.
        impossible: partitions that could not start even if no other step ran, because of the present throttle; by index.
        full_brokers: brokers at their partition limit for which a partition waits.
    """

    def __init__(
        self,
        running: Sequence[RunningStep],
        constraints: SchedulerConstraints,
        vacated_brokers: AbstractSet[int] = frozenset(),
    ) -> None:
        """Counts the capacity that running steps use.

        Args:
            vacated_brokers: brokers from which a step that runs or may start removes a partition.
        """
        self._constraints = constraints
        self._vacated_brokers = vacated_brokers
        copying = steps_that_copy(running, constraints.online)
        able_to_end = [run for run in running if not run.is_stuck]
        rates = {**constraints.max_rates, **constraints.setpoints}
        self._slots = slots_in_use(copying, rates, writes_known=constraints.writes_known)
        self._full = {side for side in {*constraints.slots, *self._slots} if not self._has_room(side)}
        self._steady_state = dict(constraints.other_steady_state)
        for side, bytes_per_s in steady_state(copying).items():
            self._steady_state[side] = self._steady_state.get(side, 0.0) + bytes_per_s
        self._copying_steps = sum(bool(run.step.adding) for run in copying)
        self._partition_movements_left = constraints.batch.partition_movements_max - len(able_to_end)
        self._leader_movements_left = constraints.batch.leader_movements_max - sum(
            run.step.moves_leader for run in able_to_end
        )
        self._hosted = dict(constraints.hosted.by_broker)
        self._request_max = min(constraints.starts_max, REQUEST_PARTITIONS_MAX)
        self.started: dict[int, StepStart] = {}
        self.held: dict[int, HeldBy] = {}
        self.impossible: dict[int, HeldPartition] = {}
        self.full_brokers: set[int] = set()

    @property
    def starts_max(self) -> int:
        """The number of steps that this request may contain."""
        return min(self._request_max, max(0, self._partition_movements_left))

    @property
    def request_is_full(self) -> bool:
        return len(self.started) >= self.starts_max

    @property
    def full_request_cause(self) -> HeldBy:
        """The limit that a full request has reached."""
        return HeldBy.PARTITION_MOVEMENTS if self._partition_movements_left < self._request_max else HeldBy.REQUEST

    @property
    def slots_taken(self) -> dict[BrokerSide, float]:
        """Slots by side that running and started steps take."""
        return dict(self._slots)

    def reserve(self, sides: Sequence[BrokerSide]) -> None:
        """Keeps the free slots of ``sides`` for a partition with priority that waits for a slot of another side."""
        self._full.update(sides)

    def slots_in_use(self, side: BrokerSide) -> float:
        return self._slots.get(side, 0.0)

    def has_slot(self, side: BrokerSide) -> bool:
        return side not in self._full

    def has_slot_for(self, sides: Sequence[BrokerSide]) -> bool:
        """Returns whether a step is possible: the leader's side has a slot, and so has at least one destination."""
        return sides[0] not in self._full and not self._full.issuperset(sides[1:])

    def try_start(
        self, index: int, candidate: WaitingPartition, step: ReassignmentStep, *, urgent: bool = False
    ) -> None:
        """Starts the step if every limit allows it; otherwise notes the limit in ``held``.

        Args:
            urgent: the partition is below min.insync.replicas, so slots and quota do not limit the step.
        """
        steady_states = step_steady_state(candidate.transition, step.adding, candidate.write_bytes_per_s)
        held = self._exceeded_count_limit(candidate, step)
        if held is None and not urgent:
            held = self._exceeded_copy_limit(index, candidate, steady_states)
        if held is not None:
            self.held[index] = held
            return
        self.held.pop(index, None)
        self.started[index] = StepStart(candidate.transition, step)
        self._leader_movements_left -= step.moves_leader
        self._copying_steps += bool(steady_states)
        for side, bytes_per_s in steady_states:
            slots = self._constraints.slots_for(side, candidate.size_bytes, bytes_per_s)
            self._slots[side] = self._slots.get(side, 0.0) + slots
            self._steady_state[side] = self._steady_state.get(side, 0.0) + bytes_per_s
            if not self._has_room(side):
                self._full.add(side)
        if candidate.transition.topic not in INTERNAL_TOPICS:
            for broker in step.adding:
                self._hosted[broker] = self._hosted.get(broker, 0) + 1

    def _has_room(self, side: BrokerSide) -> bool:
        """Returns whether the smallest copy still fits into the slots of the side."""
        return self._slots.get(side, 0.0) <= self._constraints.slots.get(side, 1) - SLOT_PART_MIN

    def _exceeded_count_limit(self, candidate: WaitingPartition, step: ReassignmentStep) -> HeldBy | None:
        if step.moves_leader and self._leader_movements_left <= 0:
            return HeldBy.LEADER_MOVEMENTS
        if candidate.transition.topic in INTERNAL_TOPICS:
            return None
        added, limits = dict.fromkeys(step.adding, 1), self._constraints.limits
        counts = brokers_above_limit(PartitionCounts(self._hosted), added, limits)
        full = set[int]()
        for broker, count in counts.items():
            extra = 1 if broker in self._vacated_brokers else 0
            if count > limits.for_broker(broker) + extra:
                full.add(broker)
        self.full_brokers |= full
        return HeldBy.PARTITION_LIMIT if full else None

    def _exceeded_copy_limit(
        self, index: int, candidate: WaitingPartition, steady_states: Sequence[tuple[BrokerSide, float]]
    ) -> HeldBy | None:
        if not steady_states:
            return None
        if self._copying_steps >= self._constraints.cluster_max:
            return HeldBy.CLUSTER
        if not all(self.has_slot(side) for side, _ in steady_states):
            return HeldBy.SLOTS
        for side, bytes_per_s in steady_states:
            quota = self._constraints.max_rates.get(side)
            if quota is None:
                continue
            bytes_per_s_max = STEADY_STATE_SHARE_MAX * quota
            if self._steady_state.get(side, 0.0) + bytes_per_s > bytes_per_s_max:
                alone = self._constraints.other_steady_state.get(side, 0.0) + bytes_per_s
                if alone > bytes_per_s_max:
                    self.impossible[index] = _impossible(candidate, side, alone, quota)
                return HeldBy.QUOTA
        return None


def _impossible(
    candidate: WaitingPartition, side: BrokerSide, steady_state_bytes_per_s: float, quota: float
) -> HeldPartition:
    topic, partition = candidate.transition.topic, candidate.transition.partition
    needed = rate_text(steady_state_bytes_per_s / STEADY_STATE_SHARE_MAX)
    text = (
        f"{topic}-{partition}: new writes alone take {rate_text(steady_state_bytes_per_s)} of the {side_name(side)}, "
        f"which may be at most {rate_text(quota)} (ceiling, or --throttle of the plan), so the copy would not end. Raise this "
        f"limit to {needed} or more, or move the partition when less is written"
    )
    return HeldPartition(topic, partition, HeldBy.QUOTA, side, text)
