"""What of a plan's small partitions is to begin now, so that none of it is kept to the end.

Intuition: boxes go into the van beside the wardrobes, on every tour. Whoever takes all wardrobes first makes the last tours with
nothing but boxes, by dozens; and each of them, however small, is work for the controller and for its brokers, behind which
producers wait.

A partition is due as often as the time that has gone by since the last request fits into the time that is left on the slower of its
sides. What does not make a whole one is carried to the next request.

Invariant: of what is small no more is due than its share of the time, and never more than half of a request: what is large goes
beside it, and first where only one may begin at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest

from tuner.control.reassignment.batching_delay import BATCHING_DELAY_S_MAX
from tuner.control.reassignment.scheduler_model import SchedulerConstraints, WaitingPartition, slots_for_copy
from tuner.core.cluster import BrokerSide

_SHARE_OF_A_REQUEST_MAX = 0.5


def small_partition_share(
    waiting: Sequence[WaitingPartition],
    may: Mapping[int, Sequence[BrokerSide]],
    needs_s: Mapping[BrokerSide, float],
    terms: SchedulerConstraints,
    starts_max: int,
) -> tuple[list[int], float]:
    """
    Args:
        may: by index into ``waiting``, the sides of those for which there is a slot.
        needs_s: how long each side takes for what is left of it.
        starts_max: of this request.

    Returns:
        indices, those first that grow most for their size and then the largest; and how many are due with what was carried, as a
        fraction.
    """
    most_s = (
        max(BATCHING_DELAY_S_MAX, terms.snapshot_interval_s)
        if math.isfinite(terms.snapshot_interval_s)
        else BATCHING_DELAY_S_MAX
    )
    ago_s = min(terms.since_last_request_s, most_s) if math.isfinite(terms.since_last_request_s) else 0.0
    if ago_s <= 0.0:
        return [], terms.carried_small_share
    small = [i for i, sides in may.items() if _is_small(waiting[i], sides[0], terms)]
    count = terms.carried_small_share + sum(_share(ago_s, max(needs_s[side] for side in may[i])) for i in small)
    most = int(min(count, _SHARE_OF_A_REQUEST_MAX * starts_max))
    return nsmallest(most, small, key=lambda i: priority_of(waiting[i])), count


def carried_share(count: float, begun: Iterable[int], first: Iterable[int]) -> float:
    """What is carried to the next request: less than one, as who finds no slot comes to be due again by himself."""
    return min(math.nextafter(1.0, 0.0), max(0.0, count - len({*begun} & {*first})))


def priority_of(one: WaitingPartition) -> tuple[float, float]:
    """Whose turn it is of those of one kind: what grows most for its size, as all that is written while it waits is to be copied
    too; else the largest."""
    return -one.write_bytes_per_s / max(one.size_bytes, 1.0), -one.size_bytes


def _share(ago_s: float, needs_s: float) -> float:
    """Of the time that is left; all of it where nothing is left to be copied."""
    return ago_s / needs_s if needs_s > ago_s else 1.0


def _is_small(one: WaitingPartition, leader: BrokerSide, terms: SchedulerConstraints) -> bool:
    """It takes a part of a slot."""
    return slots_for_copy(one.size_bytes, terms.setpoints.get(leader, terms.max_rates.get(leader))) < 1.0
