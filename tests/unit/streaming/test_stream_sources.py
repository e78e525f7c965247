"""Sources that a checkpoint fits, their shares of a batch, and messages for failures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from streaming import checkpoint
from streaming.backlog import unread_records
from streaming.checkpoint import CheckpointRecord, MadeWith
from streaming.errors import StreamError
from streaming.failure_causes import first_line
from streaming.settings import StreamSettings
from streaming.sources import Offsets, feed_shares

OURS, THEIRS = "rheostat.metrics as rheostat_json from {}", "telegraf as telegraf_json from {}"


def made(ours: str, theirs: str, *kafka_ids: str) -> MadeWith:
    """Returns a checkpoint record with these addresses and clusters of two sources."""
    return MadeWith("4.2.0", "struct<>", 30, 5, 10, 1, (OURS.format(ours), THEIRS.format(theirs)), kafka_ids)


def refusal(folder: Path, now: MadeWith) -> str:
    before = (folder / "rheostat.json").read_bytes()
    with pytest.raises(StreamError) as caught:
        checkpoint.open_record(folder, now)
    assert (folder / "rheostat.json").read_bytes() == before, "a refusal changes nothing"
    return str(caught.value)


def test_checkpoint_accepts_other_address_of_same_cluster(tmp_path: Path) -> None:
    checkpoint.open_record(tmp_path, made("a:1", "b:1", "A", "B"))
    now = made("a:2,a:3", "b:1", "A", "B")
    assert checkpoint.open_record(tmp_path, now) == CheckpointRecord(now, "live-1")
    assert json.loads((tmp_path / "rheostat.json").read_text())["made_with"]["sources"][0] == OURS.format("a:2,a:3")


def test_checkpoint_refuses_other_cluster_at_same_address(tmp_path: Path) -> None:
    checkpoint.open_record(tmp_path, made("a:1", "b:1", "A", "B"))
    said = refusal(tmp_path, made("a:1", "b:1", "A", "C"))
    assert "b:1 (Kafka cluster B) then" in said
    assert "b:1 (Kafka cluster C) now" in said
    assert f"Remove the folder {tmp_path}, or set another stream.checkpoint_dir" in said


@pytest.mark.parametrize(
    "sources", [("x as y from a:1", THEIRS.format("b:1")), (THEIRS.format("b:1"), OURS.format("a:1"))]
)
def test_checkpoint_refuses_other_topics_or_order(tmp_path: Path, sources: tuple[str, str]) -> None:
    then = made("a:1", "b:1", "A", "A")
    checkpoint.open_record(tmp_path, then)
    assert "stream.sources: " in refusal(tmp_path, replace(then, sources=sources))


def test_checkpoint_without_cluster_ids_is_accepted_at_its_address(tmp_path: Path) -> None:
    old = made("a:1", "b:1")
    checkpoint.open_record(tmp_path, old)
    body = json.loads((tmp_path / "rheostat.json").read_text())
    del body["made_with"]["kafka_ids"]  # As it was written then.
    (tmp_path / "rheostat.json").write_text(json.dumps(body))

    said = refusal(tmp_path, made("a:2", "b:1", "A", "B"))
    assert "from a:1, telegraf" in said
    assert "from a:2 (Kafka cluster A), telegraf" in said
    assert "start once with the earlier addresses" in said

    assert checkpoint.open_record(tmp_path, made("a:1", "b:1", "A", "B")).made_with.kafka_ids == ("A", "B")
    assert checkpoint.open_record(tmp_path, made("a:2", "b:1", "A", "B")).made_with.sources[0] == OURS.format("a:2")


def test_checkpoint_hint_about_address_only_where_it_helps(tmp_path: Path) -> None:
    checkpoint.open_record(tmp_path, made("a:1", "b:1"))
    other = replace(made("a:2", "b:1", "A", "B"), sources=(OURS.format("a:2"), "t as otlp_json from b:1"))
    assert "start once" not in refusal(tmp_path, other)
    assert "start once" not in refusal(tmp_path, replace(made("a:1", "b:1", "A", "B"), window_s=60))


# -- shares of a batch -------------------------------------------------------------------------------------------------


def test_shares_follow_unread_records_with_a_minimum() -> None:
    assert feed_shares(5000, [24_000, 12, 0]) == [3331, 834, 833]
    assert feed_shares(5000, [0, 0]) == [2500, 2500]
    assert feed_shares(5000, [7]) == [5000]
    assert feed_shares(2, [1_000_000, 0, 0]) == [1, 1, 1]


@pytest.mark.parametrize("unread_records", [[1], [0, 9], [5, 5, 5], [1, 10**12, 0, 3]])
def test_shares_sum_to_at_most_one_batch(unread_records: list[int]) -> None:
    found = feed_shares(5000, unread_records)
    assert sum(found) <= 5000
    assert min(found) >= 5000 // len(unread_records) // 2


class Ticks:
    """A fake ``Timeline`` of a topic with a record every second in one partition."""

    def __init__(self, end_s: int) -> None:
        self.end_s = end_s

    def begin(self) -> Offsets:
        return {"t": {0: 0}}

    def at(self, time_ms: int) -> Offsets:
        return {"t": {0: min(self.end_s, -(-time_ms // 1000))}}

    def time_of(self, topic: str, partition: int, offset: int) -> int | None:
        return offset * 1000 if (topic, partition) == ("t", 0) and offset < self.end_s else None


def test_unread_records_count_from_start_of_query() -> None:
    settings = StreamSettings(checkpoint_dir=Path("/c"))
    new = CheckpointRecord(made("a:1", "b:1"), "live-1")
    times = [Ticks(1000), Ticks(40)]
    assert unread_records(new, None, times, settings, 1_000_000) == [0, 0], "stream.start is latest"
    earliest = settings.model_copy(update={"start": "earliest"})
    assert unread_records(new, None, times, earliest, 1_000_000) == [1000, 40]
    assert unread_records(new, [{"t": {0: 940}}, {"t": {0: 40}}], times, settings, 1_000_000) == [60, 0]
    assert unread_records(replace(new, live_from_ms=930_000), None, times, settings, 1_000_000) == [70, 0]


# -- words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ("\n\n  what\nwhere", "what"),
        (ValueError("what\nwhere"), "what"),
        (TimeoutError(), "TimeoutError"),
        ("", "no message"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_first_line_is_one_line_and_never_empty(report: object, said: str) -> None:
    assert first_line(report) == said
