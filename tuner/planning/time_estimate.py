"""Estimates how long a plan really takes, from its lower bound T* and the limits on concurrency.

T* ignores how many partitions may run at once. If an operator allows few at a time, a single copy cannot use the full rate at both
of its ends, and the busiest side waits for slots. So the estimate is the larger of T* and the serial time of all copies divided by
the number of slots, plus a small overhead for steps that end and slots that are filled again.

The overhead is measured (docs/explanation/performance.md). The estimate is no promise: rates go down when producers suffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streaming.shared.contract import Side
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import BrokerSide
from tuner.core.side_load import PlannedPartition
from tuner.planning.fluid_bound import FluidBound

_OVERHEAD_RATIO = 1.08
_START_END_S = 12.0  # Until the first copies run at full rate, and until the last lists are cleared.


def estimate_s(
    best: FluidBound,
    partitions: Iterable[PlannedPartition],
    rates: Mapping[BrokerSide, float],
    limits: BatchLimits,
    leaders_ratio: float = 1.0,
) -> float | None:
    """Returns seconds; None: a partition never ends at these rates; 0: nothing is copied.

    Args:
        leaders_ratio: share of its rate that the steering law gives a leader while the plan runs.
    """
    if best.time_s is None or not best.copied_bytes:
        return best.time_s
    best_s = best.time_s
    if best.slowest is not None and best.slowest[1] is Side.LEADER:
        best_s /= leaders_ratio
    alone_s = [_alone_s(p, rates, limits.replica_movements_max) for p in partitions]
    serial_s = max(sum(alone_s) / limits.partition_movements_max, max(alone_s, default=0.0))
    return _OVERHEAD_RATIO * max(best_s, serial_s) + _START_END_S


def _alone_s(partition: PlannedPartition, rates: Mapping[BrokerSide, float], replicas_max: int) -> float:
    """Returns the copy time of one partition with the full rates of its brokers, without its growth meanwhile."""
    lacking = sorted(partition.lacking_bytes.items())
    time_s = 0.0
    for first in range(0, len(lacking), replicas_max):
        batch = dict(lacking[first : first + replicas_max])
        sides = [((partition.leader, Side.LEADER), sum(batch.values()))]
        sides += [((broker, Side.FOLLOWER), missing_bytes) for broker, missing_bytes in batch.items()]
        time_s += max((missing_bytes / rates[side] for side, missing_bytes in sides if side in rates), default=0.0)
    return time_s
