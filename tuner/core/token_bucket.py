"""Models two quotas of Kafka: KIP-599's token bucket, and the older quota on a mean rate, which the KIP replaced for mutations.

A token bucket fills at the rate of the quota, up to its capacity B. While the bucket is not below 0, Kafka admits a request of any
size. Then Kafka refuses all requests until the bucket is at 0 again. So even a large request passes once, followed by a long wait.

    Q  the quota, in partitions/s
    K  tokens in the bucket
    S  number of samples, controller.quota.window.num (11 by default)
    W  length of a sample, controller.quota.window.size.seconds (1 by default)

    capacity       B = Q × S × W
    refill         K = min(K + Q × Δt, B)
    admission      if K ≥ 0; then K = K − partitions, which may be far below 0
    throttle time  −K ÷ Q   (in one place the KIP multiplies; its example and Kafka divide)

The older quota keeps a burst in its mean until the burst's sample leaves the window. So one large burst blocks its tenant for all
of S × W seconds, although the throttle time in Kafka's response is shorter.

Invariant: K ≤ B at all times. A new bucket is full: Kafka starts K at 0 in the year 1970 and refills it. So after a fail-over of
the controller every tenant has a full bucket. After a change of the quota, the time since the last request is refilled at the new
rate, as in Kafka.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SAMPLES = 11  # controller.quota.window.num at its default.
WINDOW_S = 1.0  # controller.quota.window.size.seconds at its default.
SENSOR_EXPIRY_S = 3_600.0  # Kafka drops the bucket and the metrics of a tenant that was idle for this time.


@dataclass(frozen=True, slots=True)
class MutationQuota:
    """``controller_mutation_rate`` (partitions created or deleted per second), and the two settings of its window."""

    rate_per_s: float
    samples: int = SAMPLES
    window_s: float = WINDOW_S

    def __post_init__(self) -> None:
        assert self.rate_per_s > 0
        assert self.samples > 0
        assert self.window_s > 0

    @property
    def span_s(self) -> float:
        """S × W: the time in which an empty bucket fills."""
        return self.samples * self.window_s

    @property
    def burst(self) -> float:
        """The capacity of the bucket, in partitions."""
        return self.rate_per_s * self.span_s


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """K at one time. Times are in ms of the caller's clock and must not go back."""

    tokens: float
    at_ms: float

    @classmethod
    def full(cls, quota: MutationQuota, now_ms: float) -> TokenBucket:
        return cls(quota.burst, now_ms)

    def refilled(self, quota: MutationQuota, now_ms: float) -> TokenBucket:
        gained = quota.rate_per_s * (now_ms - self.at_ms) / 1000
        return TokenBucket(min(quota.burst, self.tokens + gained), now_ms)

    def admits(self, quota: MutationQuota, now_ms: float) -> bool:
        """Returns whether Kafka would admit a request, of any size, now."""
        return self.refilled(quota, now_ms).tokens >= 0

    def with_admitted(self, quota: MutationQuota, partitions: float, now_ms: float) -> TokenBucket:
        """Returns the bucket after the partitions were admitted, without checking ``admits``."""
        refilled = self.refilled(quota, now_ms)
        return TokenBucket(refilled.tokens - partitions, now_ms)

    def throttle_ms(self, quota: MutationQuota, now_ms: float) -> int:
        """Returns the throttle time in the response to a refused client; 0 if admitted. Half a millisecond is rounded up."""
        tokens = self.refilled(quota, now_ms).tokens
        return math.floor(-tokens / quota.rate_per_s * 1000 + 0.5) if tokens < 0 else 0


@dataclass(frozen=True, slots=True)
class MeanRate:
    """Kafka's other client quotas: the mean over S samples of W seconds must not exceed Q."""

    recorded: tuple[tuple[float, float], ...] = ()  # (ms, partitions), the oldest first.

    def with_burst(self, partitions: float, now_ms: float) -> MeanRate:
        return MeanRate((*self.recorded, (now_ms, partitions)))

    def per_s(self, quota: MutationQuota, now_ms: float) -> float:
        in_window = (partitions for at_ms, partitions in self.recorded if now_ms < at_ms + quota.span_s * 1000)
        return sum(in_window) / quota.span_s

    def throttle_s(self, quota: MutationQuota, now_ms: float) -> float:
        """Returns the throttle time in the response to the client: (mean rate − Q) ÷ Q × S × W."""
        excess = self.per_s(quota, now_ms) - quota.rate_per_s
        return max(0.0, excess / quota.rate_per_s * quota.span_s)

    def refused_s(self, quota: MutationQuota, now_ms: float) -> float:
        """Returns how long Kafka really refuses the client: until enough samples have left the window."""
        if self.per_s(quota, now_ms) <= quota.rate_per_s:
            return 0.0
        expiries_ms = (at_ms + quota.span_s * 1000 for at_ms, _ in self.recorded)
        later_ms = sorted(at_ms for at_ms in expiries_ms if at_ms > now_ms)
        refused_s = next((at_ms - now_ms) / 1000 for at_ms in later_ms if self.per_s(quota, at_ms) <= quota.rate_per_s)
        return min(quota.span_s, refused_s)  # Rounding of large epoch times can make the difference a little too large.
