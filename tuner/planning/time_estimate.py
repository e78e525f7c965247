"""About how long a plan takes, beside what no order can beat.

Intuition: T* knows nothing of how many may be under way. Where a person allows few partitions at a time, each alone cannot use a
broker's whole rate at both of its ends, and what the busiest side would do in turn waits for slots. So the plan takes about what
T* says, or what its copies say one behind another in so many lines, whichever is more; and a little for what no fluid shows:
steps that end and slots that are filled again.

That little was measured (docs/performance.md): 100 simulated brokers with 20,000 partitions 1.02 to 1.08 × T*, 200 small
partitions on four real ones 1.28 × 62 s, before leaders had less than the ceiling (1.29 to 1.40 × since). It is a guide and no
promise: rates go down where producers suffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streaming.shared.contract import Side
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import BrokerSide
from tuner.core.side_load import PlannedPartition
from tuner.planning.fluid_bound import Fluid

_BEYOND_RATIO = 1.08
_FIRST_LAST_S = 12.0  # Until the first copies run at their rate, and the last lists are taken back.


def expected_s(
    best: Fluid,
    partitions: Iterable[PlannedPartition],
    rates: Mapping[BrokerSide, float],
    limits: BatchLimits,
    leaders_ratio: float = 1.0,
) -> float | None:
    """None: a partition of it never ends at these rates; 0: nothing is copied.

    Args:
        leaders_ratio: of its rate, what the law gives a leader while the plan goes on.
    """
    if best.time_s is None or not best.copied_bytes:
        return best.time_s
    best_s = best.time_s
    if best.slowest is not None and best.slowest[1] is Side.LEADER:
        best_s /= leaders_ratio
    alone_s = [_alone_s(p, rates, limits.replica_movements_max) for p in partitions]
    in_lines_s = max(sum(alone_s) / limits.partition_movements_max, max(alone_s, default=0.0))
    return _BEYOND_RATIO * max(best_s, in_lines_s) + _FIRST_LAST_S


def _alone_s(one: PlannedPartition, rates: Mapping[BrokerSide, float], replicas_max: int) -> float:
    """With the whole of its brokers' rates, so many replicas at a time; its growth meanwhile left out."""
    lacking = sorted(one.lacking_bytes.items())
    found = 0.0
    for first in range(0, len(lacking), replicas_max):
        some = dict(lacking[first : first + replicas_max])
        sides = [((one.leader, Side.LEADER), sum(some.values()))]
        sides += [((broker, Side.FOLLOWER), lacks) for broker, lacks in some.items()]
        found += max((lacks / rates[side] for side, lacks in sides if side in rates), default=0.0)
    return found
