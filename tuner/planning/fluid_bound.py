"""Computes T*, the shortest possible time of a whole plan, from the rates of all sides.

A partition that waits for its copy uses no quota, but producers write to it, so it grows. A partition that is copied uses quota for
the copy, and for the replication of new writes. So a side ends soonest if it copies one partition at a time, at the full rate. It
begins with the partition that grows most in relation to its size (growth ÷ bytes). A copy that begins at time x ends at

    x + (b + w · x) ÷ (q − W)

    b  bytes to copy at time 0
    w  growth of these bytes until the copy begins, in bytes/s
    W  steady-state replication: the part of the quota that the replication of new writes uses while the partition is copied
    q  quota of the side

T* is the end of the last copy on the slowest side. With several copies at a time, each copy shares the quota and ends later, and
its partition grows until then. If all copies of a side begin at once, they need Σb ÷ (q − ΣW), with sums over all copies. This time
is infinite if q ≤ ΣW.

Invariant: T* is at most the time with all copies at once. The two times are equal if nothing is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streaming.shared.contract import Side
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad, drain_s
from tuner.core.side_load import PlannedPartition

# A copy through one side: growth ÷ bytes, bytes to copy, growth in bytes/s, steady-state replication in bytes/s, topic, partition.
# Copies are sorted in descending order. A plan may have 400,000 copies, so a copy is a tuple and not an object.
_Copy = tuple[float, float, float, float, str, int]


@dataclass(frozen=True, slots=True)
class FluidBound:
    """The result for one plan.

    Attributes:
        time_s: T*; None: the copy of a partition never ends at these rates.
        slowest: the side that takes longest or never ends; None: no side has a rate.
        never: partitions whose steady-state replication alone uses up the rate of a side, so that their copy never ends.
        at_once_s: the time if all copies begin at once; None: infinite.
        copied_bytes: bytes that all new replicas copy.
    """

    time_s: float | None
    slowest: BrokerSide | None
    never: tuple[tuple[str, int, BrokerSide], ...]
    at_once_s: float | None
    copied_bytes: float


def fluid_bound(partitions: Iterable[PlannedPartition], rates: Mapping[BrokerSide, float]) -> FluidBound:
    """Computes the bound for a plan.

    Args:
        rates: bytes/s of each side; a side that is missing is unlimited.
    """
    leaders: dict[int, list[_Copy]] = defaultdict(list)
    followers: dict[int, list[_Copy]] = defaultdict(list)
    copied_bytes = 0.0
    for p in partitions:
        lacking_by_broker = p.lacking_bytes
        if not lacking_by_broker:
            continue
        topic, partition, write = p.topic, p.partition, p.write_bytes_per_s
        total_bytes = sum(lacking_by_broker.values())
        copied_bytes += total_bytes
        growth = len(lacking_by_broker) * write
        leaders[p.leader].append(
            (growth / max(total_bytes, 1.0), total_bytes, growth, p.followers * write, topic, partition)
        )
        for broker, lacking_bytes in lacking_by_broker.items():
            followers[broker].append((write / max(lacking_bytes, 1.0), lacking_bytes, write, write, topic, partition))
    by_side = {(b, Side.LEADER): copies for b, copies in leaders.items()}
    by_side |= {(b, Side.FOLLOWER): copies for b, copies in followers.items()}
    limited = {side: copies for side, copies in by_side.items() if side in rates}
    never: list[tuple[str, int, BrokerSide]] = []
    for side, copies in limited.items():
        never += [
            (topic, partition, side)
            for _, _, _, steady_state, topic, partition in copies
            if steady_state >= rates[side]
        ]
    at_once = [_at_once_s(copies, rates[side]) for side, copies in limited.items()]
    finite_s = [time_s for time_s in at_once if time_s is not None]
    at_once_s = max(finite_s, default=0.0) if len(finite_s) == len(at_once) else None
    if never:
        _, _, side = never[0]
        return FluidBound(None, side, tuple(never), at_once_s, copied_bytes)
    in_turn_s = {side: _in_turn_s(copies, rates[side]) for side, copies in limited.items()}
    slowest = max(in_turn_s, key=in_turn_s.__getitem__, default=None)
    return FluidBound(max(in_turn_s.values(), default=0.0), slowest, (), at_once_s, copied_bytes)


def _in_turn_s(copies: list[_Copy], rate_bytes_per_s: float) -> float:
    """Returns the end of the last copy if the copies run one after the other, in the best order."""
    at_s = 0.0
    for _, lacking_bytes, growth, steady_state, _, _ in sorted(copies, reverse=True):
        at_s += (lacking_bytes + growth * at_s) / (rate_bytes_per_s - steady_state)
    return at_s


def _at_once_s(copies: list[_Copy], rate_bytes_per_s: float) -> float | None:
    """Returns the end of the last copy if all copies begin at once; None: they never end."""
    lacking_bytes = sum([lacking for _, lacking, _, _, _, _ in copies])
    steady_state = sum([bytes_per_s for _, _, _, bytes_per_s, _, _ in copies])
    return drain_s(SideLoad(lacking_bytes, steady_state), rate_bytes_per_s)
