"""Asks the cluster what the JMX agents cannot tell: reassignments, log sizes, offsets, throttle settings."""

from __future__ import annotations

from collections.abc import Collection

from streaming import words
from streaming.collector.facts import Answers
from streaming.contract import Metric
from streaming.kafka.cluster import ClusterClient, ClusterError, PartitionState
from streaming.throttles import LIST_KEYS, TopicThrottle

# Lists on topics that do not move matter too (they use up quota, or were left behind), but change rarely, and asking for
# every topic's settings grows with the cluster.
SWEEP_EVERY = 6
_RATES = {words.LEADER_RATE: Metric.LEADER_RATE, words.FOLLOWER_RATE: Metric.FOLLOWER_RATE}


class AdminFacts:
    """Keeps which topics carry a throttle between two sweeps; everything else is asked anew each round."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._listed_topics: set[str] = set()
        self._round = 0
        self.unanswered: set[int] = set()  # Brokers that did not answer when they were last asked.

    def ask(self, brokers: Collection[int]) -> Answers:
        """One round, of the given brokers only.

        Raises:
            ClusterError: the cluster does not answer at all, or a right is missing.
        """
        client = self._client
        moving = client.reassignments()
        sweep = self._round % SWEEP_EVERY == 0
        self._round += 1  # Before the sweep: one that takes too long must not be tried again in every round.
        every = client.partitions() if sweep else None
        asked = {s.topic for s in every} if every is not None else self._listed_topics | {s.topic for s in moving}
        throttles = {
            t: TopicThrottle.from_configs(c) for t, c in client.topic_configs(asked, LIST_KEYS.values()).items()
        }
        self._listed_topics = {topic for topic, throttle in throttles.items() if throttle.leader or throttle.follower}
        tracked = self._tracked(moving, throttles)
        answering = set(brokers)
        sizes = client.log_sizes(
            {b for s in tracked for b in s.replicas} & answering, {(s.topic, s.partition) for s in tracked}
        )
        _raise_when_all_failed(sizes.values())
        rates = client.broker_configs(brokers, _RATES)
        _raise_when_all_failed(rates.values())
        asked_now = {**sizes, **rates}
        self.unanswered = (self.unanswered - asked_now.keys()) | {
            b for b, found in asked_now.items() if isinstance(found, ClusterError)
        }
        return Answers(
            tracked=tracked,
            throttles=throttles,
            sizes={b: found for b, found in sizes.items() if not isinstance(found, ClusterError)},
            end_offsets=client.end_offsets([s for s in tracked if s.leader in answering]),
            rates={
                b: {_RATES[key]: float(config.value) for key, config in found.items()}
                for b, found in rates.items()
                if not isinstance(found, ClusterError)
            },
        )

    def _tracked(self, moving: list[PartitionState], throttles: dict[str, TopicThrottle]) -> list[PartitionState]:
        moves = {(s.topic, s.partition): s for s in moving}
        listed = [
            state
            for state in self._client.partitions(self._listed_topics)
            if (state.topic, state.partition) not in moves
            and any(
                throttles[state.topic].leader.lists(state.partition, b)
                or throttles[state.topic].follower.lists(state.partition, b)
                for b in state.replicas
            )
        ]
        return [*moves.values(), *listed]


def _raise_when_all_failed(results: Collection[object]) -> None:
    """One broker's failure is that broker's; when all fail, it is ours to report (a missing right, most likely)."""
    failures = [r for r in results if isinstance(r, ClusterError)]
    if failures and len(failures) == len(results):
        raise failures[0]
