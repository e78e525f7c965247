"""Reassignments, as the port that the executor of plans acts through.

Kafka's answer to a step says that the controller took it; that it has ended only a later look tells. A call that was not
answered may have been taken all the same, so that is told apart from a refusal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from streaming.shared.kafka.cluster import ClusterError, PartitionState, Unreachable
from streaming.shared.kafka.reassignments import ReassignmentClient
from tuner.core.outcome import Outcome, StepRefusal
from tuner.core.reassignment_plan import STEPS_PER_REQUEST_MAX, CurrentAssignment, ReassignmentSnapshot, TopicPartition
from tuner.runtime.background_call import refusal_text


class ReassignmentActuator(Protocol):
    def read_snapshot(
        self, topics: Collection[str], measured: Collection[TopicPartition] = (), *, others: bool = False
    ) -> ReassignmentSnapshot | ClusterError:
        """How these topics stand now, and how large the logs of ``measured`` are on every broker that has them.

        Args:
            others: also all other topics that are shown to us. A topic that is named and may not be seen is an error; of all
                topics Kafka leaves those out.
        """

    def request(self, replicas: Mapping[TopicPartition, tuple[int, ...] | None]) -> Outcome:
        """Asks for these replicas, or stops what is under way (None)."""

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Outcome:
        """The first replica becomes the leader."""


class KafkaReassignmentActuator:
    """Called from one thread at a time."""

    def __init__(self, client: ReassignmentClient, *, proved: Callable[[], bool] = lambda: True) -> None:
        """
        Args:
            proved: whether it was certain a moment ago that this tuner may; asked before each request, from any thread.
        """
        self._client = client
        self._proved = proved
        self._min_in_sync: dict[str, int] = {}
        self._ended = threading.Event()

    def end(self) -> None:
        """From now on nothing is asked for, also of what is under way in another thread."""
        self._ended.set()

    def read_snapshot(
        self, topics: Collection[str], measured: Collection[TopicPartition] = (), *, others: bool = False
    ) -> ReassignmentSnapshot | ClusterError:
        client = self._client
        try:
            online = frozenset(endpoint.node for endpoint in client.brokers())
            # First what moves, then where all is: what ends in between is seen where it is.
            moving = client.reassignments()
            states = {(s.topic, s.partition): s for s in client.partitions(None if others else topics)}
            if others:
                seen = {topic for topic, _ in states}
                states |= {(s.topic, s.partition): s for s in client.partitions(t for t in topics if t not in seen)}
            states |= {(s.topic, s.partition): s for s in moving if others or s.topic in topics}
            self._learn_min_in_sync({t for t, _ in states if t not in self._min_in_sync}, online)
            sizes = self._sizes(states, measured)
            ids = client.topic_ids(topics)
        except ClusterError as error:
            return error
        found = {key: CurrentAssignment(s.leader, s.replicas, s.isr, s.adding, s.removing) for key, s in states.items()}
        return ReassignmentSnapshot(online, found, self._min_in_sync, sizes, ids)

    def _sizes(
        self, states: Mapping[TopicPartition, PartitionState], measured: Collection[TopicPartition]
    ) -> dict[int, Mapping[TopicPartition, int]]:
        """Of brokers that answer; the others' are not known."""
        wanted = [states[key] for key in measured if key in states]
        brokers = {b for s in wanted for b in (s.leader, *s.adding) if b >= 0}
        found = self._client.log_sizes(brokers, [(s.topic, s.partition) for s in wanted]) if wanted else {}
        return {broker: answer for broker, answer in found.items() if not isinstance(answer, ClusterError)}

    def request(self, replicas: Mapping[TopicPartition, tuple[int, ...] | None]) -> Outcome:
        outcome: Outcome = {}
        keys = list(replicas)
        for first in range(0, len(keys), STEPS_PER_REQUEST_MAX):
            some = {key: replicas[key] for key in keys[first : first + STEPS_PER_REQUEST_MAX]}
            if self._ended.is_set() or not self._proved():
                outcome |= dict.fromkeys(
                    some, StepRefusal(f"not asked for: {refusal_text(ended=self._ended.is_set())}")
                )
                continue
            try:
                answers = self._client.alter_reassignments(some, allow_replication_factor_change=True)
            except ClusterError as error:
                outcome |= dict.fromkeys(some, _refusal(error))
                continue
            outcome |= {key: None if error is None else _refusal(error) for key, error in answers.items()}
        return outcome

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Outcome:
        if self._ended.is_set() or not self._proved():
            return dict.fromkeys(partitions, StepRefusal(f"not asked for: {refusal_text(ended=self._ended.is_set())}"))
        try:
            answers = self._client.elect_preferred(partitions)
        except ClusterError as error:
            return dict.fromkeys(partitions, _refusal(error))
        return {key: None if error is None else _refusal(error) for key, error in answers.items()}

    def _learn_min_in_sync(self, topics: Collection[str], online: Collection[int]) -> None:
        if topics:
            self._min_in_sync |= self._client.min_in_sync(topics, online)


def _refusal(error: ClusterError) -> StepRefusal:
    return StepRefusal(str(error), is_certain=not isinstance(error, Unreachable))
