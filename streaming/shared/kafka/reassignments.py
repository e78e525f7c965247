"""Reassignments asked for and stopped, leaders elected, disks looked at: the calls of a program that moves partitions.

kafka-python's own verb refuses a whole call for one bad entry, so the requests are made here. Brokers forward them to the
controller, which answers for each partition on its own: one that it refuses is no fault of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, DescribeLogDirsRequest, ElectLeadersRequest

from streaming.shared import kafka_names
from streaming.shared.kafka.answers import AUTHORIZATION_ERRORS, error_for_code, raise_for_code, read_or_error
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import ClusterError, MissingPermission, Unreachable

TopicPartition = tuple[str, int]
Outcome = dict[TopicPartition, ClusterError | None]

_PREFERRED = 0
_MAY_BE_TAKEN = (7, 41)
_ALTER = "Alter on Cluster"


@dataclass(frozen=True, slots=True)
class Disk:
    """The volume of one log directory. Directories that share a volume say the same of it, each on its own."""

    directory: str
    total_bytes: int
    usable_bytes: int


class ReassignmentClient(ClusterClient):
    """One connection to a cluster. Not thread-safe."""

    def alter_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None], *, allow_replication_factor_change: bool
    ) -> Outcome:
        """Asks for the replicas of each partition, or stops what is under way there (None); None in the result is success.

        Args:
            allow_replication_factor_change: brokers before 4.1 allow it in any case.

        Raises:
            MissingPermission: Alter on Cluster.
            Unreachable: and what came of it is not known.
        """
        if not replicas:
            return {}
        topic_type = AlterPartitionReassignmentsRequest.ReassignableTopic
        partition_type = topic_type.ReassignablePartition
        topics = [
            topic_type(
                name=topic,
                partitions=[
                    partition_type(partition_index=n, replicas=None if wanted is None else list(wanted))
                    for n, wanted in some.items()
                ],
            )
            for topic, some in _by_topic(replicas).items()
        ]
        call = "to alter reassignments"
        answer = self._wire.one(
            "alter reassignments",
            AlterPartitionReassignmentsRequest(
                timeout_ms=self._wire.timeout_ms,
                allow_replication_factor_change=allow_replication_factor_change,
                topics=topics,
            ),
        )
        if answer.error_code in _MAY_BE_TAKEN:
            raise Unreachable(f"{call}: error {answer.error_code}")
        raise_for_code(answer.error_code, _ALTER, call)
        found = {
            (str(t.name), int(p.partition_index)): _not_there(p.error_code, p.error_message, call)
            for t in answer.responses
            for p in t.partitions
        }
        return {key: found.get(key, ClusterError("Kafka's answer leaves it out")) for key in replicas}

    def may_alter(self) -> None:
        """By a request that asks for nothing: Kafka looks at the right first.

        Raises:
            MissingPermission: Alter on Cluster, for reassignments and elections.
        """
        call = "to alter reassignments"
        answer = self._wire.one(
            "alter no reassignments", AlterPartitionReassignmentsRequest(timeout_ms=self._wire.timeout_ms, topics=[])
        )
        raise_for_code(answer.error_code, _ALTER, call)

    def may_describe(self, group: str) -> None:
        """
        Raises:
            MissingPermission: Describe on Group, which comes with that to read.
        """
        self._find_coordinator(
            group, kafka_names.COORDINATOR_OF_GROUP, f"Describe on Group {group}", "to describe a group"
        )

    def elect_preferred(self, partitions: Iterable[TopicPartition]) -> Outcome:
        """The first of the replicas becomes the leader, where it is in sync; one that leads already is success.

        Raises:
            MissingPermission: Alter on Cluster.
            Unreachable: and what came of it is not known.
        """
        wanted = list(partitions)
        if not wanted:
            return {}
        topic_type = ElectLeadersRequest.TopicPartitions
        topics = [
            topic_type(topic=topic, partitions=list(some)) for topic, some in _by_topic(dict.fromkeys(wanted)).items()
        ]
        call = "to elect leaders"
        answer = self._wire.one(
            "elect leaders",
            ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=topics, timeout_ms=self._wire.timeout_ms),
        )
        raise_for_code(answer.error_code, _ALTER, call)
        found = {
            (str(t.topic), int(p.partition_id)): None
            if p.error_code == kafka_names.ERROR_ELECTION_NOT_NEEDED
            else error_for_code(p.error_code, p.error_message, _ALTER, call)
            for t in answer.replica_election_results
            for p in t.partition_result
        }
        return {key: found.get(key, ClusterError("Kafka's answer leaves it out")) for key in wanted}

    def min_in_sync(self, topics: Collection[str], brokers: Iterable[int]) -> dict[str, int]:
        """min.insync.replicas of each topic, else of the brokers; the greatest, where they differ: to wait for one more does no
        harm."""
        set_here = self.topic_configs(topics, [kafka_names.MIN_IN_SYNC])
        answers = self.broker_configs(brokers, [kafka_names.MIN_IN_SYNC]).values()
        said = [
            int(answer[kafka_names.MIN_IN_SYNC].value)
            for answer in answers
            if not isinstance(answer, ClusterError) and kafka_names.MIN_IN_SYNC in answer
        ]
        default = max(said, default=1)
        return {topic: int(set_here.get(topic, {}).get(kafka_names.MIN_IN_SYNC, default)) for topic in topics}

    def disks(self, brokers: Iterable[int]) -> dict[int, tuple[Disk, ...] | ClusterError]:
        """The volumes of each broker's log directories that work; brokers before 3.3 say nothing of their size and have none."""
        # No topic is asked for: the volumes are told all the same.
        answers = self._wire.each("describe log dirs", {b: DescribeLogDirsRequest(topics=[]) for b in set(brokers)})
        read: Callable[[Any], tuple[Disk, ...]] = _disks
        return {broker: read_or_error(answer, read) for broker, answer in answers.items()}


def _by_topic(partitions: Mapping[TopicPartition, Any]) -> dict[str, dict[int, Any]]:
    found: dict[str, dict[int, Any]] = {}
    for (topic, number), value in partitions.items():
        found.setdefault(topic, {})[number] = value
    return found


def _not_there(code: int, message: str | None, call: str) -> ClusterError | None:
    """To stop what is not under way is success: it may have ended just now."""
    if code == kafka_names.ERROR_NO_REASSIGNMENT_IN_PROGRESS:
        return None
    if code in _MAY_BE_TAKEN:
        return Unreachable(f"{call}: error {code}")
    return error_for_code(code, message, _ALTER, call)


def _disks(answer: Any) -> tuple[Disk, ...]:
    if not answer.results:
        raise MissingPermission("Describe on Cluster", "to describe log dirs")
    found = []
    for directory in answer.results:
        if directory.error_code in AUTHORIZATION_ERRORS:
            raise_for_code(directory.error_code, "Describe on Cluster", "to describe log dirs")
        if directory.error_code == kafka_names.ERROR_NONE and (directory.total_bytes or -1) > 0:
            found.append(Disk(str(directory.log_dir), int(directory.total_bytes), int(directory.usable_bytes)))
    return tuple(found)
