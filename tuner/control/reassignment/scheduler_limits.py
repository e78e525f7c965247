"""What is left of every limit while a refill is made, and what has been begun on it.

Invariant: what has been begun fits, together with what runs, into every limit that it was held against. But for two things that
would else hold a plan up for good: a step that has long been stuck, as a broker is down, leaves its place among KIP-435's numbers
to others; and a broker from which a partition of the plan is about to go may have one more than KIP-578's limit meanwhile, as two
that are full could not change places otherwise.
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
from tuner.core.partition_limits import INTERNAL_TOPICS, PartitionCounts, overfull
from tuner.core.reassignment_steps import ReassignmentStep

# The same as of a throttle's floor: a quota only just above W drains nothing.
STEADY_STATE_SHARE_MAX = 1 / 1.2


class RemainingCapacity:
    """What is left of every limit, and what has been begun."""

    def __init__(
        self, running: Sequence[RunningStep], terms: SchedulerConstraints, leaving: AbstractSet[int] = frozenset()
    ) -> None:
        """
        Args:
            leaving: brokers from which a partition that has begun, or may, will go.
        """
        self._terms = terms
        self._leaving = leaving
        copying = steps_that_copy(running, terms.online)
        ending = [one for one in running if not one.is_stuck]
        self._taken = slots_in_use(copying, {**terms.max_rates, **terms.setpoints}, writes_known=terms.writes_known)
        every = {*terms.slots, *self._taken}
        self._full = {side for side in every if not self._fits(side)}
        self._used = dict(terms.other_steady_state)
        for side, bytes_per_s in steady_state(copying).items():
            self._used[side] = self._used.get(side, 0.0) + bytes_per_s
        self._copying = sum(bool(one.step.adding) for one in copying)
        self._partitions = terms.batch.partition_movements_max - len(ending)
        self._leaders = terms.batch.leader_movements_max - sum(one.step.moves_leader for one in ending)
        self._hosted = dict(terms.hosted.by_broker)
        self._starts = min(terms.starts_max, REQUEST_PARTITIONS_MAX)
        self.started: dict[int, StepStart] = {}
        self.held: dict[int, HeldBy] = {}
        self.never: dict[int, HeldPartition] = {}
        self.at_limit: set[int] = set()

    @property
    def starts_max(self) -> int:
        """Of this request."""
        return min(self._starts, max(0, self._partitions))

    @property
    def request_is_full(self) -> bool:
        return len(self.started) >= self.starts_max

    @property
    def full_request_cause(self) -> HeldBy:
        """What a full request is full of."""
        return HeldBy.PARTITION_MOVEMENTS if self._partitions < self._starts else HeldBy.REQUEST

    @property
    def slots_taken(self) -> dict[BrokerSide, float]:
        """By what runs, and by what has been begun."""
        return dict(self._taken)

    def slots_in_use(self, side: BrokerSide) -> float:
        return self._taken.get(side, 0.0)

    def has_slot(self, side: BrokerSide) -> bool:
        return side not in self._full

    def _fits(self, side: BrokerSide) -> bool:
        return self._taken.get(side, 0.0) <= self._terms.slots.get(side, 1) - SLOT_PART_MIN

    def has_slot_for(self, sides: Sequence[BrokerSide]) -> bool:
        """Whether a look at its next step is worth it: its leader has a slot, and so has one that it adds."""
        return sides[0] not in self._full and not self._full.issuperset(sides[1:])

    def consider(self, index: int, one: WaitingPartition, step: ReassignmentStep, *, urgent: bool = False) -> None:
        """Begins it, or says what keeps it back."""
        uses = step_steady_state(one.transition, step.adding, one.write_bytes_per_s)
        held = self._held_by_limits(one, step) or (None if urgent else self._held_by_room(index, one, uses))
        if held is not None:
            self.held[index] = held
            return
        self.held.pop(index, None)
        self.started[index] = StepStart(one.transition, step)
        self._leaders -= step.moves_leader
        self._copying += bool(uses)
        for side, bytes_per_s in uses:
            part = self._terms.slots_for(side, one.size_bytes, bytes_per_s)
            self._taken[side] = self._taken.get(side, 0.0) + part
            self._used[side] = self._used.get(side, 0.0) + bytes_per_s
            if not self._fits(side):
                self._full.add(side)
        if one.transition.topic not in INTERNAL_TOPICS:
            for broker in step.adding:
                self._hosted[broker] = self._hosted.get(broker, 0) + 1

    def _held_by_limits(self, one: WaitingPartition, step: ReassignmentStep) -> HeldBy | None:
        if step.moves_leader and self._leaders <= 0:
            return HeldBy.LEADER_MOVEMENTS
        if one.transition.topic not in INTERNAL_TOPICS:
            more, limits = dict.fromkeys(step.adding, 1), self._terms.limits
            over = overfull(PartitionCounts(self._hosted), more, limits)
            full = {broker for broker, count in over.items() if count > limits.of(broker) + (broker in self._leaving)}
            if full:
                self.at_limit |= full
                return HeldBy.PARTITION_LIMIT
        return None

    def _held_by_room(
        self, index: int, one: WaitingPartition, uses: Sequence[tuple[BrokerSide, float]]
    ) -> HeldBy | None:
        if not uses:
            return None
        if self._copying >= self._terms.cluster_max:
            return HeldBy.CLUSTER
        if not all(self.has_slot(side) for side, _ in uses):
            return HeldBy.SLOTS
        for side, bytes_per_s in uses:
            quota = self._terms.max_rates.get(side)
            if quota is None:
                continue
            most = STEADY_STATE_SHARE_MAX * quota
            if self._used.get(side, 0.0) + bytes_per_s > most:
                alone = self._terms.other_steady_state.get(side, 0.0) + bytes_per_s
                if alone > most:
                    self.never[index] = _never(one, side, alone, quota)
                return HeldBy.QUOTA
        return None


def _never(one: WaitingPartition, side: BrokerSide, uses_bytes_per_s: float, quota: float) -> HeldPartition:
    text = (
        f"{one.transition.topic}-{one.transition.partition}: keeping up takes {rate_text(uses_bytes_per_s)} "
        f"of the {side_name(side)}, which is {rate_text(quota)} at most: its copy would not end. Raise that to "
        f"{rate_text(uses_bytes_per_s / STEADY_STATE_SHARE_MAX)} or more, or move it when less is written"
    )
    return HeldPartition(one.transition.topic, one.transition.partition, HeldBy.QUOTA, side, text)
