"""The journal read while somebody else acts: a stand-by whose turn comes then reads only what has come since.

Intuition: the second surgeon reads the file while the first one operates. A journal that is some months old has hundreds of
thousands of records, which take seconds to read, and a throttle that nobody watches waits for every one of them.

Invariant: what was read ahead is what reading the same journal from its beginning gives, or it is not used: not where the topic
is another one by the same name, and not where a record could not be understood. It never decides anything by itself; whoever
takes over shuts the others out first, and then reads to the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog
from kafka import KafkaConsumer, TopicPartition

from streaming.kafka.cluster import ClusterError
from tuner.journal.other_names import OtherNames
from tuner.journal.remembered import Remembered
from tuner.journal.transactions import TROUBLE

log = structlog.get_logger("tuner")

STEP_S = 0.2  # Between two looks at the lease, which may not wait for long.
AGAIN_S = 30.0
_BATCH_RECORDS = 2_000  # Some 50 ms.
_POLL_MS = 50


@dataclass(slots=True)
class Known:
    """What the journal's records say, as far as they were read."""

    remembered: Remembered
    others: OtherNames
    read_to: dict[int, int] = field(default_factory=dict)  # By partition; one that isn't named was not begun.

    def take(self, key: bytes, value: bytes | None) -> None:
        """
        Raises:
            ValueError: a record of ours that this version cannot read.
        """
        self.others.take(key, value)
        self.remembered.take(key, value)


def nothing_known(cluster: str, times_ms: frozenset[int] = frozenset()) -> Known:
    return Known(Remembered(cluster, times_ms), OtherNames(cluster))


class ReadAhead:
    """Of one wait for the lease."""

    def __init__(
        self,
        reader: Callable[[], KafkaConsumer],
        topic: str,
        cluster: str,
        topic_ids: Callable[[tuple[str, ...]], Mapping[str, str]],
        times_ms: frozenset[int] = frozenset(),
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            reader: makes a consumer of committed records.
            topic_ids: what tells the topic from another that has its name later; ClusterError where nobody answers.
            times_ms: as of ``Remembered``.
        """
        self._reader = reader
        self._topic = topic
        self._cluster = cluster
        self._topic_ids = topic_ids
        self._times_ms = times_ms
        self._monotonic = monotonic
        self._consumer: KafkaConsumer | None = None
        self._known: Known | None = None
        self._id: str | None = None
        self._begins_s = float("-inf")  # Not before then.

    def step(self, lasts_s: float = STEP_S) -> None:
        """Reads on for so long at most, or until nothing is there."""
        now_s = self._monotonic()
        if now_s < self._begins_s:
            return
        try:
            if self._consumer is None:
                self._begin()
            while self._consumer is not None and self._read() and self._monotonic() < now_s + lasts_s:
                pass
        except (*TROUBLE, ClusterError) as error:
            self._forget(error, now_s + AGAIN_S)
        except ValueError as error:
            self._forget(error, float("inf"))

    def stop(self) -> None:
        """Nothing is read any more; what was read is kept."""
        consumer, self._consumer, self._begins_s = self._consumer, None, float("inf")
        if consumer is not None:
            consumer.close(timeout_ms=2000)

    def known(self) -> Known | None:
        """What was read, which is the caller's from then on; None: nothing that may be used."""
        self.stop()
        known, self._known = self._known, None
        if known is None or not known.read_to:
            return None
        try:
            return known if self._topic_ids((self._topic,)).get(self._topic) == self._id else None
        except ClusterError:
            return None

    def _begin(self) -> None:
        if (found := self._topic_ids((self._topic,)).get(self._topic)) is None:
            return  # Not there, or of brokers that do not tell topics apart.
        self._id, self._known = found, nothing_known(self._cluster, self._times_ms)
        consumer = self._consumer = self._reader()
        if len(consumer.partitions_for_topic(self._topic) or {0}) > 1:
            raise ValueError("it has several partitions")
        partition = TopicPartition(self._topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)

    def _read(self) -> bool:
        """Whether there was something."""
        consumer, known = self._consumer, self._known
        assert consumer is not None
        assert known is not None
        found = consumer.poll(timeout_ms=_POLL_MS, max_records=_BATCH_RECORDS)
        for records in found.values():
            for record in records:
                known.take(record.key or b"", record.value)
        for partition in found:
            known.read_to[partition.partition] = consumer.position(partition)
        return bool(found)

    def _forget(self, error: Exception, begins_s: float) -> None:
        # Whoever takes over reads it from its beginning, and says what is wrong with it and what to do.
        log.info("the journal is not read ahead", reason=f"{type(error).__name__}: {error}")
        self._known = None
        self.stop()
        self._begins_s = begins_s
