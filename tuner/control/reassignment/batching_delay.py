"""Decides whether steps that may start now wait a few seconds for other steps, so that one request starts more of them.

Slots become free one by one, but one request for each slot would be expensive. For each request, even with one step, the tuner
writes replica lists, the controller informs every broker, fetchers restart, and producers wait meanwhile. So a step waits while its
sides still have enough bytes to copy.

Invariant: a step waits at most ``BATCHING_DELAY_S_MAX`` after the last request. Three kinds of steps do not wait at all:

1. steps without which Kafka rejects writes (min.insync.replicas);
2. steps that copy nothing;
3. steps on a side that uses less than half of its slots, or that could run out of work before the next request takes effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streaming.shared.contract import Side
from tuner.control.reassignment.scheduler_model import RunningStep, SchedulerConstraints, StepStart, sides_of_copy
from tuner.core.cluster import BrokerSide
from tuner.core.reassignment_steps import StepReason

BATCHING_DELAY_S_MAX = 4.5
# Time from the snapshot in which a step may start to its first copied byte: prepare handshake, throttle, request, metadata update.
_LEAD_TIME_S = 2.0
# With a smaller share of the slots in use, most remaining bytes of running steps may belong to one large partition. Its copy alone
# may not fill the throttle.
_SLOTS_IN_USE_RATIO_MIN = 0.5


def should_wait(
    starts: Sequence[StepStart],
    running: Sequence[RunningStep],
    slots: Mapping[BrokerSide, float],
    constraints: SchedulerConstraints,
    starts_max: int,
) -> bool:
    """Returns whether ``starts`` wait for more steps.

    Args:
        slots: slots that running steps use, by side.
        starts_max: highest number of steps in one request; a full request does not wait.
    """
    next_snapshot_s = constraints.since_last_request_s + constraints.snapshot_interval_s
    if not starts or len(starts) >= starts_max or next_snapshot_s > BATCHING_DELAY_S_MAX:
        return False
    if any(start.step.reason is StepReason.MIN_IN_SYNC or not start.step.adding for start in starts):
        return False
    under_way = _under_way_bytes(running, constraints)
    sides = {side for start in starts for side in sides_of_copy(start.transition.leader, start.step.adding)}
    return all(_has_enough_work(side, under_way.get(side, 0.0), slots.get(side, 0.0), constraints) for side in sides)


def _has_enough_work(side: BrokerSide, under_way_bytes: float, slots: float, constraints: SchedulerConstraints) -> bool:
    # At its maximum rate the side copies the remaining bytes of its running steps in the shortest time.
    rate_bytes_per_s = constraints.max_rates.get(side)
    if rate_bytes_per_s is None or slots < _SLOTS_IN_USE_RATIO_MIN * constraints.slots.get(side, 1):
        return False
    return under_way_bytes >= (constraints.snapshot_interval_s + _LEAD_TIME_S) * rate_bytes_per_s


def _under_way_bytes(running: Sequence[RunningStep], constraints: SchedulerConstraints) -> dict[BrokerSide, float]:
    """Returns the bytes that running steps still copy through each side. Copies from or to an offline broker do not count."""
    under_way: dict[BrokerSide, float] = {}
    for run in running:
        destinations = run.step.adding
        if not destinations or run.transition.leader not in constraints.online:
            continue
        bytes_per_copy = run.remaining_bytes / len(destinations)
        sides = sides_of_copy(run.transition.leader, [b for b in destinations if b in constraints.online])
        for side in sides:
            # The leader side sends a copy to each of the other sides.
            copies = 1 if side[1] is Side.FOLLOWER else len(sides) - 1
            under_way[side] = under_way.get(side, 0.0) + bytes_per_copy * copies
    return under_way
