"""Reads plans from the orders and journal topics, and writes the operator's plans and orders to the orders topic.

A recorded plan has a head and parts. The head holds the operator's orders for the plan, and each order replaces it. The parts hold
the partitions, and never change.

These records are written outside the tuner's transactions, so an operator can submit orders whether or not a tuner runs.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError, CommandError, UnreachableError
from rheostat.orders.send import ACKNOWLEDGED_S_MAX, operator_text
from streaming.shared.contract.bounds import TIMESTAMP_MS_MAX
from streaming.shared.kafka import consumer
from streaming.shared.kafka.clients import READ_ONCE_WAIT_MS
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, Unreachable
from streaming.shared.topics import ensure_topics
from tuner.api.sentences import moment
from tuner.core.batch_limits import BatchLimits
from tuner.core.operator_orders import Orders
from tuner.core.reassignment_plan import (
    DesiredPlanState,
    Plan,
    PlanEnding,
    PlanHead,
    PlanPartition,
    PlanThrottle,
    TopicPartition,
)
from tuner.journal.kafka_journal import JournalError, KafkaJournal
from tuner.journal.orders_topic import orders_topic_of
from tuner.journal.plan_book import apply_for_display
from tuner.journal.plan_records import encode_head, encode_parts, head_key, part_key, split_into_parts
from tuner.journal.sender import RecordNotAcknowledged, Sender
from tuner.journal.topic_reader import is_in_its_topic, journal_record_of
from tuner.journal.topic_tail import KAFKA_ERRORS

_CLIENT_ID = "rheostat-reassign"
_POLL_MS = 100
_READ_S_MAX = 2.0  # Short, because an operator waits for the answer.
_ACKNOWLEDGED_POLL_S = 0.2
_TRIES = 5  # Attempts to write an order while other operators write orders at the same time.


@dataclass(frozen=True, slots=True)
class StoredPlans:
    plans: tuple[Plan, ...] = ()  # The oldest first; plans that have ended are included.
    orders: Orders = field(default_factory=Orders)

    @property
    def active(self) -> tuple[Plan, ...]:
        return tuple(plan for plan in self.plans if plan.is_active)

    def find(self, plan_id: str | None) -> Plan:
        """Returns a plan.

        Args:
            plan_id: the id of the plan; None means the only active plan.

        Raises:
            BadInputError: there is no such plan, or several plans are active and no id is given.
        """
        ids = ", ".join(plan.id for plan in self.active)
        if plan_id is None:
            if len(self.active) == 1:
                return self.active[0]
            raise BadInputError(
                f"Several plans are active: give the id of one of them: {ids}."
                if self.active
                else "No active reassignment plan is on record."
            )
        for plan in self.plans:
            if plan.id == plan_id:
                return plan
        raise BadInputError(f"There is no plan {plan_id!r} on record. Active plans: {ids or 'none'}.")


def read_plans(settings: Settings) -> StoredPlans:
    """Reads all recorded plans.

    Raises:
        CommandError: the journal cannot be read.
    """
    with open_plan_reader(settings) as reader:
        return reader.read()


def has_settings_to_restore(settings: Settings) -> bool:
    """Returns whether a tuner still has to remove throttles, throttled-replica entries, or cordons of cancelled plans.

    Raises:
        CommandError: the journal cannot be read.
    """
    topic = settings.topic_names().journal
    with _open_consumer(settings) as reader:
        try:
            journal = KafkaJournal.read_only(topic, settings.cluster)
            memory = journal.recover(reader)
        except JournalError as error:
            raise CommandError(str(error)) from error
    cancelled = {plan.id for plan in journal.plans.plans if plan.state.ending is PlanEnding.CANCELLED}
    cordoned = any(owned.plan in cancelled and owned.directories for owned in journal.cordons.owned.values())
    return bool(memory.owned or memory.listed) or cordoned


class PlanReader:
    """Reads the recorded plans. The first read reads all records, and each later read only the new records."""

    def __init__(self, reader: KafkaConsumer, topic: str, cluster: str) -> None:
        self._reader = reader
        self._topic = topic
        self._cluster = cluster
        self._journal: KafkaJournal | None = None

    def read(self) -> StoredPlans:
        """Returns the plans with all new records, or with as many as could be read in ``_READ_S_MAX``.

        Raises:
            CommandError: the journal cannot be read.
        """
        try:
            if self._journal is None:
                journal = KafkaJournal.read_only(self._topic, self._cluster)
                journal.recover(self._reader)
                if not (journal.next_offsets and journal.orders_next_offsets):
                    # One of the topics does not exist yet, so the next call starts again.
                    return StoredPlans(journal.plans.known_plans, journal.orders)
                self._seek_to_end_of(journal)
                self._journal = journal
            # A poll returns some hundred records, and the tuner of a busy cluster may write more than that between two calls.
            until_s = time.monotonic() + _READ_S_MAX
            while batches := self._reader.poll(timeout_ms=_POLL_MS):
                for record in (journal_record_of(record) for records in batches.values() for record in records):
                    if is_in_its_topic(record, self._topic):
                        apply_for_display(self._journal.plans, record.key, record.value)
                if time.monotonic() > until_s:
                    break
        except JournalError as error:
            raise CommandError(str(error)) from error
        except KAFKA_ERRORS as error:
            raise CommandError(f"{self._topic} cannot be read: {type(error).__name__}: {error}") from error
        return StoredPlans(self._journal.plans.known_plans, self._journal.orders)

    def _seek_to_end_of(self, journal: KafkaJournal) -> None:
        """Moves the consumer of both topics to the first records that the journal's reader has not read."""
        positions = {
            KafkaPartition(topic, partition): offset
            for topic, next_offsets in (
                (self._topic, journal.next_offsets),
                (orders_topic_of(self._topic), journal.orders_next_offsets),
            )
            for partition, offset in next_offsets.items()
        }
        self._reader.assign(list(positions))
        for partition, offset in positions.items():
            self._reader.seek(partition, offset)


@contextmanager
def open_plan_reader(settings: Settings) -> Iterator[PlanReader]:
    """Yields a reader of the recorded plans.

    Raises:
        CommandError: the cluster does not answer.
    """
    with _open_consumer(settings) as reader:
        yield PlanReader(reader, settings.topic_names().journal, settings.cluster)


@contextmanager
def _open_consumer(settings: Settings) -> Iterator[KafkaConsumer]:
    try:
        reader = consumer(
            settings.kafka, _CLIENT_ID, isolation_level="read_committed", fetch_max_wait_ms=READ_ONCE_WAIT_MS
        )
    except KAFKA_ERRORS as error:
        raise CommandError(f"The journal cannot be read, as the cluster does not answer: {error}.") from error
    try:
        yield reader
    finally:
        reader.close(timeout_ms=2000)


def wait_until_acknowledged(
    settings: Settings, plan_id: str, ordered_at_ms: int, timeout_s: float = ACKNOWLEDGED_S_MAX
) -> bool:
    """Waits until a tuner has acknowledged the order with this time; returns False if none did within the timeout."""
    deadline_s = time.monotonic() + timeout_s
    with open_plan_reader(settings) as reader:
        while time.monotonic() < deadline_s:
            if reader.read().find(plan_id).state.acknowledged_at_ms >= ordered_at_ms:
                return True
            threading.Event().wait(_ACKNOWLEDGED_POLL_S)
    return False


def submit_plan(
    settings: Settings,
    partitions: Mapping[TopicPartition, PlanPartition],
    limits: BatchLimits,
    throttle: PlanThrottle | None = None,
    not_before_ms: int = 0,
    cordon: Sequence[int] = (),
    expected_s: float | None = None,
    by: str | None = None,
) -> PlanHead:
    """Writes a new plan, and returns its head. The head is written last, because readers ignore parts without a head.

    Args:
        throttle: the throttle that the operator requested with the plan; None if the ceiling of the tuner applies.
        not_before_ms: when the plan starts (epoch); 0 means at once.
        cordon: the brokers that the tuner cordons before the first step.
        expected_s: the estimated duration; None if not known.
        by: who submits the plan; None means the user of this process.

    Raises:
        CommandError, UnreachableError: the plan was not recorded, or it is not known whether it was recorded.
    """
    ensure_orders_topic(settings)
    now_ms = round(time.time() * 1000)
    plan_id = _new_plan_id()
    parts = list(split_into_parts(partitions))
    head = PlanHead(
        id=plan_id,
        submitted_by=operator_text(now_ms) if by is None else f"{by}, {moment(now_ms)}",
        submitted_at_ms=now_ms,
        ordered_at_ms=now_ms,
        part_records=len(parts),
        desired=DesiredPlanState.RUNNING,
        limits=limits,
        throttle=throttle or PlanThrottle(),
        not_before_ms=not_before_ms,
        cordon=tuple(cordon),
        expected_s=expected_s,
    )
    with _open_sender(settings) as sender:
        try:
            for number, part in enumerate(parts):
                sender.send(part_key(settings.cluster, plan_id, number), encode_parts(part))
            sender.wait_for_acks()
        except RecordNotAcknowledged as error:
            # Some parts may be recorded, but the plan is not: its head was not written.
            raise RecordNotAcknowledged(str(error), may_be_recorded=False) from error
        sender.send(head_key(settings.cluster, plan_id), encode_head(head))
        sender.wait_for_acks()
    return head


def update_plan(
    settings: Settings, plan: Plan, change: Callable[[PlanHead], PlanHead], *, changes_state: bool = True
) -> PlanHead:
    """Writes a changed head of a plan, and returns it once it is the plan's newest head in the topic.

    Args:
        changes_state: whether the order changes more than the limits. The tuner then retries partitions that another tool stopped.

    Raises:
        CommandError: the order was not recorded, or it is not known whether it was recorded or applies.
    """
    base, is_written = plan.head, False
    for _ in range(_TRIES):
        # The time is later than the previous order, even if this machine's clock is behind the clock of the previous operator.
        ordered_at_ms = min(max(round(time.time() * 1000), base.ordered_at_ms + 1), TIMESTAMP_MS_MAX)
        head = replace(change(base), ordered_at_ms=ordered_at_ms, ordered_by=operator_text(ordered_at_ms))
        if changes_state:
            head = replace(head, state_ordered_at_ms=ordered_at_ms)
        try:
            with _open_sender(settings) as sender:
                sender.send(head_key(settings.cluster, plan.id), encode_head(head))
                sender.wait_for_acks()
            is_written = True
            newest = read_plans(settings).find(plan.id).head
        except CommandError as error:
            if not is_written:
                raise
            raise CommandError(
                f"It is not known whether the order applies ({error}): see `rheostat reassign status` before you repeat it."
            ) from error
        if _orders_in(newest) == _orders_in(head):
            return head
        if _orders_in(change(newest)) != _orders_in(newest):
            break  # Another operator's order was written at the same time and contradicts this order.
        # Another operator's order was written at the same time, and both orders apply. Compaction keeps only the last record,
        # so one record with both orders is written.
        base = newest
    raise CommandError(
        f"Other operators gave orders for plan {plan.id} at the same time, so it is not known which order applies: see "
        "`rheostat reassign status`, and repeat the order."
    )


def _orders_in(head: PlanHead) -> tuple[DesiredPlanState, bool, BatchLimits]:
    """Returns the values of a head that orders change, without their time and operator."""
    return head.desired, head.no_rollback, head.limits


def ensure_orders_topic(settings: Settings) -> None:
    """Creates the orders topic if it does not exist.

    Raises:
        CommandError, UnreachableError: the topic cannot be created.
    """
    with ClusterClient(settings.kafka, _CLIENT_ID) as client:
        try:
            ensure_topics(client, settings.topic_names(), [settings.topic_names().orders])
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(str(error)) from error


def _new_plan_id() -> str:
    """Returns an id with the current time, so that people can tell plans apart and type the id."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


@contextmanager
def _open_sender(settings: Settings) -> Iterator[Sender]:
    try:
        sender = Sender(settings.kafka, settings.topic_names().orders, _CLIENT_ID)
        try:
            yield sender
        finally:
            sender.close()
    except RecordNotAcknowledged as error:
        if error.may_be_recorded:
            raise CommandError(
                f"It is not known whether the order was recorded, because {error}: see `rheostat reassign "
                f"status` before you repeat it."
            ) from error
        raise CommandError(f"The order was not recorded, because {error}.") from error
