"""Reads and writes the journal's topic.

Write-ahead: the tuner acts only after the brokers have acknowledged the record of its intent.

The journal fences tuners off from each other. Every write is a transaction of one ``transactional.id``, and a tuner that takes the
id over makes every write of its predecessor fail. The lease (streaming/shared/lease.py) only decides whose turn it is.

Invariant: once ``lost`` is set, this object never writes again.
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
from tuner.control.cordon.model import CordonMemory
from tuner.control.log_dir.model import LogDirMemory
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import Orders
from tuner.journal.cluster_aliases import ClusterAliases, describe_holdings
from tuner.journal.entries import (
    RINGS,
    Entry,
    encode_entry,
    encode_holder,
    encode_memory,
    encode_moving,
    encode_owned,
    entry_key,
    holder_key,
    memory_key,
    moving_key,
    owned_key,
    ring_of,
)
from tuner.journal.input_log import InputLog, inputs_topic_of
from tuner.journal.list_records import encode_listed, listed_key
from tuner.journal.orders_topic import is_order, orders_topic_of
from tuner.journal.outbox import Outbox
from tuner.journal.plan_book import PlanBook
from tuner.journal.read_ahead import JournalKnowledge, empty_knowledge
from tuner.journal.topic_reader import JournalError, read_journal
from tuner.journal.topic_tail import KAFKA_ERRORS
from tuner.journal.transactions import (
    ACK_S_MAX,
    NotWritten,
    ProducerUnusable,
    Record,
    Transactions,
    call_with_timeout,
    send_and_wait,
)
from tuner.journal.unreadable import UnreadableRecord, blocking_text

_CLOSE_S_MAX = 2.0

Records = Mapping[bytes, bytes | None]


class JournalUnreadable(JournalError):
    """The topic cannot be used until an operator has changed it."""


class JournalLost(JournalError):
    """Another tuner has taken over the journal, or may have done so. This tuner must stop acting."""


class KafkaJournal:
    """The journal of one cluster name.

    Attributes:
        holder: a name for this tuner, for people.
        lost: nothing can be written any more.

    ``recover`` sets the following attributes:
        orders: the newest orders.
        superseded_orders: orders that are newer than the last acknowledged orders and older than ``orders``; the oldest first.
        orders_history: all orders that the topic still has, the oldest first.
        quotas: what the tuner remembers of mutation quotas.
        log_dirs: the log directory throttles that the tuner manages.
        cordons: the cordons that the tuner manages.
        plans: the reassignment plans; the executor keeps them up to date from then on.
        cluster_aliases: the records of other cluster names.
        unreadable: the newest records of a key that this version cannot read.
        holdings: what this cluster name has set in the cluster, as text; empty if there is nothing.
        next_offsets: by partition, the offset after the last record that was read.
        orders_next_offsets: by partition of the orders topic, the offset after the last record that was read.
        misplaced_orders: the journal's topic itself holds orders or plans, which belong in the orders topic.
        records_read: how many records ``recover`` read itself.
    """

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
            producer: None for a journal that is only read.
            holder: a name for this tuner, for people.
            fenced: whether ``producer`` has a transactional id. If it has, ``take_over`` must come before the first write.
            inputs: the records of decision inputs, which every write also sends to the inputs topic.
            group_silent_s: returns the seconds since the lease's consumer group answered last.
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
        self._proved_at_s = float("-inf")  # When the last proof of ownership began, monotonic clock.
        self.lost = False
        self.orders = Orders()
        self.superseded_orders: tuple[Orders, ...] = ()
        self.orders_history: tuple[Orders, ...] = ()
        self.quotas = MutationMemory()
        self.log_dirs = LogDirMemory()
        self.cordons = CordonMemory()
        self.plans = PlanBook(cluster)
        self.cluster_aliases = ClusterAliases(cluster)
        self.unreadable: tuple[UnreadableRecord, ...] = ()
        self.holdings = ""
        self.next_offsets: Mapping[int, int] = {}
        self.orders_next_offsets: Mapping[int, int] = {}
        self.misplaced_orders = False
        self.records_read = 0

    @classmethod
    def read_only(cls, topic: str, cluster: str) -> KafkaJournal:
        """Returns a journal that can only ``recover``."""
        return cls(None, topic, cluster)

    def read_only_copy(self) -> KafkaJournal:
        """Returns a journal of the same topic that can only ``recover``."""
        return KafkaJournal.read_only(self._topic, self._cluster)

    def take_over(self, timeout_s: float = ACK_S_MAX) -> None:
        """Makes this object the only writer: every write of an earlier producer fails from now on.

        Raises:
            JournalError: the brokers do not answer, or a right is missing.
        """
        try:
            call_with_timeout(self._writer.init_transactions, timeout_s)
        except kafka.errors.TransactionalIdAuthorizationFailedError as error:
            right = f"Write on TransactionalId {self._writer.config['transactional_id']}"
            raise JournalError(f"{self._topic} cannot be taken over: missing right: {right}") from error
        except KAFKA_ERRORS as error:
            raise JournalError(f"{self._topic} cannot be taken over: {type(error).__name__}: {error}") from error
        self.prove_ownership()

    def recover(
        self, consumer: KafkaConsumer, outbox: Outbox | None = None, known: JournalKnowledge | None = None
    ) -> Memory:
        """Reads the journal to its end and returns the throttle memory; an empty one for a new journal.

        Records that this version cannot read are in ``unreadable``. If one of them blocks (see ``blocked``), the memory is
        incomplete: a tuner that acted on it would leave throttles behind.

        Args:
            outbox: entries that the journal already has are removed from it. If another tuner has acted since, the outbox forgets
                its rates.
            known: what this tuner has already read of the journal as a standby, with the outbox's ``times_ms``; None if it has read
                nothing.

        Raises:
            UnreadableBatchError: a batch of the journal or the orders topic cannot be decompressed.
            JournalError: the journal cannot be read to its end now.
            JournalUnreadable: the journal's topic has several partitions.
        """
        try:
            partitions = consumer.partitions_for_topic(self._topic) or {0}
        except KAFKA_ERRORS as error:
            raise JournalError(f"{self._topic} cannot be read: {type(error).__name__}: {error}") from error
        if len(partitions) > 1:
            raise JournalUnreadable(
                f"{self._topic} has {len(partitions)} partitions, but needs exactly one, because only one partition keeps the "
                "order "
                "of records: stop rheostat when it manages no throttle, delete the topic, and let rheostat create it again"
            )
        if known is None:
            known = empty_knowledge(self._cluster, outbox.times_ms if outbox is not None else frozenset())
        self.records_read = 0
        ends: dict[str, dict[int, int]] = {}
        # A tuner that will act must not miss an order because a topic is unavailable for a moment.
        will_act = self._producer is not None
        for record in read_journal(consumer, self._topic, known.next_offsets, required=will_act, ends=ends):
            self.records_read += 1
            apply = known.apply_from_journal if record.topic == self._topic else known.apply_from_orders_topic
            apply(record.key, record.value, record.offset)
        self.next_offsets = ends.get(self._topic, {})
        self.orders_next_offsets = ends.get(orders_topic_of(self._topic), {})
        state = known.state
        self.cluster_aliases, self.misplaced_orders = known.aliases, known.misplaced_orders
        self.orders, self.superseded_orders = state.orders, state.superseded_orders
        self.orders_history = tuple(state.orders_history)
        self.quotas, self.plans, self.holdings = state.quotas, state.plans, describe_holdings(state)
        self.log_dirs, self.cordons = state.log_dirs, state.cordons
        self.unreadable = tuple(state.unreadable.values())
        self._seqs = {ring: max(seq, state.seqs[ring]) for ring, seq in self._seqs.items()}
        if outbox is not None:
            outbox.remove_recorded(state.entries)
            if state.memory_writer != self.holder:
                outbox.reset_for_other_tuner()
        return state.whole_memory

    @property
    def blocked(self) -> str | None:
        """Why no tuner may act on the memory that ``recover`` has read, and what to do; None if a tuner may act."""
        return blocking_text(self.unreadable, self._topic)

    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        memory: Memory | None = None,
        owned: Mapping[BrokerSide, OwnedRate] | None = None,
        moving_replicas: Mapping[str, Mapping[int, frozenset[int]]] | None = None,
        listed: Mapping[str, TopicThrottle] | None = None,
        other_records: Records | None = None,
    ) -> None:
        """Writes everything in one transaction.

        Args:
            memory: the whole throttle memory.
            owned: managed rates that are newer than the last written memory.
            moving_replicas: by topic and partition, the moving replicas of topics that have more moving replicas than in the last
                written memory.
            listed: by topic, the managed throttled-replica pairs that differ from the last written memory.
            other_records: further encoded records by key, such as records of quota_records.py and log_dir_records.py.

        Raises:
            JournalError: the in-sync replicas did not acknowledge the records in time.
            JournalLost: this object cannot write any more.
        """
        inputs = self._inputs.take_records() if self._inputs is not None else []
        if not (entries or memory is not None or owned or moving_replicas or listed or other_records or inputs):
            return
        numbered = [self._numbered(entry) for entry in entries]

        def records() -> Iterator[tuple[bytes, bytes | None]]:
            # Lazy: when every side stalls there are thousands of records of 12 kB each.
            for entry in numbered:
                yield entry_key(ring_of(entry), self._cluster, entry.seq), encode_entry(entry)
            if memory is not None:
                yield memory_key(self._cluster), encode_memory(memory, self.holder)
            for side, value in (owned or {}).items():
                yield owned_key(self._cluster, side), encode_owned(side, value)
            for topic, rows in (moving_replicas or {}).items():
                yield moving_key(self._cluster, topic), encode_moving(topic, rows)
            for topic, pairs in (listed or {}).items():
                yield listed_key(self._cluster, topic), encode_listed(topic, pairs)
            yield from (other_records or {}).items()

        try:
            self._send(records(), inputs)
        except BaseException:
            if self._inputs is not None:
                self._inputs.discard_pending()
            raise

    def _numbered(self, entry: Entry) -> Entry:
        ring = ring_of(entry)
        self._seqs[ring] += 1
        return replace(entry, seq=self._seqs[ring])

    def proof_age_s(self) -> float:
        """Returns the seconds since it was last certain that no other tuner had taken over the journal or held the lease.

        The time since the last answer of the lease's consumer group counts as well. If only this tuner cannot reach the group's
        coordinator, the group gives the lease to another tuner, which takes over the journal a little later.
        """
        return max(self._monotonic() - self._proved_at_s, self._group_silent_s())

    def discard_proof(self) -> None:
        """Forgets the last proof of ownership. Nothing is written to the cluster before the next proof."""
        self._proved_at_s = float("-inf")

    def prove_ownership(self) -> None:
        """Proves by a small write that no other tuner has taken the journal over.

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
            raise JournalLost(
                f"{self._topic} cannot be written: another tuner has taken over the journal, or may have taken it over"
            )
        orders_topic, inputs_topic = orders_topic_of(self._topic), inputs_topic_of(self._topic)
        all_records: Iterable[Record] = chain(
            ((orders_topic if is_order(key) else self._topic, key, value) for key, value in records),
            ((inputs_topic, self._cluster.encode(), value) for value in inputs),
        )
        began_s = self._monotonic()
        try:
            if self._transactions is not None:
                self._transactions.write(all_records)
            else:
                # A list, so that an error while encoding sends nothing.
                send_and_wait(self._writer, list(all_records), ACK_S_MAX)
        except ProducerUnusable as error:
            # The outcome of the transaction is unknown, and the owner of the journal is unknown as well.
            self.lost = True
            raise JournalLost(f"{self._topic} did not accept the record: {error}") from error
        except NotWritten as error:
            raise JournalError(f"{self._topic} did not accept the record: {error}") from error
        except KAFKA_ERRORS as error:
            raise JournalError(f"{self._topic} did not accept the record: {type(error).__name__}: {error}") from error
        # This write has succeeded, so no other tuner had taken over the journal before ``began_s``.
        self._proved_at_s = began_s


__all__ = ["JournalError", "JournalLost", "JournalUnreadable", "KafkaJournal"]
