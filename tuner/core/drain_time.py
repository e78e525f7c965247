"""How long a move takes at a rate, which rate ends it in time, and what has to give when the two don't agree. After KIP-73.

The KIP says MoveTime = bytes to move ÷ (quota − max BytesInPerSec). Sharper, because in-sync followers of a throttled
partition use the leader's quota too, with W the keep-up bytes/s of a side:

    a side drains q − W bytes/s, so it ends iff q > W, and B bytes take B ÷ (q − W)
    so the rate that takes T is W + B ÷ T, and the smallest one that ever ends lies just above W
    T* = max over all sides of B ÷ (q_max − W)      no schedule is faster than that

KIP-73's own formula is the same with a single side, the whole cluster: so both answer the same questions here.

Invariant: a time and the rate found for it agree: at that rate no side takes longer, and 1 byte/s less is too slow for one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from tuner.core.value import value

K = TypeVar("K", bound=Hashable)


@value
class SideLoad:
    """What one side of one broker has to carry."""

    remaining_bytes: float
    steady_state_bytes_per_s: float


def drain_s(load: SideLoad, rate_bytes_per_s: float) -> float | None:
    """Seconds until nothing remains at this rate; None: never."""
    surplus = rate_bytes_per_s - load.steady_state_bytes_per_s
    return load.remaining_bytes / surplus if surplus > 0 else None


def fluid_optimum_s(loads: Iterable[SideLoad], rate_bytes_per_s_max: float) -> float | None:
    """T*: the shortest time in which all sides can be done; None where one never is."""
    times = [drain_s(load, rate_bytes_per_s_max) for load in loads]
    if any(t is None for t in times):
        return None
    return max((t for t in times if t is not None), default=0.0)


def rate_bytes_per_s_min(load: SideLoad) -> int:
    """The smallest whole rate at which this side ever ends; Kafka's throttles are whole bytes/s."""
    return math.floor(load.steady_state_bytes_per_s) + 1


def rate_for_time(load: SideLoad, time_s: float) -> int:
    """The smallest whole rate at which this side ends within ``time_s``, which is above 0."""
    rate = max(rate_bytes_per_s_min(load), math.ceil(load.steady_state_bytes_per_s + load.remaining_bytes / time_s))
    # The sum is rounded to a float's precision, and may come out a byte/s short.
    taken_s = drain_s(load, rate)
    return rate if taken_s is not None and taken_s <= time_s else rate + 1


class RateVerdict(StrEnum):
    ENDS = "ends"  # Within all that was asked.
    TOO_SLOW = "too_slow"  # It ends, but not in the time asked: the rate or the time has to give.
    NEVER_ENDS = "never_ends"  # Only the rate can give: below W no time is long enough.


@dataclass(frozen=True, slots=True)
class RateEstimate(Generic[K]):
    """What is asked of one throttle for all sides, as kafka-reassign-partitions sets it."""

    verdict: RateVerdict
    rate_bytes_per_s_min: int  # The smallest at which every side ever ends.
    steady_state_side: K  # The side that sets it.
    rate_bytes_per_s: int | None = None  # To be set: the smallest that does what was asked, else the most allowed.
    time_s: float | None = None  # Which that takes; the shortest there is where the verdict is "too slow".
    slowest_side: K | None = None  # The side that takes so long.
    rate_bytes_per_s_needed: int | None = None  # For the time asked.


def estimate_rate(
    loads: Mapping[K, SideLoad], *, rate_bytes_per_s_max: float | None = None, time_s_max: float | None = None
) -> RateEstimate[K]:
    """
    Args:
        loads: at least one side.
        rate_bytes_per_s_max: at most this rate; None: any. Without a time it is the rate itself.
        time_s_max: done within this time, above 0; None: whenever.
    """
    steady_state_side = max(loads, key=lambda side: loads[side].steady_state_bytes_per_s)
    least = rate_bytes_per_s_min(loads[steady_state_side])
    needed = None if time_s_max is None else max(rate_for_time(load, time_s_max) for load in loads.values())
    most = None if rate_bytes_per_s_max is None else math.floor(rate_bytes_per_s_max)
    known = [rate for rate in (needed, most) if rate is not None]
    if not known:
        return RateEstimate(RateVerdict.ENDS, least, steady_state_side)
    rate = min(known)
    time_s = fluid_optimum_s(loads.values(), rate)
    if time_s is None:
        return RateEstimate(RateVerdict.NEVER_ENDS, least, steady_state_side, rate, None, None, needed)
    slowest = max(loads, key=lambda side: drain_s(loads[side], rate) or 0.0)
    verdict = RateVerdict.ENDS if needed is None or rate == needed else RateVerdict.TOO_SLOW
    return RateEstimate(verdict, least, steady_state_side, rate, time_s, slowest, needed)
