"""Picks the partitions of a plan that start now, so that free slots are used at once and the slowest side is busy all the time.

A plan ends when its slowest side ends, so partitions of that side go first. Steps do not run in batches: each starts on its own.

Order:
    1. Steps without which Kafka rejects writes (min.insync.replicas). Slots and quotas do not hold these steps back.
    2. Steps that copy nothing: they only change the order of replicas, or remove a replica.
    3. Partitions that have lost replicas and are at or below min.insync.replicas, then those of topics that the operator names
       (streaming/shared/move_order.py). While one of them waits for a slot, its sides start no partition of the next classes.
    4. Small partitions, as many as ``small_partitions`` picks.
    5. Partitions of the side that needs longest at its maximum rate, then of the next slowest. Within a side: partitions so large
       that they would be the last to end; then those that grow fastest for their size; then the largest. Sides that need about
       the same time take turns; the side with the fewest slots in use picks first.

KIP-435 instead starts with steps that move a leader, to relieve the leader's broker. Starting with the slowest side relieves more.
KIP-435's limits are kept.

Invariant: running and started steps together stay within the slots, KIP-435's limits and the brokers' partition limits. New
writes leave at least a sixth of every quota to the backlog. If more steps run than a lowered limit allows, nothing starts until
enough steps have ended. A step that may start waits at most a few seconds for other steps (``batching_delay``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import groupby

from streaming.shared.contract import Side
from streaming.shared.move_order import IsrStanding, goes_first, move_class
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
from tuner.control.reassignment.small_partitions import carried_share, pick_small_partitions, priority_of
from tuner.core.cluster import BrokerSide
from tuner.core.partition_limits import INTERNAL_TOPICS, PartitionLimits
from tuner.core.reassignment_steps import PartitionTransition, ReassignmentStep, StepReason, Wait, next_step

# A partition is large if one slot's share of the rate would copy it in more than half of the side's remaining time.
_LARGE_DIVISOR = 2.0
# Sides take turns if their remaining times differ by less than this. If one side picked all its partitions first, it would use up
# the slots of the brokers that it copies from or to. The other sides, which need about the same time, would then be idle.
_EQUAL_TIME_RATIO = 0.9
_EXHAUSTED = object()  # Returned by ``next`` when a side can start no more partitions.


def schedule(
    waiting: Sequence[WaitingPartition], running: Sequence[RunningStep], constraints: SchedulerConstraints
) -> Schedule:
    """Returns the steps to request now, and the limits that hold the other partitions back.

    Args:
        waiting: partitions without a step under way. Partitions at their target are skipped.
    """
    queue = _Queue(waiting, running, constraints)
    capacity = RemainingCapacity(running, constraints, queue.vacated_brokers)
    slots_before = capacity.slots_taken
    for index, step in queue.first_steps:
        if capacity.request_is_full:
            break
        capacity.try_start(index, waiting[index], step, urgent=step.reason is StepReason.MIN_IN_SYNC)
    _start_first(waiting, queue, capacity, constraints)
    remaining_bytes = _remaining_bytes(waiting, running, queue.by_side)
    groups = _slowest_first(remaining_bytes, running, constraints)
    small, small_share = _pick_small(waiting, running, queue, capacity, constraints, remaining_bytes)
    for index in small:
        if not capacity.request_is_full and capacity.has_slot_for(queue.sides[index]):
            capacity.try_start(index, waiting[index], _next_step_of(waiting[index], constraints))
    for group in groups:
        starters = {
            side: _start_one_by_one(waiting, queue, capacity, constraints, side, side_bytes)
            for side, side_bytes in group
        }
        _start_in_turns(starters, capacity)
    held = Counter(capacity.held.values())
    not_tried = len(queue.sides.keys() - capacity.started.keys() - capacity.held.keys())
    if not_tried:
        held[capacity.full_request_cause if capacity.request_is_full else HeldBy.SLOTS] += not_tried
    starts = tuple(capacity.started.values())
    if should_wait(starts, running, slots_before, constraints, capacity.starts_max):
        held[HeldBy.REQUEST] += len(starts)
        starts, carried = (), constraints.carried_small_share
    else:
        carried = carried_share(small_share, capacity.started, small)
    impossible = tuple(capacity.impossible.values())
    return Schedule(starts, tuple(queue.waits), held, impossible, frozenset(capacity.full_brokers), carried)


def _start_first(
    waiting: Sequence[WaitingPartition],
    queue: _Queue,
    capacity: RemainingCapacity,
    constraints: SchedulerConstraints,
) -> None:
    """Starts the partitions that go first by their class. After each class, reserves the sides of those that wait for a slot.

    Partitions of one class do not wait for each other, so that a full broker keeps no other broker idle.
    """
    order = sorted(queue.first, key=lambda i: (queue.first[i], priority_of(waiting[i])))
    for _, members in groupby(order, key=lambda i: queue.first[i]):
        held = []
        for index in members:
            if capacity.request_is_full:
                return
            if capacity.has_slot_for(queue.sides[index]):
                capacity.try_start(index, waiting[index], _next_step_of(waiting[index], constraints))
            if capacity.held.get(index, HeldBy.SLOTS) is HeldBy.SLOTS and index not in capacity.started:
                held.append(index)
        for index in held:
            capacity.reserve(queue.sides[index])


def _start_one_by_one(
    waiting: Sequence[WaitingPartition],
    queue: _Queue,
    capacity: RemainingCapacity,
    constraints: SchedulerConstraints,
    side: BrokerSide,
    remaining_bytes: float,
) -> Iterator[None]:
    """Starts partitions of one side, one at each ``next``, while there is capacity.

    Args:
        remaining_bytes: bytes that the side still has to copy.
    """
    if not capacity.has_slot(side):
        return
    candidates = [i for i in queue.by_side[side] if i not in capacity.started and capacity.has_slot_for(queue.sides[i])]
    large_bytes = remaining_bytes / (_LARGE_DIVISOR * constraints.slots.get(side, 1))
    by_priority = sorted(candidates, key=lambda i: priority_of(waiting[i]))
    large = [i for i in by_priority if waiting[i].size_bytes >= large_bytes]
    others = [i for i in by_priority if waiting[i].size_bytes < large_bytes]
    for index in [*large, *others]:
        if not capacity.has_slot(side):
            return
        if index not in capacity.started and capacity.has_slot_for(queue.sides[index]):
            capacity.try_start(index, waiting[index], _next_step_of(waiting[index], constraints))
            if index in capacity.started:
                yield


def _start_in_turns(starters: Mapping[BrokerSide, Iterator[None]], capacity: RemainingCapacity) -> None:
    """Lets the side with the fewest slots in use start one partition, until no side can start any.

    Args:
        starters: an iterator for each side, which starts one partition at each ``next``.
    """
    heap = [(capacity.slots_in_use(side), number, side) for number, side in enumerate(starters)]
    heapify(heap)
    while heap and not capacity.request_is_full:
        slots, number, side = heap[0]
        slots_now = capacity.slots_in_use(side)  # A copy that another side started may also take a slot of this side.
        if slots_now > slots:
            heapreplace(heap, (slots_now, number, side))
        elif next(starters[side], _EXHAUSTED) is _EXHAUSTED:
            heappop(heap)


def _next_step_of(candidate: WaitingPartition, constraints: SchedulerConstraints) -> ReassignmentStep:
    step = next_step(candidate.transition, constraints.online, constraints.batch.replica_movements_max)
    assert isinstance(step, ReassignmentStep)
    return step


def _vacated_brokers(transition: PartitionTransition) -> set[int]:
    """Returns the brokers from which the plan removes the partition; none for internal topics, which no partition limit counts."""
    leaves = {*transition.replicas} - {*transition.target}
    return leaves if transition.topic not in INTERNAL_TOPICS else set()


def _remaining_bytes(
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
    remaining_bytes: Mapping[BrokerSide, float],
    running: Sequence[RunningStep],
    constraints: SchedulerConstraints,
    rates: Mapping[BrokerSide, float],
) -> dict[BrokerSide, float]:
    """Returns the seconds that each side needs for its bytes at these rates. New writes (W) use a part of each rate."""
    used = steady_state(running)
    # A side without a throttle is assumed to be as fast as the fastest side with a throttle.
    default_rate = max(rates.values(), default=ASSUMED_RATE_BYTES_PER_S)
    drain_rates = {
        side: rates.get(side, default_rate) - constraints.other_steady_state.get(side, 0.0) - used.get(side, 0.0)
        for side in remaining_bytes
    }
    return {side: remaining_bytes[side] / max(drain_rates[side], 1.0) for side in remaining_bytes}


def _slowest_first(
    remaining_bytes: Mapping[BrokerSide, float], running: Sequence[RunningStep], constraints: SchedulerConstraints
) -> list[list[tuple[BrokerSide, float]]]:
    """Returns the sides with their bytes, slowest first, in groups of sides that need about the same time."""
    remaining_s = _remaining_s(remaining_bytes, running, constraints, constraints.max_rates)
    groups: list[list[tuple[BrokerSide, float]]] = []
    group_s = math.inf  # The time of the slowest side in the current group.
    for side in sorted(remaining_bytes, key=lambda side: (-remaining_s[side], side)):
        if not groups or remaining_s[side] < _EQUAL_TIME_RATIO * group_s:
            groups.append([])
            group_s = remaining_s[side]
        groups[-1].append((side, remaining_bytes[side]))
    return groups


def _pick_small(
    waiting: Sequence[WaitingPartition],
    running: Sequence[RunningStep],
    queue: _Queue,
    capacity: RemainingCapacity,
    constraints: SchedulerConstraints,
    remaining_bytes: Mapping[BrokerSide, float],
) -> tuple[list[int], float]:
    """Returns the small partitions to start, and their share before rounding.

    The share depends on how long the plan will take, so it is computed with the current throttles and not with the maximum rates.
    """
    if capacity.request_is_full or not math.isfinite(constraints.since_last_request_s):
        return [], constraints.carried_small_share
    sides_with_slot = {
        i: sides for i, sides in queue.sides.items() if i not in capacity.started and capacity.has_slot_for(sides)
    }
    rates = {**constraints.max_rates, **constraints.setpoints}
    remaining_s = _remaining_s(remaining_bytes, running, constraints, rates)
    return pick_small_partitions(waiting, sides_with_slot, remaining_s, constraints, capacity.starts_max)


class _Queue:
    """The waiting partitions, sorted by what they wait for.

    Attributes:
        first_steps: steps without which Kafka rejects writes, then steps that copy nothing.
        waits: partitions that have no next step at present.
        by_side: indices of all other partitions, by side that they copy through.
        sides: the sides of each of these partitions, by index.
        first: the class of each partition in ``sides`` that goes first (class 3 of the module docstring), by index.
        vacated_brokers: brokers from which a step removes a partition, except steps that wait for an offline broker.
    """

    def __init__(
        self,
        waiting: Sequence[WaitingPartition],
        running: Sequence[RunningStep],
        constraints: SchedulerConstraints,
    ) -> None:
        self.first_steps: list[tuple[int, ReassignmentStep]] = []
        self.waits: list[Wait] = []
        self.by_side: dict[BrokerSide, list[int]] = {}
        self.sides: dict[int, list[BrokerSide]] = {}
        self.first: dict[int, tuple[IsrStanding, int]] = {}
        self.vacated_brokers: set[int] = set()
        limited = constraints.limits != PartitionLimits()
        if limited:
            self.vacated_brokers.update(*(_vacated_brokers(run.transition) for run in running if not run.is_stuck))
        online, replicas_max = constraints.online, constraints.batch.replica_movements_max
        first_topics = constraints.first_topics
        without_copy: list[tuple[int, ReassignmentStep]] = []
        for index, candidate in enumerate(waiting):
            transition, missing = candidate.transition, candidate.missing
            all_online = (
                transition.isr <= online
                and online.issuperset(transition.target)
                and online.issuperset(transition.replicas)
            )
            # Nearly all partitions are healthy. To save time, their steps are computed only when there is capacity.
            in_sync = len(transition.isr) >= transition.min_in_sync and transition.leader in online
            if not (all_online and missing and in_sync):
                step = next_step(transition, online, replicas_max)
                if isinstance(step, Wait):
                    self.waits.append(step)
                if not isinstance(step, ReassignmentStep):
                    continue
                if limited:
                    self.vacated_brokers |= _vacated_brokers(transition)
                if step.reason is StepReason.MIN_IN_SYNC:
                    self.first_steps.append((index, step))
                    continue
                if not step.adding:
                    without_copy.append((index, step))
                    continue
            elif limited:
                self.vacated_brokers |= _vacated_brokers(transition)
            self.sides[index] = sides = sides_of_copy(transition.leader, missing)
            for side in sides:
                self.by_side.setdefault(side, []).append(index)
            if first_topics or len(transition.isr) < len(transition.replicas):
                key = move_class(
                    transition.topic,
                    len(transition.isr),
                    len(transition.replicas),
                    transition.min_in_sync,
                    first_topics,
                )
                if goes_first(key, first_topics):
                    self.first[index] = key
        self.first_steps += without_copy
