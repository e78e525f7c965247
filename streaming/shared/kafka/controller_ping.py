"""Asks the controller for something that changes nothing, to see how long whoever asks it for anything has to wait.

The request alters no setting of a topic of ours, and says besides that nothing is to be altered (``validate_only``). It takes the
way of every creation: through a broker to the controller, into its line of events, and its answer waits until what was written
before it is committed (QuorumController answers what was read from memory no sooner). A creation of a topic that is there would
do as well, but Kafka has a line in the controller's log for each of those, and counts them among the creations.
"""

from __future__ import annotations

from kafka.protocol.admin import IncrementalAlterConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from streaming.shared import kafka_names
from streaming.shared.kafka.answers import error_for_code
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.values import ClusterError

TIMEOUT_S = 5.0  # Nobody's request is worth waiting for longer, and meanwhile no other broker is asked.


class ControllerPing(ClusterClient):
    """One connection to a cluster. Not thread-safe."""

    def __init__(self, settings: KafkaSettings, client_id: str, topic: str) -> None:
        """
        Args:
            topic: one of ours, that is there.
        """
        self.timeout_s = TIMEOUT_S
        super().__init__(settings.model_copy(update={"request_timeout_s": TIMEOUT_S}), client_id)
        self._topic = topic

    def connect(self, broker: int) -> ClusterError | None:
        """A connection to this broker is made, and it has answered by itself; that takes its own time, and not the controller's."""
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        answer = self._wire.alone(f"meet broker {broker}", broker, request)
        return answer if isinstance(answer, ClusterError) else None

    def ping(self, broker: int) -> ClusterError | None:
        """None: this broker has brought the controller's answer. ``MissingPermission``: Kafka lets us not ask at all.

        A failure costs no other broker its connection.
        """
        request = IncrementalAlterConfigsRequest(
            resources=[(kafka_names.RESOURCE_TOPIC, self._topic, [])], validate_only=True
        )
        what = f"alter nothing of {self._topic}"
        answer = self._wire.alone(what, broker, request)
        if isinstance(answer, ClusterError):
            return answer
        for told in answer.responses:
            # A policy of the cluster's that does not like it has been asked by the controller, too.
            if told.error_code == kafka_names.ERROR_POLICY_VIOLATION:
                return None
            return error_for_code(
                told.error_code, told.error_message, f"AlterConfigs on Topic {self._topic}", f"to {what}"
            )
        return ClusterError(f"Kafka's answer says nothing of {self._topic}")
