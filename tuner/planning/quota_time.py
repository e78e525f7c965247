"""How long creating or deleting many topics takes under a mutation quota, and how long others wait for the controller meanwhile.

Intuition: a controller is one desk with one line before it. A creation that comes all at once is a line of minutes, and
whoever comes after it, an election or a heartbeat, stands at its end. A quota lets a burst pass, and then as many as its rate:
the line is as long as the burst, and no longer, while what the rate lets through is less than what the desk can do.

Every topic is followed on its way: it is offered, it passes when its tenant's bucket has no debt (KIP-599, strict), and it is
worked on when all that passed before it is done. The client sends again what was refused as soon as it may.

Invariant: whatever the quota, the same work is done; only when is another matter.

Vocabulary:
    admitted  the bucket has let it pass: the client has its answer as soon as the controller is done with it.
    wait      how long something that comes at that moment waits until the controller turns to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuner.core.token_bucket import MutationQuota

_STEPS = 45  # Halvings: the rate to nine digits, also where it is small.


@dataclass(frozen=True, slots=True)
class ControllerCost:
    """What the controller's one thread does for it, in ms."""

    per_request_ms: float = 0.0
    per_topic_ms: float = 0.0
    per_partition_ms: float = 0.0

    def work_s(self, topics: float, partitions: float, requests: float = 0.0) -> float:
        ms = requests * self.per_request_ms + topics * self.per_topic_ms + partitions * self.per_partition_ms
        return ms / 1000


# KIP-599: 5,000 topics × 4 partitions, replicated three times on 9 brokers, kept the controller busy for about 2 minutes.
ZOOKEEPER = ControllerCost(per_partition_ms=6.0)
# Kafka 4.2 on a small machine, from AvgIdleRatio: 0.04 to 0.08 ms a partition and 0.9 ms a topic.
KRAFT = ControllerCost(per_topic_ms=0.9, per_partition_ms=0.06)


@dataclass(frozen=True, slots=True)
class Creation:
    """What is to be created (or deleted: the quota and the work are the same), by one tenant."""

    topics: int
    partitions_per_topic: int
    topics_per_request: int = 1
    requests_per_s: float | None = None  # None: all at once.

    def __post_init__(self) -> None:
        assert min(self.topics, self.partitions_per_topic, self.topics_per_request) > 0
        assert self.requests_per_s is None or self.requests_per_s > 0

    @property
    def partitions(self) -> int:
        return self.topics * self.partitions_per_topic


@dataclass(frozen=True, slots=True)
class QuotaTimeline:
    """How it goes."""

    admitted_s: float  # When the last topic has passed the quota.
    done_s: float  # When the controller is done with all of it.
    at_once: int  # Topics that passed before the first was refused.
    throttled_s: float  # How long the client was kept waiting, all in all.
    wait_s_max: float  # The longest that anything else waits for the controller.
    work_s: float  # The controller's, for all of it.

    @property
    def busy_ratio(self) -> float:
        return self.work_s / self.done_s if self.done_s > 0 else 0.0


def course(creation: Creation, quota: MutationQuota | None, cost: ControllerCost) -> QuotaTimeline:
    """One tenant with a full bucket, and a controller with nothing else to do; quota None: none."""
    now_s = free_at_s = throttled_s = wait_s_max = 0.0
    at_once, refused = 0, False
    # Plain numbers in place of a TokenBucket: a question may be about 100,000 topics, and is asked 45 times in a search.
    rate, burst = (quota.rate_per_s, quota.burst) if quota is not None else (math.inf, math.inf)
    tokens, size = burst, creation.partitions_per_topic
    topic_s, request_s = cost.work_s(1, size), cost.work_s(0, 0, 1)
    for topic in range(creation.topics):
        request, place = divmod(topic, creation.topics_per_request)
        if creation.requests_per_s is not None and request / creation.requests_per_s > now_s:
            tokens = min(burst, tokens + rate * (request / creation.requests_per_s - now_s))
            now_s = request / creation.requests_per_s
        if tokens < 0:
            refused = True
            throttled_s -= tokens / rate
            now_s -= tokens / rate
            tokens = 0.0
        tokens -= size
        at_once += not refused
        free_at_s = max(free_at_s, now_s) + topic_s + (request_s if place == 0 else 0.0)
        wait_s_max = max(wait_s_max, free_at_s - now_s)
    requests = -(-creation.topics // creation.topics_per_request)
    work_s = cost.work_s(creation.topics, creation.partitions, requests)
    return QuotaTimeline(now_s, free_at_s, at_once, throttled_s, wait_s_max, work_s)


def steady_busy_ratio(creation: Creation, quota: MutationQuota, cost: ControllerCost) -> float:
    """Of the controller's time, what a tenant takes that is at its quota; at 1 and above its line grows without an end."""
    return quota.rate_per_s * cost.work_s(1, creation.partitions_per_topic) / creation.partitions_per_topic


def rate_per_s_max(
    creation: Creation, cost: ControllerCost, wait_s_max: float, samples: int, window_s: float
) -> float | None:
    """The largest quota under which nothing else waits longer than this; None where a single topic is too long already."""

    def waits_s(rate_per_s: float) -> float:
        return course(creation, MutationQuota(rate_per_s, samples, window_s), cost).wait_s_max

    low, high = 0.0, float(creation.partitions)
    if waits_s(1e-6) > wait_s_max:
        return None
    if waits_s(high) <= wait_s_max:
        return high  # A second's worth holds all of it, so no quota is too large.
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if waits_s(middle) <= wait_s_max else (low, middle)
    return low
