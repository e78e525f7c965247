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

from streaming.contract import Side
from tuner.model.cluster import BrokerSide
from tuner.plan.move_time import SideLoad, drain_s
from tuner.plan.side_loads import PlannedPartition

# Of one side: topic, partition, bytes to be copied; what it grows by and what keeping up with it uses, bytes/s. There may be
# 400,000 of them.
_Copy = tuple[str, int, float, float, float]


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
    by_side: dict[BrokerSide, list[_Copy]] = defaultdict(list)
    copied_bytes = 0.0
    for p in partitions:
        lacking = p.lacking_bytes
        if not lacking:
            continue
        write, total_bytes = p.write_bytes_per_s, sum(lacking.values())
        copied_bytes += total_bytes
        copy = (p.topic, p.partition, total_bytes, len(lacking) * write, len(p.followers) * write)
        by_side[p.leader, Side.LEADER].append(copy)
        for broker, lacks in lacking.items():
            by_side[broker, Side.FOLLOWER].append((p.topic, p.partition, lacks, write, write))
    held = {side: copies for side, copies in by_side.items() if side in rates}
    drains = {side: rates[side] - used.get(side, 0.0) for side in held}
    never = tuple((c[0], c[1], side) for side, copies in held.items() for c in copies if c[4] >= drains[side])
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
    for _, lacks, grows, keeps_up in sorted([(c[3] / max(c[2], 1.0), *c[2:]) for c in copies], reverse=True):
        at_s += (lacks + grows * at_s) / (drains - keeps_up)
    return at_s


def _at_once_s(copies: list[_Copy], drains: float) -> float | None:
    return drain_s(SideLoad(sum([c[2] for c in copies]), sum([c[4] for c in copies])), drains)
