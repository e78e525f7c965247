"""The journal in its topic. A write that is not acknowledged did not happen, and what it announced must not either.

Of several tuners of one cluster the journal lets only the newest write: every write is a transaction of one
``transactional.id``, and who takes it over shuts out whoever had it before. So the journal is the fence, and the lease
(tuner/runtime/lease.py) only says whose turn it is.

Invariant: after ``lost`` nothing is written any more, whatever else may work again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import kafka.errors
from kafka import KafkaConsumer, KafkaProducer

from streaming.shared.kafka.clients import close_producer
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import Orders
from tuner.journal.cluster_aliases import ClusterAliases, held
from tuner.journal.entries import (
    RINGS,
    Entry,
    encode_entry,
    encode_holder,
    encode_memory,
    encode_owned,
    encode_seen,
    entry_key,
    holder_key,
    memory_key,
    owned_key,
    ring_of,
    seen_key,
)
from tuner.journal.input_log import InputLog, topic_of
from tuner.journal.list_records import encode_listed, listed_key
from tuner.journal.orders_topic import is_order, orders_topic_of
from tuner.journal.outbox import Outbox
from tuner.journal.plan_book import PlanBook
from tuner.journal.read_ahead import JournalKnowledge, nothing_known
from tuner.journal.topic_reader import JournalError, read_journal
from tuner.journal.transactions import (
    ACK_S_MAX,
    TROUBLE,
    NotWritten,
    OutOfUse,
    Record,
    Transactions,
    acknowledged,
    bounded,
)
from tuner.journal.unreadable import Unreadable, blocking

_CLOSE_S_MAX = 2.0

Records = Mapping[bytes, bytes | None]


class JournalUnreadable(JournalError):
    """What stands in it cannot be understood, now or later: a person has to look."""


class JournalLost(JournalError):
    """It is another tuner's now, or it is not known whose: this one must not act any more."""


class KafkaJournal:
    """Written by whoever holds ``producer``; with a ``transactional.id`` by one alone."""

    def __init__(
        self,
        producer: KafkaProducer | None,
        topic: str,
        cluster: str,
        *,
        holder: str = "",
        fenced: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
        inputs: InputLog | None = None,
        group_silent_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """
        Args:
            holder: who we are, for people.
            group_silent_s: how long ago the group that says whose turn it is answered last.
            fenced: ``producer`` has a transactional id; ``take_over`` comes before the first write.
            inputs: what it has to say goes with every write, into a topic beside the journal's.
        """
        self._producer = producer
        self._topic = topic
        self._cluster = cluster
        self.holder = holder
        self._transactions = Transactions(producer) if fenced and producer is not None else None
        self._monotonic = monotonic
        self._inputs = inputs
        self._group_silent_s = group_silent_s
        self._seqs = dict.fromkeys(RINGS, 0)
        self._ours_at_s = float("-inf")
        self.lost = False
        self.orders = Orders()  # As ``recover`` found them.
        self.overtaken: tuple[Orders, ...] = ()  # By these, and nobody has told of them yet; the oldest first.
        self.given: tuple[Orders, ...] = ()  # All that were there, told or not.
        self.quotas = MutationMemory()  # The same.
        self.plans = PlanBook(cluster)  # The same; kept up by whoever executes them.
        self.other_names = ClusterAliases(cluster)  # The same.
        self.unreadable: tuple[Unreadable, ...] = ()  # Records of this cluster; the same.
        self.held = ""  # In words: what is on record as ours; the same.
        self.read_to: Mapping[int, int] = {}  # By partition, where what is not known yet begins; the same.
        self.orders_read_to: Mapping[int, int] = {}  # The same of the orders' topic.
        self.misplaced_orders = False  # Orders or plans stand in the journal's topic itself; the same.
        self.records_read = 0  # By ``recover``, beside what was known before.

    @classmethod
    def to_read(cls, topic: str, cluster: str) -> KafkaJournal:
        """One that is only read: ``recover`` and ``orders``."""
        return cls(None, topic, cluster)

    def copy_to_read(self) -> KafkaJournal:
        """The same journal, to be read anew."""
        return KafkaJournal.to_read(self._topic, self._cluster)

    def take_over(self, timeout_s: float = ACK_S_MAX) -> None:
        """From now on only this journal can be written.

        Raises:
            JournalError: the brokers do not answer, or a right is missing.
        """
        try:
            bounded(self._writer.init_transactions, timeout_s)
        except kafka.errors.TransactionalIdAuthorizationFailedError as error:
            right = f"Write on TransactionalId {self._writer.config['transactional_id']}"
            raise JournalError(f"{self._topic} cannot be taken over: missing right: {right}") from error
        except TROUBLE as error:
            raise JournalError(f"{self._topic} cannot be taken over: {type(error).__name__}: {error}") from error
        self.prove()

    def recover(
        self, consumer: KafkaConsumer, owed: Outbox | None = None, known: JournalKnowledge | None = None
    ) -> Memory:
        """What we remembered when we last wrote; an empty memory in a new journal.

        Args:
            owed: what is on record is struck from it; where another tuner has acted since, it is told.
            known: what was read of it before, by whoever stood by; it must have looked for what is owed. None: nothing.

        Records that this version cannot read are in ``unreadable``. Where one of them blocks (``blocked``), the memory is not
        whole: a tuner that acted by it would leave things behind.

        Raises:
            UnreadableBatchError: records of the journal or the orders cannot be unpacked; nothing may be decided without them.
            JournalError: it cannot be read whole now.
            JournalUnreadable: it has several partitions.
        """
        try:
            numbers = consumer.partitions_for_topic(self._topic) or {0}
        except TROUBLE as error:
            raise JournalError(f"{self._topic} cannot be read: {type(error).__name__}: {error}") from error
        if len(numbers) > 1:
            raise JournalUnreadable(
                f"{self._topic} has {len(numbers)} partitions, and what came later can only be told in one: stop rheostat where "
                "nothing is owned, delete the topic, and let rheostat create it"
            )
        if known is None:
            known = nothing_known(self._cluster, owed.times_ms if owed is not None else frozenset())
        self.records_read = 0
        ends: dict[str, dict[int, int]] = {}
        # A tuner that acts must not miss an order because a topic is away for a moment.
        acts = self._producer is not None
        for record in read_journal(consumer, self._topic, known.read_to, required=acts, ends=ends):
            self.records_read += 1
            take = known.take if record.topic == self._topic else known.take_order
            take(record.key, record.value, record.offset)
        self.read_to = ends.get(self._topic, {})
        self.orders_read_to = ends.get(orders_topic_of(self._topic), {})
        found, others = known.remembered, known.others
        self.misplaced_orders = known.misplaced_orders
        self.orders, self.overtaken, self.quotas, self.plans = found.orders, found.overtaken, found.quotas, found.plans
        self.unreadable = tuple(found.unreadable.values())
        self.given, self.other_names, self.held = tuple(found.given), others, held(found)
        self._seqs = {ring: max(seq, found.seqs[ring]) for ring, seq in self._seqs.items()}
        if owed is not None:
            owed.strike(found.entries)
            if found.memory_by != self.holder:
                owed.another_acted()
        return found.whole_memory

    @property
    def blocked(self) -> str | None:
        """Why no tuner may act by what ``recover`` read, and what to do; None: one may."""
        return blocking(self.unreadable, self._topic)

    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        memory: Memory | None = None,
        owned: Mapping[BrokerSide, OwnedRate] | None = None,
        seen: Mapping[str, Mapping[int, frozenset[int]]] | None = None,
        listed: Mapping[str, TopicThrottle] | None = None,
        beside: Records | None = None,
    ) -> None:
        """All of it, or nothing.

        Args:
            memory: all that is remembered.
            owned: rates of ours that are newer than the memory written last.
            seen: what was seen moving, of topics of which more was seen since, by topic and partition.
            listed: our pairs on the lists, of topics on which they have changed since.
            beside: records of those who have words of their own (quota_records.py), by key.

        Raises:
            JournalError: not acknowledged by all in-sync replicas in time.
            JournalLost: and it will not be any more.
        """
        inputs = self._inputs.take() if self._inputs is not None else []
        if not (entries or memory is not None or owned or seen or listed or beside or inputs):
            return
        numbered = [self._numbered(entry) for entry in entries]

        def records() -> Iterator[tuple[bytes, bytes | None]]:
            # Each is made when it is sent: where everything stalls there are thousands, of 12 kB each.
            for entry in numbered:
                yield entry_key(ring_of(entry), self._cluster, entry.seq), encode_entry(entry)
            if memory is not None:
                yield memory_key(self._cluster), encode_memory(memory, self.holder)
            for side, value in (owned or {}).items():
                yield owned_key(self._cluster, side), encode_owned(side, value)
            for topic, rows in (seen or {}).items():
                yield seen_key(self._cluster, topic), encode_seen(topic, rows)
            for topic, pairs in (listed or {}).items():
                yield listed_key(self._cluster, topic), encode_listed(topic, pairs)
            yield from (beside or {}).items()

        try:
            self._send(records(), inputs)
        except BaseException:
            if self._inputs is not None:
                self._inputs.lost()
            raise

    def _numbered(self, entry: Entry) -> Entry:
        ring = ring_of(entry)
        self._seqs[ring] += 1
        return replace(entry, seq=self._seqs[ring])

    def proved_s_ago(self) -> float:
        """How long ago it was certain that nobody had taken the journal over, and that nobody else had been given the lease: a
        group whose coordinator we alone cannot reach gives it to another, who takes the journal over only some time after that."""
        return max(self._monotonic() - self._ours_at_s, self._group_silent_s())

    def distrust(self) -> None:
        """Drops the last proof: nothing is written to the cluster before the next one."""
        self._ours_at_s = float("-inf")

    def prove(self) -> None:
        """Makes sure that it is still ours, by a small write.

        Raises:
            JournalError, JournalLost: as ``write``.
        """
        self._send([(holder_key(self._cluster), encode_holder(self.holder))])

    def close(self) -> None:
        close_producer(self._writer, _CLOSE_S_MAX)

    @property
    def _writer(self) -> KafkaProducer:
        assert self._producer is not None, "this journal is only read"
        return self._producer

    def _send(self, records: Iterable[tuple[bytes, bytes | None]], inputs: Sequence[bytes] = ()) -> None:
        if self.lost:
            raise JournalLost(f"{self._topic} is not ours to write any more")
        beside, key = topic_of(self._topic), self._cluster.encode()
        orders = orders_topic_of(self._topic)
        every: Iterable[Record] = chain(
            ((orders if is_order(key_) else self._topic, key_, value) for key_, value in records),
            ((beside, key, value) for value in inputs),
        )
        began_s = self._monotonic()
        try:
            if self._transactions is not None:
                self._transactions.write(every)
            else:
                acknowledged(self._writer, list(every), ACK_S_MAX)  # Nobody would take back half of it.
        except OutOfUse as error:
            # How the transaction ended is not known, so neither is whose the journal is.
            self.lost = True
            raise JournalLost(f"{self._topic} did not take the record: {error}") from error
        except NotWritten as error:
            raise JournalError(f"{self._topic} did not take the record: {error}") from error
        except TROUBLE as error:
            raise JournalError(f"{self._topic} did not take the record: {type(error).__name__}: {error}") from error
        # Whoever took over before these were sent would have shut them out.
        self._ours_at_s = began_s


__all__ = ["JournalError", "JournalLost", "JournalUnreadable", "KafkaJournal"]
