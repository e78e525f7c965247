"""Keeps the lease of a collector or a stream in a thread of its own, and says whether this process may act.

Two collectors or two streams at once do no harm: a scrape more in a window changes no rate, and a signal is known by its entity and
window end. So this lease is less strict than the tuners', in favour of collecting:

- A holder acts on while the group's coordinator does not answer, because without a coordinator no other process gets the lease.
- A process that the group has not answered for ``UNANSWERED_S_MAX`` acts. Otherwise no process would act if the holder restarts or
  fails while the coordinator is down, for example because its partition of ``__consumer_offsets`` is offline.
- A process whose user has no right on the group acts, and logs the missing right.
- A process may act until the group's first answer if the group has no member when the process starts (``begins_alone``). If two
  hosts start at the same moment, both act for these seconds.
- A holder that was suspended does not act until the group has answered it, or has been silent for ``UNANSWERED_S_MAX``.

``acts`` is cheap and may be called by any thread before each write. It also requires that the lease's thread has run within the
last seconds. So a process that was suspended writes nothing after it resumes, apart from the records that were on their way.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from functools import partial
from typing import Any

import kafka.errors
import structlog
from kafka.coordinator.assignors.abstract import (
    AbstractPartitionAssignor,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.lease import (
    HEARTBEAT_S,
    SESSION_S,
    Lease,
    create_lease_consumer,
    lease_client_id,
    lease_group,
)
from streaming.shared.teardown import named_teardown

_POLL_S = 0.5
# A process whose lease thread has not run for this long may have been suspended. Its last heartbeat is at most HEARTBEAT_S older,
# so no other process has the lease yet.
SUSPENDED_AFTER_S = SESSION_S - 2 * HEARTBEAT_S
# A rebalance, or the move of the coordinator to another broker, takes less.
UNANSWERED_S_MAX = 30.0
# No renewal takes longer, not even one that connects to Kafka, joins, and leaves again.
HUNG_AFTER_S = 120.0
_OF_ANOTHER = "unknown"  # Stands for the note of a predecessor while the group does not answer.
_LEAVE_S_MAX = 6.0
_AFTER_FAILURE_S = 1.0


class SoleHolderAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no types.
    """Assigns the first partition of each topic to one member, and no other partition to any member.

    A group has members with other topics if two installations have one cluster name and different values of topics.prefix.
    The member that had the partition keeps it. If several members claim it, the claim of the newest generation counts.
    """

    name = "rheostat-sole-holder"
    version = 0

    def __init__(self) -> None:
        # The generation in which this member had the partition; -1 if it does not have the partition.
        self._held_in = -1

    def metadata(self, topics: Set[str]) -> ConsumerProtocolSubscription:
        return ConsumerProtocolSubscription(self.version, list(topics), b"%d" % self._held_in)

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, ConsumerProtocolAssignment]:  # noqa: ARG002 - kafka-python's shape
        def holder(topic: str) -> Any:
            subscribers = [member for member in members if topic in member.metadata.topics]
            return max(subscribers, key=lambda member: (_claim(member.metadata.user_data), member.member_id))

        return {
            member.member_id: ConsumerProtocolAssignment(
                self.version, [(topic, [0]) for topic in member.metadata.topics if holder(topic) is member], b""
            )
            for member in members
        }

    def on_assignment(self, assignment: ConsumerProtocolAssignment, generation: int) -> None:
        self._held_in = generation if assignment.partitions() else -1


def _claim(user_data: bytes | None) -> int:
    try:
        return int(user_data or b"-1")
    except ValueError:
        return -1


def may_act_after_renewal(acts: bool, lease: Lease, *, is_holder: bool, was_suspended: bool) -> bool:
    """Returns whether a process may act after ``lease.renew`` has returned.

    Args:
        acts: whether the process acted before.
        is_holder: the result of ``renew``.
        was_suspended: whether the process may have been suspended since the previous renewal.
    """
    if is_holder or lease.is_denied:
        return True
    return acts and not was_suspended and (lease.is_assigned or lease.awaits_renewal)


class PartLease:
    """The lease of this process. ``start`` starts its thread, and ``close`` leaves the group."""

    def __init__(
        self,
        lease: Lease,
        part: str,
        *,
        note: str = "",
        begins_alone: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            part: "collector" or "stream", for log messages.
            note: identifies the data from which this process continues; see ``sign``.
            begins_alone: whether the group had no member when this process started. If so, this process acts until the group's
                first answer, for which Kafka lets the first member of a group wait for 3 s.
        """
        self._lease = lease
        self._part = part
        self._note = note
        self._monotonic = monotonic
        self._log = structlog.get_logger(part)
        self._begins_alone = begins_alone
        self._acts = begins_alone
        self._stands_by = False
        # Time since the group's last answer, without times in which this process was suspended.
        self._unanswered_s = 0.0
        self._renewed_s = monotonic()
        self._last_note: str | None = None
        self._to_sign = False
        self._was_told: str | None = None
        self._hang_was_told = False
        self._warned = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Leaves the group, so that a standby takes over at once."""
        self._stop.set()
        self._thread.join(_LEAVE_S_MAX)

    def acts(self) -> bool:
        """Returns whether this process may act now."""
        return self._acts and self._monotonic() - self._renewed_s < SUSPENDED_AFTER_S

    def holds(self) -> bool:
        """Returns whether this process was allowed to act at the last renewal, even if a busy machine delays the next renewal."""
        return self._acts

    def stands_by(self) -> bool:
        """Returns whether another process has the lease, according to the last answer of the group.

        If this process neither acts nor stands by, it waits for the group.
        """
        return self._stands_by

    def hangs(self) -> bool:
        """Returns whether the lease's thread has stopped, so that only a restart of this process helps. Logs this once."""
        hangs = self._monotonic() - self._renewed_s >= HUNG_AFTER_S
        if hangs and not self._hang_was_told:
            self._log.error(
                f"the thread that renews the lease of the {self._part} has made no progress for {HUNG_AFTER_S:.0f} s: it hangs. "
                f"Restart the {self._part}, unless `rheostat run` or systemd restarts it"
            )
        self._hang_was_told = hangs
        return hangs

    def follows_another(self) -> bool:
        """Returns whether a process with another note has signed after this process. Returns False if no process has signed."""
        return self._last_note is not None and self._last_note != self._note

    def sign(self) -> None:
        """Leaves this process's note in the group soon."""
        self._last_note, self._to_sign = self._note, True

    def step(self) -> None:
        """Renews the lease once."""
        is_holder = self._lease.renew(_POLL_S)
        now_s = self._monotonic()
        was_suspended = now_s - self._renewed_s >= SUSPENDED_AFTER_S
        is_answered = self._lease.is_answered
        self._begins_alone = self._begins_alone and not is_answered and not was_suspended
        acts = self._begins_alone or may_act_after_renewal(
            self._acts, self._lease, is_holder=is_holder, was_suspended=was_suspended
        )
        if is_holder and self._note:
            acts = is_answered = self._handle_notes(is_new=not self._acts)
        # A step that takes long counts in part: the process may have been suspended, or was connecting while brokers were down.
        elapsed_s = min(now_s - self._renewed_s, SUSPENDED_AFTER_S)
        self._unanswered_s = 0.0 if is_answered else self._unanswered_s + elapsed_s
        acts_unanswered = not acts and self._unanswered_s >= UNANSWERED_S_MAX
        if acts_unanswered and self._stands_by and self._note:
            self._last_note = _OF_ANOTHER
        acts = acts or acts_unanswered
        # A standby stays a standby during a rebalance.
        stands_by = not acts and (is_answered or self._stands_by)
        self._to_sign = self._to_sign and acts
        self._acts, self._stands_by, self._renewed_s = acts, stands_by, now_s
        self._tell(acts_unanswered=acts_unanswered)

    def _tell(self, *, acts_unanswered: bool) -> None:
        """Logs whether this process acts or stands by, unless that has not changed since the last call."""
        part = self._part
        if acts_unanswered:
            state = (
                f"the {part} acts without the lease: its consumer group has not answered for {UNANSWERED_S_MAX:.0f} s"
            )
        elif self._acts:
            state = f"the {part} acts"
        elif self._stands_by:
            state = f"the {part} is on standby: another {part} of this cluster has the lease"
        elif self._was_told is None:
            return  # Logs nothing yet, because the first answer of the group takes a moment.
        else:
            state = f"the {part} waits for an answer of the coordinator of its consumer group"
        if state != self._was_told:
            self._log.info(state)
            self._was_told = state

    def _handle_notes(self, *, is_new: bool) -> bool:
        """Reads the last note when the lease is new, and leaves this process's note. Returns False if the group does not answer."""
        try:
            if is_new:
                self._last_note = self._lease.read_note()
            if self._to_sign:
                self._lease.leave_note(self._note)
                self._to_sign = False
        except (kafka.errors.TopicAuthorizationFailedError, kafka.errors.GroupAuthorizationFailedError) as error:
            self._to_sign = False
            self._warn_of_note(
                f"a right is missing on the consumer group of the lease or on its topic, so the next {self._part} cannot know "
                "where to continue",
                str(error),
            )
        except (kafka.errors.KafkaError, RuntimeError, OSError) as error:
            self._warn_of_note(
                "the consumer group of the lease does not answer which process had the lease last; trying again",
                str(error),
            )
            return not is_new
        return True

    def _warn_of_note(self, message: str, error: str) -> None:
        """Logs a failure, unless it is the same as the last one."""
        if message != self._warned:
            self._log.warning(message, error=error)
        self._warned = message

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.step()
            except Exception as error:  # noqa: BLE001 - without this thread the process would stop acting for ever
                self._log.error(
                    "the lease could not be renewed; joining the consumer group again",
                    error=f"{type(error).__name__}: {error}",
                )
                named_teardown("lease", self._lease.leave)()
                self._stop.wait(_AFTER_FAILURE_S)
        self._acts = False
        named_teardown("lease", self._lease.leave)()


@contextmanager
def part_lease(
    kafka_: KafkaSettings, cluster: str, part: str, topic: str, *, note: str = "", begins_alone: bool = False
) -> Iterator[PartLease]:
    """Joins the group of the cluster's collectors or streams; leaves it on exit.

    Args:
        part: "collect" or "stream".
        topic: a topic that the process may describe.
        note, begins_alone: as for ``PartLease``.
    """
    group, holder = lease_group(cluster, part), "collector" if part == "collect" else part
    client_id = lease_client_id(part, socket.gethostname(), os.getpid())
    create = partial(create_lease_consumer, kafka_, client_id, group, (SoleHolderAssignor,))
    lease = PartLease(Lease(create, topic, group, holder=holder), holder, note=note, begins_alone=begins_alone)
    lease.start()
    try:
        yield lease
    finally:
        lease.close()
