"""Limits how much a consumer unpacks and decodes, so that no record accepted by a broker can stop it.

**Size.** A batch of 0.7 MB can unpack to 700 MB, and kafka-python unpacks the whole batch at once. A compressed batch is skipped if
it unpacks to more than the limit or uses another codec than gzip; ``on_unreadable_batch`` is called for the batch. rheostat's
own producers write gzip and no record above ``RECORD_BYTES_MAX``. But a broker recompresses records if the topic has its own
``compression.type``, so streaming/shared/topics.py demands ``producer``. A reader that must not miss a batch learns of skipped
batches from ``unreadable_batches``. A fetch that has unpacked ``FETCH_BYTES_MAX`` ends; the next poll fetches the rest.

**Form.** kafka-python raises an error for a header key that is not UTF-8, although brokers accept it. So this module decodes
records and skips their headers, which rheostat does not use. Brokers also accept offsets that are out of order or beyond the end
of the topic, which would make a reader's position jump. This module replaces such an offset by one within the batch. A batch with a
malformed record is skipped from that record on; one producer wrote the whole batch, so its later records are not trusted either.

**Errors.** After an error in a partition's records kafka-python's ``poll`` never returns: it waits for a generator that has
ended. So the partition's fetched records are dropped at an error. The next poll fetches them again, and raises again if a checksum
is wrong.

The topics do not use ``compression.type=uncompressed``, which would make the brokers unpack: a broker also unpacks a whole batch at
once and can run out of heap.

kafka-python has no hook for reading batches. So the class with which a consumer's fetcher reads batches is replaced by a subclass.
The subclass overrides ``Fetcher.PartitionRecords._unpack_records`` and calls ``drain``, private names of kafka-python 3.0.12;
tests/unit/streaming/shared/kafka/test_unpacking.py fails if they change.
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

from streaming.shared.kafka.client_internals import batch_content, fetcher

MIB = 1024 * 1024
BATCH_BYTES_MAX = 32 * MIB
FETCH_BYTES_MAX = 64 * MIB
_GZIP = 16 + zlib.MAX_WBITS
_CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

log = structlog.get_logger("kafka")


@dataclass(frozen=True, slots=True)
class UnreadableBatch:
    """A record batch that was skipped, or the skipped end of one."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    timestamp_ms: int  # Timestamp of the batch's first record.
    packed_bytes: int  # Size of the whole batch.
    reason: str

    @property
    def text(self) -> str:
        """One line that names the records and the reason."""
        return (
            f"records {self.first_offset} to {self.last_offset} of {self.topic}, partition {self.partition}, are not read: "
            f"{self.reason}"
        )


OnUnreadableBatch = Callable[[UnreadableBatch], object]


def log_unreadable_batch(batch: UnreadableBatch) -> None:
    log.error(
        f"{batch.text}; check that the topic has compression.type=producer, then find the producer that wrote them and correct it "
        "or revoke its right to write",
        packed_bytes=batch.packed_bytes,
    )


class _Refused(Exception):
    """The batch, or the rest of the batch, is skipped; the message is the reason."""


def limit_unpacking(
    consumer: KafkaConsumer,
    on_unreadable_batch: OnUnreadableBatch = log_unreadable_batch,
    *,
    batch_bytes_max: int = BATCH_BYTES_MAX,
    fetch_bytes_max: int = FETCH_BYTES_MAX,
) -> None:
    """Makes the consumer skip malformed records and batches that unpack to more than ``batch_bytes_max``."""
    fetcher(consumer).PartitionRecords = _limited(on_unreadable_batch, batch_bytes_max, fetch_bytes_max)


@contextmanager
def unreadable_batches(consumer: KafkaConsumer) -> Iterator[list[UnreadableBatch]]:
    """Collects the batches that ``consumer`` skips within the block, instead of calling its ``on_unreadable_batch``."""
    unreadable: list[UnreadableBatch] = []
    reader = fetcher(consumer)
    original = reader.PartitionRecords
    limit_unpacking(consumer, unreadable.append)
    try:
        yield unreadable
    finally:
        reader.PartitionRecords = original


def _limited(on_unreadable_batch: OnUnreadableBatch, batch_bytes_max: int, fetch_bytes_max: int) -> type[Any]:
    class LimitedRecords(Fetcher.PartitionRecords):  # type: ignore[misc, unused-ignore]
        """The records of one partition in one fetch response."""

        def _unpack_records(self, tp: TopicPartition, records: Any, *deserializers: Any) -> Iterator[Any]:
            batches = _Batches(records, tp, on_unreadable_batch, batch_bytes_max, fetch_bytes_max)
            try:
                yield from super()._unpack_records(tp, batches, *deserializers)
            except BaseException:
                self.drain()  # Otherwise the next poll never returns.
                raise

    return LimitedRecords


class _Batches:
    """``MemoryRecords`` whose batches are unpacked and decoded within limits."""

    def __init__(
        self,
        records: Any,
        tp: TopicPartition,
        on_unreadable_batch: OnUnreadableBatch,
        batch_bytes_max: int,
        fetch_bytes_max: int,
    ) -> None:
        self._records = records
        self._tp = tp
        self._on_unreadable = on_unreadable_batch
        self._batch_bytes_max = batch_bytes_max
        self._bytes_left = fetch_bytes_max

    def next_batch(self) -> Any:
        batch = self._records.next_batch() if self._bytes_left > 0 else None
        # kafka-python reads control batches in its own way; only brokers write them.
        if batch is None or (isinstance(batch, DefaultRecordBatch) and batch.is_control_batch):
            return batch
        return _PackedBatch(batch, self)

    def records(self, batch: Any) -> Iterator[Any]:
        next_offset = batch.base_offset
        try:
            if not batch.compression_type and not isinstance(batch, DefaultRecordBatch):
                yield from batch  # A format before v2, which brokers from 3.0 on do not store.
                return
            for record in _decoded(batch, *self._unpacked(batch)):
                next_offset = record.offset + 1
                yield record
        except _Refused as refused:
            # Up to this many bytes were unpacked before the batch was skipped.
            self._bytes_left -= self._batch_bytes_max
            self._on_unreadable(_unreadable_batch(self._tp, batch, next_offset, str(refused)))

    def _unpacked(self, batch: Any) -> tuple[bytearray, int]:
        """Returns the bytes that hold the records, and the position of the first record."""
        if not batch.compression_type:
            return batch_content(batch)
        content = _unpack(batch, self._batch_bytes_max)
        self._bytes_left -= len(content)
        return content, 0


class _PackedBatch:
    """A batch that is unpacked when it is iterated, which kafka-python does after checking the checksum."""

    def __init__(self, batch: Any, batches: _Batches) -> None:
        self._batch = batch
        self._batches = batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        return self._batches.records(self._batch)


def _decoded(batch: DefaultRecordBatch, content: bytearray, pos: int) -> Iterator[DefaultRecord]:
    """Yields the records without their headers; one by one, because 32 MiB can hold four million records.

    Raises:
        _Refused: the next record is malformed.
    """
    offset_min, end = batch.base_offset, len(content)
    appended_ms = batch.max_timestamp if batch.timestamp_type == batch.LOG_APPEND_TIME else None
    for records_left in reversed(range(batch.records_count)):
        try:
            length, begin = decode_varint(content, pos)
            pos = begin + length
            if not begin < pos <= end:
                raise ValueError(f"a length of {length}")
            time_delta, field_pos = decode_varint(content, begin + 1)  # The first byte holds the attributes.
            offset_delta, field_pos = decode_varint(content, field_pos)
            key, field_pos = _bytes_at(content, field_pos, pos)
            value, field_pos = _bytes_at(content, field_pos, pos)
            if field_pos > pos:
                raise ValueError("it ends too early")
            # Brokers do not check the offset deltas of an uncompressed batch. Offsets are clamped so that they ascend and leave
            # an offset for each record that follows.
            offset = min(max(batch.base_offset + offset_delta, offset_min), batch.last_offset - records_left)
            if offset < offset_min:
                raise ValueError(f"{batch.records_count} records, and no offset for one of them")
        except (ValueError, IndexError) as error:
            raise _Refused(f"a record is malformed ({error})") from error
        offset_min = offset + 1
        timestamp_ms = batch.first_timestamp + time_delta if appended_ms is None else appended_ms
        yield DefaultRecord(length, offset, timestamp_ms, batch.timestamp_type, key, value, [])


def _bytes_at(content: bytearray, pos: int, end: int) -> tuple[bytes | None, int]:
    """Returns the length-prefixed bytes at ``pos`` and the position after them; None for a negative length.

    Raises:
        ValueError, IndexError: the bytes extend beyond ``end``.
    """
    length, pos = decode_varint(content, pos)
    if length < 0:
        return None, pos
    if length > end - pos:
        raise ValueError(f"{length} bytes of {end - pos}")
    return bytes(content[pos : pos + length]), pos + length


def _unpack(batch: Any, bytes_max: int) -> bytearray:
    """Returns the unpacked records of a batch.

    Raises:
        _Refused: the content exceeds ``bytes_max``, or the codec is not gzip, or the data is damaged.
    """
    codec = _CODECS.get(batch.compression_type, "an unknown codec")
    if not isinstance(batch, DefaultRecordBatch) or codec != "gzip":
        raise _Refused(f"they are compressed with {codec}, and rheostat reads gzip and uncompressed batches here")
    buffer, pos = batch_content(batch)
    packed = bytes(memoryview(buffer)[pos:])
    content = bytearray()
    try:
        while packed:  # gzip data may consist of several members.
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


def _unreadable_batch(tp: TopicPartition, batch: Any, first_offset: int, reason: str) -> UnreadableBatch:
    # Before format v2, the header has neither the timestamp of the first record nor the last offset.
    has_header_values = isinstance(batch, DefaultRecordBatch)
    return UnreadableBatch(
        topic=tp.topic,
        partition=tp.partition,
        first_offset=first_offset,
        last_offset=batch.last_offset if has_header_values else first_offset,
        timestamp_ms=batch.first_timestamp if has_header_values else -1,
        packed_bytes=batch.size_in_bytes,
        reason=reason,
    )
