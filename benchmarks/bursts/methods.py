"""Methods of changing a throttle from 5 MB/s to 20 and back, and the figures of the result.

The simulated plant and the recorder of real brokers both use this file, so that they run the same experiment.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MB = 1e6
LOW, HIGH = 5 * MB, 20 * MB
UP_S, DOWN_S, END_S = 25.0, 25.0, 35.0  # Duration of each of the three rates.
QUOTA_S = 11  # What the broker's quota looks back over.

Writes = list[tuple[float, float]]  # (when, rate in bytes/s)
Method = Callable[[float, float, float], Writes]  # (when, from, to) → writes

# What a change does depends on the moment of the quota's cycle at which it comes: a dozen of each, spread over 11 s.
MOMENTS = tuple((0.25 * (i * 20 % 47), float(i)) for i in range(12))


def in_one_step(at_s: float, _: float, to: float) -> Writes:
    return [(at_s, to)]


def linear(steps: int, step_s: float) -> Method:
    def writes(at_s: float, live: float, to: float) -> Writes:
        return [(at_s + i * step_s, live + (to - live) * (i + 1) / steps) for i in range(steps)]

    return writes


def changes(moments: tuple[float, float]) -> list[tuple[float, float, float]]:
    """Returns time, old rate and new rate of each change.

    Args:
        moments: delays of the two changes; the second one counts from the first.
    """
    up_at_s = UP_S + moments[0]
    return [(0.0, 0.0, LOW), (up_at_s, LOW, HIGH), (up_at_s + DOWN_S + moments[1], HIGH, LOW)]


@dataclass(frozen=True)
class Bytes:
    """Bytes that reached the follower's disk, by tick."""

    by_tick: Floats
    tick_s: float

    def between(self, from_s: float, to_s: float) -> Bytes:
        return Bytes(self.by_tick[round(from_s / self.tick_s) : round(to_s / self.tick_s)], self.tick_s)

    def peak_mb(self, span_s: float = 1.0) -> float:
        """Returns the most megabytes that passed within any ``span_s``."""
        return float(np.convolve(self.by_tick, np.ones(round(span_s / self.tick_s))).max()) / MB

    def silence_s(self) -> float:
        longest = run = 0
        for got in self.by_tick:
            run = run + 1 if got <= 0 else 0
            longest = max(longest, run)
        return longest * self.tick_s

    def mean_mb_per_s(self) -> float:
        return float(self.by_tick.mean()) / self.tick_s / MB


@dataclass(frozen=True)
class Phases:
    """Throughput at each of the three rates, on a pair of brokers with four partitions and no producers."""

    start: Bytes
    up: Bytes
    down: Bytes


def phases_of(flow: Bytes, moments: tuple[float, float]) -> Phases:
    (_, up_at_s, down_at_s) = (at_s for at_s, _, _ in changes(moments))
    return Phases(
        flow.between(0, up_at_s), flow.between(up_at_s, down_at_s), flow.between(down_at_s, down_at_s + END_S)
    )


@dataclass(frozen=True)
class Feedback:
    """Sets (bytes of the last 11 s + one second at the target rate) ÷ 11 until the change is over, and then the target rate."""

    every_s: float
    lasts_s: float = 13.0

    def writes(self, target: float, since_s: float, got_bytes: float) -> list[float]:
        """Returns the rate to set ``since_s`` after the change; empty if no write is due.

        Args:
            got_bytes: bytes that passed in the last 11 s.
        """
        if since_s > self.lasts_s or since_s % self.every_s > 1e-6:
            return []
        if since_s == self.lasts_s:
            return [target]
        return [(got_bytes + target) / QUOTA_S]


def each(read: Callable[[Phases], float], runs: Sequence[Phases]) -> list[float]:
    return sorted(read(run) for run in runs)


def typical(read: Callable[[Phases], float], runs: Sequence[Phases]) -> float:
    """Returns the interquartile mean. A median would jump, because responses and backoffs are discrete."""
    found = each(read, runs)
    quarter = len(found) // 4
    return statistics.mean(found[quarter : len(found) - quarter])
