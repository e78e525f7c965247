"""Starts and cancels reassignments, elects preferred leaders, and reads disk sizes.

kafka-python's own method refuses a whole call for one bad entry, so this module builds the requests. Brokers forward them to the
controller, which answers for each partition separately.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, DescribeLogDirsRequest, ElectLeadersRequest

from streaming.shared import kafka_names
from streaming.shared.contract import TopicPartition
from streaming.shared.kafka.answers import (
    AUTHORIZATION_ERRORS,
    OUTCOME_UNKNOWN_ERRORS,
    error_for_code,
    raise_for_code,
    read_or_error,
)
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import ClusterError, MissingPermission, Unreachable

Outcome = dict[TopicPartition, ClusterError | None]  # Error of each partition; None means success.

_PREFERRED = 0  # ElectLeaders: the preferred replica, not an unclean election.
_ALTER = "Alter on Cluster"
_NO_RESULT = ClusterError("Kafka's answer does not contain this partition")


@dataclass(frozen=True, slots=True)
class Disk:
    """The volume of one log directory. Directories on the same volume report the same sizes."""

    directory: str
    total_bytes: int
    usable_bytes: int


class ReassignmentClient(ClusterClient):
    """An admin connection for moving partitions. Not thread-safe."""

    def alter_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None], *, allow_replication_factor_change: bool
    ) -> Outcome:
        """Requests new replicas for each partition, or cancels its reassignment (None).

        Returns errors by partition (None means success).

        Args:
            allow_replication_factor_change: brokers before 4.1 always allow it.

        Raises:
            MissingPermission: Alter on Cluster.
            Unreachable: the outcome is unknown.
        """
        if not replicas:
            return {}
        topic_type = AlterPartitionReassignmentsRequest.ReassignableTopic
        partition_type = topic_type.ReassignablePartition
        topics = [
            topic_type(
                name=topic,
                partitions=[
                    partition_type(partition_index=n, replicas=None if targets is None else list(targets))
                    for n, targets in topic_targets.items()
                ],
            )
            for topic, topic_targets in _by_topic(replicas).items()
        ]
        call = "to alter reassignments"
        answer = self._connection.send_any(
            "alter reassignments",
            AlterPartitionReassignmentsRequest(
                timeout_ms=self._connection.timeout_ms,
                allow_replication_factor_change=allow_replication_factor_change,
                topics=topics,
            ),
        )
        if answer.error_code in OUTCOME_UNKNOWN_ERRORS:
            raise Unreachable(f"{call}: error {answer.error_code}")
        raise_for_code(answer.error_code, _ALTER, call)
        results = {
            (str(t.name), int(p.partition_index)): _partition_error(p.error_code, p.error_message, call)
            for t in answer.responses
            for p in t.partitions
        }
        return {key: results.get(key, _NO_RESULT) for key in replicas}

    def may_alter(self) -> None:
        """Checks the right to reassign partitions, by an empty request: Kafka checks the right before the content.

        Raises:
            MissingPermission: Alter on Cluster, for reassignments and elections.
        """
        call = "to alter reassignments"
        answer = self._connection.send_any(
            "alter no reassignments",
            AlterPartitionReassignmentsRequest(timeout_ms=self._connection.timeout_ms, topics=[]),
        )
        raise_for_code(answer.error_code, _ALTER, call)

    def may_describe(self, group: str) -> None:
        """Checks the right to describe a group.

        Raises:
            MissingPermission: Describe on Group, which Read implies.
        """
        self._find_coordinator(
            group, kafka_names.COORDINATOR_OF_GROUP, right=f"Describe on Group {group}", call="to describe a group"
        )

    def elect_preferred(self, partitions: Iterable[TopicPartition]) -> Outcome:
        """Makes the first in-sync replica of each partition its leader.

        Returns errors by partition (None means success, or that this replica leads already).

        Raises:
            MissingPermission: Alter on Cluster.
            Unreachable: the outcome is unknown.
        """
        keys = list(partitions)
        if not keys:
            return {}
        topic_type = ElectLeadersRequest.TopicPartitions
        topics = [
            topic_type(topic=topic, partitions=list(numbers))
            for topic, numbers in _by_topic(dict.fromkeys(keys)).items()
        ]
        call = "to elect leaders"
        answer = self._connection.send_any(
            "elect leaders",
            ElectLeadersRequest(
                election_type=_PREFERRED, topic_partitions=topics, timeout_ms=self._connection.timeout_ms
            ),
        )
        raise_for_code(answer.error_code, _ALTER, call)
        results = {
            (str(t.topic), int(p.partition_id)): _election_error(p.error_code, p.error_message, call)
            for t in answer.replica_election_results
            for p in t.partition_result
        }
        return {key: results.get(key, _NO_RESULT) for key in keys}

    def min_in_sync(self, topics: Collection[str], brokers: Iterable[int]) -> dict[str, int]:
        """Returns min.insync.replicas of each topic, else the highest of the brokers' defaults, which is the safe choice."""
        topic_level = self.topic_configs(topics, [kafka_names.MIN_IN_SYNC])
        answers = self.broker_configs(brokers, [kafka_names.MIN_IN_SYNC]).values()
        broker_level = [
            int(answer[kafka_names.MIN_IN_SYNC].value)
            for answer in answers
            if not isinstance(answer, ClusterError) and kafka_names.MIN_IN_SYNC in answer
        ]
        default = max(broker_level, default=1)
        return {topic: int(topic_level.get(topic, {}).get(kafka_names.MIN_IN_SYNC, default)) for topic in topics}

    def disks(self, brokers: Iterable[int]) -> dict[int, tuple[Disk, ...] | ClusterError]:
        """Returns the volumes of each broker's working log directories; empty for brokers before 3.3, which report no sizes."""
        # Kafka reports the volumes even if the request names no topic.
        answers = self._connection.send_each(
            "describe log dirs", {b: DescribeLogDirsRequest(topics=[]) for b in set(brokers)}
        )
        read: Callable[[Any], tuple[Disk, ...]] = _disks
        return {broker: read_or_error(answer, read) for broker, answer in answers.items()}


def _by_topic(partitions: Mapping[TopicPartition, Any]) -> dict[str, dict[int, Any]]:
    by_topic: dict[str, dict[int, Any]] = {}
    for (topic, number), value in partitions.items():
        by_topic.setdefault(topic, {})[number] = value
    return by_topic


def _partition_error(code: int, message: str | None, call: str) -> ClusterError | None:
    """Returns the error of one partition. Cancelling a reassignment that has already ended is success."""
    if code == kafka_names.ERROR_NO_REASSIGNMENT_IN_PROGRESS:
        return None
    if code in OUTCOME_UNKNOWN_ERRORS:
        return Unreachable(f"{call}: error {code}")
    return error_for_code(code, message, _ALTER, call)


def _election_error(code: int, message: str | None, call: str) -> ClusterError | None:
    """Returns the error of one election. It is a success if the preferred replica leads already."""
    return None if code == kafka_names.ERROR_ELECTION_NOT_NEEDED else error_for_code(code, message, _ALTER, call)


def _disks(answer: Any) -> tuple[Disk, ...]:
    if not answer.results:
        raise MissingPermission("Describe on Cluster", "to describe log dirs")
    disks = []
    for directory in answer.results:
        if directory.error_code in AUTHORIZATION_ERRORS:
            raise_for_code(directory.error_code, "Describe on Cluster", "to describe log dirs")
        if directory.error_code == kafka_names.ERROR_NONE and (directory.total_bytes or -1) > 0:
            disks.append(Disk(str(directory.log_dir), int(directory.total_bytes), int(directory.usable_bytes)))
    return tuple(disks)
