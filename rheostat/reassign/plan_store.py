"""Plans in the orders' topic, and what the journal says of them, as the commands that give plans read and write them.

Written outside the tuner's transactions, as other orders are: a person may say something while any tuner, or none, runs.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError, CommandError, UnreachableError
from rheostat.orders.send import ACKNOWLEDGED_S_MAX, operator_text
from streaming.shared.contract.bounds import TIMESTAMP_MS_MAX
from streaming.shared.kafka import consumer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, Unreachable
from streaming.shared.topics import ensure_topics
from tuner.core.batch_limits import BatchLimits
from tuner.core.operator_orders import Orders
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanHead, PlanPartition, PlanThrottle, TopicPartition
from tuner.journal.kafka_journal import JournalError, KafkaJournal
from tuner.journal.orders_topic import orders_topic_of
from tuner.journal.plan_book import take_for_display
from tuner.journal.plan_records import encode_head, encode_parts, head_key, part_key, split_into_parts
from tuner.journal.sender import NotSent, Sender
from tuner.journal.topic_reader import is_in_its_topic, journal_record_of
from tuner.journal.topic_tail import KAFKA_ERRORS

_CLIENT_ID = "rheostat-reassign"
_POLL_MS = 100
_TAKE_S_MAX = 2.0  # Of one look: a person waits for it.
_LOOK_S = 0.2
_TRIES = 5


@dataclass(frozen=True, slots=True)
class StoredPlans:
    plans: tuple[Plan, ...] = ()  # The oldest first; also those that have ended.
    orders: Orders = field(default_factory=Orders)

    @property
    def active(self) -> tuple[Plan, ...]:
        return tuple(plan for plan in self.plans if plan.is_active)

    def of(self, plan: str | None) -> Plan:
        """
        Args:
            plan: its id; None: the one that there is.

        Raises:
            BadInputError: there is no such plan, or there are several to choose from.
        """
        ids = ", ".join(p.id for p in self.active)
        if plan is None:
            if len(self.active) == 1:
                return self.active[0]
            raise BadInputError(
                f"several plans run, say which: {ids}"
                if self.active
                else "no plan of reassignments is on record that has not ended"
            )
        for one in self.plans:
            if one.id == plan:
                return one
        raise BadInputError(f"there is no plan {plan!r} on record; those that run: {ids or 'none'}")


def read(settings: Settings) -> StoredPlans:
    """
    Raises:
        CommandError: the journal cannot be read.
    """
    with following(settings) as follower:
        return follower.now()


def throttles_stand(settings: Settings) -> bool:
    """Whether a tuner has rates or entries of lists on record as its own.

    Raises:
        CommandError: the journal cannot be read.
    """
    topic = settings.topic_names().journal
    with _reader(settings) as reader:
        try:
            memory = KafkaJournal.read_only(topic, settings.cluster).recover(reader)
        except JournalError as error:
            raise CommandError(str(error)) from error
    return bool(memory.owned or memory.listed)


class Follower:
    """The plans on record, and what comes to them."""

    def __init__(self, reader: KafkaConsumer, topic: str, cluster: str) -> None:
        self._reader = reader
        self._topic = topic
        self._cluster = cluster
        self._journal: KafkaJournal | None = None

    def now(self) -> StoredPlans:
        """With all that has come since; where more comes than can be read, with what there was time for.

        Raises:
            CommandError: the journal cannot be read.
        """
        try:
            if self._journal is None:
                journal = KafkaJournal.read_only(self._topic, self._cluster)
                journal.recover(self._reader)
                if not (journal.next_offsets and journal.orders_next_offsets):
                    return StoredPlans(
                        journal.plans.known, journal.orders
                    )  # A topic may still be made: it is looked for again.
                self._follow(journal)
                self._journal = journal
            # A poll gives some hundred records, and the tuner of a busy cluster writes more of them between two looks.
            until_s = time.monotonic() + _TAKE_S_MAX
            while found := self._reader.poll(timeout_ms=_POLL_MS):
                for record in (journal_record_of(record) for records in found.values() for record in records):
                    if is_in_its_topic(record, self._topic):
                        take_for_display(self._journal.plans, record.key, record.value)
                if time.monotonic() > until_s:
                    break
        except JournalError as error:
            raise CommandError(str(error)) from error
        except KAFKA_ERRORS as error:
            raise CommandError(f"{self._topic} cannot be read: {type(error).__name__}: {error}") from error
        return StoredPlans(self._journal.plans.known, self._journal.orders)

    def _follow(self, journal: KafkaJournal) -> None:
        """From where both topics were read to."""
        positions = {
            KafkaPartition(topic, partition): offset
            for topic, read_to in (
                (self._topic, journal.next_offsets),
                (orders_topic_of(self._topic), journal.orders_next_offsets),
            )
            for partition, offset in read_to.items()
        }
        self._reader.assign(list(positions))
        for partition, offset in positions.items():
            self._reader.seek(partition, offset)


@contextmanager
def following(settings: Settings) -> Iterator[Follower]:
    """
    Raises:
        CommandError: the cluster does not answer.
    """
    with _reader(settings) as reader:
        yield Follower(reader, settings.topic_names().journal, settings.cluster)


@contextmanager
def _reader(settings: Settings) -> Iterator[KafkaConsumer]:
    """
    Raises:
        CommandError: the cluster does not answer.
    """
    try:
        reader = consumer(settings.kafka, _CLIENT_ID, isolation_level="read_committed")
    except KAFKA_ERRORS as error:
        raise CommandError(f"The journal cannot be read, as the cluster does not answer: {error}.") from error
    try:
        yield reader
    finally:
        reader.close(timeout_ms=2000)


def acknowledged(settings: Settings, plan: str, at_ms: int, timeout_s: float = ACKNOWLEDGED_S_MAX) -> bool:
    """Whether a tuner has put on record that it knows this word about the plan."""
    deadline = time.monotonic() + timeout_s
    with following(settings) as follower:
        while time.monotonic() < deadline:
            if follower.now().of(plan).state.acknowledged_at_ms >= at_ms:
                return True
            threading.Event().wait(_LOOK_S)
    return False


def put(
    settings: Settings,
    parts: Mapping[TopicPartition, PlanPartition],
    limits: BatchLimits,
    throttle: PlanThrottle | None = None,
) -> PlanHead:
    """A new plan; its head goes last, and until it is there the plan is none.

    Args:
        throttle: what was asked for with it; None: the ceiling of the tuner.

    Raises:
        CommandError, UnreachableError: it was not taken, or it is not known whether it was.
    """
    ready_topics(settings)
    now_ms = round(time.time() * 1000)
    plan = _new_id()
    numbered = list(split_into_parts(parts))
    head = PlanHead(
        plan,
        operator_text(now_ms),
        now_ms,
        now_ms,
        len(numbered),
        DesiredPlanState.RUNNING,
        limits,
        throttle=throttle or PlanThrottle(),
    )
    with _sender(settings) as sender:
        try:
            for number, some in enumerate(numbered):
                sender.send(part_key(settings.cluster, plan, number), encode_parts(some))
            sender.wait_for_acks()
        except NotSent as error:
            raise NotSent(str(error), may_be_recorded=False) from error  # Parts without a head are no plan.
        sender.send(head_key(settings.cluster, plan), encode_head(head))
        sender.wait_for_acks()
    return head


def say(settings: Settings, plan: Plan, change: Callable[[PlanHead], PlanHead], *, on_course: bool = True) -> PlanHead:
    """A new word about a plan.

    Args:
        on_course: it is about more than the limits, and ends that partitions are left alone.

    Raises:
        CommandError: it was not taken, or it is not known whether it was, or whether it holds.
    """
    base, wrote = plan.head, False
    for _ in range(_TRIES):
        now_ms = min(max(round(time.time() * 1000), base.ordered_at_ms + 1), TIMESTAMP_MS_MAX)
        head = replace(change(base), ordered_at_ms=now_ms, ordered_by=operator_text(now_ms))
        if on_course:
            head = replace(head, state_ordered_at_ms=now_ms)
        try:
            with _sender(settings) as sender:
                sender.send(head_key(settings.cluster, plan.id), encode_head(head))
                sender.wait_for_acks()
            wrote = True
            newest = read(settings).of(plan.id).head
        except CommandError as error:
            if not wrote:
                raise
            raise CommandError(
                f"It is not known whether it holds ({error}): look (`rheostat reassign status`) before you say it again."
            ) from error
        if _content(newest) == _content(head):
            return head
        if _content(change(newest)) != _content(newest):
            break
        # Somebody's word was said beside ours, and both hold. In time only the last record is left: it has to have both.
        base = newest
    raise CommandError(
        f"Others say something about plan {plan.id} at the same time, so it is not known which holds: look (`rheostat reassign "
        "status`), and say it again."
    )


def _content(head: PlanHead) -> tuple[DesiredPlanState, bool, BatchLimits]:
    return head.desired, head.no_rollback, head.limits


def ready_topics(settings: Settings) -> None:
    with ClusterClient(settings.kafka, _CLIENT_ID) as client:
        try:
            ensure_topics(client, settings.topic_names(), [settings.topic_names().orders])
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(str(error)) from error


def _new_id() -> str:
    """Of the time, so that a person can tell plans apart and type them."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


@contextmanager
def _sender(settings: Settings) -> Iterator[Sender]:
    """
    Raises:
        CommandError: it was not taken, or it is not known whether it was.
    """
    try:
        sender = Sender(settings.kafka, settings.topic_names().orders, _CLIENT_ID)
        try:
            yield sender
        finally:
            sender.close()
    except NotSent as error:
        if error.may_be_recorded:
            raise CommandError(
                f"It is not known whether it was taken, as {error}: look (`rheostat reassign status`) before you give it again."
            ) from error
        raise CommandError(f"It was not taken, as {error}.") from error
