"""Creates topics and further partitions with given replica placement. kafka-python's own method drops the text of Kafka's error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import kafka.errors
from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest

from streaming.shared import kafka_names
from streaming.shared.kafka.answers import AUTHORIZATION_ERRORS, OUTCOME_UNKNOWN_ERRORS
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import ClusterError, MissingPermission, Unreachable

_AS_ASSIGNED = -1  # Stands for a number that Kafka derives from the assignments in the request.


@dataclass(frozen=True, slots=True)
class TopicRefusal:
    """Kafka's refusal to create a topic or partitions: error code, and a text with the error's name and message."""

    code: int
    text: str


class PlacingClient(ClusterClient):
    """An admin connection that creates topics and partitions with given placement. Not thread-safe."""

    def create_placed(
        self, topic: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str]
    ) -> TopicRefusal | None:
        """Creates a topic with the given replicas of each partition. Returns Kafka's refusal; None for success.

        Raises:
            MissingPermission: Create on Topic.
            Unreachable: the outcome is unknown.
        """
        creatable = CreateTopicsRequest.CreatableTopic
        request = CreateTopicsRequest(
            topics=[
                creatable(
                    name=topic,
                    num_partitions=_AS_ASSIGNED,
                    replication_factor=_AS_ASSIGNED,
                    assignments=[
                        creatable.CreatableReplicaAssignment(partition_index=n, broker_ids=list(brokers))
                        for n, brokers in enumerate(replicas)
                    ],
                    configs=[creatable.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
                )
            ],
            timeout_ms=self._connection.timeout_ms // 2,  # ``send_any`` waits half of the time for each of two brokers.
            validate_only=False,
        )
        answer = self._connection.send_any(f"create topic {topic}", request)
        result = _result(answer.topics, topic)
        if result.error_code in AUTHORIZATION_ERRORS:
            raise MissingPermission(f"Create on Topic {topic}", f"to create topic {topic}")
        return _refusal(result, answer.throttle_time_ms, topic)

    def add_placed(self, topic: str, partitions: int, replicas: Sequence[Sequence[int]]) -> TopicRefusal | None:
        """Adds partitions with the given replicas to a topic. Returns Kafka's refusal; None for success.

        Args:
            partitions: number of partitions that the topic is to have. Kafka refuses the request if this is not the present number
                plus the number of entries in ``replicas``.

        Raises:
            MissingPermission: Alter on Topic.
            Unreachable: the outcome is unknown.
        """
        growing = CreatePartitionsRequest.CreatePartitionsTopic
        request = CreatePartitionsRequest(
            topics=[
                growing(
                    name=topic,
                    count=partitions,
                    assignments=[growing.CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in replicas],
                )
            ],
            timeout_ms=self._connection.timeout_ms // 2,
            validate_only=False,
        )
        answer = self._connection.send_any(f"add partitions to topic {topic}", request)
        result = _result(answer.results, topic)
        if result.error_code in AUTHORIZATION_ERRORS:
            raise MissingPermission(f"Alter on Topic {topic}", f"to add partitions to topic {topic}")
        return _refusal(result, answer.throttle_time_ms, topic)


def _result(results: Sequence[Any], topic: str) -> Any:
    """Returns the only result of an answer."""
    for result in results:
        return result
    raise ClusterError(f"Kafka's answer has no result for topic {topic}")


def _refusal(result: Any, throttle_time_ms: int, topic: str) -> TopicRefusal | None:
    """Returns Kafka's refusal; None for success.

    Raises:
        Unreachable: the outcome is unknown.
    """
    if result.error_code == kafka_names.ERROR_NONE:
        return None
    if result.error_code in OUTCOME_UNKNOWN_ERRORS:
        raise Unreachable(
            f"Kafka did not confirm in time whether topic {topic} was changed (error {result.error_code}): look at its partitions "
            "before you repeat the command"
        )
    wait = f"; try again in {throttle_time_ms / 1000:g} s" if throttle_time_ms else ""
    name = kafka.errors.for_code(result.error_code).message
    return TopicRefusal(int(result.error_code), f"{name}: {result.error_message or 'no reason given'}{wait}")
