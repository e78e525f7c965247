"""Computes how long a move takes at a rate, and which rate meets a deadline (after KIP-73).

The KIP says MoveTime = bytes to move ÷ (quota − max BytesInPerSec). More precisely: in-sync followers of a throttled partition use
the leader's quota too. With W the steady-state replication (bytes/s) of a side and B the bytes that it still has to copy:

    a side drains q − W bytes/s, so it ends only if q > W, and B bytes take B ÷ (q − W)
    the rate that takes T seconds is W + B ÷ T
    T* = max over all sides of B ÷ (q_max − W)      no schedule is faster

KIP-73's own formula is the same with the whole cluster as a single side.

Invariant: a time and the rate computed for it agree: at that rate no side takes longer, and at 1 byte/s less some side takes
    longer.
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
    """Load of one side of one broker: B and W."""

    remaining_bytes: float
    steady_state_bytes_per_s: float


def drain_s(load: SideLoad, rate_bytes_per_s: float) -> float | None:
    """Returns the seconds until nothing remains at this rate; None: it never ends."""
    surplus = rate_bytes_per_s - load.steady_state_bytes_per_s
    return load.remaining_bytes / surplus if surplus > 0 else None


def fluid_optimum_s(loads: Iterable[SideLoad], rate_bytes_per_s_max: float) -> float | None:
    """Returns T*, the shortest time (s) in which all sides can end; None if one of them never ends."""
    times = [drain_s(load, rate_bytes_per_s_max) for load in loads]
    if any(t is None for t in times):
        return None
    return max((t for t in times if t is not None), default=0.0)


def rate_bytes_per_s_min(load: SideLoad) -> int:
    """Returns the smallest whole rate at which this side ends. Kafka's throttles are whole bytes/s."""
    return math.floor(load.steady_state_bytes_per_s) + 1


def rate_for_time(load: SideLoad, time_s: float) -> int:
    """Returns the smallest whole rate (bytes/s) at which this side ends within ``time_s``, which is above 0."""
    rate = max(rate_bytes_per_s_min(load), math.ceil(load.steady_state_bytes_per_s + load.remaining_bytes / time_s))
    # The sum is rounded to a float's precision and can be 1 byte/s too small.
    needed_s = drain_s(load, rate)
    return rate if needed_s is not None and needed_s <= time_s else rate + 1


class RateVerdict(StrEnum):
    """Whether a rate meets the given limits."""

    ENDS = "ends"  # Within all given limits.
    TOO_SLOW = "too_slow"  # The move ends, but late: either the maximum rate or the time has to be raised.
    NEVER_ENDS = "never_ends"  # The maximum rate is below W, so only a higher rate helps.


@dataclass(frozen=True, slots=True)
class RateEstimate(Generic[K]):
    """One throttle rate for all sides, as kafka-reassign-partitions sets it.

    Attributes:
        rate_bytes_per_s_min: the smallest rate at which every side ends.
        steady_state_side: the side that determines ``rate_bytes_per_s_min``.
        rate_bytes_per_s: the rate to set: the smallest that meets the limits, else the highest allowed.
        time_s: duration at ``rate_bytes_per_s``; the shortest possible one if the verdict is "too slow".
        slowest_side: the side that takes ``time_s``.
        rate_bytes_per_s_needed: the rate that the requested time needs.
    """

    verdict: RateVerdict
    rate_bytes_per_s_min: int
    steady_state_side: K
    rate_bytes_per_s: int | None = None
    time_s: float | None = None
    slowest_side: K | None = None
    rate_bytes_per_s_needed: int | None = None


def estimate_rate(
    loads: Mapping[K, SideLoad], *, rate_bytes_per_s_max: float | None = None, time_s_max: float | None = None
) -> RateEstimate[K]:
    """Returns the rate to set for a maximum rate, a maximum time, or both.

    Args:
        loads: at least one side.
        rate_bytes_per_s_max: maximum rate; None: no limit. Without a maximum time it is the rate itself.
        time_s_max: maximum duration, above 0; None: no limit.
    """
    steady_state_side = max(loads, key=lambda side: loads[side].steady_state_bytes_per_s)
    rate_min = rate_bytes_per_s_min(loads[steady_state_side])
    needed = None if time_s_max is None else max(rate_for_time(load, time_s_max) for load in loads.values())
    rate_max = None if rate_bytes_per_s_max is None else math.floor(rate_bytes_per_s_max)
    limits = [rate for rate in (needed, rate_max) if rate is not None]
    if not limits:
        return RateEstimate(RateVerdict.ENDS, rate_min, steady_state_side)
    rate = min(limits)
    time_s = fluid_optimum_s(loads.values(), rate)
    verdict = RateVerdict.ENDS if needed is None or rate == needed else RateVerdict.TOO_SLOW
    if time_s is None:
        verdict = RateVerdict.NEVER_ENDS
    return RateEstimate(
        verdict,
        rate_min,
        steady_state_side,
        rate_bytes_per_s=rate,
        time_s=time_s,
        slowest_side=None if time_s is None else max(loads, key=lambda side: drain_s(loads[side], rate) or 0.0),
        rate_bytes_per_s_needed=needed,
    )
