"""How long a move takes, after KIP-73.

The KIP says MoveTime = bytes to move ÷ (quota − max BytesInPerSec). Sharper, because in-sync followers of a throttled
partition use the leader's quota too, with W the keep-up bytes/s of a side:

    a side drains q − W bytes/s, so it ends iff q > W, and B bytes take B ÷ (q − W)
    T* = max over all sides of B ÷ (q_max − W)      no schedule is faster than that
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SideLoad:
    """What one side of one broker has to carry."""

    remaining_bytes: float
    keep_up_bytes_per_s: float


def drain_s(load: SideLoad, rate_bytes_per_s: float) -> float | None:
    """Seconds until nothing remains at this rate; None: never."""
    surplus = rate_bytes_per_s - load.keep_up_bytes_per_s
    return load.remaining_bytes / surplus if surplus > 0 else None


def fluid_optimum_s(loads: Iterable[SideLoad], rate_bytes_per_s_max: float) -> float | None:
    """T*: the shortest time in which all sides can be done; None where one never is."""
    times = [drain_s(load, rate_bytes_per_s_max) for load in loads]
    if any(t is None for t in times):
        return None
    return max((t for t in times if t is not None), default=0.0)
