"""Records that a person gives, outside the tuner's transactions: taken, refused, or nobody knows.

Intuition: whoever is told that an order is not taken gives it again, or believes that nothing happens. So that is said only where
it is certain. A broker that has not answered in time may have the record all the same.
"""

from __future__ import annotations

from typing import Any

import kafka.errors
from kafka import KafkaProducer

from streaming.shared.kafka import KafkaSettings, producer
from streaming.shared.kafka.clients import close_producer
from tuner.journal.transactions import TROUBLE

_ACK_S_MAX = 10.0
_CLOSE_S_MAX = 5.0
# What a broker answers that has not taken the record, and will not.
_REFUSALS = (
    kafka.errors.AuthorizationError,
    kafka.errors.MessageSizeTooLargeError,
    kafka.errors.InvalidTopicError,
)


class NotSent(Exception):
    """The text says why, in words for the middle of a sentence."""

    def __init__(self, why: str, *, may_be: bool) -> None:
        """
        Args:
            may_be: it may be on record nevertheless, now or in a moment.
        """
        super().__init__(why)
        self.may_be = may_be


class Sender:
    """To one topic, in order."""

    def __init__(self, settings: KafkaSettings, topic: str, client_id: str) -> None:
        """
        Raises:
            NotSent: the cluster does not answer.
        """
        self._topic = topic
        self._sent: list[Any] = []
        try:
            self._producer: KafkaProducer = producer(settings, client_id, linger_ms=0)
        except TROUBLE as error:
            raise NotSent(f"the cluster does not answer: {error}", may_be=False) from error

    def send(self, key: bytes, value: bytes | None) -> None:
        """Begin to send a record; None is a tombstone.

        Raises:
            NotSent: this one is not on its way.
        """
        try:
            self._sent.append(self._producer.send(self._topic, key=key, value=value))
        except TROUBLE as error:
            raise NotSent(self._why(error), may_be=False) from error

    def settle(self) -> None:
        """Waits until all that was sent is on record.

        Raises:
            NotSent: it is not known that they are.
        """
        sent, self._sent = self._sent, []
        for answer in sent:
            try:
                answer.get(timeout=_ACK_S_MAX)
            except TROUBLE as error:
                raise NotSent(self._why(error), may_be=not isinstance(error, _REFUSALS)) from error

    def close(self) -> None:
        """Nothing is sent any more after it, also where brokers do not answer."""
        close_producer(self._producer, _CLOSE_S_MAX)

    def _why(self, error: Exception) -> str:
        if isinstance(error, kafka.errors.TopicAuthorizationFailedError):
            return f"it takes the right Write on Topic {self._topic}"
        return f"{self._topic} cannot be written: {error}"
