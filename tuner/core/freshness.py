"""May this signal still be trusted? No news is not good news: what is old may hold a decision back, never push one on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from streaming.shared.contract import BrokerSignal, Signal


class Freshness(StrEnum):
    FRESH = "fresh"
    STALE = "stale"
    MISSING = "missing"


def age_s(signal: Signal, now_ms: int) -> float:
    """Age of the newest sample in it; a sample a little from the future (a clock ahead of ours) is new, not negative."""
    return max(0.0, (now_ms - signal.sampled_at_ms) / 1000)


def freshness(signal: Signal | None, now_ms: int, age_s_max: float) -> Freshness:
    if signal is None:
        return Freshness.MISSING
    # Far in the future is as bad as far in the past: a clock that is wrong by that much says nothing about age.
    apart_s = abs(now_ms - signal.sampled_at_ms) / 1000
    return Freshness.FRESH if apart_s <= age_s_max else Freshness.STALE


def fresh_signals(brokers: Mapping[int, BrokerSignal], now_ms: int, age_s_max: float) -> dict[int, BrokerSignal]:
    """Of all of them."""
    return {b: signal for b, signal in brokers.items() if freshness(signal, now_ms, age_s_max) is Freshness.FRESH}
