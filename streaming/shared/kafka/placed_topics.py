"""Topics created where somebody wants their partitions to be. kafka-python's own verb throws away what Kafka says in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import kafka.errors
from kafka.protocol.admin import CreateTopicsRequest

from streaming.shared import kafka_names
from streaming.shared.kafka.answers import AUTHORIZATION_ERRORS
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import ClusterError, MissingPermission

_AS_ASSIGNED = -1


@dataclass(frozen=True, slots=True)
class TopicRefusal:
    """Kafka would not create it: the error's number and name, and what it says beside."""

    code: int
    text: str


class PlacingClient(ClusterClient):
    """One connection to a cluster. Not thread-safe."""

    def create_placed(
        self, topic: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str]
    ) -> TopicRefusal | None:
        """Creates a topic with these replicas of each partition; None is success.

        Raises:
            MissingPermission: Create on Topic.
            Unreachable: and what came of it is not known.
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
            timeout_ms=self._wire.timeout_ms // 2,
            validate_only=False,
        )
        answer = self._wire.one(f"create topic {topic}", request)
        for told in answer.topics:
            if told.error_code in AUTHORIZATION_ERRORS:
                raise MissingPermission(f"Create on Topic {topic}", f"to create topic {topic}")
            if told.error_code == kafka_names.ERROR_NONE:
                return None
            wait = f"; try again in {answer.throttle_time_ms / 1000:g} s" if answer.throttle_time_ms else ""
            name = kafka.errors.for_code(told.error_code).message
            return TopicRefusal(int(told.error_code), f"{name}: {told.error_message or 'without a word of why'}{wait}")
        raise ClusterError(f"Kafka's answer leaves topic {topic} out")
