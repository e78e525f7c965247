"""Classifies signals by age. A stale signal may hold a decision back, but never justifies raising a rate."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from streaming.shared.contract import BrokerSignal, Signal


class Freshness(StrEnum):
    """The age class of a signal."""

    FRESH = "fresh"
    STALE = "stale"
    MISSING = "missing"


def age_s(signal: Signal, now_ms: int) -> float:
    """Returns the age of the newest sample in the signal; 0 for a sample from a clock that is ahead of the tuner's clock."""
    return max(0.0, (now_ms - signal.sampled_at_ms) / 1000)


def freshness(signal: Signal | None, now_ms: int, age_s_max: float) -> Freshness:
    """Returns FRESH if the signal is at most ``age_s_max`` seconds from now, in the past or in the future."""
    if signal is None:
        return Freshness.MISSING
    # A timestamp far in the future comes from a wrong clock, so the age of the signal is unknown.
    distance_s = abs(now_ms - signal.sampled_at_ms) / 1000
    return Freshness.FRESH if distance_s <= age_s_max else Freshness.STALE


def fresh_signals(brokers: Mapping[int, BrokerSignal], now_ms: int, age_s_max: float) -> dict[int, BrokerSignal]:
    """Returns the fresh signals, by broker."""
    return {b: signal for b, signal in brokers.items() if freshness(signal, now_ms, age_s_max) is Freshness.FRESH}
