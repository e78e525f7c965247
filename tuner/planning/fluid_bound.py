"""Computes T*, the shortest possible time of a whole plan, from the rates of all sides.

A waiting partition uses no quota, but growth. A running one uses quota for its copy and for steady-state replication. So a side is
fastest with one partition at a time, at full rate, and with those first that grow most for their size. For a partition that begins
at x, with b bytes, a write rate w, steady-state replication W and the quota q:

    end = x + (b + w · x) ÷ (q − W)

T* is the last end on the slowest side. No order and no number of partitions at a time is faster, because copies that share the
quota end later and grow until then. All at once they need B ÷ (rate − W), which may be infinite.

Invariant: T* is at most the time of all at once, and equal to it if nothing is written.
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
# The greatest tuple begins first. There may be 400,000 of them.
_Copy = tuple[float, float, float, float, str, int]


@dataclass(frozen=True, slots=True)
class FluidBound:
    """The result for one plan.

    Attributes:
        time_s: T*; None: a partition never ends at these rates.
        slowest: the side that takes longest or never ends; None: no side that copies has a rate.
        never: partitions whose steady-state replication alone uses up the rate of a side.
        at_once_s: the time if all partitions begin at once; None: infinite.
    """

    time_s: float | None
    slowest: BrokerSide | None
    never: tuple[tuple[str, int, BrokerSide], ...]
    at_once_s: float | None
    copied_bytes: float


def fluid_bound(
    partitions: Iterable[PlannedPartition],
    rates: Mapping[BrokerSide, float],
    other_replication: Mapping[BrokerSide, float] | None = None,
) -> FluidBound:
    """Computes the bound for a plan.

    Args:
        rates: bytes/s of each side; a side that is missing is unlimited.
        other_replication: bytes/s of each side that the steady-state replication of partitions outside the plan uses.
    """
    used = other_replication or {}
    leaders: dict[int, list[_Copy]] = defaultdict(list)
    followers: dict[int, list[_Copy]] = defaultdict(list)
    copied_bytes = 0.0
    for p in partitions:
        lacking = p.lacking_bytes
        if not lacking:
            continue
        topic, partition, write, total_bytes = p.topic, p.partition, p.write_bytes_per_s, sum(lacking.values())
        copied_bytes += total_bytes
        growth = len(lacking) * write
        leaders[p.leader].append(
            (growth / max(total_bytes, 1.0), total_bytes, growth, p.followers * write, topic, partition)
        )
        for broker, missing_bytes in lacking.items():
            followers[broker].append((write / max(missing_bytes, 1.0), missing_bytes, write, write, topic, partition))
    by_side = {(b, Side.LEADER): copies for b, copies in leaders.items()}
    by_side |= {(b, Side.FOLLOWER): copies for b, copies in followers.items()}
    held = {side: copies for side, copies in by_side.items() if side in rates}
    drains = {side: rates[side] - used.get(side, 0.0) for side in held}
    never = tuple((c[4], c[5], side) for side, copies in held.items() for c in copies if c[3] >= drains[side])
    at_once = [_at_once_s(copies, drains[side]) for side, copies in held.items()]
    ended = [takes_s for takes_s in at_once if takes_s is not None]
    at_once_s = max(ended, default=0.0) if len(ended) == len(at_once) else None
    if never:
        return FluidBound(None, never[0][2], never, at_once_s, copied_bytes)
    needs_s = {side: _in_turn_s(copies, drains[side]) for side, copies in held.items()}
    slowest = max(needs_s, key=needs_s.__getitem__, default=None)
    return FluidBound(max(needs_s.values(), default=0.0), slowest, (), at_once_s, copied_bytes)


def _in_turn_s(copies: list[_Copy], drains: float) -> float:
    """Returns the end of the last copy if they run one after the other."""
    at_s = 0.0
    for _, missing_bytes, growth, steady_state, _, _ in sorted(copies, reverse=True):
        at_s += (missing_bytes + growth * at_s) / (drains - steady_state)
    return at_s


def _at_once_s(copies: list[_Copy], drains: float) -> float | None:
    return drain_s(SideLoad(sum([c[1] for c in copies]), sum([c[3] for c in copies])), drains)
