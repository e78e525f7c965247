"""Picks the small partitions of a plan that start now, so that they are spread over the whole duration of the plan.

A plan that copied all large partitions first would end with small partitions only. It would then start dozens of steps at a time.
Each step is work for the controller and the brokers, even if its partition is small. A partition is small if it takes less than one
slot.

    number of small partitions in a request = Σ over waiting small partitions of (time since the last request ÷ remaining time)

where the remaining time is the time that the slower of the partition's sides still needs. The sum is rounded down, and its fraction
is carried over to the next request.

Invariant: small partitions take at most half of a request. If a request may have only one step, it is for a large partition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest

from tuner.control.reassignment.batching_delay import BATCHING_DELAY_S_MAX
from tuner.control.reassignment.scheduler_model import SchedulerConstraints, WaitingPartition, slots_for_copy
from tuner.core.cluster import BrokerSide

_REQUEST_SHARE_MAX = 0.5


def pick_small_partitions(
    waiting: Sequence[WaitingPartition],
    sides_by_index: Mapping[int, Sequence[BrokerSide]],
    remaining_s: Mapping[BrokerSide, float],
    constraints: SchedulerConstraints,
    starts_max: int,
) -> tuple[list[int], float]:
    """Picks the small partitions that start with this request.

    Args:
        sides_by_index: the sides of each partition that has a free slot, by index into ``waiting``.
        remaining_s: seconds that each side needs for its remaining bytes.
        starts_max: highest number of steps in this request.

    Returns:
        The indices into ``waiting``, sorted by ``priority_of``; and the sum before rounding, including the carried fraction.
    """
    interval_s_max = BATCHING_DELAY_S_MAX
    if math.isfinite(constraints.snapshot_interval_s):
        interval_s_max = max(BATCHING_DELAY_S_MAX, constraints.snapshot_interval_s)
    since_s = constraints.since_last_request_s
    interval_s = min(since_s, interval_s_max) if math.isfinite(since_s) else 0.0
    if interval_s <= 0.0:
        return [], constraints.carried_small_share
    small = [i for i, sides in sides_by_index.items() if _is_small(waiting[i], sides[0], constraints)]
    shares = [_time_share(interval_s, max(remaining_s[side] for side in sides_by_index[i])) for i in small]
    share = constraints.carried_small_share + sum(shares)
    count = int(min(share, _REQUEST_SHARE_MAX * starts_max))
    return nsmallest(count, small, key=lambda i: priority_of(waiting[i])), share


def carried_share(share: float, started: Iterable[int], small: Iterable[int]) -> float:
    """Returns the fraction that is carried over to the next request.

    It is less than 1, because a small partition that got no slot counts again in the sum of the next request.
    """
    return min(math.nextafter(1.0, 0.0), max(0.0, share - len({*started} & {*small})))


def priority_of(candidate: WaitingPartition) -> tuple[float, float]:
    """Returns a sort key, lowest first: the fastest relative growth, then the largest size.

    A partition that grows fast goes first, because data that producers write while it waits has to be copied too.
    """
    return -candidate.write_bytes_per_s / max(candidate.size_bytes, 1.0), -candidate.size_bytes


def _time_share(interval_s: float, remaining_s: float) -> float:
    return interval_s / remaining_s if remaining_s > interval_s else 1.0


def _is_small(candidate: WaitingPartition, leader: BrokerSide, constraints: SchedulerConstraints) -> bool:
    """Returns whether the partition takes less than one slot."""
    rate = constraints.setpoints.get(leader, constraints.max_rates.get(leader))
    return slots_for_copy(candidate.size_bytes, rate) < 1.0
