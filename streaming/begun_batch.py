"""Reads and rewrites the unfinished batch of a query in Spark's checkpoint files. No query may run meanwhile.

    <live>/offsets/<n>      end offsets of batch n; its start offsets are the ends of batch n - 1
    <live>/commits/<n>      written when batch n is finished
    <live>/sources/<i>/0    start offsets of batch 0, source i

A query that starts repeats the unfinished batch between exactly these offsets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streaming.checkpoint import (
    SPARK_LOG_VERSION,
    CheckpointRecord,
    batch_numbers,
    check_format,
    damage_error,
    read_offsets,
)
from streaming.checkpoint_files import CheckpointPath, write_atomically
from streaming.sources import Offsets

_ZERO = "\x00"  # Spark writes a zero byte before the version in files below ``sources`` only.


@dataclass(frozen=True, slots=True)
class Slice:
    """The records of one partition that a batch reads: from ``start`` to before ``end``."""

    source: int
    topic: str
    partition: int
    start: int
    end: int

    @property
    def records(self) -> int:
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class BegunBatch:
    """A batch that a query has begun and not finished."""

    number: int
    slices: tuple[Slice, ...]  # One per partition with a known start, ordered by source, topic and partition.

    @property
    def records(self) -> int:
        return sum(part.records for part in self.slices)


def begun_batch(checkpoint_dir: CheckpointPath, record: CheckpointRecord) -> BegunBatch | None:
    """Returns the unfinished batch; None if every batch is finished or the start offsets are unknown.

    Raises:
        UnknownFormatError: a file is in a format of a later Spark.
        StreamError: a file cannot be read.
    """
    live = checkpoint_dir / record.live
    begun, finished = batch_numbers(live / "offsets"), batch_numbers(live / "commits")
    if not begun or (finished and finished[-1] >= begun[-1]):
        return None
    number = begun[-1]
    ends = read_offsets(live / "offsets" / str(number))
    if number > 0:
        starts = read_offsets(live / "offsets" / str(number - 1))
    else:
        files = [live / "sources" / str(source) / "0" for source in range(len(ends))]
        if not all(file.exists() for file in files):
            return None
        starts = [_read_initial_offsets(file) for file in files]
    return BegunBatch(number, tuple(_slices(starts, ends)))


def write_begun_batch(checkpoint_dir: CheckpointPath, record: CheckpointRecord, batch: BegunBatch) -> None:
    """Writes the batch's start and end offsets into Spark's files. No query may run."""
    live, number = checkpoint_dir / record.live, batch.number
    if number > 0:
        _replace_offsets(live / "offsets" / str(number - 1), batch.slices, at_end=False)
    else:
        for source in batch_numbers(live / "sources"):
            file = live / "sources" / str(source) / "0"
            offsets = _with_slices(
                _read_initial_offsets(file), [part for part in batch.slices if part.source == source], at_end=False
            )
            write_atomically(file, f"{_ZERO}{SPARK_LOG_VERSION}\n{json.dumps(offsets)}")
    _replace_offsets(live / "offsets" / str(number), batch.slices, at_end=True)


def _slices(starts: Sequence[Offsets], ends: Sequence[Offsets]) -> Iterator[Slice]:
    for source, (first, end) in enumerate(zip(starts, ends, strict=True)):
        for topic, by_partition in sorted(end.items()):
            for partition, offset in sorted(by_partition.items()):
                if partition in first.get(topic, {}):
                    yield Slice(source, topic, partition, start=first[topic][partition], end=offset)


def _read_initial_offsets(file: CheckpointPath) -> Offsets:
    """Returns the start offsets of batch 0, which Spark keeps in another form than later offsets."""
    try:
        version, _, content = file.read_text(encoding="utf-8").removeprefix(_ZERO).partition("\n")
        check_format(file, version)
        body = json.loads(content)
        return {t: {int(p): int(offset) for p, offset in by_partition.items()} for t, by_partition in body.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise damage_error(file, "not offsets of Kafka") from error


def _replace_offsets(file: CheckpointPath, slices: Sequence[Slice], *, at_end: bool) -> None:
    version, head, *lines = file.read_text(encoding="utf-8").splitlines()
    for source, offsets in enumerate(read_offsets(file)):
        source_slices = [part for part in slices if part.source == source]
        if source_slices:
            lines[source] = json.dumps(_with_slices(offsets, source_slices, at_end=at_end))
    write_atomically(file, "\n".join([version, head, *lines]))


def _with_slices(offsets: Offsets, slices: Sequence[Slice], *, at_end: bool) -> dict[str, dict[str, int]]:
    """Returns the offsets in Spark's JSON form. Each slice's offset is replaced by the end (``at_end``) or the start of the
    slice."""
    changed = {topic: {str(p): offset for p, offset in by_partition.items()} for topic, by_partition in offsets.items()}
    for part in slices:
        changed[part.topic][str(part.partition)] = part.end if at_end else part.start
    return changed
