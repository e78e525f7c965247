"""Reads the journal while another tuner acts, so that a standby that takes over only has to read the newest records.

A journal that is some months old has hundreds of thousands of records. Reading them takes seconds, in which no tuner watches the
throttles.

Invariants:
- The knowledge equals the result of reading the same topic from its beginning. If this is not certain, for example after the topic
  was deleted and created again, the knowledge is not used.
- No decision uses this knowledge alone: a standby that takes over first fences off the other tuners and then reads to the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import kafka.errors
import structlog
from kafka import KafkaConsumer, TopicPartition

from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.unpacking import OnUnreadableBatch, UnreadableBatch
from streaming.shared.teardown import named_teardown
from tuner.journal.cluster_aliases import ClusterAliases
from tuner.journal.orders_topic import is_order
from tuner.journal.replayed_state import ReplayedState
from tuner.journal.topic_reader import UnreadableBatchError
from tuner.journal.topic_tail import KAFKA_ERRORS

log = structlog.get_logger("tuner")

STEP_S = 0.2  # Longest step: between two steps the standby checks the lease.
RETRY_S = 10.0  # Pause after an error, and between two checks of the topic's id.
_BATCH_RECORDS = 2_000  # Applying this number of records takes about 50 ms.
_POLL_MS = 50
# Errors that mean that the topic no longer has the records that were read.
_RECORDS_LOST = (
    kafka.errors.OffsetOutOfRangeError,
    kafka.errors.NoOffsetForPartitionError,
    kafka.errors.LogTruncationError,
)


@dataclass(slots=True)
class JournalKnowledge:
    """The content of the journal up to the offsets that were read.

    Attributes:
        state: the state of the configured cluster name.
        aliases: the records of other cluster names.
        next_offsets: by partition, the offset after the last record that was read.
        misplaced_orders: the journal's topic itself holds orders or plans of this cluster.
    """

    state: ReplayedState
    aliases: ClusterAliases
    next_offsets: dict[int, int] = field(default_factory=dict)
    misplaced_orders: bool = False

    def apply_from_journal(self, key: bytes, value: bytes | None, offset: int | None = None) -> None:
        """Applies a record of the journal's topic."""
        if value is not None and is_order(key) and key.split(b"|")[1] == self.state.cluster.encode():
            self.misplaced_orders = True
        self._apply(key, value, offset)

    def apply_from_orders_topic(self, key: bytes, value: bytes | None, offset: int | None = None) -> None:
        """Applies a record of the orders topic."""
        self._apply(key, value, offset)

    def _apply(self, key: bytes, value: bytes | None, offset: int | None) -> None:
        self.aliases.apply(key, value, offset)
        self.state.apply(key, value, offset)


def empty_knowledge(cluster: str, times_ms: frozenset[int] = frozenset()) -> JournalKnowledge:
    return JournalKnowledge(ReplayedState(cluster, times_ms), ClusterAliases(cluster))


class ReadAhead:
    """Reads the journal's topic in short steps. Its knowledge outlives a lease that is won and lost again."""

    def __init__(
        self,
        make_consumer: Callable[[OnUnreadableBatch], KafkaConsumer],
        topic: str,
        cluster: str,
        topic_ids: Callable[[tuple[str, ...]], Mapping[str, str]],
        times_ms: frozenset[int] = frozenset(),
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            make_consumer: returns a consumer of committed records. The consumer must fail for an offset out of range, and report
                the batches that it leaves out.
            topic_ids: returns Kafka's topic ids by name; raises ClusterError if the cluster does not answer.
            times_ms: as in ``ReplayedState``.
        """
        self._make_consumer = make_consumer
        self._topic = topic
        self._cluster = cluster
        self._topic_ids = topic_ids
        self._times_ms = times_ms
        self._monotonic = monotonic
        self._consumer: KafkaConsumer | None = None
        self._unreadable: list[UnreadableBatch] = []  # Batches that the consumer left out.
        self._knowledge: JournalKnowledge | None = None
        self._topic_id: str | None = None  # The topic that ``_knowledge`` was read from.
        self._given_up = False  # After an unexpected error this process does not read ahead again.
        self._check_at_s = float("-inf")  # Time of the next check of the topic id.

    def step(self, duration_s_max: float = STEP_S) -> None:
        """Continues to read for at most ``duration_s_max``, or until no record is left.

        Raises nothing. After an error, a tuner that takes over reads the whole journal, and reports the error if it occurs again.
        """
        now_s = self._monotonic()
        try:
            if now_s >= self._check_at_s:
                self._check_topic()
                self._check_at_s = now_s + RETRY_S
            while self._consumer is not None and self._read() and self._monotonic() < now_s + duration_s_max:
                pass
        except _RECORDS_LOST as error:
            self._knowledge = None
            self._pause(error, now_s + RETRY_S)
        except (*KAFKA_ERRORS, ClusterError) as error:
            self._pause(error, now_s + RETRY_S)
        except Exception as error:  # noqa: BLE001 - an unexpected record must not end a standby
            self._knowledge, self._given_up = None, True
            self._pause(error, float("inf"))

    def stop(self) -> None:
        """Closes the consumer until the next step. The knowledge is kept."""
        consumer, self._consumer = self._consumer, None
        if not self._given_up:
            self._check_at_s = float("-inf")
        if consumer is not None:
            named_teardown("reader of the journal ahead", partial(consumer.close, timeout_ms=2000))()

    def take_knowledge(self) -> JournalKnowledge | None:
        """Returns the knowledge and hands it over to the caller; None if there is no usable knowledge.

        Raises:
            ClusterError: the topic id cannot be checked now. The knowledge is kept.
        """
        self.stop()
        if self._knowledge is None or not self._knowledge.next_offsets:
            return None
        is_same_topic = self._topic_ids((self._topic,)).get(self._topic) == self._topic_id
        knowledge, self._knowledge = self._knowledge, None
        return knowledge if is_same_topic else None

    def _check_topic(self) -> None:
        """Drops the knowledge if the topic was created again, and opens the consumer."""
        topic_id = self._topic_ids((self._topic,)).get(self._topic)
        if topic_id is None or topic_id != self._topic_id:
            self.stop()
            self._knowledge, self._topic_id = None, topic_id
        if topic_id is None or self._consumer is not None:
            return  # The topic does not exist, or the brokers have no topic ids; or the consumer is open.
        knowledge = self._knowledge = self._knowledge or empty_knowledge(self._cluster, self._times_ms)
        self._unreadable.clear()
        consumer = self._consumer = self._make_consumer(self._unreadable.append)
        if len(consumer.partitions_for_topic(self._topic) or {0}) > 1:
            raise ValueError("the topic has several partitions")
        partition = TopicPartition(self._topic, 0)
        consumer.assign([partition])
        if 0 in knowledge.next_offsets:
            consumer.seek(partition, knowledge.next_offsets[0])
        else:
            consumer.seek_to_beginning(partition)

    def _read(self) -> bool:
        """Applies the next records to the knowledge. Returns whether there were any."""
        consumer, knowledge = self._consumer, self._knowledge
        assert consumer is not None
        assert knowledge is not None
        batches = consumer.poll(timeout_ms=_POLL_MS, max_records=_BATCH_RECORDS)
        if self._unreadable:  # The records after a left-out batch must not count as the whole journal.
            raise UnreadableBatchError(self._unreadable[0])
        for records in batches.values():
            for record in records:
                knowledge.apply_from_journal(record.key or b"", record.value, record.offset)
                knowledge.next_offsets[record.partition] = record.offset + 1
        return bool(batches)

    def _pause(self, error: Exception, until_s: float) -> None:
        log.info(
            "the standby cannot read the journal in advance; it tries again later",
            reason=f"{type(error).__name__}: {error}",
        )
        self.stop()
        self._check_at_s = until_s
