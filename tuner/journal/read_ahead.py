"""The journal read while somebody else acts: a stand-by whose turn comes then reads only what has come since.

Intuition: the second surgeon reads the file while the first one operates. A journal that is some months old has hundreds of
thousands of records, which take seconds to read, and a throttle that nobody watches waits for every one of them.

Invariant: what was read ahead is what reading the same journal from its beginning gives, or it is not used: not where the topic
is another one by the same name. It never decides anything by itself; whoever
takes over shuts the others out first, and then reads to the end.
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
from streaming.shared.kafka.unpacking import OnRefused, RefusedBatch
from streaming.shared.teardown import named_teardown
from tuner.journal.cluster_aliases import ClusterAliases
from tuner.journal.orders_topic import is_order
from tuner.journal.replayed_state import ReplayedState
from tuner.journal.topic_reader import UnreadableBatchError
from tuner.journal.transactions import TROUBLE

log = structlog.get_logger("tuner")

STEP_S = 0.2  # Between two looks at the lease, which may not wait for long.
AGAIN_S = 10.0  # After trouble, and between two looks whether it is still that topic.
_BATCH_RECORDS = 2_000  # Some 50 ms.
_POLL_MS = 50
# What was read stands no more: the journal ends before it.
_GONE = (kafka.errors.OffsetOutOfRangeError, kafka.errors.NoOffsetForPartitionError, kafka.errors.LogTruncationError)


@dataclass(slots=True)
class JournalKnowledge:
    """What the journal's records say, as far as they were read."""

    remembered: ReplayedState
    others: ClusterAliases
    read_to: dict[int, int] = field(default_factory=dict)  # By partition; one that isn't named was not begun.
    misplaced_orders: bool = False  # An earlier build left orders of this cluster in the journal's topic.

    def take(self, key: bytes, value: bytes | None, offset: int | None = None) -> None:
        if value is not None and is_order(key) and key.split(b"|")[1] == self.remembered.cluster.encode():
            self.misplaced_orders = True
        self.take_order(key, value, offset)

    def take_order(self, key: bytes, value: bytes | None, offset: int | None = None) -> None:
        """Takes in an order of the orders' topic."""
        self.others.take(key, value, offset)
        self.remembered.take(key, value, offset)


def nothing_known(cluster: str, times_ms: frozenset[int] = frozenset()) -> JournalKnowledge:
    return JournalKnowledge(ReplayedState(cluster, times_ms), ClusterAliases(cluster))


class ReadAhead:
    """Until whoever stood by has the journal whole, however often its turn comes and goes before."""

    def __init__(
        self,
        reader: Callable[[OnRefused], KafkaConsumer],
        topic: str,
        cluster: str,
        topic_ids: Callable[[tuple[str, ...]], Mapping[str, str]],
        times_ms: frozenset[int] = frozenset(),
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            reader: makes a consumer of committed records that fails where an offset is out of range, and tells which batches it
                leaves out.
            topic_ids: what tells the topic from another that has its name later; ClusterError where nobody answers.
            times_ms: as of ``ReplayedState``.
        """
        self._reader = reader
        self._topic = topic
        self._cluster = cluster
        self._topic_ids = topic_ids
        self._times_ms = times_ms
        self._monotonic = monotonic
        self._consumer: KafkaConsumer | None = None
        self._refused: list[RefusedBatch] = []  # By the consumer.
        self._known: JournalKnowledge | None = None
        self._id: str | None = None  # Of the topic that ``known`` is of.
        self._given_up = False
        # When it is looked again whether it is that topic; after trouble, when it is read again.
        self._looks_s = float("-inf")

    def step(self, lasts_s: float = STEP_S) -> None:
        """Reads on for so long at most, or until nothing is there. Whatever fails, whoever takes over reads the journal without,
        and says what is wrong with it and what to do."""
        now_s = self._monotonic()
        try:
            if now_s >= self._looks_s:
                self._look()
                self._looks_s = now_s + AGAIN_S
            while self._consumer is not None and self._read() and self._monotonic() < now_s + lasts_s:
                pass
        except _GONE as error:
            self._known = None
            self._rest(error, now_s + AGAIN_S)
        except (*TROUBLE, ClusterError) as error:
            self._rest(error, now_s + AGAIN_S)
        except Exception as error:  # noqa: BLE001 - a record that nobody foresaw must not end a tuner that only waits
            self._known, self._given_up = None, True
            self._rest(error, float("inf"))

    def stop(self) -> None:
        """Nothing is read any more, until the next step; what was read is kept."""
        consumer, self._consumer = self._consumer, None
        if not self._given_up:
            self._looks_s = float("-inf")
        if consumer is not None:
            named_teardown("reader of the journal ahead", partial(consumer.close, timeout_ms=2000))()

    def known(self) -> JournalKnowledge | None:
        """What was read, which is the caller's from then on; None: nothing that may be used.

        Raises:
            ClusterError: it cannot be told now whether it may; what was read is kept.
        """
        self.stop()
        if self._known is None or not self._known.read_to:
            return None
        is_that = self._topic_ids((self._topic,)).get(self._topic) == self._id
        known, self._known = self._known, None
        return known if is_that else None

    def _look(self) -> None:
        found = self._topic_ids((self._topic,)).get(self._topic)
        if found is None or found != self._id:
            self.stop()
            self._known, self._id = None, found
        if found is None or self._consumer is not None:
            return  # Not there, or of brokers that do not tell topics apart; or it is being read.
        known = self._known = self._known or nothing_known(self._cluster, self._times_ms)
        self._refused.clear()
        consumer = self._consumer = self._reader(self._refused.append)
        if len(consumer.partitions_for_topic(self._topic) or {0}) > 1:
            raise ValueError("it has several partitions")
        partition = TopicPartition(self._topic, 0)
        consumer.assign([partition])
        if 0 in known.read_to:
            consumer.seek(partition, known.read_to[0])
        else:
            consumer.seek_to_beginning(partition)

    def _read(self) -> bool:
        """Whether there was something."""
        consumer, known = self._consumer, self._known
        assert consumer is not None
        assert known is not None
        found = consumer.poll(timeout_ms=_POLL_MS, max_records=_BATCH_RECORDS)
        if self._refused:  # What comes behind such a batch must not count as all that there is.
            raise UnreadableBatchError(self._refused[0])
        for records in found.values():
            for record in records:
                known.take(record.key or b"", record.value, record.offset)
                known.read_to[record.partition] = record.offset + 1
        return bool(found)

    def _rest(self, error: Exception, looks_s: float) -> None:
        log.info("the journal is not read ahead", reason=f"{type(error).__name__}: {error}")
        self.stop()
        self._looks_s = looks_s
