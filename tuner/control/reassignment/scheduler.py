"""Picks the partitions of a plan that start now, so that free slots are used at once and the slowest side is busy all the time.

A plan ends when its slowest side ends, so partitions of that side go first. No step waits for the others of its batch.

Order:
    1. Steps without which producers are refused; slots and quotas do not hold them back.
    2. Steps that copy nothing: an order of replicas, or a replica dropped.
    3. Small partitions, as many as ``small_partitions`` returns.
    4. Partitions of the side that needs longest at its maximum rate, then of the next slowest. Within a side: partitions so large
       that they would be the last to end; then those that grow fastest for their size; then the largest. Sides that need about
       the same time take turns; the side with the fewest slots in use picks first.

KIP-435 takes steps that move a leader first, to relieve its broker. The slowest side first relieves more; the KIP's limits hold
all the same.

Invariant: running and started steps together stay within the slots, KIP-435's limits and the brokers' partition limits. New
writes leave at least a sixth of every quota to the backlog. If a limit was lowered below what runs, nothing starts until enough
steps have ended. A step that may start waits at most a few seconds for others (``batching_delay``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace

from streaming.shared.contract import Side
from tuner.control.reassignment.batching_delay import should_wait
from tuner.control.reassignment.scheduler_limits import RemainingCapacity
from tuner.control.reassignment.scheduler_model import (
    ASSUMED_RATE_BYTES_PER_S,
    HeldBy,
    RunningStep,
    Schedule,
    SchedulerConstraints,
    WaitingPartition,
    sides_of_copy,
    steady_state,
)
from tuner.control.reassignment.small_partitions import carried_share, priority_of, small_partition_share
from tuner.core.cluster import BrokerSide
from tuner.core.partition_limits import INTERNAL_TOPICS, PartitionLimits
from tuner.core.reassignment_steps import PartitionTransition, ReassignmentStep, StepReason, Wait, next_step

# A partition is large if one slot's share of the rate would copy it in more than half of the side's remaining time.
_LARGE_DIVISOR = 2.0
# Sides whose remaining times differ by less are equal. If one of them picked all its partitions first, it would fill the slots at
# the other end of its copies and leave its peers idle.
_EQUAL_TIME_RATIO = 0.9
_EXHAUSTED = object()


def schedule(
    waiting: Sequence[WaitingPartition], running: Sequence[RunningStep], constraints: SchedulerConstraints
) -> Schedule:
    """Returns the steps to request now, and what holds the other partitions back.

    Args:
        waiting: partitions without a step under way; those at their target are skipped.
    """
    queue = _Queue(waiting, running, constraints)
    capacity = RemainingCapacity(running, constraints, queue.leaving)
    slots_before = capacity.slots_taken
    for index, step in queue.first:
        if capacity.request_is_full:
            break
        capacity.try_start(index, waiting[index], step, urgent=step.reason is StepReason.MIN_IN_SYNC)
    left_bytes = _left_bytes(waiting, running, queue.by_side)
    groups = _slowest_first(left_bytes, running, constraints)
    small, small_share = _pick_small(waiting, running, queue, capacity, constraints, left_bytes)
    for index in small:
        if not capacity.request_is_full and capacity.has_slot_for(queue.sides[index]):
            capacity.try_start(index, waiting[index], _next_step_of(waiting[index], constraints))
    for group in groups:
        pickers = {side: _pick_partitions(waiting, queue, capacity, constraints, side, left) for side, left in group}
        _pick_in_turns(pickers, capacity)
    held = Counter(capacity.held.values())
    others = len(queue.sides.keys() - capacity.started.keys() - capacity.held.keys())
    if others:
        held[capacity.full_request_cause if capacity.request_is_full else HeldBy.SLOTS] += others
    starts = tuple(capacity.started.values())
    if should_wait(starts, running, slots_before, constraints, capacity.starts_max):
        held[HeldBy.REQUEST] += len(starts)
        starts, carried = (), constraints.carried_small_share
    else:
        carried = carried_share(small_share, capacity.started, small)
    impossible = tuple(capacity.impossible.values())
    return Schedule(starts, tuple(queue.waits), held, impossible, frozenset(capacity.full_brokers), carried)


def _pick_partitions(
    waiting: Sequence[WaitingPartition],
    queue: _Queue,
    capacity: RemainingCapacity,
    constraints: SchedulerConstraints,
    side: BrokerSide,
    left_bytes: float,
) -> Iterator[None]:
    """Starts partitions of one side, one at each ``next``, while there is capacity.

    Args:
        left_bytes: bytes that the side still has to copy.
    """
    if not capacity.has_slot(side):
        return
    candidates = [i for i in queue.by_side[side] if i not in capacity.started and capacity.has_slot_for(queue.sides[i])]
    large_bytes = left_bytes / (_LARGE_DIVISOR * constraints.slots.get(side, 1))
    for index in sorted(candidates, key=lambda i: (waiting[i].size_bytes < large_bytes, *priority_of(waiting[i]))):
        if not capacity.has_slot(side):
            return
        if index not in capacity.started and capacity.has_slot_for(queue.sides[index]):
            capacity.try_start(index, waiting[index], _next_step_of(waiting[index], constraints))
            if index in capacity.started:
                yield


def _pick_in_turns(pickers: Mapping[BrokerSide, Iterator[None]], capacity: RemainingCapacity) -> None:
    """Lets the side with the fewest slots in use start one partition, until no side can start any."""
    heap = [(capacity.slots_in_use(side), number, side) for number, side in enumerate(pickers)]
    heapify(heap)
    while heap and not capacity.request_is_full:
        slots, number, side = heap[0]
        slots_now = capacity.slots_in_use(side)  # A partition that another side started takes slots here, too.
        if slots_now > slots:
            heapreplace(heap, (slots_now, number, side))
        elif next(pickers[side], _EXHAUSTED) is _EXHAUSTED:
            heappop(heap)


def _next_step_of(candidate: WaitingPartition, constraints: SchedulerConstraints) -> ReassignmentStep:
    step = next_step(candidate.transition, constraints.online, constraints.batch.replica_movements_max)
    assert isinstance(step, ReassignmentStep)
    return step


def _brokers_left(transition: PartitionTransition) -> set[int]:
    """Returns the brokers that the partition leaves; none for internal topics, which partition limits do not count."""
    leaves = {*transition.replicas} - {*transition.target}
    return leaves if transition.topic not in INTERNAL_TOPICS else set()


def _left_bytes(
    waiting: Sequence[WaitingPartition], running: Sequence[RunningStep], by_side: Mapping[BrokerSide, list[int]]
) -> dict[BrokerSide, float]:
    """Returns the bytes still to be copied through each side for which a partition waits."""
    left: dict[BrokerSide, float] = {}
    for side, indices in by_side.items():
        is_leader = side[1] is Side.LEADER
        left[side] = sum(waiting[i].size_bytes * (len(waiting[i].missing) if is_leader else 1) for i in indices)
    for run in running:
        for side in sides_of_copy(run.transition.leader, run.step.adding):
            if side in left:
                left[side] += run.remaining_bytes / (1 if side[1] is Side.LEADER else len(run.step.adding))
    return left


def _remaining_s(
    left_bytes: Mapping[BrokerSide, float],
    running: Sequence[RunningStep],
    constraints: SchedulerConstraints,
    rates: Mapping[BrokerSide, float],
) -> dict[BrokerSide, float]:
    """Returns the seconds that each side needs for its bytes at these rates, less W."""
    used = steady_state(running)
    # A side without a throttle is taken to be as fast as the fastest side with one.
    default_rate = max(rates.values(), default=ASSUMED_RATE_BYTES_PER_S)
    drain_rates = {
        side: rates.get(side, default_rate) - constraints.other_steady_state.get(side, 0.0) - used.get(side, 0.0)
        for side in left_bytes
    }
    return {side: left_bytes[side] / max(drain_rates[side], 1.0) for side in left_bytes}


def _slowest_first(
    left_bytes: Mapping[BrokerSide, float], running: Sequence[RunningStep], constraints: SchedulerConstraints
) -> list[list[tuple[BrokerSide, float]]]:
    """Returns the sides with their bytes, slowest first, in groups of sides that need about the same time."""
    remaining_s = _remaining_s(left_bytes, running, constraints, constraints.max_rates)
    groups: list[list[tuple[BrokerSide, float]]] = []
    for side in sorted(left_bytes, key=lambda side: (-remaining_s[side], side)):
        if not groups or remaining_s[side] < _EQUAL_TIME_RATIO * remaining_s[groups[-1][0][0]]:
            groups.append([])
        groups[-1].append((side, left_bytes[side]))
    return groups


def _pick_small(
    waiting: Sequence[WaitingPartition],
    running: Sequence[RunningStep],
    queue: _Queue,
    capacity: RemainingCapacity,
    constraints: SchedulerConstraints,
    left_bytes: Mapping[BrokerSide, float],
) -> tuple[list[int], float]:
    """Returns the small partitions to start and their share; from the rates now, not the maximum rates."""
    if capacity.request_is_full or not math.isfinite(constraints.since_last_request_s):
        return [], constraints.carried_small_share
    sides_by_index = {
        i: sides for i, sides in queue.sides.items() if i not in capacity.started and capacity.has_slot_for(sides)
    }
    rates = {**constraints.max_rates, **constraints.setpoints}
    remaining_s = _remaining_s(left_bytes, running, constraints, rates)
    return small_partition_share(waiting, sides_by_index, remaining_s, constraints, capacity.starts_max)


class _Queue:
    """The waiting partitions, sorted by what they wait for.

    Attributes:
        first: steps without which producers are refused, then steps that copy nothing.
        waits: partitions that have no next step at present.
        by_side: indices of the other partitions, by side that they copy through.
        sides: the same by index.
        leaving: brokers that a partition leaves, except partitions that wait for an offline broker.
    """

    def __init__(
        self,
        waiting: Sequence[WaitingPartition],
        running: Sequence[RunningStep],
        constraints: SchedulerConstraints,
    ) -> None:
        self.first: list[tuple[int, ReassignmentStep]] = []
        self.waits: list[Wait] = []
        self.by_side: dict[BrokerSide, list[int]] = {}
        self.sides: dict[int, list[BrokerSide]] = {}
        self.leaving: set[int] = set()
        limited = constraints.limits != PartitionLimits()
        if limited:
            self.leaving.update(*(_brokers_left(run.transition) for run in running if not run.is_stuck))
        online, replicas_max = constraints.online, constraints.batch.replica_movements_max
        without_copy: list[tuple[int, ReassignmentStep]] = []
        for index, candidate in enumerate(waiting):
            transition, missing = candidate.transition, candidate.missing
            all_online = (
                transition.isr <= online
                and online.issuperset(transition.target)
                and online.issuperset(transition.replicas)
            )
            # Nearly all partitions are healthy. Their steps are worked out later, and only when there is capacity.
            in_sync = len(transition.isr) >= transition.min_in_sync and transition.leader in online
            if not (all_online and missing and in_sync):
                step = next_step(transition, online, replicas_max)
                if isinstance(step, Wait):
                    self.waits.append(step)
                if not isinstance(step, ReassignmentStep):
                    continue
                if limited:
                    self.leaving |= _brokers_left(transition)
                if step.reason is StepReason.MIN_IN_SYNC:
                    self.first.append((index, step))
                    continue
                if not step.adding:
                    without_copy.append((index, step))
                    continue
            elif limited:
                self.leaving |= _brokers_left(transition)
            self.sides[index] = sides = sides_of_copy(transition.leader, missing)
            for side in sides:
                self.by_side.setdefault(side, []).append(index)
        self.first += without_copy
