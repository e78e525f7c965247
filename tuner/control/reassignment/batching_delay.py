"""Is what may begin now asked for now, or with what comes free in the next seconds?

Intuition: every round costs all brokers something, however few steps it holds: lists are written, the controller tells everybody,
fetchers stop and begin anew; and who produces waits behind it. Slots come free one by one. As long as the vans that are on the
road have enough to do for seconds, those that have come back can wait for each other.

Invariant: what may begin does by ``BATCHING_DELAY_S_MAX`` after the last request; it does not wait for a later look.
And none waits for which producers do, that copies nothing, one of whose sides uses less than half of its slots, or may run dry
before the next request is heard of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streaming.shared.contract import Side
from tuner.control.reassignment.scheduler_model import RunningStep, SchedulerConstraints, StepStart, sides_of_copy
from tuner.core.cluster import BrokerSide
from tuner.core.reassignment_steps import StepReason

BATCHING_DELAY_S_MAX = 4.5
# From the look that finds something to begin until it is copied: it is announced, throttled, asked for, heard of. A side that has
# so much under way beyond the next look can wait for that.
_LEAD_S = 2.0
# Somebody found that many slots of use there: one giant alone may not fill a throttle, however long it takes.
_SLOTS_IN_USE_MIN = 0.5


def should_wait(
    starts: Sequence[StepStart],
    running: Sequence[RunningStep],
    taken: Mapping[BrokerSide, float],
    terms: SchedulerConstraints,
    starts_max: int,
) -> bool:
    """Whether ``starts`` wait for more.

    Args:
        taken: slots in use by ``running``.
        starts_max: of one request; a full one has nothing to wait for.
    """
    if (
        not starts
        or len(starts) >= starts_max
        or terms.since_last_request_s + terms.snapshot_interval_s > BATCHING_DELAY_S_MAX
    ):
        return False
    if any(start.step.reason is StepReason.MIN_IN_SYNC or not start.step.adding for start in starts):
        return False
    under_way = _under_way_bytes(running, terms)
    sides = {side for start in starts for side in sides_of_copy(start.transition.leader, start.step.adding)}
    return all(_has_enough(side, under_way.get(side, 0.0), taken.get(side, 0.0), terms) for side in sides)


def _has_enough(side: BrokerSide, under_way_bytes: float, slots: float, terms: SchedulerConstraints) -> bool:
    rate_bytes_per_s = terms.max_rates.get(side)  # The most that it may be given: it lasts at least so long.
    if rate_bytes_per_s is None or slots < _SLOTS_IN_USE_MIN * terms.slots.get(side, 1):
        return False
    return under_way_bytes >= (terms.snapshot_interval_s + _LEAD_S) * rate_bytes_per_s


def _under_way_bytes(running: Sequence[RunningStep], terms: SchedulerConstraints) -> dict[BrokerSide, float]:
    """What each side still copies of what runs; to a broker that is away, or from one, nothing is copied."""
    found: dict[BrokerSide, float] = {}
    for one in running:
        copies = one.step.adding
        if not copies or one.transition.leader not in terms.online:
            continue
        each_bytes = one.remaining_bytes / len(copies)
        live = sides_of_copy(one.transition.leader, [b for b in copies if b in terms.online])
        for side in live:
            passes = each_bytes * (1 if side[1] is Side.FOLLOWER else len(live) - 1)
            found[side] = found.get(side, 0.0) + passes
    return found
