"""A batch that always ends the query is halved in Spark's own files until one record is skipped."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from test_checkpoint import NOW

from streaming import checkpoint, quarantine
from streaming.begun_batch import BegunBatch, Slice, begun_batch, write_begun_batch
from streaming.checkpoint import CheckpointRecord, Failing
from streaming.failure_causes import may_be_caused_by_record
from streaming.formats.common import Source
from streaming.quarantine import Quarantined, RejectListener, halved, must_repeat, note_failure, resolve
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings
from streaming.sources import Feed

KAFKA = KafkaSettings(bootstrap_servers="k:1")
FEEDS = [Feed(KAFKA, ("telegraf",), "telegraf_json", Source("c"), 5000)]
TOPICS = Topics.with_prefix("rheostat")


@dataclass
class Stream:
    """Reads the begun batch and later ones, and dies of poisoned offsets, as Spark does."""

    folder: Path
    ends: dict[int, int]  # By partition.
    poisoned: set[tuple[int, int]]
    read: list[tuple[int, int]] = field(default_factory=list)

    def run(self) -> bool:
        """Returns False if it died."""
        record = checkpoint.read(self.folder)
        live = self.folder / record.live
        while True:
            batch = begun_batch(self.folder, record)
            if batch is None:
                number = len(list((live / "offsets").glob("[0-9]*")))
                if number and self.position(number - 1) == self.ends:
                    return True
                self._write(live / "offsets" / str(number), self.ends)
                continue
            found = [(s.partition, o) for s in batch.slices for o in range(s.start, s.end)]
            if self.poisoned & set(found):
                note_failure(self.folder)
                return False
            self.read += found
            (live / "commits" / str(batch.number)).write_text("v1\n{}")

    def position(self, number: int) -> dict[int, int]:
        live = self.folder / checkpoint.read(self.folder).live
        (offsets,) = checkpoint.read_offsets(live / "offsets" / str(number))
        return dict(offsets["telegraf"])

    def _write(self, file: Path, ends: dict[int, int]) -> None:
        file.write_text("v1\n{}\n" + json.dumps({"telegraf": {str(p): o for p, o in ends.items()}}))
        file.with_name(f".{file.name}.crc").write_text("Hadoop's checksum of it")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    record = checkpoint.open_record(tmp_path, NOW)
    for log in ("offsets", "commits", "sources/0"):
        (tmp_path / record.live / log).mkdir(parents=True)
    (tmp_path / record.live / "sources" / "0" / "0").write_text('\x00v1\n{"telegraf": {"0": 0, "1": 0}}')
    return tmp_path


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    told: list[Any] = []
    monkeypatch.setattr(quarantine, "_write_reject", lambda _kafka, topic, found: told.append((topic, found)))
    # In this topic each Kafka batch ends at the next multiple of ten.
    monkeypatch.setattr(quarantine, "_last_offset_of_batch", lambda _kafka, suspect: suspect.start // 10 * 10 + 9)
    return told


def restarted(folder: Path) -> CheckpointRecord:
    hears = RejectListener(lambda *_: None, lambda _: None)
    return resolve(folder, checkpoint.read(folder), KAFKA, TOPICS, FEEDS, ["id"], hears)


@pytest.mark.parametrize("first_batch", [True, False])
def test_stream_with_poisoned_record_reads_all_others(folder: Path, said: list[Any], first_batch: bool) -> None:
    stream = Stream(folder, {0: 40, 1: 200}, {(1, 57)})
    if not first_batch:
        stream.ends = {0: 1, 1: 1}
        assert stream.run()
        stream.ends = {0: 40, 1: 200}
    lives = 1
    while not stream.run():
        lives += 1
        restarted(folder)
        assert lives < 60
    left_out = {(1, offset) for offset in range(57, 60)}
    assert set(stream.read) == {(p, o) for p, end in stream.ends.items() for o in range(end)} - left_out
    assert len(stream.read) == len(set(stream.read)), "nothing is read twice"
    assert said == [("rheostat.rejects", Quarantined("id", "telegraf", 1, 57, 59))]
    assert lives <= 12


def test_resolve_leaves_batch_after_first_failure(folder: Path, said: list[Any]) -> None:
    stream = Stream(folder, {0: 8, 1: 0}, {(0, 3)})
    assert not stream.run()
    before = begun_batch(folder, checkpoint.read(folder))
    restarted(folder)
    assert begun_batch(folder, checkpoint.read(folder)) == before
    assert said == []


def test_failures_of_another_batch_or_folder_do_not_count(folder: Path) -> None:
    stream = Stream(folder, {0: 8, 1: 0}, {(0, 3)})
    assert not stream.run()
    for other in (Failing("live-9", 0, 5), Failing("live-1", 7, 5)):
        record = checkpoint.read(folder)
        checkpoint.write(folder, CheckpointRecord(record.made_with, record.live, failing=other))
        restarted(folder)
        batch = begun_batch(folder, checkpoint.read(folder))
        assert batch is not None
        assert batch.records == 8
        note_failure(folder)
        failing = checkpoint.read(folder).failing
        assert failing is not None
        assert (failing.live, failing.batch, failing.times) == ("live-1", 0, 1)


def test_stream_after_another_repeats_its_failed_batch_until_the_other_has_read_past_it(folder: Path) -> None:
    now_ms = 1_700_000_000_000
    stream = Stream(folder, {0: 8, 1: 0}, {(0, 3)})
    assert not must_repeat(folder, checkpoint.read(folder), now_ms), "it has not failed"
    assert not stream.run()
    os.utime(folder / "live-1" / "offsets" / "0", (now_ms / 1000, now_ms / 1000))
    record = checkpoint.read(folder)
    assert must_repeat(folder, record, now_ms - 30_000)
    assert must_repeat(folder, record, now_ms + 30_000), "clocks differ"
    assert not must_repeat(folder, record, now_ms + 120_000), "the other stream has read past it"
    assert not must_repeat(folder, replace(record, live="live-2"), now_ms)
    (folder / "live-1" / "commits" / "0").write_text("v1\n{}")
    assert not must_repeat(folder, record, now_ms), "the batch is finished"


def test_note_failure_without_begun_batch_changes_nothing(folder: Path) -> None:
    before = checkpoint.read(folder)
    note_failure(folder)
    assert checkpoint.read(folder) == before


def test_halved_batch_keeps_the_first_half_in_order() -> None:
    slices = (Slice(0, "a", 0, 10, 14), Slice(0, "a", 1, 5, 5), Slice(1, "b", 0, 0, 5))
    first = halved(BegunBatch(3, slices))
    assert [s.records for s in first.slices] == [4, 0, 0]
    assert [s.records for s in halved(first).slices] == [2, 0, 0]


def test_written_batch_drops_hadoops_checksum(folder: Path) -> None:
    stream = Stream(folder, {0: 8, 1: 4}, {(0, 3)})
    assert not stream.run()
    record = checkpoint.read(folder)
    batch = begun_batch(folder, record)
    assert batch is not None
    write_begun_batch(folder, record, halved(batch))
    assert begun_batch(folder, record) == halved(batch)
    assert not list((folder / record.live / "offsets").glob(".*"))


@pytest.mark.parametrize(
    ("report", "counts"),
    [
        ("Job aborted due to stage failure: java.lang.OutOfMemoryError: Java heap space", True),
        ("Job aborted due to stage failure: java.lang.StackOverflowError", True),
        ("TimeoutException: Timed out waiting for a node assignment", False),
        ("TopicAuthorizationException: not authorized", False),
        ("UnknownTopicOrPartitionException: gone", False),
        ("java.io.IOException: No space left on device", False),
    ],
)
def test_failure_counts_only_where_a_record_can_cause_it(report: str, counts: bool) -> None:
    assert may_be_caused_by_record(report) is counts


@pytest.mark.parametrize("file", ["offsets/0", "sources/0/0"])
def test_files_of_a_later_spark_are_left_as_they_are(folder: Path, said: list[Any], file: str) -> None:
    stream = Stream(folder, {0: 8, 1: 0}, {(0, 3)})
    assert not stream.run()
    assert not stream.run()
    path = folder / "live-1" / file
    path.write_text(path.read_text().replace("v1\n", "v2\n", 1))
    before = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    with capture_logs() as told:
        restarted(folder)
        note_failure(folder)
    assert {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()} == before
    assert [line["event"] for line in told] == [
        "a record ends the stream whenever the stream reads it; the stream cannot find this record, and so cannot leave it out"
    ] * 2
    assert f"{path} in its format v2, and this version of rheostat reads v1 only" in told[0]["reason"]
    assert said == []
