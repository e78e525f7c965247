"""Asks for the creation of a topic that is there already, to see how long whoever creates one has to wait.

The request takes the way of every creation: through a broker to the controller, into its line of events, and its answer waits
until what was written before it is committed. There it is refused, as the topic is there; and it says besides that nothing is to
be created (``validate_only``). It counts against no quota, as Kafka counts what passes.
"""

from __future__ import annotations

from kafka.protocol.admin import CreateTopicsRequest

from streaming import words
from streaming.kafka.answers import code_error
from streaming.kafka.cluster import ClusterClient
from streaming.kafka.settings import KafkaSettings
from streaming.kafka.values import ClusterError, MissingRight

# Nobody's creation is worth waiting for longer, and meanwhile no other broker is asked.
TIMEOUT_S_MAX = 5.0
# The controller has said something to it: there it is, it could be made, or somebody has put a quota on who asks.
_ANSWERED = (words.ERROR_NONE, words.ERROR_TOPIC_ALREADY_EXISTS, words.ERROR_THROTTLING_QUOTA_EXCEEDED)


class CreationAsker(ClusterClient):
    """One connection to a cluster. Not thread-safe."""

    def __init__(self, settings: KafkaSettings, client_id: str, topic: str) -> None:
        """
        Args:
            topic: one of ours, that is there.
        """
        self.timeout_s = min(settings.request_timeout_s, TIMEOUT_S_MAX)
        super().__init__(settings.model_copy(update={"request_timeout_s": self.timeout_s}), client_id)
        self._topic = topic

    def ask(self, broker: int) -> ClusterError | None:
        """None: this broker has brought the controller's answer. ``MissingRight``: Kafka lets us not ask at all."""
        creatable = CreateTopicsRequest.CreatableTopic(
            name=self._topic, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        request = CreateTopicsRequest(topics=[creatable], timeout_ms=self._wire.timeout_ms, validate_only=True)
        what, right = f"ask for the creation of {self._topic}", f"Create on Topic {self._topic}"
        try:
            answer = self._wire.each(what, {broker: request})[broker]
        except ClusterError as error:
            return error
        if isinstance(answer, ClusterError):
            return answer
        for told in answer.topics:
            if told.error_code in _ANSWERED:
                return None
            return code_error(told.error_code, told.error_message, right, f"to {what}")
        return MissingRight(right, f"to {what}")
