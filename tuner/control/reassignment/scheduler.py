"""Which partitions of a plan begin now: slots are filled as they come free, and nobody waits for the slowest of a batch.

Intuition: a removal firm with a few vans for every house. The house that will be done last decides when all is done, so its vans
are filled first. A giant that is left to the end keeps everybody waiting for one van, and a household that buys something
every day should move before one that doesn't. A van that comes back goes again within seconds. And no piece is begun that would
leave the lift no room to move: what keeping up with writes takes of a quota is lost for the copy, and if it is all of it the copy
never ends.

Order:
    what producers wait for   steps without which a partition refuses them; no slot and no quota keeps them back.
    what copies nothing       only an order or a drop: it costs the controller a record, and nobody a byte.
    the slowest side          the one that needs longest for what it has left at the rate that it may have. Of its partitions first
                              the giants, who would else be the last; then those that grow most for their size, as all that
                              is written while they wait is to be copied too; else the largest. Then the next slowest side.
                              Of sides that need about as long, first the one with the fewest slots in use.
    what is small             before all those, as much as is due by now (due.py).

KIP-435 takes steps that move a leader first, because they relieve a broker. Here the slowest side comes first, which relieves
more; the KIP's limits hold all the same.

Invariant: what runs and what is begun together stay within the slots, the KIP's limits and the brokers' partition limits, and
W + what is begun stays below the quota of every side, with a sixth of it left to the copy. Where a limit has been lowered below
what runs, that ends and nothing begins. What may begin waits for a few seconds at most for others that may (gather.py).
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

# Who would take so much of the time that is left if it had one slot's share of the rate is a giant: half of it.
_GIANT = 2.0
# Sides that need about as long are equals: the first of them alone would fill the slots at the other end of its copies, and the
# others would stand idle meanwhile.
_AS_LONG_RATIO = 0.9
_NONE_LEFT = object()


def schedule(
    waiting: Sequence[WaitingPartition], running: Sequence[RunningStep], terms: SchedulerConstraints
) -> Schedule:
    """
    Args:
        waiting: partitions that have no step under way; those that have arrived are passed over.
    """
    queue = _Queue(waiting, running, terms)
    room = RemainingCapacity(running, terms, queue.leaving)
    in_use = room.slots_taken
    for index, step in queue.first:
        if room.request_is_full:
            break
        room.consider(index, waiting[index], step, urgent=step.reason is StepReason.MIN_IN_SYNC)
    left = _left_bytes(waiting, running, queue.by_side)
    slowest = _slowest_first(left, running, terms)
    small, small_due = _small(waiting, running, queue, room, terms, left)
    for index in small:
        if not room.request_is_full and room.has_slot_for(queue.sides[index]):
            room.consider(index, waiting[index], _following(waiting[index], terms))
    for equals in slowest:
        _begin_by_turns(
            {side: _startable(waiting, queue, room, terms, side, left_bytes) for side, left_bytes in equals}, room
        )
    held = Counter(room.held.values())
    others = len(queue.sides.keys() - room.started.keys() - room.held.keys())
    if others:
        held[room.full_request_cause if room.request_is_full else HeldBy.SLOTS] += others
    starts = tuple(room.started.values())
    if should_wait(starts, running, in_use, terms, room.starts_max):
        held[HeldBy.REQUEST] += len(starts)
        starts, carried = (), terms.carried_small_share
    else:
        carried = carried_share(small_due, room.started, small)
    return Schedule(starts, tuple(queue.waits), held, tuple(room.never.values()), frozenset(room.at_limit), carried)


def _startable(
    waiting: Sequence[WaitingPartition],
    queue: _Queue,
    room: RemainingCapacity,
    terms: SchedulerConstraints,
    side: BrokerSide,
    left_bytes: float,
) -> Iterator[None]:
    """Begins the partitions of one side, one at each ``next``, for as long as there is room.

    Args:
        left_bytes: what is left to be copied through the side.
    """
    if not room.has_slot(side):
        return
    may = [i for i in queue.by_side[side] if i not in room.started and room.has_slot_for(queue.sides[i])]
    giant_bytes = left_bytes / (_GIANT * terms.slots.get(side, 1))
    for index in sorted(may, key=lambda i: _turn(waiting[i], giant_bytes)):
        if not room.has_slot(side):
            return
        if index not in room.started and room.has_slot_for(queue.sides[index]):
            room.consider(index, waiting[index], _following(waiting[index], terms))
            if index in room.started:
                yield


def _begin_by_turns(sides: Mapping[BrokerSide, Iterator[None]], room: RemainingCapacity) -> None:
    """Lets the side begin one partition that has the fewest slots in use, again and again, until none can."""
    queue = [(room.slots_in_use(side), number, side) for number, side in enumerate(sides)]
    heapify(queue)
    while queue and not room.request_is_full:
        in_use, number, side = queue[0]
        now_in_use = room.slots_in_use(side)  # A partition that another side began takes slots here, too.
        if now_in_use > in_use:
            heapreplace(queue, (now_in_use, number, side))
        elif next(sides[side], _NONE_LEFT) is _NONE_LEFT:
            heappop(queue)


def _following(one: WaitingPartition, terms: SchedulerConstraints) -> ReassignmentStep:
    """Of one that has a step to make."""
    step = next_step(one.transition, terms.online, terms.batch.replica_movements_max)
    assert isinstance(step, ReassignmentStep)
    return step


def _leaving(way: PartitionTransition) -> set[int]:
    """Brokers that it goes from; what internal topics have does not count there."""
    return {*way.replicas} - {*way.target} if way.topic not in INTERNAL_TOPICS else set()


def _turn(one: WaitingPartition, giant_bytes: float) -> tuple[bool, float, float]:
    return one.size_bytes < giant_bytes, *priority_of(one)


def _left_bytes(
    waiting: Sequence[WaitingPartition], running: Sequence[RunningStep], by_side: Mapping[BrokerSide, list[int]]
) -> dict[BrokerSide, float]:
    """What is left to be copied through each side for which any waits."""
    left: dict[BrokerSide, float] = {}
    for side, indices in by_side.items():
        each = side[1] is Side.LEADER
        left[side] = sum(waiting[i].size_bytes * (len(waiting[i].missing) if each else 1) for i in indices)
    for one in running:
        for side in sides_of_copy(one.transition.leader, one.step.adding):
            if side in left:
                left[side] += one.remaining_bytes / (1 if side[1] is Side.LEADER else len(one.step.adding))
    return left


def _needs_s(
    left: Mapping[BrokerSide, float],
    running: Sequence[RunningStep],
    terms: SchedulerConstraints,
    rates: Mapping[BrokerSide, float],
) -> dict[BrokerSide, float]:
    """How long each side takes for that at these rates, less what keeping up takes of them."""
    used = steady_state(running)
    # Nobody throttles it: as fast as the fastest that is throttled, or all alike.
    other = max(rates.values(), default=ASSUMED_RATE_BYTES_PER_S)
    drains = {
        side: rates.get(side, other) - terms.other_steady_state.get(side, 0.0) - used.get(side, 0.0) for side in left
    }
    return {side: left[side] / max(drains[side], 1.0) for side in left}


def _slowest_first(
    left: Mapping[BrokerSide, float], running: Sequence[RunningStep], terms: SchedulerConstraints
) -> list[list[tuple[BrokerSide, float]]]:
    """Sides with the bytes that are left to be copied through each; in groups of sides that need about as long."""
    needs_s = _needs_s(left, running, terms, terms.max_rates)
    found: list[list[tuple[BrokerSide, float]]] = []
    for side in sorted(left, key=lambda side: (-needs_s[side], side)):
        if not found or needs_s[side] < _AS_LONG_RATIO * needs_s[found[-1][0][0]]:
            found.append([])
        found[-1].append((side, left[side]))
    return found


def _small(
    waiting: Sequence[WaitingPartition],
    running: Sequence[RunningStep],
    queue: _Queue,
    room: RemainingCapacity,
    terms: SchedulerConstraints,
    left: Mapping[BrokerSide, float],
) -> tuple[list[int], float]:
    """See due.py; at what sides carry now, and not at what they may be given."""
    if room.request_is_full or not math.isfinite(terms.since_last_request_s):
        return [], terms.carried_small_share  # Nothing can be due; a large plan's first request is waited for.
    may = {i: sides for i, sides in queue.sides.items() if i not in room.started and room.has_slot_for(sides)}
    needs_s = _needs_s(left, running, terms, {**terms.max_rates, **terms.setpoints})
    return small_partition_share(waiting, may, needs_s, terms, room.starts_max)


class _Queue:
    """Who waits, sorted into what it waits for."""

    def __init__(
        self, waiting: Sequence[WaitingPartition], running: Sequence[RunningStep], terms: SchedulerConstraints
    ) -> None:
        self.first: list[
            tuple[int, ReassignmentStep]
        ] = []  # Without whom producers wait, and then what copies nothing.
        self.waits: list[Wait] = []
        self.by_side: dict[BrokerSide, list[int]] = {}
        self.sides: dict[int, list[BrokerSide]] = {}
        self.leaving: set[int] = set()  # Brokers from which one goes that does not wait for a broker that is down.
        limited = terms.limits != PartitionLimits()
        if limited:
            self.leaving.update(*(_leaving(one.transition) for one in running if not one.is_stuck))
        online, most = terms.online, terms.batch.replica_movements_max
        free: list[tuple[int, ReassignmentStep]] = []
        for index, one in enumerate(waiting):
            way, missing = one.transition, one.missing
            plain = way.isr <= online and online.issuperset(way.target) and online.issuperset(way.replicas)
            # Nearly all are well, and their steps are only worked out when there is room for them.
            if not (plain and missing and len(way.isr) >= way.min_in_sync and way.leader in online):
                step = next_step(way, online, most)
                if isinstance(step, Wait):
                    self.waits.append(step)
                if not isinstance(step, ReassignmentStep):
                    continue
                if limited:
                    self.leaving |= _leaving(way)
                if step.reason is StepReason.MIN_IN_SYNC:
                    self.first.append((index, step))
                    continue
                if not step.adding:
                    free.append((index, step))
                    continue
            elif limited:
                self.leaving |= _leaving(way)
            self.sides[index] = sides = sides_of_copy(way.leader, missing)
            for side in sides:
                self.by_side.setdefault(side, []).append(index)
        self.first += free
