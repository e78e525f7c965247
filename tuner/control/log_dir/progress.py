"""Measures the copies between the log directories of one broker: remaining bytes, rate, and expected end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streaming.shared.log_dirs import LogDirCopy

# The rates are means over this time, because Kafka's quota passes bytes in bursts over its window of 11 s.
MEAN_S = 30.0

_Sizes = Mapping[tuple[str, int], tuple[int, int]]  # Size of the log and of its copy, by partition.


@dataclass(frozen=True, slots=True)
class CopyHistory:
    """The reads of one broker in the last ``MEAN_S``, the oldest first: time (epoch ms) and sizes."""

    reads: tuple[tuple[int, _Sizes], ...] = ()


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The copies of one broker.

    Attributes:
        partitions: the number of partitions that are copied or wait for their turn.
        copied_bytes_per_s: bytes/s of all copies; None: not measured yet.
        written_bytes_per_s: the rate at which producers write to these partitions. These bytes must be copied too.
        eta_s: seconds until all copies have ended; None: unknown, or they never end at this rate.
    """

    partitions: int
    remaining_bytes: int
    copied_bytes_per_s: float | None = None
    written_bytes_per_s: float = 0.0
    eta_s: float | None = None


def add_read(history: CopyHistory, now_ms: int, copies: Sequence[LogDirCopy]) -> CopyHistory:
    """Returns the history with one more read; reads before a gap or a change of the clock are dropped."""
    sizes = {(copy.topic, copy.partition): (copy.size_bytes, copy.copied_bytes) for copy in copies}
    recent = [read for read in history.reads if 0 < now_ms - read[0] <= MEAN_S * 1000]
    return CopyHistory((*recent, (now_ms, sizes)))


def measure_progress(
    copies: Sequence[LogDirCopy], history: CopyHistory, reported_bytes_per_s: float | None
) -> CopyProgress:
    """Returns the progress of the copies.

    Args:
        copies: the copies that the newest read has found.
        history: the reads, the newest included.
        reported_bytes_per_s: the copied bytes/s that the broker reports; used while the history has a single read.
    """
    remaining = sum(copy.remaining_bytes for copy in copies)
    copied, written = reported_bytes_per_s, 0.0
    if len(history.reads) > 1:
        (first_ms, first), (last_ms, last) = history.reads[0], history.reads[-1]
        span_s = (last_ms - first_ms) / 1000
        copied = _copied_bytes(first, last) / span_s
        written = sum(max(0, last[key][0] - first[key][0]) for key in first.keys() & last.keys()) / span_s
    gained = 0.0 if copied is None else copied - written
    eta_s = remaining / gained if gained > 0 else None
    return CopyProgress(
        partitions=len(copies),
        remaining_bytes=remaining,
        copied_bytes_per_s=copied,
        written_bytes_per_s=written,
        eta_s=eta_s if remaining else 0.0,
    )


def _copied_bytes(first: _Sizes, last: _Sizes) -> int:
    """Returns the bytes copied between two reads. A copy that is missing in the last read has ended, so it counts in full."""
    copied = 0
    for key, (size, done) in first.items():
        copied += max(0, last[key][1] - done) if key in last else max(0, size - done)
    return copied + sum(done for key, (_, done) in last.items() if key not in first)
