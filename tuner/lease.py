"""Whose turn it is: one tuner of a cluster acts, the others stand by.

Intuition: all tuners of a cluster are one consumer group that subscribes to the journal, which has one partition. Kafka gives
it to one of them and, when that one is silent for the session timeout, to another. That says whose turn it is, no more: a
tuner that was stopped and goes on (a suspended virtual machine, a long swap) believes for a moment that it still has it. The
journal shuts it out then (journal/kafka_journal.py): it can't put on record what it wants to do, so it does nothing.

Invariant: who does not hold the lease does not take the journal over. Who is shut out of the journal while it believes to have
the lease believes wrongly, or the other does: it leaves the group and comes back as a new member, which knows what is so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import kafka.errors
import structlog
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

log = structlog.get_logger("tuner")

# With the next heartbeat of a stand-by, and its start, well under 15 s.
SESSION_S = 8.0
HEARTBEAT_S = 2.0
_LEAVE_S_MAX = 5.0
_TROUBLE = (kafka.errors.KafkaError, RuntimeError, OSError)


def group_of(cluster: str) -> str:
    """Of the consumer group, and of the transactional id."""
    return f"rheostat-tuner-{cluster}"


class Lease:
    def __init__(self, member: Callable[[], KafkaConsumer], topic: str, group: str) -> None:
        """
        Args:
            member: makes a consumer of ``group``, with the timeouts above.
        """
        self._member = member
        self._group = group
        self._consumer: KafkaConsumer | None = None
        self.given = False  # What the group said last.
        self._partition = TopicPartition(topic, 0)
        self._said: str | None = None

    def held(self, timeout_s: float = 0.0) -> bool:
        """Takes part in the group; to be called every few seconds, by a stand-by too.

        Args:
            timeout_s: how long to wait for a change.
        """
        try:
            if self._consumer is None:
                self._consumer = self._member()
                self._consumer.subscribe([self._partition.topic], listener=_Told(self))
            self._consumer.poll(timeout_ms=round(timeout_s * 1000))
            mine = self.given
            if mine and self._partition not in self._consumer.paused():
                self._consumer.pause(self._partition)  # Its records are read elsewhere.
        except kafka.errors.GroupAuthorizationFailedError:
            self._say(f"missing right: Read on Group {self._group}")
            threading.Event().wait(timeout_s)  # It answers at once, and would be asked in a circle.
            return False
        except _TROUBLE as error:
            self._say(f"{type(error).__name__}: {error}")
            return False
        self._said = None
        return mine

    def leave(self) -> None:
        """Hands the lease on at once, instead of after the session's timeout; who asks again comes as a new member."""
        member, self._consumer, self.given = self._consumer, None, False
        if member is not None:
            member.close(timeout_ms=round(_LEAVE_S_MAX * 1000))

    def _say(self, why: str) -> None:
        """Once, until it is another trouble or over."""
        if why != self._said:
            log.warning("the lease cannot be asked for", error=why)
        self._said = why


class _Told(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types.
    """What the group gives and takes. A consumer that is polled for no time goes on to list what it had until it has come back
    into the group, so its list is not asked."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._lease.given = bool(assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:  # noqa: ARG002 - the listener's shape
        self._lease.given = False

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:  # noqa: ARG002 - the listener's shape
        self._lease.given = False
