"""Sends operators' records outside the tuner's transactions, and tells refused, recorded and unknown outcomes apart.

An operator who reads that an order was refused gives the order again, or trusts that nothing happens. So an outcome is reported as
refused only if the refusal is certain. A broker that did not answer in time may still have stored the record.
"""

from __future__ import annotations

from typing import Any

import kafka.errors
from kafka import KafkaProducer

from streaming.shared.kafka import KafkaSettings, producer
from streaming.shared.kafka.clients import close_producer
from tuner.journal.topic_tail import KAFKA_ERRORS

_ACK_S_MAX = 10.0
_CLOSE_S_MAX = 5.0
# After these answers the broker has certainly not stored the record.
_REFUSALS = (
    kafka.errors.AuthorizationError,
    kafka.errors.MessageSizeTooLargeError,
    kafka.errors.InvalidTopicError,
)


class RecordNotAcknowledged(Exception):
    """No broker has acknowledged the record. The text says why, and fits in the middle of a sentence.

    Attributes:
        may_be_recorded: whether the broker may have stored the record, or may store it in a moment.
    """

    def __init__(self, why: str, *, may_be_recorded: bool) -> None:
        super().__init__(why)
        self.may_be_recorded = may_be_recorded


class Sender:
    """Sends records to one topic, in order."""

    def __init__(self, settings: KafkaSettings, topic: str, client_id: str) -> None:
        """
        Raises:
            RecordNotAcknowledged: the cluster does not answer.
        """
        self._topic = topic
        self._sent: list[Any] = []
        try:
            self._producer: KafkaProducer = producer(settings, client_id, linger_ms=0)
        except KAFKA_ERRORS as error:
            raise RecordNotAcknowledged(f"the cluster does not answer: {error}", may_be_recorded=False) from error

    def send(self, key: bytes, value: bytes | None) -> None:
        """Starts to send a record; the value None is a tombstone.

        Raises:
            RecordNotAcknowledged: the record was not sent.
        """
        try:
            self._sent.append(self._producer.send(self._topic, key=key, value=value))
        except KAFKA_ERRORS as error:
            raise RecordNotAcknowledged(self._explain(error), may_be_recorded=False) from error

    def wait_for_acks(self) -> None:
        """Returns when the brokers have acknowledged all records.

        Raises:
            RecordNotAcknowledged: a record was refused, or not acknowledged in time.
        """
        sent, self._sent = self._sent, []
        for answer in sent:
            try:
                answer.get(timeout=_ACK_S_MAX)
            except KAFKA_ERRORS as error:
                raise RecordNotAcknowledged(
                    self._explain(error), may_be_recorded=not isinstance(error, _REFUSALS)
                ) from error

    def close(self) -> None:
        """Closes the producer, in bounded time even if no broker answers. Nothing is sent afterwards."""
        close_producer(self._producer, _CLOSE_S_MAX)

    def _explain(self, error: Exception) -> str:
        if isinstance(error, kafka.errors.TopicAuthorizationFailedError):
            return f"the permission Write on Topic {self._topic} is missing"
        return f"{self._topic} cannot be written: {error}"
