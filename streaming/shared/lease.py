"""Holds a lease. Among all processes with the same lease, the process that holds it acts and all others stand by.

The tuners, the collectors and the streams of a cluster have one lease each. The processes with a lease are members of one consumer
group that subscribes to one topic: the tuners to the journal, the collectors to the metrics, the streams to the signals. The member
to which Kafka assigns the first partition of the topic holds the lease. When it is silent for the session timeout, Kafka assigns
the partition to another member.

Limits of this lease, and how this module deals with them:

1. A process that was suspended believes for a moment that it still holds the lease. The journal refuses the records of such a
   tuner (tuner/journal/kafka_journal.py), so the tuner writes nothing. Collector and stream: part_lease.py.
2. If a tuner cannot reach the group's coordinator, Kafka's client does not report it. So a member without an answer for a whole
   session regards its lease as lost.
3. Kafka's default assignor prefers the smallest member id, which is random, so any new member could take the partition. The
   sticky assignor leaves the partition with its holder. During a rebalance the holder writes nothing and waits
   (``awaits_renewal``).
4. kafka-python can miss the end of a rebalance whose only cause was a change of the topic's metadata. Such a member never gets its
   assignment and sends no heartbeats. So a member joins again if it has no assignment for longer than a rebalance can take.
5. kafka-python joins a group even if it does not know the partitions of the topic yet. The only member of a group would then assign
   no partition to itself, and join a second time. So a member first asks for the partitions.

Invariant: only a holder of the tuners' lease takes over the journal. If the journal refuses the records of a holder, this holder
leaves the group and joins again, because either its own lease or the lease of the other tuner is out of date.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence

import kafka.errors
import structlog
from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from streaming.shared.kafka.client_internals import fetch_partitions, heartbeat, poll_until
from streaming.shared.kafka.clients import consumer
from streaming.shared.kafka.settings import KafkaSettings

# With this session timeout a takeover takes well under 15 s, including a standby's next heartbeat and its start.
SESSION_S = 8.0
HEARTBEAT_S = 2.0
# A rebalance waits for a dead member until its session has expired.
ASSIGNMENT_S_MAX = SESSION_S + 2 * HEARTBEAT_S
_REBALANCE_POLL_S = 2.0  # Long, because kafka-python cannot miss the end of a rebalance within a poll (limit 4).
_LEAVE_S_MAX = 5.0
_NOTE_MS_MAX = 5_000
# The tuners' group uses the first assignor that all its members know. Tuners of older builds know only the range assignor.
ASSIGNORS = (StickyPartitionAssignor, RangePartitionAssignor)
_ERRORS = (kafka.errors.KafkaError, RuntimeError, OSError)


def lease_group(cluster: str, part: str = "tuner") -> str:
    """Returns the name of the consumer group of a lease. The tuners' group is also the journal's transactional id.

    Args:
        part: "tuner", "collect" or "stream".
    """
    return f"rheostat-{part}-{cluster}"


def lease_client_id(part: str, host: str, process_id: int) -> str:
    """Returns the client id of a member of the group, which tells operators on which host the member runs.

    Kafka puts client ids with other characters than letters, digits, "-", "_" and "." into quotes in the names of its metrics.

    Args:
        part: "collect" or "stream".
    """
    return f"rheostat-{part}-lease-{host}-{process_id}"


def holder_in_client_id(part: str, client_id: str) -> str | None:
    """Returns host and process id, ``host:pid``, from a client id of ``lease_client_id``; None if it is another client id."""
    prefix = f"rheostat-{part}-lease-"
    host, _, process_id = client_id.removeprefix(prefix).rpartition("-")
    is_lease = client_id.startswith(prefix) and host != "" and process_id.isdigit()
    return f"{host}:{process_id}" if is_lease else None


def create_lease_consumer(
    kafka_: KafkaSettings, client_id: str, group: str, assignors: Sequence[type[AbstractPartitionAssignor]]
) -> KafkaConsumer:
    """Returns a member of the group, with the timeouts above."""
    return consumer(
        kafka_,
        client_id,
        group_id=group,
        auto_offset_reset="latest",
        session_timeout_ms=round(SESSION_S * 1000),
        heartbeat_interval_ms=round(HEARTBEAT_S * 1000),
        partition_assignment_strategy=assignors,
    )


class Lease:
    """Membership of this process in the group."""

    def __init__(
        self,
        create_consumer: Callable[[], KafkaConsumer],
        topic: str,
        group: str,
        *,
        holder: str = "tuner",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            create_consumer: creates a consumer of ``group`` with the timeouts and assignors above.
            holder: the kind of process, for log messages.
        """
        self._log = structlog.get_logger(holder)
        self._create_consumer = create_consumer
        self._group = group
        self._holder = holder
        self._monotonic = monotonic
        self._consumer: KafkaConsumer | None = None
        self.is_assigned = False  # The group's latest assignment.
        self.is_denied = False  # The user has no right on the group.
        # True during a rebalance in which this member held the lease and may get it again.
        self.awaits_renewal = False
        self._rebalanced = False  # Whether a rebalance has begun since the last call of ``was_rebalanced``.
        self._unassigned_since_s: float | None = None  # Start of a rebalance that has not brought an assignment yet.
        self._partition = TopicPartition(topic, 0)
        self._answered_s = float("-inf")  # Send time of the last request that the coordinator answered.
        self._logged: str | None = None

    def renew(self, timeout_s: float = 0.0) -> bool:
        """Sends heartbeats and returns whether this process holds the lease. Standbys have to call it every few seconds as well.

        Args:
            timeout_s: the time to wait. During a rebalance, this method waits until the group answers, which may take two
                seconds or longer.
        """
        try:
            if self._consumer is None:
                self._consumer = self._create_consumer()
                self._consumer.subscribe([self._partition.topic], listener=_AssignmentListener(self))
                self.note_rebalance(still_member=False)
                fetch_partitions(self._consumer, self._partition.topic, _REBALANCE_POLL_S)
            self.is_denied = False
            if self.is_member:
                self._consumer.poll(timeout_ms=round(timeout_s * 1000))
            else:
                poll_until(self._consumer, max(timeout_s, _REBALANCE_POLL_S), lambda: self.is_member)
            is_holder = self.is_assigned and self.silent_s() < SESSION_S
            if self.is_assigned and not is_holder:
                self._warn(
                    f"the consumer group {self._group} has not answered for {SESSION_S:.0f} s, and may have given the lease to "
                    f"another {self._holder}"
                )
                return False
            if self._unassigned_since_s is not None and self._monotonic() - self._unassigned_since_s > ASSIGNMENT_S_MAX:
                self._warn(
                    f"the consumer group {self._group} has not assigned the lease for {ASSIGNMENT_S_MAX:.0f} s: joining again as a "
                    "new member"
                )
                self.leave()
                return False
        except kafka.errors.GroupAuthorizationFailedError:
            self._warn(f"missing right: Read on Group {self._group}")
            self.is_denied = True
            threading.Event().wait(timeout_s)  # Kafka refuses at once, so the caller would spin without a pause.
            self.awaits_renewal = False
            return False
        except _ERRORS as error:
            self._warn(f"{type(error).__name__}: {error}")
            self.awaits_renewal = False
            return False
        self._logged = None
        return is_holder

    @property
    def is_member(self) -> bool:
        """Whether the group has answered with an assignment, even if another process got the partition."""
        return self._consumer is not None and self._unassigned_since_s is None

    @property
    def is_answered(self) -> bool:
        """Whether this process is a member of the group, and the coordinator has answered it within a session."""
        return self.is_member and self.silent_s() < SESSION_S

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
        """Records that a rebalance has begun. This process has no lease until the group assigns the partition again.

        Args:
            still_member: False if the group has dropped this member, so that another member may hold the lease already.
        """
        self.awaits_renewal = still_member and (self.is_assigned or self.awaits_renewal)
        self.is_assigned, self._unassigned_since_s, self._rebalanced = False, self._monotonic(), True

    def note_assignment(self, assigned: Collection[TopicPartition]) -> None:
        self.is_assigned, self._unassigned_since_s, self.awaits_renewal = self._partition in assigned, None, False
        self._answered_s = max(self._answered_s, self._monotonic())
        if assigned and self._consumer is not None:
            # This consumer reads no records. It is paused before its first request for records, which needs a right.
            self._consumer.pause(*assigned)

    def read_note(self) -> str | None:
        """Returns the note that a holder of the lease has left in the group; None if there is none."""
        assert self._consumer is not None
        committed = self._consumer.committed(self._partition, metadata=True, timeout_ms=_NOTE_MS_MAX)
        return committed.metadata or None if committed is not None else None

    def leave_note(self, note: str) -> None:
        """Leaves a note in the group. Kafka accepts it only from a member."""
        assert self._consumer is not None
        offsets = {self._partition: OffsetAndMetadata(0, note, -1)}  # The offset has no meaning.
        self._consumer.commit(offsets, timeout_ms=_NOTE_MS_MAX)

    def was_rebalanced(self) -> bool:
        """Returns whether a rebalance has begun since the last call."""
        rebalanced, self._rebalanced = self._rebalanced, False
        return rebalanced

    def leave(self) -> None:
        """Leaves the group, so that another member gets the lease at once. The next ``renew`` joins as a new member."""
        consumer, self._consumer, self.is_assigned, self.awaits_renewal = self._consumer, None, False, False
        if consumer is not None:
            consumer.close(timeout_ms=round(_LEAVE_S_MAX * 1000))

    def _warn(self, why: str) -> None:
        """Logs a reason, unless it is the same as in the last call."""
        if why != self._logged:
            self._log.warning(f"this {self._holder} cannot hold the lease", error=why)
        self._logged = why


class _AssignmentListener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types.
    """Receives the group's assignments. The consumer's own list of partitions is out of date until it has joined again."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._lease.note_assignment(assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:  # noqa: ARG002 - the listener's shape
        self._lease.note_rebalance(still_member=True)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:  # noqa: ARG002 - the listener's shape
        self._lease.note_rebalance(still_member=False)
