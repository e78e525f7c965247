"""What a tuner waits for before its term can begin: the cluster, the lease, the journal. Meanwhile it says why nothing is done.

Whatever is missing is waited for, with pauses, until it is there or the tuner is stopped; only a journal that no later look can
make readable ends the tuner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
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
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.unpacking import OnRefused, log_refused
from streaming.shared.teardown import named_teardown
from streaming.shared.topics import ensure_topics, unreadable_topic_complaints
from tuner.api.status_store import STANDING_BY, StatusStore
from tuner.control.throttle.state import Memory
from tuner.journal.journal_topic import JournalTopic
from tuner.journal.kafka_journal import JournalError, JournalUnreadable, KafkaJournal
from tuner.journal.outbox import Outbox
from tuner.journal.read_ahead import JournalKnowledge, ReadAhead
from tuner.journal.topic_reader import UnreadableBatchError
from tuner.runtime.lease import Lease, group_of

log = structlog.get_logger("tuner")

_RETRY_S_MAX = 30.0
_STAND_BY_S = 0.5
_TAKE_OVER_PAUSE_S = 2.0
_MENDED_PAUSE_S = 10.0
_SETTINGS_SEEN_S, _NOT_READ_BACK_PAUSE_S = 1.0, 5.0
_OTHER_NAME_PAUSE_S, _OTHER_NAME_PAUSE_S_MAX = 5.0, 20.0  # The journal is read anew after it.


class Standby:
    """Of one tuner, until ``stop`` is set; what it waits for is on ``board``."""

    def __init__(self, client: ClusterClient, board: StatusStore, stop: threading.Event) -> None:
        self._client = client
        self._board = board
        self._stop = stop
        self._topics: Topics | None = None

    def until_topics(self, topics: Topics, *, acts: bool = True) -> bool:
        """Until the cluster has our topics (True), or ``stop`` is set (False).

        Args:
            acts: it may change the cluster, and then never with a journal or orders that cannot be read back.
        """
        self._topics = topics
        retrying = Retrying(
            retry=retry_if_exception_type(ClusterError),
            wait=wait_exponential_jitter(initial=1, max=_RETRY_S_MAX),
            stop=stop_when_event_set(self._stop),
            sleep=sleep_using_event(self._stop),
            before_sleep=_say_that_it_is_tried_again,
            reraise=True,
        )
        try:
            complaints = retrying(ensure_topics, self._client, topics, used_by_tuner(topics))
            for complaint in complaints:
                log.warning(complaint)
            looks = 0
            while acts and (faults := retrying(unreadable_topic_complaints, self._client, topics)):
                looks += 1
                if looks == 1:  # A broker may not know yet what a topic was made with a moment ago.
                    self._stop.wait(_SETTINGS_SEEN_S)
                else:
                    self.wait_for(
                        f"the journal or the orders could not be read back, so no tuner acts: {faults[0]}",
                        _NOT_READ_BACK_PAUSE_S,
                    )
                if self._stop.is_set():
                    return False
        except ClusterError:
            return False
        return True

    def until_held(self, lease: Lease, journal_topic: JournalTopic, ahead: ReadAhead) -> bool:
        """Until it is this tuner's turn (True), or ``stop`` is set (False); says whether cluster and journal are there."""
        said: str | None = None
        try:
            while not self._stop.is_set():
                if lease.held(_STAND_BY_S):
                    return True
                ahead.step()
                waits_for = self.away() or journal_topic.find_problem() or STANDING_BY
                self._board.stands_by(waits_for)
                if said is None or (said == STANDING_BY) != (waits_for == STANDING_BY):
                    log.info(waits_for)
                said = waits_for
        finally:
            named_teardown("journal read ahead", ahead.stop)()
        return False

    def taken_over(self, journal: KafkaJournal) -> bool:
        """Whether the journal is this tuner's from now on; where it is not, after a pause."""
        try:
            journal.take_over()
        except JournalError as error:
            self.wait_for(str(error))
            return False
        return True

    def recovered(
        self,
        journal: KafkaJournal,
        kafka: KafkaSettings,
        owed: Outbox | None,
        ahead: ReadAhead | None = None,
        leave: Callable[[], None] = lambda: None,
    ) -> Memory | None:
        """What the journal remembers; where it cannot be read now None, after a pause.

        Args:
            ahead: what of it was read before, if anything; must have looked for what is owed.
            leave: gives up the lease, where a record cannot be read that this tuner must know. A tuner of the version that wrote it
                may then act.

        Raises:
            JournalUnreadable: nor can it be later.
        """
        try:
            memory = _recover(journal, kafka, owed, ahead.take_knowledge() if ahead is not None else None)
            if (why := journal.blocked) is not None:
                leave()
                self.wait_for(why, _MENDED_PAUSE_S)  # Until an operator has mended it.
                return None
            for each in journal.unreadable:
                log.error(f"a record of the journal cannot be read: {each.effect}", record=each.text())
            return memory
        except JournalUnreadable:
            raise
        except UnreadableBatchError as error:
            leave()
            self.wait_for(str(error), _MENDED_PAUSE_S)
        except (JournalError, ClusterError) as error:
            self.wait_for(str(error))
            self._make_topics()
        except KafkaError as error:
            self.wait_for(f"the journal has no reader: {type(error).__name__}: {error}")
        return None

    def _make_topics(self) -> None:
        """Makes a topic that was deleted: without the orders' topic no tuner begins."""
        if self._topics is not None:
            try:
                ensure_topics(self._client, self._topics, used_by_tuner(self._topics))
            except ClusterError as error:
                log.error("rheostat's topics cannot be made anew", error=str(error))

    def is_the_only_hand(self, journal: KafkaJournal, lease: Lease, kafka: KafkaSettings) -> bool:
        """Whether nobody acts on this cluster, and nothing is left to be put back on it, under another name; where it was not so,
        after it is, or after ``stop``: then this tuner has to ask for its turn anew.

        Meanwhile it is no member of its own group: whoever puts the other name's things in order would take it for a second hand.
        """
        if (why := self._other_hand(journal)) is None:
            return True
        named_teardown("lease", lease.leave)()
        # Two that begin in the same moment, and see each other, would else do so in step.
        pause_s = _OTHER_NAME_PAUSE_S * (1.0 + crc32(journal.holder.encode()) % 100 / 100)
        while why is not None and not self._stop.is_set():
            self.wait_for(why, pause_s)
            pause_s = min(2 * pause_s, _OTHER_NAME_PAUSE_S_MAX)
            # A journal that cannot be read now leaves what was read before.
            if self.recovered(found := journal.read_only_copy(), kafka, None) is not None:
                why = self._other_hand(found)
        return False

    def _other_hand(self, journal: KafkaJournal) -> str | None:
        """Who holds something itself has to act on it, whatever other names hold: one after the other they can be ended."""
        others = journal.cluster_aliases
        if not others.names:
            return None  # As nearly always: a take-over has no time to lose.
        try:
            holding = others.holdings_by_name([endpoint.node for endpoint in self._client.brokers()])
            if holding and not journal.holdings:
                return _first_end(*next(iter(holding.items())))
            for name in others.names:
                members = self._client.group_members(group_of(name))
                if members is None:
                    log.warning(
                        "whether a tuner of another name runs cannot be seen",
                        name=name,
                        missing=f"Describe on Group {group_of(name)}",
                    )
                elif members:
                    return f"a tuner is at work on this very Kafka cluster as cluster {name!r}: stop one of the two"
        except ClusterError as error:
            return f"whether another name of this cluster has a tuner cannot be told now: {error}"
        return None

    def wait_for(self, why: str, pause_s: float | None = None) -> None:
        """A pause, as nothing can be done; ``why`` is told."""
        log.error("cannot act yet; trying again", error=why)
        self._board.stands_by(self.away() or why)
        self._stop.wait(_TAKE_OVER_PAUSE_S if pause_s is None else pause_s)

    def away(self) -> str | None:
        """Why nothing can be done, where the cluster does not answer at all."""
        try:
            self._client.brokers()
        except ClusterError as error:
            return f"the cluster is not seen: {error}"
        return None


def used_by_tuner(topics: Topics) -> tuple[str, ...]:
    """Returns the topics that a tuner reads or writes."""
    return topics.signals, topics.journal, topics.orders, topics.inputs


def journal_reader(kafka: KafkaSettings, on_refused: OnRefused = log_refused) -> KafkaConsumer:
    # What a predecessor did not commit it did not do. And a journal that ends before what is known of it is an error, where Kafka's
    # default would go on at its end.
    return consumer(
        kafka,
        "rheostat-tuner-recovery",
        on_refused=on_refused,
        isolation_level="read_committed",
        auto_offset_reset="none",
    )


def _recover(
    journal: KafkaJournal, kafka: KafkaSettings, owed: Outbox | None, known: JournalKnowledge | None
) -> Memory:
    reader = journal_reader(kafka)
    try:
        memory = journal.recover(reader, owed, known)
    finally:
        reader.close(timeout_ms=5000)
    if journal.misplaced_orders:
        log.warning(
            "orders or plans of an earlier build stand in the journal's topic: they hold until the next order, which goes to "
            "the orders' topic; look at them with `rheostat status`, and give them again or take them back"
        )
    log.info("the journal is read", records=journal.records_read, ahead=known is not None)
    for (broker, side), owned in memory.owned.items():
        log.info(
            "ours from before",
            broker=broker,
            side=side.value,
            setpoint_bytes_per_s=owned.setpoint_bytes_per_s,
            before_bytes_per_s=owned.before_bytes_per_s,
        )
    return memory


def _first_end(name: str, what: str) -> str:
    how = "take them back first, by `rheostat release` with it in the settings"
    if "plan" in what:
        how = f"let a tuner of that name end its plans (`rheostat reassign cancel`), and then release: {how}"
    return (
        f"this Kafka cluster is on record as cluster {name!r} too, with {what} to be ended under that name: set "
        f"`cluster: {name}`, or {how}"
    )


def _say_that_it_is_tried_again(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    wait_s = state.next_action.sleep if state.next_action is not None else 0.0
    log.error("the cluster does not answer; trying again", error=str(error), in_s=round(wait_s, 1))
