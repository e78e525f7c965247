"""Sends the controller a request that changes nothing, to measure how long a controller request takes.

The request (IncrementalAlterConfigs) names one of rheostat's topics, contains no change, and has ``validate_only`` set. It takes
the path of every topic creation: through a broker into the controller's event queue. The controller answers only after it has
committed earlier writes (QuorumController). A request to create an existing topic would measure the same time, but the controller
would log each such request and count it as a creation.
"""

from __future__ import annotations

from kafka.protocol.admin import IncrementalAlterConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from streaming.shared import kafka_names
from streaming.shared.kafka.answers import error_for_code
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.values import ClusterError

TIMEOUT_S = 5.0  # Short, because the caller pings no other broker during this wait.


class ControllerPing(ClusterClient):
    """A connection that pings the controller through a chosen broker. Not thread-safe."""

    def __init__(self, settings: KafkaSettings, client_id: str, topic: str) -> None:
        """
        Args:
            topic: an existing topic of rheostat.
        """
        self.timeout_s = TIMEOUT_S
        super().__init__(settings.model_copy(update={"request_timeout_s": TIMEOUT_S}), client_id)
        self._topic = topic

    def connect(self, broker: int) -> ClusterError | None:
        """Connects to the broker with a request that it answers itself, so that a later ping measures the controller only."""
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        answer = self._connection.send_isolated(f"connect to broker {broker}", broker, request)
        return answer if isinstance(answer, ClusterError) else None

    def ping(self, broker: int) -> ClusterError | None:
        """Returns None once the controller's answer has arrived through this broker, else the error.

        ``MissingPermission`` means that this client may not send the request. A failure leaves other brokers' connections open.
        """
        request = IncrementalAlterConfigsRequest(
            resources=[(kafka_names.RESOURCE_TOPIC, self._topic, [])], validate_only=True
        )
        purpose = f"alter nothing of {self._topic}"
        answer = self._connection.send_isolated(purpose, broker, request)
        if isinstance(answer, ClusterError):
            return answer
        for result in answer.responses:
            # A policy violation is also an answer of the controller.
            if result.error_code == kafka_names.ERROR_POLICY_VIOLATION:
                return None
            return error_for_code(
                result.error_code, result.error_message, f"AlterConfigs on Topic {self._topic}", f"to {purpose}"
            )
        return ClusterError(f"Kafka's answer has no result for {self._topic}")
