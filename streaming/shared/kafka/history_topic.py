"""Reads the history topic: periods for `rheostat history`, `rheostat learn` and the API, and the progress for the stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from streaming.shared.contract import ContractError, HistoryPeriod, decode_history
from streaming.shared.kafka.read_to_end import read_to_end

_POLL_MS = 500
# A key is searched first in these numbers of the newest records, and then in all records of the time range.
_NEWEST = (20, 500)


class HistoryTopic:
    """A reader outside any consumer group.

    Its methods raise ``KafkaError``, ``RuntimeError`` or ``OSError`` if Kafka does not answer. A missing topic has no records.

    Attributes:
        refused: number of records that could not be read as periods.
    """

    def __init__(self, consumer: KafkaConsumer, topic: str) -> None:
        """
        Args:
            consumer: used by this reader alone.
        """
        self._consumer = consumer
        self._topic = topic
        self.refused = 0

    def periods(self, cluster: str, since_ms: int) -> Iterator[HistoryPeriod]:
        """Yields the cluster's periods that end after ``since_ms``, in the order of the topic. A later period replaces an earlier
        one with the same start. ``new_periods`` then continues after them."""
        partitions = self._assign()
        # A period is written after its end.
        starts = self._offsets_at(partitions, since_ms)
        for period in self._decoded(read_to_end(self._consumer, starts), cluster):
            if period.end_ms > since_ms:
                yield period

    def new_periods(self, cluster: str, timeout_ms: int = _POLL_MS) -> Iterator[HistoryPeriod]:
        """Yields the cluster's periods that were written since the last call of this method or of ``periods``."""
        for records in self._consumer.poll(timeout_ms=timeout_ms).values():
            yield from self._decoded(records, cluster)

    def newest_values(self, key: bytes, since_ms: int) -> Iterator[bytes]:
        """Yields the values of this key that were written after ``since_ms``. Within a partition the newest comes first."""
        partitions = self._assign()
        begins = self._offsets_at(partitions, since_ms)
        ends: dict[TopicPartition, int] = self._consumer.end_offsets(partitions) if partitions else {}
        searched = dict(ends)
        for count in (*_NEWEST, None):
            starts = {p: begins[p] if count is None else max(begins[p], end - count) for p, end in ends.items()}
            records = [r for r in read_to_end(self._consumer, starts, searched) if r.key == key and r.value is not None]
            records.sort(key=lambda record: (record.timestamp, record.offset), reverse=True)
            yield from (record.value for record in records)
            searched = starts

    def _assign(self) -> list[TopicPartition]:
        numbers = self._consumer.partitions_for_topic(self._topic) or ()
        partitions = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        self._consumer.assign(partitions)
        return partitions

    def _offsets_at(self, partitions: Iterable[TopicPartition], at_ms: int) -> dict[TopicPartition, int]:
        """Returns for each partition the offset of the first record that is not older than ``at_ms``; the end offset if there is
        none."""
        partitions = list(partitions)
        if not partitions:
            return {}
        ends = self._consumer.end_offsets(partitions)
        offsets = self._consumer.offsets_for_times(dict.fromkeys(partitions, max(0, at_ms)))
        return {p: min(ends[p], record.offset) if record is not None else ends[p] for p, record in offsets.items()}

    def _decoded(self, records: Iterable[Any], cluster: str) -> Iterator[HistoryPeriod]:
        prefix = f"{cluster}|".encode()
        for record in records:
            if not (record.key or b"").startswith(prefix) or record.value is None:
                continue
            try:
                period = decode_history(record.value)
            except ContractError:
                self.refused += 1
                continue
            if period.cluster == cluster:
                yield period


def latest(periods: Iterable[HistoryPeriod]) -> list[HistoryPeriod]:
    """Returns the last record of each period, in order of time."""
    by_start = {period.start_ms: period for period in periods}
    return [by_start[start_ms] for start_ms in sorted(by_start)]
