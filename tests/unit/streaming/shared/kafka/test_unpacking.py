"""Unpacking and decoding of record batches, with kafka-python's own reader around it."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Sequence
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.record.util import calc_crc32c, encode_varint

from streaming.shared.kafka.unpacking import (
    BATCH_BYTES_MAX,
    MIB,
    UnreadableBatch,
    _limited,
    limit_unpacking,
    unreadable_batches,
)

PARTITION = TopicPartition("telegraf", 3)
NONE, GZIP, SNAPPY, ZSTD = 0, 1, 2, 4


def batch(first_offset: int, *values: bytes, codec: int = GZIP) -> bytes:
    made = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 30)
    for value in values:
        made.append(1_700_000_000_000, b"k", value)
    made.close()
    # The checksum does not cover the first offset, which the broker sets.
    return first_offset.to_bytes(8, "big") + bytes(made.buffer())[8:]


def with_content(made: bytes, packed: bytes) -> bytes:
    """Returns the batch's header with a new length before other packed records."""
    content = made[: DefaultRecordBatch.HEADER_STRUCT.size] + packed
    return content[:8] + (len(content) - 12).to_bytes(4, "big") + content[12:]


def labelled(content: bytes, codec: int) -> bytes:
    """Returns the batch with another compression codec in its header, which a broker would refuse."""
    made = bytearray(content)
    made[DefaultRecordBatch.ATTRIBUTES_OFFSET + 1] = codec
    return bytes(made)


def varint(number: int) -> bytes:
    made = bytearray()
    encode_varint(number, made.append)
    return bytes(made)


def record(value: bytes, delta: int = 0, *, headers: bytes = varint(0), milliseconds: int = 0) -> bytes:
    """One record of a batch, with the key b"k"."""
    body = b"\0" + varint(milliseconds) + varint(delta) + varint(1) + b"k" + varint(len(value)) + value + headers
    return varint(len(body)) + body


def of_records(*records: bytes, first_offset: int = 0, count: int | None = None) -> bytes:
    """Returns an uncompressed batch of these bytes that claims ``count`` records, with a wrong checksum."""
    count = len(records) if count is None else count
    return with_content(batch(first_offset, *[b""] * count, codec=NONE), b"".join(records))


def with_checksum(made: bytes) -> bytes:
    at = DefaultRecordBatch.ATTRIBUTES_OFFSET
    return made[: at - 4] + calc_crc32c(memoryview(made)[at:]).to_bytes(4, "big") + made[at:]


HEADER_KEY_NOT_UTF8 = varint(1) + varint(2) + b"\xff\xfe" + varint(1) + b"x"


def read(
    *batches: bytes, batch_bytes_max: int = BATCH_BYTES_MAX, fetch_bytes_max: int = 1 << 40, check_crcs: bool = True
) -> tuple[list[tuple[int, bytes]], Sequence[UnreadableBatch], int]:
    """Returns offsets and values, refused batches, and the next fetch position."""
    refused: list[UnreadableBatch] = []
    records = _limited(refused.append, batch_bytes_max, fetch_bytes_max)(
        0, PARTITION, MemoryRecords(b"".join(batches)), check_crcs=check_crcs
    )
    found = [(record.offset, record.value) for record in records.take()]
    return found, refused, records.next_fetch_offset


def test_batches_within_the_limit_are_read_as_before() -> None:
    batches = (batch(0, b"a", b"b"), batch(2, b"c", codec=NONE), batch(3, b"d"))
    assert read(*batches) == ([(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")], [], 4)


def test_bomb_is_skipped_reported_and_never_unpacked() -> None:
    bomb = batch(1, b"0" * (40 * MIB))
    assert len(bomb) < MIB
    tracemalloc.start()
    found, refused, next_offset = read(batch(0, b"a"), bomb, batch(2, b"c"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found, next_offset) == ([(0, b"a"), (2, b"c")], 3)
    assert refused == [
        UnreadableBatch("telegraf", 3, 1, 1, 1_700_000_000_000, len(bomb), "they unpack to more than 32 MiB")
    ]
    assert peak < 1.5 * BATCH_BYTES_MAX


def test_bomb_at_the_end_moves_the_position_behind_it() -> None:
    assert read(batch(7, b"0" * 2000, b"x"), batch_bytes_max=1000)[2] == 9


def test_bomb_of_several_gzip_members_is_left_out() -> None:
    made = with_content(batch(0, b"a" * 100), gzip.compress(b"0" * 900) * 2)
    found, refused, _ = read(made, batch_bytes_max=1000, check_crcs=False)
    assert found == []
    assert refused[0].reason == "they unpack to more than 0 MiB"


@pytest.mark.parametrize(("codec", "name"), [(SNAPPY, "snappy"), (ZSTD, "zstd"), (6, "an unknown codec")])
def test_codec_that_is_not_read_is_left_out(codec: int, name: str) -> None:
    found, refused, next_offset = read(labelled(batch(0, b"a"), codec), batch(1, b"b"), check_crcs=False)
    assert (found, next_offset) == ([(1, b"b")], 2)
    assert refused[0].reason.startswith(f"they are compressed with {name}, and rheostat reads gzip")


def test_damaged_gzip_is_left_out() -> None:
    made = batch(0, b"a" * 100)
    damaged = made[:-12] + bytes(4) + made[-8:]
    cut = with_content(made, gzip.compress(b"a")[:-9])
    for content, reason in ((damaged, "their gzip "), (cut, "their gzip ends early")):
        found, refused, _ = read(content, batch(1, b"b"), check_crcs=False)
        assert found == [(1, b"b")]
        assert refused[0].reason.startswith(reason)


def test_fetch_above_its_limit_ends_and_the_rest_comes_next() -> None:
    batches = [batch(n, b"0" * 900) for n in range(5)]
    found, refused, next_offset = read(*batches, batch_bytes_max=2000, fetch_bytes_max=1500)
    assert [offset for offset, _ in found] == [0, 1]
    assert (refused, next_offset) == ([], 2)


def test_compressed_batch_of_an_old_format_is_left_out() -> None:
    made = MemoryRecordsBuilder(magic=1, compression_type=GZIP, batch_size=1 << 20)
    made.append(1, b"k", b"v")
    made.close()
    found, refused, _ = read(bytes(made.buffer()), batch(1, b"b"))
    assert [value for _, value in found] == [b"b"]
    assert len(refused) == 1


@pytest.mark.parametrize(
    "headers",
    [
        HEADER_KEY_NOT_UTF8,
        varint(-1),  # A negative number of headers.
        varint(1) + varint(-1),  # A negative length of a key.
        varint(1) + varint(1) + b"h" + varint(-1),
        varint(1) + varint(1) + b"h" + varint(1000),
        varint(1 << 60),
        b"\x80" * 11,
        b"",
    ],
)
def test_headers_of_any_form_are_skipped(headers: bytes) -> None:
    made = of_records(record(b"a"), record(b"b", 1, headers=headers), record(b"c", 2))
    found, refused, next_offset = read(made, batch(3, b"d", codec=NONE), check_crcs=False)
    assert (found, refused, next_offset) == ([(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")], [], 4)


@pytest.mark.parametrize(
    ("malformed", "reason"),
    [
        (varint(-5) + b"abcde", "a length of -5"),
        (varint(0), "a length of 0"),
        (varint(1000) + b"abcde", "a length of 1000"),
        (b"\x80" * 11, "Out of int64 range"),
        (b"\x80", "index out of range"),
        (varint(5) + b"\0\0" + varint(1) + varint(9) + b"a", "9 bytes of 1"),
        (varint(1) + b"\0" + varint(0) + varint(1) + varint(-1) + varint(-1), "it ends too early"),
    ],
)
def test_batch_is_left_out_from_its_malformed_record_on(malformed: bytes, reason: str) -> None:
    made = of_records(record(b"a"), malformed, first_offset=20, count=3)
    found, refused, next_offset = read(batch(19, b"_"), made, batch(23, b"d"), check_crcs=False)
    assert (found, next_offset) == ([(19, b"_"), (20, b"a"), (23, b"d")], 24)
    assert [(r.first_offset, r.last_offset) for r in refused] == [(21, 22)]
    assert refused[0].reason.startswith("a record is malformed (")
    assert reason in refused[0].reason


@pytest.mark.parametrize("deltas", [(0, 0, 0), (0, 1000, 2), (1000, 1, 2), (-1, -7, 1 << 62), (2, 1, 0)])
def test_records_with_wrong_offsets_are_read_in_order(deltas: tuple[int, ...]) -> None:
    made = of_records(*[record(b"a", delta) for delta in deltas], first_offset=20)
    found, refused, next_offset = read(made, batch(23, b"d"), check_crcs=False)
    assert (found, refused, next_offset) == ([(20, b"a"), (21, b"a"), (22, b"a"), (23, b"d")], [], 24)


def test_offsets_of_a_compacted_batch_stay_as_they_are() -> None:
    made = bytearray(of_records(record(b"a", 1), record(b"c", 5), first_offset=20))
    made[23:27] = (7).to_bytes(4, "big")  # Its last offset, which compaction keeps.
    found, refused, next_offset = read(bytes(made), check_crcs=False)
    assert (found, refused, next_offset) == ([(21, b"a"), (25, b"c")], [], 28)


def test_keys_and_values_that_are_null_stay_null() -> None:
    body = b"\0" + varint(-7) + varint(0) + varint(-1) + varint(-3) + varint(0)
    made = of_records(varint(len(body)) + body)
    [found] = _limited(list, BATCH_BYTES_MAX, 1 << 40)(0, PARTITION, MemoryRecords(made), check_crcs=False).take()
    assert (found.key, found.value, found.timestamp) == (None, None, 1_700_000_000_000 - 7)


@given(st.binary(max_size=60), st.integers(-(2**31), 2**31 - 1))
def test_content_of_any_form_never_stops_the_reader(content: bytes, count: int) -> None:
    made = bytearray(with_content(batch(0, b"a", codec=NONE), content))
    made[57:61] = count.to_bytes(4, "big", signed=True)
    found, _, next_offset = read(bytes(made), batch(1, b"b"), check_crcs=False)
    assert found[-1] == (1, b"b")
    assert next_offset == 2


def test_wrong_checksum_is_an_error_at_each_read() -> None:
    made = with_checksum(of_records(record(b"a", headers=HEADER_KEY_NOT_UTF8)))
    assert read(made)[0] == [(0, b"a")]
    records = _limited(list, BATCH_BYTES_MAX, 1 << 40)(0, PARTITION, MemoryRecords(made[:-1] + b"y"))
    with pytest.raises(CorruptRecordError):
        records.take()
    assert not records, "else the next poll takes from a generator that has ended, for ever"


def test_unreadable_batches_are_collected_until_the_block_ends() -> None:
    heard: list[UnreadableBatch] = []
    consumer: Any = SimpleNamespace(_fetcher=SimpleNamespace())
    limit_unpacking(consumer, heard.append)
    bad = labelled(batch(0, b"a"), ZSTD)

    def read_one() -> None:
        consumer._fetcher.PartitionRecords(0, PARTITION, MemoryRecords(bad), check_crcs=False).take()

    with unreadable_batches(consumer) as refused:
        read_one()
    assert (len(refused), heard) == (1, [])
    read_one()
    assert (len(refused), len(heard)) == (1, 1)


def test_private_names_of_kafka_python_are_as_expected() -> None:
    """The size limit hooks into these private names: if kafka-python changes them, the hook must be rewritten."""
    assert list(signature(Fetcher.PartitionRecords._unpack_records).parameters) == [
        "self", "tp", "records", "key_deserializer", "value_deserializer",
    ]  # fmt: skip
    assert {"_buffer", "_pos"} <= set(DefaultRecordBatch.__slots__)
    source: Any = Fetcher._parse_fetched_data.__code__
    assert "PartitionRecords" in source.co_names
