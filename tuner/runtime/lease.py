"""Whose turn it is: one tuner of a cluster acts, the others stand by.

Intuition: all tuners of a cluster are one consumer group that subscribes to the journal, which has one partition. Kafka gives
it to one of them and, when that one is silent for the session timeout, to another. That says whose turn it is, no more: a
tuner that was stopped and goes on (a suspended virtual machine, a long swap) believes for a moment that it still has it. The
journal shuts it out then (journal/kafka_journal.py): it can't put on record what it wants to do, so it does nothing.

A group's coordinator that we alone cannot reach has given the lease to another as soon as our session is over, and Kafka's client
does not say so. So whoever has not been answered for as long no longer holds it, whatever he was told last.

The holder keeps the lease while other tuners come and go. Kafka's default assignor gives the partition to the member with the
smallest id, and ids are drawn at random, so every newcomer could take it. The sticky assignor gives it to the member that had it
last. The group still takes the partition back for the moment that a rebalance lasts: the holder writes nothing meanwhile, waits
(``awaits_renewal``), and goes on with its term when the group has given it back.

kafka-python can lose the end of a rebalance: what a member was given arrives between two polls, and where only the topic's
metadata had called for that rebalance, nobody asks for it any more. Such a member is told nothing, sends no heartbeats, and would
wait for ever; so one that has been told nothing for longer than a rebalance can take comes back as a new one.

Invariant: who does not hold the lease does not take the journal over. Who is shut out of the journal while it believes to have
the lease believes wrongly, or the other does: it leaves the group and comes back as a new member, which knows what is so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

import kafka.errors
import structlog
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from streaming.shared.kafka.client_internals import heartbeat

log = structlog.get_logger("tuner")

# With the next heartbeat of a stand-by, and its start, well under 15 s.
SESSION_S = 8.0
HEARTBEAT_S = 2.0
# A rebalance waits for a member that has died until its session is over.
TOLD_NOTHING_S_MAX = SESSION_S + 2 * HEARTBEAT_S
_SEEN_THROUGH_S = 2.0  # A rebalance that begins and ends within one poll cannot be lost.
_LEAVE_S_MAX = 5.0
# The group uses the first one that all members know. Tuners from before the sticky one know only the range assignor.
ASSIGNORS = (StickyPartitionAssignor, RangePartitionAssignor)
_TROUBLE = (kafka.errors.KafkaError, RuntimeError, OSError)


def group_of(cluster: str) -> str:
    """Of the consumer group, and of the transactional id."""
    return f"rheostat-tuner-{cluster}"


class Lease:
    def __init__(
        self,
        member: Callable[[], KafkaConsumer],
        topic: str,
        group: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            member: makes a consumer of ``group``, with the timeouts and assignors above.
        """
        self._member = member
        self._group = group
        self._monotonic = monotonic
        self._consumer: KafkaConsumer | None = None
        self.given = False  # What the group said last.
        # True while a rebalance runs in which this member, which held the lease until then, may be given it again.
        self.awaits_renewal = False
        self._rebalanced = False  # Since ``was_rebalanced`` was asked last.
        self._asked_s: float | None = None  # Since when it has been asked what is given, and has not said.
        self._partition = TopicPartition(topic, 0)
        self._answered_s = float("-inf")  # When it was asked for what the group's coordinator answered last.
        self._said: str | None = None

    def held(self, timeout_s: float = 0.0) -> bool:
        """Takes part in the group; to be called every few seconds, by a stand-by too.

        Args:
            timeout_s: how long to wait for a change; while the group deals, it is two seconds at least.
        """
        try:
            if self._consumer is None:
                self._consumer = self._member()
                self._consumer.subscribe([self._partition.topic], listener=_Told(self))
                self.asked(still_member=False)
            wait_s = timeout_s if self._asked_s is None else max(timeout_s, _SEEN_THROUGH_S)
            self._consumer.poll(timeout_ms=round(wait_s * 1000))
            mine = self.given and self.silent_s() < SESSION_S
            if self.given and not mine:
                self._say(f"the group has not answered for {SESSION_S:.0f} s, and may have given it to another")
                return False
            if self._asked_s is not None and self._monotonic() - self._asked_s > TOLD_NOTHING_S_MAX:
                self._say(f"the group has said nothing for {TOLD_NOTHING_S_MAX:.0f} s: asking again as a new member")
                self.leave()
                return False
            if mine and self._partition not in self._consumer.paused():
                self._consumer.pause(self._partition)  # Its records are read elsewhere.
        except kafka.errors.GroupAuthorizationFailedError:
            self._say(f"missing right: Read on Group {self._group}")
            threading.Event().wait(timeout_s)  # It answers at once, and would be asked in a circle.
            self.awaits_renewal = False
            return False
        except _TROUBLE as error:
            self._say(f"{type(error).__name__}: {error}")
            self.awaits_renewal = False
            return False
        self._said = None
        return mine

    def silent_s(self) -> float:
        """How long ago the group's coordinator answered this member last; infinite where there is none."""
        if self._consumer is None:
            return float("inf")
        group_heartbeat = heartbeat(self._consumer)
        sent_s = group_heartbeat.last_send
        # By its question: an answer may have been on its way, or lain in a process that was stopped, for longer than a session.
        # Where the last question is not answered yet, that of the one before it counts.
        if group_heartbeat.last_receive >= sent_s:
            self._answered_s = max(self._answered_s, float(sent_s))
        return self._monotonic() - self._answered_s

    def asked(self, *, still_member: bool) -> None:
        """The group deals anew: nothing is given until it has said so.

        Args:
            still_member: False where the group has dropped this member, and may have given the lease to another already.
        """
        self.awaits_renewal = still_member and (self.given or self.awaits_renewal)
        self.given, self._asked_s, self._rebalanced = False, self._monotonic(), True

    def told(self, *, given: bool) -> None:
        self.given, self._asked_s, self.awaits_renewal = given, None, False
        self._answered_s = max(self._answered_s, self._monotonic())

    def was_rebalanced(self) -> bool:
        """Whether a rebalance has begun since this was asked last."""
        rebalanced, self._rebalanced = self._rebalanced, False
        return rebalanced

    def leave(self) -> None:
        """Hands the lease on at once, instead of after the session's timeout; who asks again comes as a new member."""
        member, self._consumer, self.given, self.awaits_renewal = self._consumer, None, False, False
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
        self._lease.told(given=bool(assigned))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:  # noqa: ARG002 - the listener's shape
        self._lease.asked(still_member=True)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:  # noqa: ARG002 - the listener's shape
        self._lease.asked(still_member=False)
