"""Limits on what a consumer unpacks and decodes, so that no record that a broker takes can stop it.

**Size.** A batch of 0.7 MB can unpack to 700 MB, and kafka-python unpacks a batch whole. A compressed batch that unpacks to more
than the limit, or is compressed in a way that this program does not read, is left out: the consumer goes on behind it, and
``on_refused`` is called. None of them is as rheostat sent it: its producers write gzip, and no record above ``RECORD_BYTES_MAX``.
But a broker whose topic has a ``compression.type`` of its own compresses anew what it takes (streaming/shared/topics.py demands
``producer``). A reader that must not miss a batch asks for those left out (``refused_batches``). A fetch that has unpacked
``FETCH_BYTES_MAX`` ends there; the next poll fetches the rest.

**Form.** kafka-python raises an error for a header key that is not UTF-8, and brokers take such a key. So records are decoded
here, and their headers are skipped: rheostat uses none. Brokers also take offsets that are out of order, or beyond the end of the
topic: a reader's position would jump there. Such a record is given an offset of its batch. A batch with a malformed record is left
out from that record on: one producer wrote all of it.

**Errors.** After an error in a partition's records kafka-python's ``poll`` does not return any more: it waits for records of
a generator that has ended. So the records are given up at an error. The next poll fetches them again, and raises again if a
checksum is wrong.

Brokers are not asked to unpack instead (``compression.type=uncompressed``): they too unpack a batch whole, and a broker with a
heap of 400 MB ran out of memory by one record of 0.7 MB (Kafka 4.2).

kafka-python has no hook for this, so the class of a consumer's fetcher that reads batches is replaced by a subclass. It uses
these private names of kafka-python 3.0.12: ``KafkaConsumer._fetcher``, ``Fetcher.PartitionRecords`` with ``_unpack_records`` and
``drain``, ``DefaultRecordBatch._buffer`` and ``_pos``. tests/unit/streaming/shared/kafka/test_unpacking.py fails where they change.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.record.default_records import DefaultRecord, DefaultRecordBatch
from kafka.record.util import decode_varint

MIB = 1024 * 1024
BATCH_BYTES_MAX = 32 * MIB
FETCH_BYTES_MAX = 64 * MIB
_GZIP = 16 + zlib.MAX_WBITS
_CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

log = structlog.get_logger("kafka")


@dataclass(frozen=True, slots=True)
class RefusedBatch:
    """A record batch that was left out, or the end of one."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    timestamp_ms: int  # Of the batch's first record.
    packed_bytes: int  # Of the whole batch.
    reason: str

    @property
    def text(self) -> str:
        """In words, for one line: which records, and why."""
        return (
            f"records {self.first_offset} to {self.last_offset} of {self.topic}, partition {self.partition}, are not read: "
            f"{self.reason}"
        )


OnRefused = Callable[[RefusedBatch], object]


def log_refused(batch: RefusedBatch) -> None:
    log.error(
        f"{batch.text}; see that the topic has compression.type=producer, and find the producer that wrote them: mend it, or take "
        "its right to write away",
        packed_bytes=batch.packed_bytes,
    )


class _Refused(Exception):
    """Why a batch is left out, or what is left of it."""


def limit_unpacking(
    consumer: KafkaConsumer,
    on_refused: OnRefused = log_refused,
    *,
    batch_bytes_max: int = BATCH_BYTES_MAX,
    fetch_bytes_max: int = FETCH_BYTES_MAX,
) -> None:
    """Makes the consumer leave out batches that unpack to more than ``batch_bytes_max``, and malformed records."""
    consumer._fetcher.PartitionRecords = _limited(on_refused, batch_bytes_max, fetch_bytes_max)


@contextmanager
def refused_batches(consumer: KafkaConsumer) -> Iterator[list[RefusedBatch]]:
    """Collects the batches that ``consumer`` leaves out until the end of the block. ``on_refused`` does not hear of them."""
    fetcher, refused = consumer._fetcher, list[RefusedBatch]()
    before = fetcher.PartitionRecords
    limit_unpacking(consumer, refused.append)
    try:
        yield refused
    finally:
        fetcher.PartitionRecords = before


def _limited(on_refused: OnRefused, batch_bytes_max: int, fetch_bytes_max: int) -> type[Any]:
    class LimitedRecords(Fetcher.PartitionRecords):  # type: ignore[misc, unused-ignore]
        """The records of one partition in one answer to a fetch."""

        def _unpack_records(self, tp: TopicPartition, records: Any, *deserializers: Any) -> Iterator[Any]:
            batches = _Batches(records, tp, on_refused, batch_bytes_max, fetch_bytes_max)
            try:
                yield from super()._unpack_records(tp, batches, *deserializers)
            except BaseException:
                self.drain()  # Else the next poll never returns.
                raise

    return LimitedRecords


class _Batches:
    """``MemoryRecords`` whose batches are unpacked and decoded within limits."""

    def __init__(
        self, records: Any, tp: TopicPartition, on_refused: OnRefused, batch_bytes_max: int, fetch_bytes_max: int
    ) -> None:
        self._records = records
        self._tp = tp
        self._on_refused = on_refused
        self._batch_bytes_max = batch_bytes_max
        self._bytes_left = fetch_bytes_max

    def next_batch(self) -> Any:
        batch = self._records.next_batch() if self._bytes_left > 0 else None
        # Only brokers write control batches, and kafka-python reads their one record in another way.
        if batch is None or (isinstance(batch, DefaultRecordBatch) and batch.is_control_batch):
            return batch
        return _PackedBatch(batch, self)

    def records(self, batch: Any) -> Iterator[Any]:
        next_offset = batch.base_offset
        try:
            if not batch.compression_type and not isinstance(batch, DefaultRecordBatch):
                yield from batch  # No broker of Kafka 3.0 or later stores this format.
                return
            for record in _decoded(batch, *self._unpacked(batch)):
                next_offset = record.offset + 1
                yield record
        except _Refused as refused:
            self._bytes_left -= self._batch_bytes_max
            self._on_refused(_refused_batch(self._tp, batch, next_offset, str(refused)))

    def _unpacked(self, batch: Any) -> tuple[bytearray, int]:
        """Returns the bytes of its records, and at which of them they begin."""
        if not batch.compression_type:
            return batch._buffer, batch._pos
        content = _unpack(batch, self._batch_bytes_max)
        self._bytes_left -= len(content)
        return content, 0


class _PackedBatch:
    """A batch that is unpacked when it is iterated over, after its checksum was compared."""

    def __init__(self, batch: Any, batches: _Batches) -> None:
        self._batch = batch
        self._batches = batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        return self._batches.records(self._batch)


def _decoded(batch: DefaultRecordBatch, content: bytearray, pos: int) -> Iterator[DefaultRecord]:
    """Yields the records without their headers, each when it is asked for: 32 MiB can hold four million of them.

    Raises:
        _Refused: the next record is malformed.
    """
    least, end = batch.base_offset, len(content)
    appended_ms = batch.max_timestamp if batch.timestamp_type == batch.LOG_APPEND_TIME else None
    for left in reversed(range(batch.records_count)):
        try:
            length, begin = decode_varint(content, pos)
            pos = begin + length
            if not begin < pos <= end:
                raise ValueError(f"a length of {length}")
            time_delta, at = decode_varint(content, begin + 1)  # Behind the attributes.
            offset_delta, at = decode_varint(content, at)
            key, at = _bytes_at(content, at, pos)
            value, at = _bytes_at(content, at, pos)
            if at > pos:
                raise ValueError("it ends too early")
            # Brokers store deltas of an uncompressed batch unchecked. Each record has its offset in order, with room for the rest.
            offset = min(max(batch.base_offset + offset_delta, least), batch.last_offset - left)
            if offset < least:
                raise ValueError(f"{batch.records_count} records, and no offset for one of them")
        except (ValueError, IndexError) as error:
            raise _Refused(f"a record is malformed ({error})") from error
        least = offset + 1
        timestamp_ms = batch.first_timestamp + time_delta if appended_ms is None else appended_ms
        yield DefaultRecord(length, offset, timestamp_ms, batch.timestamp_type, key, value, [])


def _bytes_at(content: bytearray, pos: int, end: int) -> tuple[bytes | None, int]:
    """Returns the bytes behind their length at ``pos``, and where they end; None for a negative length.

    Raises:
        ValueError, IndexError: they do not end before ``end``.
    """
    length, pos = decode_varint(content, pos)
    if length < 0:
        return None, pos
    if length > end - pos:
        raise ValueError(f"{length} bytes of {end - pos}")
    return bytes(content[pos : pos + length]), pos + length


def _unpack(batch: Any, bytes_max: int) -> bytearray:
    """
    Raises:
        _Refused: it is larger than that, or not to be unpacked by us.
    """
    codec = _CODECS.get(batch.compression_type, "an unknown codec")
    if not isinstance(batch, DefaultRecordBatch) or codec != "gzip":
        raise _Refused(f"they are compressed with {codec}, and rheostat reads gzip and uncompressed batches here")
    packed = bytes(memoryview(batch._buffer)[batch._pos :])
    content = bytearray()
    try:
        while packed:  # gzip files may stand one behind the other.
            inflate = zlib.decompressobj(_GZIP)
            while packed and not inflate.eof:
                content += inflate.decompress(packed, MIB)
                packed = inflate.unconsumed_tail
                if len(content) > bytes_max:
                    raise _Refused(f"they unpack to more than {bytes_max / MIB:.0f} MiB")
            if not inflate.eof:
                raise _Refused("their gzip ends early")
            packed = inflate.unused_data
    except zlib.error as error:
        raise _Refused(f"their gzip is damaged ({error})") from error
    return content


def _refused_batch(tp: TopicPartition, batch: Any, first_offset: int, reason: str) -> RefusedBatch:
    if not isinstance(batch, DefaultRecordBatch):  # Formats before v2: their first offset is not in the header.
        return RefusedBatch(tp.topic, tp.partition, first_offset, first_offset, -1, batch.size_in_bytes, reason)
    return RefusedBatch(
        tp.topic, tp.partition, first_offset, batch.last_offset, batch.first_timestamp, batch.size_in_bytes, reason
    )
