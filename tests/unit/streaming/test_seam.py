"""Where a stream continues that follows another stream."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.backlog import plan_start
from streaming.checkpoint import CheckpointRecord, Failing, MadeWith, Skipped
from streaming.seam import following, newest_end_ms
from streaming.settings import StreamSettings
from streaming.signals import WindowShape
from streaming.sources import Offsets

NOW_MS = 1_700_000_000_000
OLD = CheckpointRecord(
    MadeWith("4", "", 30, 5, 10, 1, ()),
    "live-3",
    skipped=(Skipped(1_000, 2_000, 7),),
    failing=Failing("live-3", 9, 2),
)


def record(key: bytes | None, timestamp: int = NOW_MS) -> Any:
    return SimpleNamespace(key=key, timestamp=timestamp)


@pytest.mark.parametrize(
    ("records", "newest_ms"),
    [
        ([], None),
        ([record(None), record(b""), record(b"no end"), record(b"a|-5"), record(b"a|\xff")], None),
        ([record(b"lab|broker-1|1699999995000"), record(b"lab|broker-2|1699999990000")], 1_699_999_995_000),
        ([record(b"lab|broker-1|1700000005000")], 1_700_000_005_000),  # A window ends up to one slide after its rows.
        ([record(b"lab|broker-1|9999999999999999")], NOW_MS + 5_000),  # Forged, or of a clock that is wrong.
    ],
)
def test_newest_end_is_that_of_readable_and_possible_keys(records: list[Any], newest_ms: int | None) -> None:
    assert newest_end_ms(records, 5_000) == newest_ms


def test_following_stream_reads_whole_windows_and_repeats_unfinished_ones() -> None:
    found = following(OLD, NOW_MS, WindowShape())
    assert found.live == "live-4"
    assert found.whole_from_ms == NOW_MS - 15_000, "a row may come one watermark delay later than those of its window"
    assert found.live_from_ms == found.whole_from_ms - 30_000, "its first window is complete"
    assert found.skipped == OLD.skipped, "a backlog of its own is still to be made"
    assert found.failing is None


class Topic:
    """A ``Timeline`` of one topic with a record each second, which has no others."""

    def __init__(self, begin_ms: int, end_ms: int) -> None:
        self.begin_ms, self.end_ms = begin_ms, end_ms

    def begin(self) -> Offsets:
        return {"t": {0: 0}}

    def at(self, time_ms: int) -> Offsets:
        return {"t": {0: max(0, min(time_ms, self.end_ms) - self.begin_ms) // 1000}}

    def time_of(self, topic: str, partition: int, offset: int) -> int | None:
        assert (topic, partition) == ("t", 0)
        time_ms = self.begin_ms + offset * 1000
        return time_ms if time_ms < self.end_ms else None


SETTINGS = StreamSettings(checkpoint_dir=Path("/c"))


@pytest.mark.parametrize("started", ["earliest", "latest"])
def test_stream_away_for_hours_has_no_backlog_that_another_has_made(started: Any) -> None:
    settings = SETTINGS.model_copy(update={"start": started})
    topic = Topic(NOW_MS - 6 * 3_600_000, NOW_MS)
    record_ = following(OLD, NOW_MS - 10_000, WindowShape())
    assert plan_start(record_, None, [topic], settings, NOW_MS) == record_


def test_long_gap_after_the_other_stream_is_made_in_the_background() -> None:
    topic, end_ms = Topic(NOW_MS - 6 * 3_600_000, NOW_MS), NOW_MS - 3_600_000
    record_ = following(OLD, end_ms, WindowShape())
    planned = plan_start(record_, None, [topic], SETTINGS, NOW_MS)
    assert planned.live == "live-5"
    assert planned.whole_from_ms is not None
    assert planned.skipped[0] == OLD.skipped[0]
    assert planned.skipped[1].to_ms == planned.whole_from_ms
    assert planned.skipped[1].from_ms <= end_ms - 15_000, "no window between the two streams is left out"
    assert planned.skipped[1].from_ms >= end_ms - 90_000, "and hardly one is made again"
