"""Reads and changes partition reassignments in Kafka, on behalf of the plan executor.

Kafka's answer to a request says only that the controller has accepted it. A later snapshot shows when the reassignment has ended.
If there is no answer, the request may have been accepted, so its ``StepRefusal`` has ``is_certain=False``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from streaming.shared.kafka.cluster import ClusterError, PartitionState, Unreachable
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.kafka.tiered import tiered_topics, with_copied_bytes
from tuner.core.outcome import Outcome, StepRefusal
from tuner.core.reassignment_plan import STEPS_PER_REQUEST_MAX, CurrentAssignment, ReassignmentSnapshot, TopicPartition
from tuner.runtime.background_call import refusal_text


class ReassignmentActuator(Protocol):
    def read_snapshot(
        self, topics: Collection[str], measured: Collection[TopicPartition] = (), *, all_topics: bool = False
    ) -> ReassignmentSnapshot | ClusterError:
        """Returns the current assignments of these topics, and the log sizes of ``measured`` on every broker.

        Args:
            all_topics: also return all other topics that this client may describe. If it may not describe one of ``topics``, the
                result is an error.
        """

    def request(self, replicas: Mapping[TopicPartition, tuple[int, ...] | None]) -> Outcome:
        """Requests these replicas; None cancels the partition's reassignment (KIP-455)."""

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Outcome:
        """Makes the first replica of each partition its leader."""


class KafkaReassignmentActuator:
    """Implements the port with Kafka's admin API. Only one thread at a time may call it; ``end`` may be called from any thread."""

    def __init__(self, client: ReassignmentClient, *, is_leadership_proved: Callable[[], bool] = lambda: True) -> None:
        """
        Args:
            is_leadership_proved: returns whether this tuner held the leadership a moment ago. It is called before each request,
                from any thread.
        """
        self._client = client
        self._is_leadership_proved = is_leadership_proved
        self._min_in_sync: dict[str, int] = {}
        self._ended = threading.Event()

    def end(self) -> None:
        """Stops all changes, including the remaining requests of a call that runs in another thread."""
        self._ended.set()

    def read_snapshot(
        self, topics: Collection[str], measured: Collection[TopicPartition] = (), *, all_topics: bool = False
    ) -> ReassignmentSnapshot | ClusterError:
        client = self._client
        try:
            online = frozenset(endpoint.node for endpoint in client.brokers())
            # Reassignments are read first. If one ends before the partitions are read, the partitions already show its result.
            moving = client.reassignments()
            states = {(s.topic, s.partition): s for s in client.partitions(None if all_topics else topics)}
            if all_topics:
                visible = {topic for topic, _ in states}
                states |= {(s.topic, s.partition): s for s in client.partitions(t for t in topics if t not in visible)}
            states |= {(s.topic, s.partition): s for s in moving if all_topics or s.topic in topics}
            self._learn_min_in_sync({t for t, _ in states if t not in self._min_in_sync}, online)
            sizes = self._read_log_sizes(states, measured)
            ids = client.topic_ids(topics)
        except ClusterError as error:
            return error
        assignments = {
            key: CurrentAssignment(s.leader, s.replicas, s.isr, s.adding, s.removing) for key, s in states.items()
        }
        return ReassignmentSnapshot(online, assignments, self._min_in_sync, sizes, ids)

    def _read_log_sizes(
        self, states: Mapping[TopicPartition, PartitionState], measured: Collection[TopicPartition]
    ) -> dict[int, Mapping[TopicPartition, int]]:
        """Returns bytes by broker and partition; brokers that do not answer are absent.

        A replica that is being added to a tiered partition has the bytes that it does not have to copy.
        """
        partitions = [states[key] for key in measured if key in states]
        brokers = {b for s in partitions for b in (s.leader, *s.adding) if b >= 0}
        if not partitions:
            return {}
        answers = self._client.log_sizes(brokers, [(s.topic, s.partition) for s in partitions])
        tiered = tiered_topics(self._client, {s.topic for s in partitions})
        copied = with_copied_bytes(self._client, answers, partitions, tiered)
        return {broker: sizes for broker, sizes in copied.by_broker.items() if not isinstance(sizes, ClusterError)}

    def request(self, replicas: Mapping[TopicPartition, tuple[int, ...] | None]) -> Outcome:
        outcome: Outcome = {}
        keys = list(replicas)
        for first in range(0, len(keys), STEPS_PER_REQUEST_MAX):
            batch = {key: replicas[key] for key in keys[first : first + STEPS_PER_REQUEST_MAX]}
            if self._ended.is_set() or not self._is_leadership_proved():
                outcome |= dict.fromkeys(
                    batch, StepRefusal(f"not requested: {refusal_text(ended=self._ended.is_set())}")
                )
                continue
            try:
                answers = self._client.alter_reassignments(batch, allow_replication_factor_change=True)
            except ClusterError as error:
                outcome |= dict.fromkeys(batch, _refusal(error))
                continue
            outcome |= {key: None if error is None else _refusal(error) for key, error in answers.items()}
        return outcome

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Outcome:
        if self._ended.is_set() or not self._is_leadership_proved():
            return dict.fromkeys(partitions, StepRefusal(f"not requested: {refusal_text(ended=self._ended.is_set())}"))
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
