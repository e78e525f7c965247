"""Creates topics, adds partitions and deletes topics through a chosen broker, which forwards the request to the controller.

kafka-python's own methods choose the broker themselves and drop the text of Kafka's error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

from streaming.shared import kafka_names
from streaming.shared.kafka.answers import error_for_code
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import ClusterError

_DELETE_VERSION = 6  # Kafka 2.8 and newer know it; older versions name the topics in another field.


class MutationRefused(ClusterError):
    """A mutation quota refuses the request (THROTTLING_QUOTA_EXCEEDED)."""


class TopicMutationClient(ClusterClient):
    """An admin connection that changes topics. Not thread-safe."""

    def create_through(
        self, broker: int, topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> ClusterError | None:
        """Creates a topic with Kafka's own placement. Returns the error; None for success."""
        creatable = CreateTopicsRequest.CreatableTopic
        new_topic = creatable(
            name=topic,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=[],
            configs=[creatable.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[new_topic], timeout_ms=self._connection.timeout_ms, validate_only=False)
        answer = self._connection.send_isolated(f"create topic {topic}", broker, request)
        return answer if isinstance(answer, ClusterError) else _first_error(answer.topics, "Create", "create", topic)

    def add_partitions_through(self, broker: int, topic: str, partitions: int) -> ClusterError | None:
        """Extends a topic to this number of partitions. Returns the error; None for success."""
        extended = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
        request = CreatePartitionsRequest(
            topics=[extended], timeout_ms=self._connection.timeout_ms, validate_only=False
        )
        answer = self._connection.send_isolated(f"add partitions to topic {topic}", broker, request)
        return answer if isinstance(answer, ClusterError) else _first_error(answer.results, "Alter", "extend", topic)

    def delete_through(self, broker: int, topic: str) -> ClusterError | None:
        """Deletes a topic. Returns the error; None for success, also if the topic does not exist."""
        state = DeleteTopicsRequest.DeleteTopicState(name=topic, topic_id=None)
        request = DeleteTopicsRequest(topics=[state], topic_names=[], timeout_ms=self._connection.timeout_ms)
        request.API_VERSION = _DELETE_VERSION
        answer = self._connection.send_isolated(f"delete topic {topic}", broker, request)
        if isinstance(answer, ClusterError):
            return answer
        return _first_error(answer.responses, "Delete", "delete", topic, kafka_names.ERROR_UNKNOWN_TOPIC_OR_PARTITION)


def _first_error(results: Iterable[Any], right: str, verb: str, topic: str, done_code: int = 0) -> ClusterError | None:
    """Returns the error of the only result; None for success.

    Args:
        done_code: a second code that means success.
    """
    for result in results:
        if result.error_code in (kafka_names.ERROR_NONE, done_code):
            return None
        if result.error_code == kafka_names.ERROR_THROTTLING_QUOTA_EXCEEDED:
            return MutationRefused(f"a mutation quota refuses to {verb} topic {topic}")
        return error_for_code(
            result.error_code, result.error_message, f"{right} on Topic {topic}", f"to {verb} topic {topic}"
        )
    return ClusterError(f"Kafka's answer has no result for topic {topic}")
