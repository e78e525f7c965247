"""Waits for everything that a leadership term needs: the cluster, the topics, the lease, the journal.

Meanwhile the status says why the tuner does not act. Each method tries again, with pauses, until it succeeds or the tuner is
stopped. The tuner ends only if this version can never read the journal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar
from zlib import crc32

import structlog
from kafka import KafkaConsumer
from kafka.errors import KafkaError
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_when_event_set,
    wait_exponential_jitter,
)

from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings, consumer
from streaming.shared.kafka.clients import READ_ONCE_WAIT_MS
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.unpacking import OnUnreadableBatch, log_unreadable_batch
from streaming.shared.lease import Lease, lease_group
from streaming.shared.teardown import named_teardown
from streaming.shared.topics import ensure_topics, unreadable_topic_complaints
from tuner.api.status_store import STANDBY_REASON, StatusStore
from tuner.control.throttle.state import Memory
from tuner.journal.journal_topic import JournalTopic
from tuner.journal.kafka_journal import JournalError, JournalUnreadable, KafkaJournal
from tuner.journal.outbox import Outbox
from tuner.journal.read_ahead import JournalKnowledge, ReadAhead
from tuner.journal.topic_reader import UnreadableBatchError

log = structlog.get_logger("tuner")

T = TypeVar("T")

_RETRY_S_MAX = 30.0
_LEASE_POLL_S = 0.5
_TAKE_OVER_PAUSE_S = 2.0
_SIGNALS_PAUSE_S = 5.0
_REPAIR_PAUSE_S = 10.0
_TOPIC_CONFIGS_SHOWN_S = 1.0  # Time until all brokers show the configuration of a new topic.
_NOT_READ_BACK_PAUSE_S = 5.0
_ALIAS_PAUSE_S, _ALIAS_PAUSE_S_MAX = 5.0, 20.0  # After each pause the journal is read again.


class Standby:
    """Waits on behalf of one tuner until ``stop`` is set, and shows in ``status`` what it waits for."""

    def __init__(self, client: ClusterClient, status: StatusStore, stop: threading.Event) -> None:
        self._client = client
        self._status = status
        self._stop = stop
        self._topics: Topics | None = None
        self._used: tuple[str, ...] = ()

    def wait_for_topics(self, topics: Topics, *, acts: bool = True, has_signals: bool = True) -> bool:
        """Creates rheostat's topics. Returns True once the cluster has them, False if ``stop`` was set before.

        Args:
            acts: whether the tuner may change the cluster. If it may, the topics of journal and orders must keep their records.
            has_signals: whether the signals topic is in this cluster.
        """
        self._topics, self._used = topics, used_by_tuner(topics, has_signals=has_signals)
        retrying = Retrying(
            retry=retry_if_exception_type(ClusterError),
            wait=wait_exponential_jitter(initial=1, max=_RETRY_S_MAX),
            stop=stop_when_event_set(self._stop),
            sleep=sleep_using_event(self._stop),
            before_sleep=_log_retry,
            reraise=True,
        )
        try:
            complaints = retrying(ensure_topics, self._client, topics, self._used)
            for complaint in complaints:
                log.warning(complaint)
            attempts = 0
            while acts and (faults := retrying(unreadable_topic_complaints, self._client, topics)):
                attempts += 1
                if attempts == 1:  # A broker may not show the configuration of a new topic yet.
                    self._stop.wait(_TOPIC_CONFIGS_SHOWN_S)
                else:
                    self.pause(
                        f"the journal or the orders could not be read back, so no tuner acts: {faults[0]}",
                        _NOT_READ_BACK_PAUSE_S,
                    )
                if self._stop.is_set():
                    return False
        except ClusterError:
            return False
        return True

    def try_until_connected(self, connect: Callable[[], T]) -> T | None:
        """Returns the result of ``connect``. Repeats the call while Kafka does not answer. Returns None if ``stop`` is set."""
        while not self._stop.is_set():
            try:
                return connect()
            except (KafkaError, OSError, RuntimeError) as error:
                self.pause(f"the signals cannot be read: {type(error).__name__}: {error}", _SIGNALS_PAUSE_S)
        return None

    def wait_for_lease(
        self, lease: Lease, journal_topic: JournalTopic, read_ahead: ReadAhead, while_waiting: Callable[[], None]
    ) -> bool:
        """Returns True once this tuner holds the lease, False if ``stop`` was set before. Meanwhile it reads the journal ahead.

        Args:
            while_waiting: called twice a second.
        """
        logged: str | None = None
        try:
            while not self._stop.is_set():
                if lease.renew(_LEASE_POLL_S):
                    return True
                read_ahead.step()
                while_waiting()
                waits_for = self.cluster_error() or journal_topic.find_problem() or STANDBY_REASON
                self._status.become_standby(waits_for)
                if logged is None or (logged == STANDBY_REASON) != (waits_for == STANDBY_REASON):
                    log.info(waits_for)
                logged = waits_for
        finally:
            named_teardown("journal read ahead", read_ahead.stop)()
        return False

    def take_over(self, journal: KafkaJournal) -> bool:
        """Takes over the journal, so that no other tuner can write it. Returns whether it succeeded; after a failure it pauses."""
        try:
            journal.take_over()
        except JournalError as error:
            self.pause(str(error))
            return False
        return True

    def recover_memory(
        self,
        journal: KafkaJournal,
        kafka: KafkaSettings,
        outbox: Outbox | None,
        read_ahead: ReadAhead | None = None,
        leave: Callable[[], None] = lambda: None,
    ) -> Memory | None:
        """Reads the journal. Returns the memory in it; None, after a pause, if the journal cannot be read now.

        Args:
            read_ahead: the part of the journal that was read while the tuner stood by. It must have searched for the events in
                ``outbox``.
            leave: gives up the lease. It is called if a necessary record cannot be read, so that a tuner of the version that wrote
                the record can act.

        Raises:
            JournalUnreadable: this version can never read the journal.
        """
        try:
            memory = _recover(journal, kafka, outbox, read_ahead.take_knowledge() if read_ahead is not None else None)
            if (why := journal.blocked) is not None:
                leave()
                self.pause(why, _REPAIR_PAUSE_S)  # Until an operator has repaired it.
                return None
            for record in journal.unreadable:
                log.error(f"a record of the journal cannot be read: {record.effect}", record=record.text())
            return memory
        except JournalUnreadable:
            raise
        except UnreadableBatchError as error:
            leave()
            self.pause(str(error), _REPAIR_PAUSE_S)
        except (JournalError, ClusterError) as error:
            self.pause(str(error))
            self._create_topics()
        except KafkaError as error:
            self.pause(f"the reader of the journal has ended: {type(error).__name__}: {error}")
        return None

    def _create_topics(self) -> None:
        """Creates topics that were deleted, because no term can begin without the orders topic."""
        if self._topics is not None:
            try:
                ensure_topics(self._client, self._topics, self._used)
            except ClusterError as error:
                log.error(
                    "the tuner can neither check whether its topics exist nor create them again; trying again",
                    error=str(error),
                )

    def ensure_only_tuner(self, journal: KafkaJournal, lease: Lease, kafka: KafkaSettings) -> bool:
        """Returns True at once if no tuner with another cluster name uses this Kafka cluster or has left a throttle.

        Otherwise this method gives up the lease, waits until the conflict has ended or ``stop`` is set, and returns False. It gives
        up the lease so that the tuner with the other name does not wait for this tuner, and can clean up.
        """
        if (why := self._conflicting_alias(journal)) is None:
            return True
        named_teardown("lease", lease.leave)()
        # The pause (5 to 10 s) depends on the holder's name, so that two tuners that begin at the same moment do not block each
        # other for ever.
        pause_s = _ALIAS_PAUSE_S * (1.0 + crc32(journal.holder.encode()) % 100 / 100)
        while why is not None and not self._stop.is_set():
            self.pause(why, pause_s)
            pause_s = min(2 * pause_s, _ALIAS_PAUSE_S_MAX)
            # If the journal cannot be read now, the last reason stays.
            if self.recover_memory(journal_copy := journal.read_only_copy(), kafka, None) is not None:
                why = self._conflicting_alias(journal_copy)
        return False

    def _conflicting_alias(self, journal: KafkaJournal) -> str | None:
        """Returns why this tuner must not act because of another cluster name; None if it may act.

        If this tuner itself manages throttles, it may act although another name has throttles too. Otherwise the tuners of both
        names would wait for each other, and neither tuner could clean up.
        """
        aliases = journal.cluster_aliases
        if not aliases.names:
            return None  # In this usual case no request is sent, because a takeover has to be fast.
        try:
            holding = aliases.holdings_by_name([endpoint.node for endpoint in self._client.brokers()])
            if holding and not journal.holdings:
                name, holdings = next(iter(holding.items()))
                return _cleanup_text(name, holdings)
            for name in aliases.names:
                members = self._client.group_members(lease_group(name))
                if members is None:
                    log.warning(
                        "it is unknown whether another tuner acts on this Kafka cluster under another cluster name, because a "
                        "right is missing",
                        name=name,
                        missing=f"Describe on Group {lease_group(name)}",
                    )
                elif members:
                    return f"a tuner already runs on this Kafka cluster as cluster {name!r}: stop one of the two"
        except ClusterError as error:
            return f"it is unknown whether another tuner acts on this Kafka cluster under another cluster name: {error}"
        return None

    def pause(self, why: str, pause_s: float | None = None) -> None:
        """Logs and shows why the tuner cannot act, and pauses."""
        log.error("the tuner cannot act yet; trying again", error=why)
        self._status.become_standby(self.cluster_error() or why)
        self._stop.wait(_TAKE_OVER_PAUSE_S if pause_s is None else pause_s)

    def cluster_error(self) -> str | None:
        """Returns why the cluster does not answer; None if it answers."""
        try:
            self._client.brokers()
        except ClusterError as error:
            return f"the cluster cannot be read: {error}"
        return None


def used_by_tuner(topics: Topics, *, has_signals: bool = True) -> tuple[str, ...]:
    """Returns the topics that a tuner reads or writes in the watched cluster.

    Args:
        has_signals: the signals topic is in this cluster.
    """
    return (topics.signals, *topics.of_tuner) if has_signals else topics.of_tuner


def journal_reader(
    kafka: KafkaSettings, on_unreadable_batch: OnUnreadableBatch = log_unreadable_batch, **extra: Any
) -> KafkaConsumer:
    """Returns a consumer that reads committed records of the journal; ``extra`` has further settings of ``KafkaConsumer``."""
    # "read_committed": uncommitted records of a predecessor must be ignored. "none": if the journal ends before the known offset,
    # the consumer raises an error; with Kafka's default it would silently continue at the end.
    return consumer(
        kafka,
        "rheostat-tuner-recovery",
        on_unreadable_batch=on_unreadable_batch,
        isolation_level="read_committed",
        auto_offset_reset="none",
        **extra,
    )


def _recover(
    journal: KafkaJournal, kafka: KafkaSettings, outbox: Outbox | None, known: JournalKnowledge | None
) -> Memory:
    reader = journal_reader(kafka, fetch_max_wait_ms=READ_ONCE_WAIT_MS)
    try:
        memory = journal.recover(reader, outbox, known)
    finally:
        reader.close(timeout_ms=5000)
    if journal.misplaced_orders:
        log.warning(
            "the journal's topic has orders or plans that an earlier version wrote. They stay in force until the next order, which "
            "goes to the orders topic. Check them with `rheostat status`, and repeat or withdraw them"
        )
    log.info("the journal is read", records=journal.records_read, ahead=known is not None)
    for (broker, side), owned in memory.owned.items():
        log.info(
            "managed before: an earlier term of a tuner has set this throttle",
            broker=broker,
            side=side.value,
            setpoint_bytes_per_s=owned.setpoint_bytes_per_s,
            before_bytes_per_s=owned.before_bytes_per_s,
        )
    return memory


def _cleanup_text(name: str, holdings: str) -> str:
    """
    Args:
        holdings: the throttles or plans that the other name still has to end, in words.
    """
    advice = "run `rheostat release` with that name in the settings"
    if "plan" in holdings:
        advice = f"let a tuner of that name end its plans (`rheostat reassign cancel`), and then {advice}"
    return (
        f"under the cluster name {name!r} rheostat still manages {holdings} in this Kafka cluster. Set `cluster: {name}`, or "
        f"{advice}"
    )


def _log_retry(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    wait_s = state.next_action.sleep if state.next_action is not None else 0.0
    log.error("the cluster does not answer; trying again", error=str(error), in_s=round(wait_s, 1))
