"""Plans in the journal's topic, from the side of the person who gives them: read, put on record, said a word about.

Written outside the tuner's transactions, as other orders are: a person may say something while any tuner, or none, runs.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import kafka.errors
from kafka import KafkaConsumer, KafkaProducer

from rheostat.errors import BadInputError, CommandError, UnreachableError
from rheostat.orders import HEEDED_S_MAX, who
from rheostat.settings import Settings
from streaming.kafka import consumer, producer
from streaming.kafka.cluster import ClusterClient, ClusterError, Unreachable
from streaming.topics import ensure_topics
from tuner.journal.kafka_journal import JournalError, KafkaJournal
from tuner.journal.plan_records import encode_head, encode_parts, head_key, part_key, parts_of
from tuner.model.orders import Orders
from tuner.model.reassigning import Key, Part, Plan, PlanHead, Wanted
from tuner.plan.batches import BatchLimits

_CLIENT_ID = "rheostat-reassign"
_ACK_S_MAX = 10.0
_POLL_MS = 100
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class OnRecord:
    plans: tuple[Plan, ...] = ()  # The oldest first; also those that have ended.
    orders: Orders = field(default_factory=Orders)

    @property
    def active(self) -> tuple[Plan, ...]:
        return tuple(plan for plan in self.plans if plan.active)

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


def read(settings: Settings) -> OnRecord:
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
    reader = consumer(settings.kafka, _CLIENT_ID, isolation_level="read_committed")
    try:
        memory = KafkaJournal.to_read(topic, settings.cluster).recover(reader)
    except JournalError as error:
        raise CommandError(str(error)) from error
    finally:
        reader.close(timeout_ms=2000)
    return bool(memory.owned or memory.listed)


class Follower:
    """The plans on record, and what comes to them."""

    def __init__(self, reader: KafkaConsumer, topic: str, cluster: str) -> None:
        self._reader = reader
        self._topic = topic
        self._cluster = cluster
        self._journal: KafkaJournal | None = None

    def now(self) -> OnRecord:
        """
        Raises:
            CommandError: the journal cannot be read.
        """
        try:
            if self._journal is None:
                if not self._reader.partitions_for_topic(self._topic):
                    return OnRecord()
                journal = KafkaJournal.to_read(self._topic, self._cluster)
                journal.recover(self._reader)
                self._journal = journal
            for records in self._reader.poll(timeout_ms=_POLL_MS).values():
                for record in records:
                    self._journal.plans.take(record.key or b"", record.value)
        except (JournalError, ValueError) as error:
            raise CommandError(str(error)) from error
        except kafka.errors.KafkaError as error:
            raise CommandError(f"{self._topic} cannot be read: {type(error).__name__}: {error}") from error
        return OnRecord(self._journal.plans.plans, self._journal.orders)


@contextmanager
def following(settings: Settings) -> Iterator[Follower]:
    reader = consumer(settings.kafka, _CLIENT_ID, isolation_level="read_committed")
    try:
        yield Follower(reader, settings.topic_names().journal, settings.cluster)
    finally:
        reader.close(timeout_ms=2000)


def heeded(settings: Settings, plan: str, at_ms: int, timeout_s: float = HEEDED_S_MAX) -> bool:
    """Whether a tuner has put on record that it knows this word about the plan."""
    deadline = time.monotonic() + timeout_s
    with following(settings) as follower:
        while time.monotonic() < deadline:
            if follower.now().of(plan).state.heeded_at_ms >= at_ms:
                return True
            threading.Event().wait(_LOOK_S)
    return False


def put(settings: Settings, parts: Mapping[Key, Part], limits: BatchLimits) -> PlanHead:
    """A new plan; its head goes last, and until it is there the plan is none.

    Raises:
        CommandError, UnreachableError: it was not taken.
    """
    ready_topics(settings)
    now_ms = round(time.time() * 1000)
    plan = _new_id()
    numbered = list(parts_of(parts))
    head = PlanHead(plan, who(now_ms), now_ms, now_ms, len(numbered), Wanted.RUNNING, limits)
    with_sender = _Sender(settings)
    try:
        for number, some in enumerate(numbered):
            with_sender.send(part_key(settings.cluster, plan, number), encode_parts(some))
        with_sender.settle()
        with_sender.send(head_key(settings.cluster, plan), encode_head(head))
        with_sender.settle()
    finally:
        with_sender.close()
    return head


def say(
    settings: Settings, plan: Plan, change: Callable[[PlanHead], PlanHead], *, on_course: bool = True
) -> PlanHead:  # fmt: skip
    """A new word about a plan.

    Args:
        on_course: it is about more than the limits, and ends that partitions are left alone.

    Raises:
        CommandError: it was not taken.
    """
    now_ms = max(round(time.time() * 1000), plan.head.at_ms + 1)
    head = replace(change(plan.head), at_ms=now_ms, word_by=who(now_ms))
    if on_course:
        head = replace(head, course_at_ms=now_ms)
    sender = _Sender(settings)
    try:
        sender.send(head_key(settings.cluster, plan.id), encode_head(head))
        sender.settle()
    finally:
        sender.close()
    return head


def ready_topics(settings: Settings) -> None:
    with ClusterClient(settings.kafka, _CLIENT_ID) as client:
        try:
            ensure_topics(client, settings.topic_names())
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(str(error)) from error


def _new_id() -> str:
    """Of the time, so that a person can tell plans apart and type them."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


class _Sender:
    """Records to the journal's topic, in order; what was not taken is told with the right that it takes."""

    def __init__(self, settings: Settings) -> None:
        self._topic = settings.topic_names().journal
        self._producer: KafkaProducer = producer(settings.kafka, _CLIENT_ID, linger_ms=0)
        self._sent: list[object] = []

    def send(self, key: bytes, value: bytes) -> None:
        try:
            self._sent.append(self._producer.send(self._topic, key=key, value=value))
        except kafka.errors.KafkaError as error:
            raise self._refused(error) from error

    def settle(self) -> None:
        sent, self._sent = self._sent, []
        try:
            for answer in sent:
                answer.get(timeout=_ACK_S_MAX)  # type: ignore[attr-defined]  # kafka-python has no types.
        except kafka.errors.KafkaError as error:
            raise self._refused(error) from error

    def close(self) -> None:
        self._producer.close(timeout=5)

    def _refused(self, error: Exception) -> CommandError:
        return CommandError(f"It was not taken ({error}): it takes the right Write on Topic {self._topic}.")
