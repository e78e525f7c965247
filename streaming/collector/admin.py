"""Reads from Kafka's Admin API what the JMX agents do not report: reassignments, log sizes, offsets and throttle settings.

Reading everything takes time in proportion to the number of topics and brokers. So each round reads only the tracked partitions
and the involved brokers. A full scan of every topic's throttled-replica lists and every broker's throttle rates runs rarely, in its
own thread and over its own connection.

While nothing moves, one small request per second checks whether a reassignment has begun (``has_move_begun``), because the tuner
cannot act on a move before it has been measured twice.

Invariant: every value that a round reports was read in that round. A full scan only tells the rounds which topics have lists and
which brokers have a rate. So a change on a topic or broker without a move is seen up to ``full_scan_interval_s`` later.

Vocabulary:
    tracked    a partition that moves, recovers, or is listed in a throttle.
    involved   a broker that hosts a replica of a tracked partition, or has a throttle rate set.
    listed     a topic with a throttled-replica list.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from streaming.collector.facts import AdminAnswers
from streaming.collector.lags import LaggingReplica, LeaderLog, leader_logs_to_read
from streaming.shared import kafka_names
from streaming.shared.contract import Metric, TopicPartition
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, ConfigValue, PartitionState
from streaming.shared.kafka.recovery import RecoveryFinder
from streaming.shared.kafka.tiered import is_tiered, with_copied_bytes
from streaming.shared.throttle_settings import LIST_KEYS, TopicThrottle

CHUNK = 200  # Topics or brokers per request of a full scan; such a request takes some tens of milliseconds.
_SCAN_PAUSE_S = 0.01
_SILENT_ROUNDS = 12
_RATES = {kafka_names.LEADER_RATE: Metric.LEADER_RATE, kafka_names.FOLLOWER_RATE: Metric.FOLLOWER_RATE}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FullScanResult:
    """The topics with throttled-replica lists and the brokers with a rate, as of one full scan."""

    listed_topics: frozenset[str] = frozenset()
    brokers_with_rate: frozenset[int] = frozenset()


class FullScan:
    """Scans all topics and brokers. ``result`` is replaced as a whole, so any thread may read it."""

    def __init__(self, client: ClusterClient, finder: RecoveryFinder | None = None) -> None:
        """
        Args:
            finder: the finder of recovering replicas, which receives all partitions that a scan has read; None if there is none.
        """
        self._client = client
        self._finder = finder
        self.result = FullScanResult()

    def run(self, stop: threading.Event) -> float | None:
        """Scans all topics and brokers once. Returns the duration in seconds; None if it was stopped.

        Raises:
            ClusterError: the cluster does not answer at all, or a right is missing.
        """
        started_s = time.monotonic()
        listed: set[str] = set()
        with_rate: set[int] = set()
        partitions = self._client.partitions()
        if self._finder is not None:
            self._finder.note(partitions)
        for topics in _chunks({state.topic for state in partitions}):
            # Decoding an answer holds the GIL; the pause lets the threads of the round run.
            if stop.wait(_SCAN_PAUSE_S):
                return None
            listed |= _listed_topics(_throttles(self._client, topics))
        for brokers in _chunks(endpoint.node for endpoint in self._client.brokers()):
            if stop.wait(_SCAN_PAUSE_S):
                return None
            answers = self._client.broker_configs(brokers, _RATES)
            _raise_when_all_failed(answers.values())
            with_rate |= {b for b, rates in _rates(answers).items() if rates}
        self.result = FullScanResult(frozenset(listed), frozenset(with_rate))
        return time.monotonic() - started_s


class AdminReader:
    """Reads the cluster once per round. Keeps between rounds only which topics and brokers have a throttle, never a value."""

    def __init__(
        self,
        client: ClusterClient,
        full_scan: Callable[[], FullScanResult],
        recovering: Callable[[], Sequence[PartitionState]] = tuple,
    ) -> None:
        """
        Args:
            recovering: returns the partitions in which the finder's last check found recovering replicas.
        """
        self._client = client
        self._full_scan = full_scan
        self._recovering = recovering
        # The listed topics of the last round. They include topics whose move began after the last full scan.
        self._listed_topics: frozenset[str] = frozenset()
        self._brokers_with_rate: set[int] = set()  # Brokers whose last answer contained a throttle rate.
        self.unanswered: set[int] = set()  # Brokers that did not answer the last request to them.
        # Whether anything moved or recovered in the last round; None before the first.
        self._moving: bool | None = None
        # Leaders that did not answer a request for their logs, with the number of rounds until they are asked again.
        self._silent_leaders: dict[int, int] = {}
        self.move_began = False  # The last round was the first to see a move or a recovery.

    def read(self, brokers: Collection[int], lagging: Iterable[LaggingReplica] = ()) -> AdminAnswers:
        """Reads the cluster for one round, asking the given brokers only.

        Args:
            lagging: replicas that lagged in the last round. For the replicas that lag most, the logs of their leaders are read,
                with at most two requests to a broker.

        Raises:
            ClusterError: the cluster does not answer at all, or a right is missing.
        """
        client, scan, brokers_to_ask = self._client, self._full_scan(), set(brokers)
        copying = _with_recovering(client.reassignments(), self._recovering())
        self.move_began = self._moving is False and bool(copying)
        self._moving = bool(copying)
        topics = self._listed_topics | scan.listed_topics | {s.topic for s in copying}
        configs_by_topic = client.topic_configs(topics, [*LIST_KEYS.values(), kafka_names.REMOTE_STORAGE])
        throttles = {topic: TopicThrottle.from_configs(configs) for topic, configs in configs_by_topic.items()}
        self._listed_topics = frozenset(_listed_topics(throttles))
        tracked = self._tracked_partitions(copying, throttles)
        hosting = {b for s in tracked for b in s.replicas} & brokers_to_ask
        sizes = client.log_sizes(hosting, {(s.topic, s.partition) for s in tracked})
        _raise_when_all_failed(sizes.values())
        tiered = {topic for topic, configs in configs_by_topic.items() if is_tiered(configs)}
        copied = with_copied_bytes(client, sizes, tracked, tiered)
        with_rate = self._brokers_with_rate | scan.brokers_with_rate
        configs = client.broker_configs(hosting | (with_rate & brokers_to_ask), _RATES)
        _raise_when_all_failed(configs.values())
        rates = _rates(configs)
        without_answer = self._brokers_with_rate - rates.keys()  # These brokers keep their entry.
        self._brokers_with_rate = without_answer | {b for b, broker_rates in rates.items() if broker_rates}
        answers = {**sizes, **configs}
        failed = {b for b, answer in answers.items() if isinstance(answer, ClusterError)}
        self.unanswered = (self.unanswered - answers.keys()) | failed
        return AdminAnswers(
            tracked=tracked,
            throttles=throttles,
            sizes={b: answer for b, answer in copied.by_broker.items() if not isinstance(answer, ClusterError)},
            rates=rates,
            leader_logs=self._leader_logs(lagging, brokers_to_ask - self.unanswered),
            awaiting_remote=copied.waiting,
        )

    def has_move_begun(self) -> bool:
        """Returns whether a move or a recovery has begun since the last round. Sends no request if the last round saw one.

        Raises:
            ClusterError: the cluster does not answer, or a right is missing.
        """
        return self._moving is False and bool(self._recovering() or self._client.reassignments())

    def _leader_logs(
        self, lagging: Iterable[LaggingReplica], brokers: Collection[int]
    ) -> dict[TopicPartition, LeaderLog]:
        """Returns end offset and size of the leaders' logs. Both are unknown for a leader that does not answer."""
        self._silent_leaders = {b: rounds - 1 for b, rounds in self._silent_leaders.items() if rounds > 1}
        leaders = leader_logs_to_read(lagging, set(brokers) - self._silent_leaders.keys())
        if not leaders:
            return {}
        states = [
            PartitionState(topic, partition, leader, (leader,), (leader,))
            for (topic, partition), leader in leaders.items()
        ]
        # The log end offset is used, not the high watermark, which a slow follower in the ISR holds back.
        end_offsets = self._client.log_end_offsets(states)
        sizes = self._client.log_sizes(leaders.values(), leaders)
        logs: dict[TopicPartition, LeaderLog] = {}
        for key, leader in leaders.items():
            answer = sizes[leader]
            if isinstance(answer, ClusterError):
                self._silent_leaders[leader] = _SILENT_ROUNDS
                continue
            logs[key] = LeaderLog(end_offsets.get(key), answer.get(key))
        return logs

    def _tracked_partitions(
        self, copying: list[PartitionState], throttles: dict[str, TopicThrottle]
    ) -> list[PartitionState]:
        tracked = {(s.topic, s.partition): s for s in copying}

        def is_listed(state: PartitionState) -> bool:
            throttle = throttles[state.topic]
            sides = (throttle.leader, throttle.follower)
            return any(side.includes(state.partition, broker) for side in sides for broker in state.replicas)

        others = (s for s in self._client.partitions(self._listed_topics) if (s.topic, s.partition) not in tracked)
        return [*tracked.values(), *filter(is_listed, others)]


def _with_recovering(moving: Sequence[PartitionState], recovering: Sequence[PartitionState]) -> list[PartitionState]:
    """Returns the moves, and the partitions with recovering replicas. A partition may be both."""
    if not recovering:
        return [*moving]
    states = {(s.topic, s.partition): s for s in recovering}
    for move in moving:
        key = (move.topic, move.partition)
        lost = tuple(b for b in states[key].recovering if b not in move.adding) if key in states else ()
        states[key] = replace(move, recovering=lost)
    return [*states.values()]


def _throttles(client: ClusterClient, topics: Iterable[str]) -> dict[str, TopicThrottle]:
    return {t: TopicThrottle.from_configs(c) for t, c in client.topic_configs(topics, LIST_KEYS.values()).items()}


def _listed_topics(throttles: Mapping[str, TopicThrottle]) -> set[str]:
    return {topic for topic, throttle in throttles.items() if throttle.leader or throttle.follower}


def _rates(answers: Mapping[int, Mapping[str, ConfigValue] | ClusterError]) -> dict[int, dict[str, float]]:
    """Returns the throttle rates of each broker that answered, by sample name; empty for a broker without rates."""
    return {
        b: {_RATES[key]: float(config.value) for key, config in configs.items()}
        for b, configs in answers.items()
        if not isinstance(configs, ClusterError)
    }


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def _raise_when_all_failed(answers: Collection[object]) -> None:
    """Raises the first error if every broker failed, because then a right is most likely missing. One failure alone is accepted."""
    failures = [answer for answer in answers if isinstance(answer, ClusterError)]
    if failures and len(failures) == len(answers):
        raise failures[0]
