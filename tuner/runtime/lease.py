"""Holds the lease. Of all tuners of a cluster, the tuner with the lease acts and all others stand by.

All tuners of a cluster are members of one consumer group that subscribes to the journal's topic. The topic has one partition. The
member to which Kafka assigns this partition holds the lease. When it is silent for the session timeout, Kafka assigns the partition
to another member.

Limits of this lease, and how this module deals with them:

1. A tuner that was suspended believes for a moment that it still holds the lease. The journal then refuses its records
   (journal/kafka_journal.py), so the tuner writes nothing.
2. If a tuner cannot reach the group's coordinator, Kafka's client does not report it. So a member without an answer for a whole
   session regards its lease as lost.
3. Kafka's default assignor prefers the smallest member id, which is random, so any new member could take the partition. The
   sticky assignor leaves the partition with its holder. During a rebalance the holder writes nothing and waits
   (``awaits_renewal``).
4. kafka-python can miss the end of a rebalance whose only cause was a change of the topic's metadata. Such a member never gets its
   assignment and sends no heartbeats. So a member joins again if it has no assignment for longer than a rebalance can take.

Invariant: only a holder of the lease takes over the journal. If the journal refuses a holder, it leaves the group and joins again,
because either its own lease or that of the other tuner is out of date.
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

# With this session timeout a takeover takes well under 15 s, including a standby's next heartbeat and its start.
SESSION_S = 8.0
HEARTBEAT_S = 2.0
# A rebalance waits for a dead member until its session has expired.
ASSIGNMENT_S_MAX = SESSION_S + 2 * HEARTBEAT_S
_REBALANCE_POLL_S = 2.0  # Long, because kafka-python cannot miss the end of a rebalance within a poll (limit 4).
_LEAVE_S_MAX = 5.0
# The group uses the first assignor that all its members know. Tuners of older builds know only the range assignor.
ASSIGNORS = (StickyPartitionAssignor, RangePartitionAssignor)
_ERRORS = (kafka.errors.KafkaError, RuntimeError, OSError)


def lease_group(cluster: str) -> str:
    """Returns the name of the cluster's consumer group, which is also the journal's transactional id."""
    return f"rheostat-tuner-{cluster}"


class Lease:
    """Membership of this tuner in the group."""

    def __init__(
        self,
        create_consumer: Callable[[], KafkaConsumer],
        topic: str,
        group: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            create_consumer: creates a consumer of ``group`` with the timeouts and assignors above.
        """
        self._create_consumer = create_consumer
        self._group = group
        self._monotonic = monotonic
        self._consumer: KafkaConsumer | None = None
        self.is_assigned = False  # The group's latest assignment.
        # True during a rebalance in which this member held the lease and may get it again.
        self.awaits_renewal = False
        self._rebalanced = False  # Since the last call of ``was_rebalanced``.
        self._unassigned_since_s: float | None = None  # Start of a rebalance that has not brought an assignment yet.
        self._partition = TopicPartition(topic, 0)
        self._answered_s = float("-inf")  # Send time of the last request that the coordinator answered.
        self._logged: str | None = None

    def renew(self, timeout_s: float = 0.0) -> bool:
        """Sends heartbeats and returns whether this tuner holds the lease. Standbys have to call it every few seconds as well.

        Args:
            timeout_s: how long to wait for a change; during a rebalance at least two seconds.
        """
        try:
            if self._consumer is None:
                self._consumer = self._create_consumer()
                self._consumer.subscribe([self._partition.topic], listener=_AssignmentListener(self))
                self.note_rebalance(still_member=False)
            wait_s = timeout_s if self._unassigned_since_s is None else max(timeout_s, _REBALANCE_POLL_S)
            self._consumer.poll(timeout_ms=round(wait_s * 1000))
            is_holder = self.is_assigned and self.silent_s() < SESSION_S
            if self.is_assigned and not is_holder:
                self._warn(
                    f"the group has not answered for {SESSION_S:.0f} s, and may have given the lease to another tuner"
                )
                return False
            if self._unassigned_since_s is not None and self._monotonic() - self._unassigned_since_s > ASSIGNMENT_S_MAX:
                self._warn(
                    f"the group has assigned nothing for {ASSIGNMENT_S_MAX:.0f} s: joining again as a new member"
                )
                self.leave()
                return False
            if is_holder and self._partition not in self._consumer.paused():
                # This consumer reads no records of the journal; another one does.
                self._consumer.pause(self._partition)
        except kafka.errors.GroupAuthorizationFailedError:
            self._warn(f"missing permission: Read on Group {self._group}")
            threading.Event().wait(timeout_s)  # Kafka refuses at once, so the caller would spin without a pause.
            self.awaits_renewal = False
            return False
        except _ERRORS as error:
            self._warn(f"{type(error).__name__}: {error}")
            self.awaits_renewal = False
            return False
        self._logged = None
        return is_holder

    def silent_s(self) -> float:
        """Returns the seconds since the coordinator last answered this member; infinite if it is not a member."""
        if self._consumer is None:
            return float("inf")
        group_heartbeat = heartbeat(self._consumer)
        sent_s = group_heartbeat.last_send
        # The send time of an answered request counts, not the time of the answer: the answer may have waited in a suspended process
        # for longer than a session. While the last request is unanswered, the previous answered request counts.
        if group_heartbeat.last_receive >= sent_s:
            self._answered_s = max(self._answered_s, float(sent_s))
        return self._monotonic() - self._answered_s

    def note_rebalance(self, *, still_member: bool) -> None:
        """Notes that a rebalance has begun: no lease until the group assigns it again.

        Args:
            still_member: False if the group has dropped this member, so that another member may hold the lease already.
        """
        self.awaits_renewal = still_member and (self.is_assigned or self.awaits_renewal)
        self.is_assigned, self._unassigned_since_s, self._rebalanced = False, self._monotonic(), True

    def note_assignment(self, *, is_assigned: bool) -> None:
        self.is_assigned, self._unassigned_since_s, self.awaits_renewal = is_assigned, None, False
        self._answered_s = max(self._answered_s, self._monotonic())

    def was_rebalanced(self) -> bool:
        """Returns whether a rebalance has begun since the last call."""
        rebalanced, self._rebalanced = self._rebalanced, False
        return rebalanced

    def leave(self) -> None:
        """Leaves the group, so that another tuner gets the lease at once. The next ``renew`` joins as a new member."""
        consumer, self._consumer, self.is_assigned, self.awaits_renewal = self._consumer, None, False, False
        if consumer is not None:
            consumer.close(timeout_ms=round(_LEAVE_S_MAX * 1000))

    def _warn(self, why: str) -> None:
        """Logs a reason, unless it is the same as in the last call."""
        if why != self._logged:
            log.warning("this tuner cannot hold the lease", error=why)
        self._logged = why


class _AssignmentListener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types.
    """Receives the group's assignments. The consumer's own list of partitions is out of date until it has joined again."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._lease.note_assignment(is_assigned=bool(assigned))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:  # noqa: ARG002 - the listener's shape
        self._lease.note_rebalance(still_member=True)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:  # noqa: ARG002 - the listener's shape
        self._lease.note_rebalance(still_member=False)
