"""A simulated controller: one queue of events, served one at a time, with the token buckets of KIP-599 before it.

The cost of a topic is a parameter. It selects between the ZooKeeper controller of the KIP (5,000 topics of 4 partitions with 3
replicas on 9 brokers, created within ten seconds, keep it busy for two minutes) and a KRaft controller. An event waits for all
earlier events, also heartbeats and elections. The response to a create request takes a little longer than its service.

The slowest node applies the records of committed mutations one partition at a time. If mutations arrive faster than it applies
them, its lag grows without end. An idle controller writes a record every half second, so the lag is up to that while the node is
up to date.

Times are seconds since the start of the simulation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.core.controller_cost import ControllerCost
from tuner.core.token_bucket import SAMPLES, WINDOW_S, MutationQuota, TokenBucket

EVERYBODY_ELSE = "<default>"  # Key of the quota for client-ids without their own; each has its own bucket.
_IDLE_RECORD_S = 0.5  # metadata.max.idle.interval.ms


@dataclass(frozen=True, slots=True)
class OtherWork:
    """Work of the controller that no mutation causes, such as the elections after a restart of a broker.

    Attributes:
        busy_ratio: share of the controller's time.
        lag_s: how far the slowest node is behind meanwhile, such as the restarted broker.
    """

    at_s: float
    until_s: float
    busy_ratio: float
    lag_s: float = 0.0


@dataclass(frozen=True, slots=True)
class QueueModel:
    """The controller, and the brokers before and behind it.

    Attributes:
        brokers: each forwards one request at a time to the controller; 0: clients reach the controller directly.
        apply_ms: time of the slowest node for applying one partition; 0: no node falls behind, and the lag is not measured.
        shows_idle_ratio: the controller has AvgIdleRatio, which came with Kafka 4.2.
        other_work: in order of time, without overlaps.
    """

    cost: ControllerCost
    # Beside the controller's own time: commit, propagation, the way there and back. Kafka 4.2 answers in 44 ms or more.
    answer_s: float = 0.040
    way_s: float = 0.005  # There and back is of that; the rest is the commit.
    refused_ms: float = 0.05  # What a refused request costs all the same.
    other_events_per_s: float = 20.0  # Heartbeats and the like: hardly work, but they wait as well.
    heartbeat_patience_s: float = 9.0  # broker.session.timeout.ms
    samples: int = SAMPLES
    window_s: float = WINDOW_S
    brokers: int = 0
    apply_ms: float = 0.0
    shows_idle_ratio: bool = True
    other_work: tuple[OtherWork, ...] = ()


@dataclass(slots=True)
class Counted:
    """Counts of one interval."""

    busy_s: float = 0.0
    events: int = 0
    waited_s: float = 0.0
    creates: int = 0
    created_s: float = 0.0  # Σ of what they took.
    partitions: float = 0.0  # Created, less the deleted ones.
    topics: int = 0
    refused: int = 0
    timed_out: int = 0
    forwarded_s: float = 0.0  # Time of all brokers for forwarding creations.


@dataclass(frozen=True, slots=True)
class Answered:
    """The response to one request."""

    topics: int  # Admitted.
    took_s: float
    throttle_s: float


@dataclass(slots=True)
class ControllerQueue:
    model: QueueModel
    quotas: dict[str, float] = field(default_factory=dict)  # By client-id; a client without a quota is not throttled.
    counted: Counted = field(default_factory=Counted)
    _buckets: dict[str, TokenBucket] = field(default_factory=dict)
    _free_at_s: float = 0.0
    _committed_at_s: float = 0.0
    _until_s: float = 0.0
    _events_due: float = 0.0
    _applied_at_s: float = 0.0  # When the slowest node has applied everything committed so far.
    _records: deque[tuple[float, float]] = field(default_factory=deque)  # When committed, and when applied.
    _newest_applied_s: float = 0.0  # When the newest record that the slowest node has applied was committed.

    def wait_s(self, now_s: float) -> float:
        """Returns how long an event that arrives now waits in the queue."""
        return max(0.0, self._free_at_s - now_s)

    def felt_s(self, now_s: float) -> float:
        """Returns the latency of a request that changes nothing: its response waits until all earlier changes are committed."""
        return max(self.wait_s(now_s), self._committed_at_s - now_s) + self.model.way_s

    def tokens(self, client_id: str, now_s: float) -> float | None:
        quota = self._quota(client_id)
        if quota is None or client_id not in self._buckets:
            return None
        return self._buckets[client_id].refilled(quota, now_s * 1000).tokens

    def write(self, quotas: Mapping[str, float]) -> None:
        self.quotas.update(quotas)

    def ask(
        self, now_s: float, client_id: str, topics: int, partitions_per_topic: int, *, deletes: bool = False
    ) -> Answered:
        """Handles one request: each topic passes while its bucket has no debt; the other topics are refused (strict quota)."""
        self.advance(now_s)
        quota = self._quota(client_id)
        admitted, throttle_s = topics, 0.0
        if quota is not None:
            bucket = self._buckets.get(client_id, TokenBucket.full(quota, now_s * 1000)).refilled(quota, now_s * 1000)
            # Each topic passes while the tokens are not below 0.
            passing = int(bucket.tokens // partitions_per_topic) + 1 if bucket.tokens >= 0 else 0
            admitted = min(topics, passing)
            bucket = bucket.with_admitted(quota, admitted * partitions_per_topic, now_s * 1000)
            self._buckets[client_id] = bucket
            if admitted < topics:
                throttle_s = bucket.throttle_ms(quota, now_s * 1000) / 1000
                self.counted.refused += 1
        partitions = admitted * partitions_per_topic
        work_s = self.model.cost.work_s(admitted, partitions, 1) if admitted else self.model.refused_ms / 1000
        waited_s = self.wait_s(now_s)
        self._free_at_s = max(self._free_at_s, now_s) + work_s
        took_s = waited_s + work_s + self.model.answer_s
        counted = self.counted
        counted.events += 1
        counted.waited_s += waited_s
        sign = -1 if deletes else 1
        counted.partitions += sign * partitions
        counted.topics += sign * admitted
        if admitted:
            self._committed_at_s = self._free_at_s + self.model.answer_s - self.model.way_s
            counted.creates += 1
            counted.created_s += took_s
            if self.model.apply_ms:
                self._applied_at_s = (
                    max(self._applied_at_s, self._committed_at_s) + partitions * self.model.apply_ms / 1000
                )
                self._records.append((self._committed_at_s, self._applied_at_s))
        return Answered(admitted, took_s, throttle_s)

    def advance(self, now_s: float) -> None:
        """Advances the time; background events arrive and wait."""
        step_s = now_s - self._until_s
        if step_s <= 0:
            return
        for work in self.model.other_work:
            other_s = work.busy_ratio * (min(now_s, work.until_s) - max(self._until_s, work.at_s))
            if other_s > 0:
                self._free_at_s = max(self._free_at_s, self._until_s) + other_s
        self.counted.busy_s += min(step_s, max(0.0, self._free_at_s - self._until_s))
        self._events_due += step_s * self.model.other_events_per_s
        while self._events_due >= 1:
            self._events_due -= 1
            waited_s = self.wait_s(now_s - self._events_due / self.model.other_events_per_s)
            self.counted.events += 1
            self.counted.waited_s += waited_s
            self.counted.timed_out += waited_s > self.model.heartbeat_patience_s
        self._until_s = now_s

    def apply_lag_s(self, now_s: float) -> float | None:
        """Returns how far the slowest node is behind the metadata log; None: the model has no such node."""
        if not self.model.apply_ms:
            return None
        while self._records and self._records[0][1] <= now_s:
            self._newest_applied_s = self._records.popleft()[0]
        if not self._records or self._records[0][0] > now_s:  # Up to date, also with the records of an idle controller.
            self._newest_applied_s = max(self._newest_applied_s, now_s - now_s % _IDLE_RECORD_S)
        other_s = max((work.lag_s for work in self.model.other_work if work.at_s <= now_s < work.until_s), default=0.0)
        return max(now_s - self._newest_applied_s, other_s, 0.0)

    def taken_count(self) -> Counted:
        """Returns the counts since the last call."""
        counted, self.counted = self.counted, Counted()
        return counted

    def fail_over(self, now_s: float) -> None:
        """Another node becomes the controller, with an empty queue and full buckets."""
        self.advance(now_s)
        self._buckets.clear()
        self._free_at_s = self._committed_at_s = now_s

    def _quota(self, client_id: str) -> MutationQuota | None:
        rate = self.quotas.get(client_id, self.quotas.get(EVERYBODY_ELSE))
        return None if rate is None else MutationQuota(rate, self.model.samples, self.model.window_s)
