"""KIP-599's token bucket as Kafka has it, and the older quota of a mean rate that it took the place of.

Intuition: a purse that fills at the rate of the quota and holds at most a burst. Whoever has debts is refused; whoever has
none may spend whatever it likes, and wait until the debt is paid. So a request of any size passes once, and a large one is
followed by a long wait instead of never passing at all.

    burst          B = Q × S × W, with S samples of W seconds: controller.quota.window.num and .size.seconds, 11 × 1 s
    refill         K = min(K + Q × Δt, B)
    admitted       while K ≥ 0, and then K = K − partitions, however far below 0 that is
    throttle time  −K ÷ Q   (the KIP writes −K × R once; its example and Kafka divide)

A mean rate over the same window forgets nothing until a sample leaves the window: one large burst is held against its tenant
for all of S × W seconds, while the throttle time that it is told is only the excess.

Invariant: K ≤ B at all times. A new bucket is full: Kafka keeps K = 0 of the year 1970, and so every tenant has a whole burst
after a fail-over of the controller. Nothing is remembered of the quota that stood before: the time since the last look is
refilled at the new rate, as Kafka does it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SAMPLES = 11  # controller.quota.window.num at its default.
WINDOW_S = 1.0  # controller.quota.window.size.seconds at its default.


@dataclass(frozen=True, slots=True)
class MutationQuota:
    """``controller_mutation_rate`` and the two broker settings that make a burst of it; partitions/s, created or deleted."""

    rate_per_s: float
    samples: int = SAMPLES
    window_s: float = WINDOW_S

    def __post_init__(self) -> None:
        assert self.rate_per_s > 0
        assert self.samples > 0
        assert self.window_s > 0

    @property
    def span_s(self) -> float:
        """S × W: how long an empty bucket takes to be full."""
        return self.samples * self.window_s

    @property
    def burst(self) -> float:
        """Partitions."""
        return self.rate_per_s * self.span_s


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """K, and when it was so. Times are in ms of whatever clock the caller has, and do not go back."""

    tokens: float
    at_ms: float

    @classmethod
    def full(cls, quota: MutationQuota, now_ms: float) -> TokenBucket:
        return cls(quota.burst, now_ms)

    def refilled(self, quota: MutationQuota, now_ms: float) -> TokenBucket:
        gained = quota.rate_per_s * (now_ms - self.at_ms) / 1000
        return TokenBucket(min(quota.burst, self.tokens + gained), now_ms)

    def admits(self, quota: MutationQuota, now_ms: float) -> bool:
        """Whether a topic of any number of partitions would pass now."""
        return self.refilled(quota, now_ms).tokens >= 0

    def with_admitted(self, quota: MutationQuota, partitions: float, now_ms: float) -> TokenBucket:
        """After so many partitions were admitted; nobody checks here whether they may."""
        refilled = self.refilled(quota, now_ms)
        return TokenBucket(min(quota.burst, refilled.tokens - partitions), now_ms)

    def throttle_ms(self, quota: MutationQuota, now_ms: float) -> int:
        """What a refused client is told; 0 where it would not be refused. Half a millisecond is rounded up."""
        tokens = self.refilled(quota, now_ms).tokens
        return math.floor(-tokens / quota.rate_per_s * 1000 + 0.5) if tokens < 0 else 0


@dataclass(frozen=True, slots=True)
class MeanRate:
    """The quota that Kafka's other client quotas have: the mean over S samples of W seconds may not be above Q."""

    recorded: tuple[tuple[float, float], ...] = ()  # (ms, partitions), the oldest first.

    def with_burst(self, partitions: float, now_ms: float) -> MeanRate:
        return MeanRate((*self.recorded, (now_ms, partitions)))

    def per_s(self, quota: MutationQuota, now_ms: float) -> float:
        held = (partitions for at_ms, partitions in self.recorded if now_ms < at_ms + quota.span_s * 1000)
        return sum(held) / quota.span_s

    def throttle_s(self, quota: MutationQuota, now_ms: float) -> float:
        """What a client is told: (R − Q) ÷ Q × S × W."""
        excess = self.per_s(quota, now_ms) - quota.rate_per_s
        return max(0.0, excess / quota.rate_per_s * quota.span_s)

    def refused_s(self, quota: MutationQuota, now_ms: float) -> float:
        """How long it is in truth refused: until so many samples have left the window that the mean is at the quota."""
        if self.per_s(quota, now_ms) <= quota.rate_per_s:
            return 0.0
        leaves = sorted(
            at_ms + quota.span_s * 1000 for at_ms, _ in self.recorded if at_ms + quota.span_s * 1000 > now_ms
        )
        after_s = next((at - now_ms) / 1000 for at in leaves if self.per_s(quota, at) <= quota.rate_per_s)
        # A sum that large has lost its last digits.
        return min(quota.span_s, after_s)
