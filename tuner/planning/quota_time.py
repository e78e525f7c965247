"""Simulates how long creating or deleting many topics takes under a mutation quota, and how long other requests wait meanwhile.

The active controller handles requests one after the other. A large number of creations makes a queue of minutes, and an election or
a heartbeat that arrives later waits at the end of this queue. A quota admits one full token bucket at once, and the rest at the
rate of the quota. If the controller is faster than this rate, the queue is never longer than one full bucket.

The simulation handles topic by topic. A topic is admitted when its tenant's token bucket has no debt (KIP-599, strict). The
controller handles it after all topics that were admitted earlier. The client retries refused topics as soon as the quota allows it.

Invariant: the quota changes the times at which the controller works, but not the amount of work.

Terms:
    admitted  the token bucket lets the topic pass; the client gets the answer once the controller has handled the topic.
    wait      time until the controller handles a request that arrives now.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuner.core.controller_cost import ControllerCost
from tuner.core.token_bucket import MutationQuota

_STEPS = 45  # Number of bisections in the search for a rate; enough for nine digits, even for small rates.


@dataclass(frozen=True, slots=True)
class Creation:
    """Topics that one tenant creates or deletes; the quota and the controller's work are the same for both.

    Attributes:
        requests_per_s: None: the tenant sends all requests at once.
    """

    topics: int
    partitions_per_topic: int
    topics_per_request: int = 1
    requests_per_s: float | None = None

    def __post_init__(self) -> None:
        assert min(self.topics, self.partitions_per_topic, self.topics_per_request) > 0
        assert self.requests_per_s is None or self.requests_per_s > 0

    @property
    def partitions(self) -> int:
        return self.topics * self.partitions_per_topic


@dataclass(frozen=True, slots=True)
class QuotaTimeline:
    """The result of a simulation.

    Attributes:
        admitted_s: when the last topic is admitted.
        done_s: when the controller has handled all topics.
        at_once: number of topics admitted before the first refusal.
        throttled_s: time for which the quota delayed the client.
        wait_s_max: longest wait of a request of another client for the controller.
        work_s: the controller's work for all topics.
    """

    admitted_s: float
    done_s: float
    at_once: int
    throttled_s: float
    wait_s_max: float
    work_s: float

    @property
    def busy_ratio(self) -> float:
        return self.work_s / self.done_s if self.done_s > 0 else 0.0


def simulate_creation(creation: Creation, quota: MutationQuota | None, cost: ControllerCost) -> QuotaTimeline:
    """Simulates one tenant with a full token bucket and an otherwise idle controller.

    Args:
        quota: the tenant's quota; None: the tenant has no quota.
    """
    now_s = throttled_s = wait_s_max = 0.0
    free_at_s = 0.0  # When the controller has handled all topics admitted so far.
    at_once, was_refused = 0, False
    # To save time, two plain numbers replace a TokenBucket, because a search simulates up to 100,000 topics 45 times.
    rate, burst = (quota.rate_per_s, quota.burst) if quota is not None else (math.inf, math.inf)
    tokens, size = burst, creation.partitions_per_topic
    topic_s = cost.work_s(topics=1, partitions=size)
    request_s = cost.work_s(topics=0, partitions=0, requests=1)
    for topic in range(creation.topics):
        request, position = divmod(topic, creation.topics_per_request)
        request_at_s = 0.0 if creation.requests_per_s is None else request / creation.requests_per_s
        if request_at_s > now_s:
            tokens = min(burst, tokens + rate * (request_at_s - now_s))
            now_s = request_at_s
        if tokens < 0:
            was_refused = True
            wait_for_tokens_s = -tokens / rate
            throttled_s += wait_for_tokens_s
            now_s += wait_for_tokens_s
            tokens = 0.0
        tokens -= size
        if not was_refused:
            at_once += 1
        free_at_s = max(free_at_s, now_s) + topic_s + (request_s if position == 0 else 0.0)
        wait_s_max = max(wait_s_max, free_at_s - now_s)
    requests = math.ceil(creation.topics / creation.topics_per_request)
    work_s = cost.work_s(creation.topics, creation.partitions, requests)
    return QuotaTimeline(now_s, free_at_s, at_once, throttled_s, wait_s_max, work_s)


def steady_busy_ratio(creation: Creation, quota: MutationQuota, cost: ControllerCost) -> float:
    """Returns the share of the controller's time that a tenant at its quota uses. At 1 or more the queue grows without end."""
    return quota.rate_per_s * cost.work_s(1, creation.partitions_per_topic) / creation.partitions_per_topic


def rate_per_s_max(
    creation: Creation, cost: ControllerCost, wait_s_max: float, samples: int, window_s: float
) -> float | None:
    """Returns the largest quota (partitions/s) under which no request of another client waits longer than ``wait_s_max``.

    Returns None if a request waits longer than ``wait_s_max`` even while the controller handles a single topic.
    """

    def longest_wait_s(rate_per_s: float) -> float:
        return simulate_creation(creation, MutationQuota(rate_per_s, samples, window_s), cost).wait_s_max

    low, high = 0.0, float(creation.partitions)
    if longest_wait_s(1e-6) > wait_s_max:  # At this rate the queue never has more than one topic.
        return None
    if longest_wait_s(high) <= wait_s_max:
        return high  # A bucket of this quota holds all partitions at once, so a larger quota changes nothing.
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if longest_wait_s(middle) <= wait_s_max:
            low = middle
        else:
            high = middle
    return low
