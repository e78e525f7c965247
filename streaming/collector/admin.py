"""Asks the cluster what the JMX agents cannot tell: reassignments, log sizes, offsets, throttle settings.

Intuition: what costs grows with the cluster, what matters with the moves. So each round asks only about partitions that
move or are listed in a throttle, and the brokers that hold them; the ``FullScan`` looks at every topic's lists and every
broker's rates, seldom, in a thread and over a connection of its own, so that no record ever waits for it.

Between two rounds, while nothing moves, one small request says whether something has begun to (``has_begun``): who steers a
move can do nothing before it has been measured twice.

Invariant: all that a round tells was asked in it. A sweep only says where to look: which topics carry lists, which brokers
a rate. A change on a topic or broker that takes part in no move is seen up to ``full_scan_interval_s`` later; it slows down nothing
there.

Vocabulary:
    tracked    a partition that moves or is listed.
    involved   a broker that holds a replica of a tracked partition, or has a rate set.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from streaming.collector.facts import AdminAnswers
from streaming.shared import kafka_names
from streaming.shared.contract import Metric
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, ConfigValue, PartitionState
from streaming.shared.throttle_settings import LIST_KEYS, TopicThrottle

CHUNK = 200  # Topics or brokers of one request of a sweep: some tens of milliseconds each.
_RATES = {kafka_names.LEADER_RATE: Metric.LEADER_RATE, kafka_names.FOLLOWER_RATE: Metric.FOLLOWER_RATE}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FullScanResult:
    """What one sweep found."""

    listed_topics: frozenset[str] = frozenset()
    brokers_with_rate: frozenset[int] = frozenset()


class FullScan:
    """The seldom look at everything. ``cleared_by_tool`` is replaced whole, so that another thread may read it at any time."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self.swept = FullScanResult()

    def once(self, stop: threading.Event) -> float | None:
        """Looks at all topics and brokers; the seconds it took, None when it was stopped.

        Raises:
            ClusterError: the cluster does not answer at all, or a right is missing.
        """
        began_s = time.monotonic()
        listed: set[str] = set()
        with_rate: set[int] = set()
        for topics in _chunks({s.topic for s in self._client.partitions()}):
            if self._breathe(stop):
                return None
            listed |= _listed(_throttles(self._client, topics))
        for some in _chunks(e.node for e in self._client.brokers()):
            if self._breathe(stop):
                return None
            answers = self._client.broker_configs(some, _RATES)
            _raise_when_all_failed(answers.values())
            with_rate |= {b for b, found in _rates(answers).items() if found}
        self.swept = FullScanResult(frozenset(listed), frozenset(with_rate))
        return time.monotonic() - began_s

    @staticmethod
    def _breathe(stop: threading.Event) -> bool:
        # Between two requests the rounds' threads get the interpreter, which decoding an answer keeps for itself.
        return stop.wait(0.01)


class AdminFacts:
    """One round of asking. Keeps which topics carried a throttle; everything else is asked anew."""

    def __init__(self, client: ClusterClient, swept: Callable[[], FullScanResult]) -> None:
        self._client = client
        self._swept = swept
        self._listed_topics: frozenset[str] = (
            frozenset()
        )  # As the last round saw them: a move may be younger than the sweep.
        self._set_rates: set[int] = set()  # Brokers that had a rate when last asked.
        self.unanswered: set[int] = set()  # Brokers that did not answer when they were last asked.
        self._moving: bool | None = None  # When last asked; None: never.
        self.began = False  # The last round was the first to see something move.

    def ask(self, brokers: Collection[int]) -> AdminAnswers:
        """One round, of the given brokers only.

        Raises:
            ClusterError: the cluster does not answer at all, or a right is missing.
        """
        client, swept, answering = self._client, self._swept(), set(brokers)
        moving = client.reassignments()
        self.began, self._moving = self._moving is False and bool(moving), bool(moving)
        throttles = _throttles(client, self._listed_topics | swept.listed_topics | {s.topic for s in moving})
        self._listed_topics = frozenset(_listed(throttles))
        tracked = self._tracked(moving, throttles)
        holding = {b for s in tracked for b in s.replicas} & answering
        sizes = client.log_sizes(holding, {(s.topic, s.partition) for s in tracked})
        _raise_when_all_failed(sizes.values())
        with_rate = self._set_rates | swept.brokers_with_rate
        configs = client.broker_configs(holding | (with_rate & answering), _RATES)
        _raise_when_all_failed(configs.values())
        rates = _rates(configs)
        self._set_rates = {b for b, found in rates.items() if found} | (self._set_rates - rates.keys())
        asked_now = {**sizes, **configs}
        self.unanswered = (self.unanswered - asked_now.keys()) | {
            b for b, found in asked_now.items() if isinstance(found, ClusterError)
        }
        return AdminAnswers(
            tracked=tracked,
            throttles=throttles,
            sizes={b: found for b, found in sizes.items() if not isinstance(found, ClusterError)},
            end_offsets=client.end_offsets([s for s in tracked if s.leader in answering]),
            rates=rates,
        )

    def has_begun(self) -> bool:
        """Whether something moves and did not in the last round. While something does the answer may be long, and nothing is asked.

        Raises:
            ClusterError: the cluster does not answer, or a right is missing.
        """
        return self._moving is False and bool(self._client.reassignments())

    def _tracked(self, moving: list[PartitionState], throttles: dict[str, TopicThrottle]) -> list[PartitionState]:
        moves = {(s.topic, s.partition): s for s in moving}
        listed = [
            state
            for state in self._client.partitions(self._listed_topics)
            if (state.topic, state.partition) not in moves
            and any(
                throttles[state.topic].leader.includes(state.partition, b)
                or throttles[state.topic].follower.includes(state.partition, b)
                for b in state.replicas
            )
        ]
        return [*moves.values(), *listed]


def _throttles(client: ClusterClient, topics: Iterable[str]) -> dict[str, TopicThrottle]:
    return {t: TopicThrottle.from_configs(c) for t, c in client.topic_configs(topics, LIST_KEYS.values()).items()}


def _listed(throttles: Mapping[str, TopicThrottle]) -> set[str]:
    return {topic for topic, throttle in throttles.items() if throttle.leader or throttle.follower}


def _rates(answers: Mapping[int, Mapping[str, ConfigValue] | ClusterError]) -> dict[int, dict[str, float]]:
    """Of the brokers that answered; empty where none is set."""
    return {
        b: {_RATES[key]: float(config.value) for key, config in found.items()}
        for b, found in answers.items()
        if not isinstance(found, ClusterError)
    }


def _chunks(things: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(things)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def _raise_when_all_failed(results: Collection[object]) -> None:
    """One broker's failure is that broker's; when all fail, it is ours to report (a missing right, most likely)."""
    failures = [r for r in results if isinstance(r, ClusterError)]
    if failures and len(failures) == len(results):
        raise failures[0]
