"""How long a whole plan takes at best, when partitions begin one after another and each side has its rate.

Intuition: a partition that waits uses no quota, but grows; one that runs uses it for its copy and for keeping up. So a side does
best with one partition at a time, each as fast as it can, and those first that grow most for their size. With x the moment at
which a partition begins, b its bytes, w what is written to it and W what keeping up with it takes of the quota q:

    it ends at   x + (b + w · x) ÷ (q − W)

and T* is the end of the last one on the side that is done last. Whatever the order and however many at a time, no side is done
sooner: a copy that shares the quota ends later, and grows until it ends. All at once they pay for all keep-up until
the last is done, B ÷ (rate − W), which may be never.

Invariant: T* is at most what all at once takes, and equal to it where nothing is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streaming.shared.contract import Side
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad, drain_s
from tuner.core.side_load import PlannedPartition

# Of one side: what it grows by ÷ its bytes, its bytes to be copied, what it grows by and what keeping up with it uses, bytes/s,
# topic and partition; so that the greatest is the one to begin with. There may be 400,000 of them.
_Copy = tuple[float, float, float, float, str, int]


@dataclass(frozen=True, slots=True)
class Fluid:
    time_s: float | None  # T*; None: a partition of the plan never ends at these rates.
    slowest: BrokerSide | None  # The side that takes so long, or never ends; None where no side that copies has a rate.
    never: tuple[tuple[str, int, BrokerSide], ...]  # Partitions whose own keep-up is all that the side has.
    at_once_s: float | None  # When all begin at once; None: never.
    copied_bytes: float


def fluid(
    partitions: Iterable[PlannedPartition],
    rates: Mapping[BrokerSide, float],
    beside: Mapping[BrokerSide, float] | None = None,
) -> Fluid:
    """
    Args:
        rates: bytes/s that each side may have; one that isn't named holds nobody up.
        beside: keep-up bytes/s that others use of it.
    """
    used = beside or {}
    leaders: dict[int, list[_Copy]] = defaultdict(list)
    followers: dict[int, list[_Copy]] = defaultdict(list)
    copied_bytes = 0.0
    for p in partitions:
        lacking = p.lacking_bytes
        if not lacking:
            continue
        topic, partition, write, total_bytes = p.topic, p.partition, p.write_bytes_per_s, sum(lacking.values())
        copied_bytes += total_bytes
        grows = len(lacking) * write
        leaders[p.leader].append(
            (grows / max(total_bytes, 1.0), total_bytes, grows, p.followers * write, topic, partition)
        )
        for broker, lacks in lacking.items():
            followers[broker].append((write / max(lacks, 1.0), lacks, write, write, topic, partition))
    by_side = {(b, Side.LEADER): copies for b, copies in leaders.items()}
    by_side |= {(b, Side.FOLLOWER): copies for b, copies in followers.items()}
    held = {side: copies for side, copies in by_side.items() if side in rates}
    drains = {side: rates[side] - used.get(side, 0.0) for side in held}
    never = tuple((c[4], c[5], side) for side, copies in held.items() for c in copies if c[3] >= drains[side])
    at_once = [_at_once_s(copies, drains[side]) for side, copies in held.items()]
    ended = [takes_s for takes_s in at_once if takes_s is not None]
    at_once_s = max(ended, default=0.0) if len(ended) == len(at_once) else None
    if never:
        return Fluid(None, never[0][2], never, at_once_s, copied_bytes)
    needs_s = {side: _in_turn_s(copies, drains[side]) for side, copies in held.items()}
    slowest = max(needs_s, key=needs_s.__getitem__, default=None)
    return Fluid(max(needs_s.values(), default=0.0), slowest, (), at_once_s, copied_bytes)


def _in_turn_s(copies: list[_Copy], drains: float) -> float:
    at_s = 0.0
    for _, lacks, grows, keeps_up, _, _ in sorted(copies, reverse=True):
        at_s += (lacks + grows * at_s) / (drains - keeps_up)
    return at_s


def _at_once_s(copies: list[_Copy], drains: float) -> float | None:
    return drain_s(SideLoad(sum([c[1] for c in copies]), sum([c[3] for c in copies])), drains)
