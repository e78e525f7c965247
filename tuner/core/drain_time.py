"""Computes how long a move takes at a rate, and which rate meets a deadline (after KIP-73).

    B  bytes that a side still has to copy
    W  steady-state replication of the side: the part of its throttle that the replication of new writes uses (bytes/s)
    q  throttle of the side (bytes/s)

    the side ends only if q > W, after B ÷ (q − W) seconds
    the throttle that ends the side in T seconds is W + B ÷ T
    T* = max over all sides of B ÷ (q_max − W); no order of the copies is faster

KIP-73 has the same formula for the whole cluster as one side: MoveTime = bytes to move ÷ (quota − max BytesInPerSec). This module
is more precise, because W also has the bytes of in-sync followers, which use the leader's quota too.

Invariant: at the rate that is computed for a time no side takes longer than this time; at 1 byte/s less some side takes longer.
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
    """Returns T*, the shortest time (s) in which all sides can end; None if a side never ends."""
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
    # The move ends, but after the maximum time. The operator must raise the maximum rate or the time.
    TOO_SLOW = "too_slow"
    NEVER_ENDS = "never_ends"  # The maximum rate is below W, so only a higher rate helps.


@dataclass(frozen=True, slots=True)
class RateEstimate(Generic[K]):
    """One throttle rate for all sides, as kafka-reassign-partitions sets it.

    Attributes:
        rate_bytes_per_s_min: the smallest rate at which every side ends.
        steady_state_side: the side that determines ``rate_bytes_per_s_min``.
        rate_bytes_per_s: the rate to set: the smallest rate that meets the limits, else the maximum rate.
        time_s: duration of the move at ``rate_bytes_per_s``.
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
        rate_bytes_per_s_max: maximum rate; None: no limit. If ``time_s_max`` is None, this is the rate to set.
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
