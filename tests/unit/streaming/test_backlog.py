"""The backlog after an outage: every window is processed once, completely, newest first."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from streaming.backlog import (
    _FAILURES_MAX,
    BacklogProgress,
    Chunk,
    failures_of_newest,
    is_suspect,
    next_chunk,
    plan_start,
    progress_of,
    with_chunk_failure,
    with_chunk_lost,
    with_recount,
    without_chunk,
)
from streaming.checkpoint import CheckpointRecord, MadeWith, Skipped
from streaming.settings import StreamSettings
from streaming.sources import Offsets

SETTINGS = StreamSettings(checkpoint_dir=Path("/c"), start="earliest", backlog_records_per_chunk=50)
NEW = CheckpointRecord(MadeWith("4", "", 30, 5, 10, 1, ()), "live-1")
HOP_MS, WINDOW_MS, LATENESS_MS = 5_000, 30_000, 10_000
HOUR_MS = 3_600_000


class Topic:
    """A fake ``Timeline`` of one topic: record times of each partition; retention has deleted the first ones."""

    def __init__(self, *partitions: list[int], gone: int = 0) -> None:
        self.partitions = partitions
        self.gone = gone

    def begin(self) -> Offsets:
        return {"t": {p: min(self.gone, len(times)) for p, times in enumerate(self.partitions)}}

    def at(self, time_ms: int) -> Offsets:
        found = {}
        for p, times in enumerate(self.partitions):
            fits = (i for i, at_ms in enumerate(times) if i >= self.gone and at_ms >= time_ms)
            found[p] = next(fits, len(times))
        return {"t": found}

    def time_of(self, topic: str, partition: int, offset: int) -> int | None:
        assert topic == "t"
        times = self.partitions[partition]
        return times[offset] if offset < len(times) else None

    def read(self, first: Offsets, end: Offsets) -> list[int]:
        return [t for p, times in enumerate(self.partitions) for t in times[first["t"][p] : end["t"][p]]]


def every(step_ms: int, begin_ms: int, end_ms: int) -> list[int]:
    return list(range(begin_ms, end_ms, step_ms))


def process_backlog(record: CheckpointRecord, topic: Topic) -> list[Chunk]:
    chunks = []
    while record.skipped:
        record = with_recount(record, [topic])
        chunks.append(next_chunk(record.skipped[-1], [topic], SETTINGS))
        record = without_chunk(record, chunks[-1], [topic])
    return chunks


def test_plan_start_slightly_behind_continues_in_order() -> None:
    topic = Topic(every(1000, 0, HOUR_MS))
    read = [{"t": {0: 3600 - 115}}]
    assert plan_start(NEW, read, [topic], SETTINGS, HOUR_MS) is NEW
    assert plan_start(NEW, [{"t": {0: 3600 - 125}}], [topic], SETTINGS, HOUR_MS) is not NEW


def test_plan_start_with_all_read_skips_nothing_after_silence() -> None:
    topic = Topic([0, 1000])
    assert plan_start(NEW, [{"t": {0: 2}}], [topic], SETTINGS, HOUR_MS) is NEW


def test_plan_start_first_start_skips_only_requested_records() -> None:
    topic = Topic(every(1000, 0, HOUR_MS))
    assert plan_start(NEW, None, [topic], SETTINGS.model_copy(update={"start": "latest"}), HOUR_MS) is NEW
    assert plan_start(NEW, None, [topic], SETTINGS, HOUR_MS).skipped != ()


def test_plan_start_first_live_window_is_complete() -> None:
    topic = Topic(every(1000, 0, HOUR_MS), every(1000, 500, HOUR_MS))
    found = plan_start(NEW, [{"t": {0: 3, 1: 7}}], [topic], SETTINGS, HOUR_MS + 2_345)
    assert found.live == "live-2"
    assert found.live_from_ms == HOUR_MS - 70_000
    assert found.whole_from_ms == found.live_from_ms + WINDOW_MS
    # From the window that the slower partition was in when it ended; the last one is the live query's to read, not to make.
    assert found.skipped == (Skipped(0, found.whole_from_ms, 2 * (3600 - 40)),)
    assert progress_of(found) == BacklogProgress(2 * 3560, 2 * 3560, 0)


def test_chunks_cover_every_window_once_with_all_records() -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    chance = random.Random(seed)
    for _ in range(30):
        # Sizes of gaps from nothing to minutes, and records somewhat out of order, as with CreateTime.
        partitions = []
        for _ in range(2):
            at_ms, times = chance.randrange(20_000), []
            for _ in range(chance.randrange(5, 400)):
                at_ms += chance.choice([0, 200, 1000, 1000, 5000, 120_000])
                times.append(max(0, at_ms - chance.randrange(LATENESS_MS)))
            partitions.append(times)
        topic = Topic(*partitions)
        now_ms = max(map(max, partitions)) + chance.randrange(200_000)
        found = plan_start(NEW, None, [topic], SETTINGS, now_ms)
        if not found.skipped:
            continue
        chunks = process_backlog(found, topic)
        assert chunks[0].to_ms == found.whole_from_ms, seed
        assert all(newer.from_ms == older.to_ms for newer, older in pairwise(chunks)), seed
        assert chunks[-1].from_ms <= min(map(min, partitions)), seed
        for chunk in chunks:
            read = sorted(topic.read(*chunk.reads[0]))
            for end_ms in range(chunk.from_ms + HOP_MS, chunk.to_ms + 1, HOP_MS):
                window = [t for times in partitions for t in times if end_ms - WINDOW_MS <= t < end_ms]
                assert sorted(t for t in read if end_ms - WINDOW_MS <= t < end_ms) == sorted(window), (seed, end_ms)


def test_next_chunk_has_requested_size_or_one_window() -> None:
    busy = Topic(every(100, 0, HOUR_MS))
    chunk = next_chunk(Skipped(0, HOUR_MS, 0), [busy], SETTINGS)
    assert chunk.to_ms - chunk.from_ms == WINDOW_MS
    idle = Topic(every(1000, 0, HOUR_MS))
    chunk = next_chunk(Skipped(0, HOUR_MS, 0), [idle], SETTINGS)
    assert chunk.to_ms - chunk.from_ms == 50_000
    first, end = chunk.reads[0]
    assert end["t"][0] - first["t"][0] == 50 + WINDOW_MS // 1000
    chunk = next_chunk(Skipped(3_000, 12_000, 0), [idle], SETTINGS)
    assert (chunk.from_ms, chunk.to_ms) == (3_000, 12_000)


def test_chunk_that_ends_the_jvm_shrinks_then_is_skipped() -> None:
    """A poisoned record costs only the windows that contain it, and a few restarts."""
    topic, poisoned_ms = Topic(every(100, 0, HOUR_MS // 10)), 200_000
    settings = SETTINGS.model_copy(update={"backlog_records_per_chunk": 2000})
    record = with_recount(replace(NEW, skipped=(Skipped(0, HOUR_MS // 10, 0),), skipped_records=3600), [topic])
    deaths, made, lost = 0, [], []
    while record.skipped:
        chunk = next_chunk(record.skipped[-1], [topic], settings, smallest=is_suspect(record, settings))
        if failures_of_newest(record) >= _FAILURES_MAX:
            lost.append((chunk.from_ms, chunk.to_ms))
            record = with_chunk_lost(record, chunk, [topic])
        elif poisoned_ms in topic.read(*chunk.reads[0]):
            deaths += 1
            record = with_chunk_failure(record, chunk, settings)
        else:
            made.append((chunk.from_ms, chunk.to_ms))
            record = without_chunk(record, chunk, [topic])
    assert deaths <= 3 * _FAILURES_MAX
    assert lost[0][1] - lost[-1][0] <= 3 * WINDOW_MS
    assert all(to_ms - from_ms == WINDOW_MS for from_ms, to_ms in lost)
    assert sum(to_ms - from_ms for from_ms, to_ms in made + lost) == HOUR_MS // 10
    assert record.lost_records == sum(to_ms - from_ms for from_ms, to_ms in lost) // 100
    assert progress_of(record).remaining_records == 0


def test_recount_counts_records_deleted_by_retention() -> None:
    topic = Topic(every(1000, 0, HOUR_MS), gone=100)
    found = plan_start(NEW, [{"t": {0: 40}}], [topic], SETTINGS, HOUR_MS)
    assert found.lost_records == 60
    assert found.skipped[-1].from_ms == 90_000
    topic.gone = 500
    found = with_recount(found, [topic])
    assert found.lost_records == 460
    assert progress_of(found).remaining_records == 3600 - 40 - 500
    assert with_recount(found, [topic]) == found
    assert progress_of(found).done_percent == 100 * 460 // (3600 - 40 - 40)
    topic.gone = 3600
    chunks = process_backlog(found, topic)
    assert len(chunks) == 1, "nothing is left to cut into pieces"


def test_plan_start_second_outage_joins_overlapping_stretches_only() -> None:
    topic = Topic(every(1000, 0, 3 * HOUR_MS))
    first = plan_start(NEW, None, [topic], SETTINGS, HOUR_MS)
    assert first.skipped == (Skipped(0, HOUR_MS - 40_000, 3560),)
    # The live query was killed before it had finished a batch.
    joined = plan_start(first, None, [topic], SETTINGS, 2 * HOUR_MS)
    assert joined.skipped == (Skipped(0, 2 * HOUR_MS - 40_000, 7160),)
    assert progress_of(joined) == BacklogProgress(7160, 7160, 0)
    # It ran for a while.
    apart = plan_start(first, [{"t": {0: 4000}}], [topic], SETTINGS, 2 * HOUR_MS)
    assert apart.skipped == (first.skipped[0], Skipped(3_990_000, 2 * HOUR_MS - 40_000, 3170))
    assert apart.live == "live-3"
    assert progress_of(apart).records == 3560 + 3170
    chunks = process_backlog(apart, topic)
    assert [c.to_ms for c in chunks] == sorted((c.to_ms for c in chunks), reverse=True)


@pytest.mark.parametrize("bad_ms", [0, -1])
def test_backlog_with_records_without_time_ends(bad_ms: int) -> None:
    topic = Topic([bad_ms, *every(1000, 1_700_000_000_000, 1_700_000_600_000)])
    found = plan_start(NEW, None, [topic], SETTINGS, 1_700_000_600_000)
    assert found.skipped[-1].from_ms == 0
    assert len(process_backlog(found, topic)) < 20


def test_backlog_counts_restart_after_everything_is_done() -> None:
    topic = Topic(every(1000, 0, 2 * HOUR_MS))
    done = replace(plan_start(NEW, None, [topic], SETTINGS, HOUR_MS), skipped=(), lost_records=7)
    assert progress_of(done).done_percent == 100
    again = plan_start(done, [{"t": {0: 3600}}], [topic], SETTINGS, 2 * HOUR_MS)
    assert progress_of(again) == BacklogProgress(3570, 3570, 0)
