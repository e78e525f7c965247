"""A limit on what a consumer unpacks. A batch of 0.7 MB can unpack to 700 MB, and kafka-python unpacks a batch whole.

A compressed batch that unpacks to more than the limit, or is compressed in a way that this program does not read, is left out:
the consumer goes on behind it, and ``on_refused`` is called. None of them is rheostat's own: its producers write gzip, and no
record above ``RECORD_BYTES_MAX``. A fetch that has unpacked ``FETCH_BYTES_MAX`` ends there; the next poll fetches the rest.

Brokers are not asked to unpack instead (``compression.type=uncompressed``): they too unpack a batch whole, and a broker with a
heap of 400 MB ran out of memory by one record of 0.7 MB (Kafka 4.2).

kafka-python has no hook for this, so the class of a consumer's fetcher that reads batches is replaced by a subclass. It uses
these private names of kafka-python 3.0.12: ``KafkaConsumer._fetcher``, ``Fetcher.PartitionRecords._unpack_records``,
``DefaultRecordBatch._buffer``, ``_pos`` and ``_decompressed``. tests/unit/test_unpacking.py fails where they change.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.record.default_records import DefaultRecordBatch

MIB = 1024 * 1024
BATCH_BYTES_MAX = 32 * MIB
FETCH_BYTES_MAX = 64 * MIB
_GZIP = 16 + zlib.MAX_WBITS
_CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

log = structlog.get_logger("kafka")


@dataclass(frozen=True, slots=True)
class RefusedBatch:
    """A record batch that was left out."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    timestamp_ms: int  # Of its first record.
    packed_bytes: int
    reason: str


OnRefused = Callable[[RefusedBatch], object]


def log_refused(batch: RefusedBatch) -> None:
    log.error(
        f"records {batch.first_offset} to {batch.last_offset} of {batch.topic}, partition {batch.partition}, are not read: "
        f"{batch.reason}; find the producer that wrote them, and mend it or take its right to write away",
        packed_bytes=batch.packed_bytes,
    )


class _Refused(Exception):
    """Why a batch is left out."""


def limit_unpacking(
    consumer: KafkaConsumer,
    on_refused: OnRefused = log_refused,
    *,
    batch_bytes_max: int = BATCH_BYTES_MAX,
    fetch_bytes_max: int = FETCH_BYTES_MAX,
) -> None:
    """Makes the consumer leave out batches that unpack to more than ``batch_bytes_max``."""
    consumer._fetcher.PartitionRecords = _limited(on_refused, batch_bytes_max, fetch_bytes_max)


def _limited(on_refused: OnRefused, batch_bytes_max: int, fetch_bytes_max: int) -> type[Any]:
    class LimitedRecords(Fetcher.PartitionRecords):  # type: ignore[misc, unused-ignore]
        """The records of one partition in one answer to a fetch."""

        def _unpack_records(self, tp: TopicPartition, records: Any, *deserializers: Any) -> Iterator[Any]:
            batches = _Batches(records, tp, on_refused, batch_bytes_max, fetch_bytes_max)
            return super()._unpack_records(tp, batches, *deserializers)  # type: ignore[no-any-return, unused-ignore]

    return LimitedRecords


class _Batches:
    """``MemoryRecords`` whose compressed batches are unpacked within limits."""

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
        return _PackedBatch(batch, self) if batch is not None and batch.compression_type else batch

    def unpacked(self, batch: Any) -> Iterator[Any]:
        try:
            content = _unpack(batch, self._batch_bytes_max)
        except _Refused as refused:
            self._bytes_left -= self._batch_bytes_max
            self._on_refused(_refused_batch(self._tp, batch, str(refused)))
            return iter(())
        self._bytes_left -= len(content)
        batch._buffer, batch._pos, batch._decompressed = content, 0, True
        return iter(batch)


class _PackedBatch:
    """A batch that is unpacked when it is iterated over, after its checksum was compared."""

    def __init__(self, batch: Any, batches: _Batches) -> None:
        self._batch = batch
        self._batches = batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        return self._batches.unpacked(self._batch)


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


def _refused_batch(tp: TopicPartition, batch: Any, reason: str) -> RefusedBatch:
    if not isinstance(batch, DefaultRecordBatch):  # Formats before v2: their first offset is not in the header.
        return RefusedBatch(
            tp.topic, tp.partition, batch.base_offset, batch.base_offset, -1, batch.size_in_bytes, reason
        )
    return RefusedBatch(
        tp.topic, tp.partition, batch.base_offset, batch.last_offset, batch.first_timestamp, batch.size_in_bytes, reason
    )
