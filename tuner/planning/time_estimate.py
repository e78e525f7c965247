"""Estimates how long a plan really takes, from its lower bound T* (fluid_bound.py) and the limits on concurrency.

T* does not consider how many partitions may be copied at once. With few copies at once, each copy is limited by the slower of its
two brokers, and the slowest side of the plan is idle while it waits for a slot. So the estimate is

    max(T*, sum of the times of all copies ÷ copies at once) × overhead + time for start and end

The overhead is measured (docs/explanation/performance.md). The real time may be longer, because the tuner lowers rates when the
latency of producers is too high.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streaming.shared.contract import Side
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import BrokerSide
from tuner.core.side_load import PlannedPartition
from tuner.planning.fluid_bound import FluidBound

_OVERHEAD_RATIO = 1.08
# Time until the first copies run at the full rate, plus the time until the last replica lists are cleared.
_START_END_S = 12.0


def estimate_s(
    bound: FluidBound,
    partitions: Iterable[PlannedPartition],
    rates: Mapping[BrokerSide, float],
    limits: BatchLimits,
    effective_leader_ratio: float = 1.0,
) -> float | None:
    """Returns the estimated seconds; None if a copy never ends at these rates; 0 if nothing is copied.

    Args:
        effective_leader_ratio: share of its rate that the control law gives a leader while the plan runs.
    """
    if bound.time_s is None or not bound.copied_bytes:
        return bound.time_s
    best_s = bound.time_s
    if bound.slowest is not None and bound.slowest[1] is Side.LEADER:
        best_s /= effective_leader_ratio
    alone_s = [_alone_s(p, rates, limits.replica_movements_max) for p in partitions]
    serial_s = max(sum(alone_s) / limits.partition_movements_max, max(alone_s, default=0.0))
    return _OVERHEAD_RATIO * max(best_s, serial_s) + _START_END_S


def _alone_s(partition: PlannedPartition, rates: Mapping[BrokerSide, float], replicas_max: int) -> float:
    """Returns the time of one partition's copy, if it alone uses its brokers' full rates and does not grow meanwhile."""
    lacking = sorted(partition.lacking_bytes.items())
    time_s = 0.0
    for first in range(0, len(lacking), replicas_max):
        batch = dict(lacking[first : first + replicas_max])
        sides = [((partition.leader, Side.LEADER), sum(batch.values()))]
        sides += [((broker, Side.FOLLOWER), missing_bytes) for broker, missing_bytes in batch.items()]
        time_s += max((missing_bytes / rates[side] for side, missing_bytes in sides if side in rates), default=0.0)
    return time_s
