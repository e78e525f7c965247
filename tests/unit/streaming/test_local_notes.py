from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from streaming import checkpoint, local_notes
from streaming.checkpoint import CheckpointRecord, FailingChunk, MadeWith
from streaming.checkpoint_location import HadoopFolder
from streaming.local_notes import note_failed_batch, note_failing_chunk, notes_folder, take_notes

NOW = MadeWith("4.2.0", "state", 30, 5, 10, 1, ("rheostat.metrics as rheostat_json from a:1",), ("A",))
CHUNK = FailingChunk(to_ms=1000, times=2, suspect_from_ms=500)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("RHEOSTAT_STATE_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return notes_folder(HadoopFolder("hdfs://a:1/checkpoint"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint whose batch 0 has begun."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    record = checkpoint.open_record(folder, NOW)
    for name, content in {"offsets/0": "v1\n{}\n" + '{"m":{"0":9}}', "sources/0/0": '\x00v1\n{"m":{"0":0}}'}.items():
        file = folder / record.live / name
        file.parent.mkdir(parents=True)
        file.write_text(content)
    return folder


def test_notes_of_local_checkpoint_are_in_it(tmp_path: Path) -> None:
    assert notes_folder(tmp_path) == tmp_path


def test_notes_folder_is_private_and_the_same_again(notes: Path) -> None:
    assert stat.S_IMODE(notes.stat().st_mode) == 0o700
    assert notes_folder(HadoopFolder("hdfs://a:1/checkpoint")) == notes
    assert notes_folder(HadoopFolder("hdfs://a:1/other")) != notes


def test_notes_are_in_the_state_folder_if_it_can_be_used(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("RHEOSTAT_STATE_DIR", str(state))
    assert notes_folder(HadoopFolder("hdfs://a:1/checkpoint")) == notes, "the state folder does not exist"
    state.mkdir()
    assert notes_folder(HadoopFolder("hdfs://a:1/checkpoint")) == state / notes.name


def test_notes_folder_of_another_user_is_refused(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(local_notes.os, "geteuid", lambda: owner + 1)
    notes.rename(notes.with_name(notes.name.replace(f"-{owner}-", f"-{owner + 1}-")))
    with pytest.raises(PermissionError, match="another user has made it"):
        notes_folder(HadoopFolder("hdfs://a:1/checkpoint"))


def test_take_notes_without_notes_changes_nothing(notes: Path, folder: Path) -> None:
    record = checkpoint.read(folder)
    assert take_notes(notes, folder, record) is record


def test_take_notes_counts_each_failed_batch_once(notes: Path, folder: Path) -> None:
    for times in (1, 2):
        note_failed_batch(notes)
        record = take_notes(notes, folder, checkpoint.read(folder))
        assert record.failing is not None
        assert (record.failing.batch, record.failing.times) == (0, times)
        assert take_notes(notes, folder, record) == record == checkpoint.read(folder)


def test_take_notes_stores_failing_chunk(notes: Path, folder: Path) -> None:
    before = checkpoint.read(folder)
    note_failing_chunk(notes, CHUNK)
    assert take_notes(notes, folder, before) == replace(before, failing_chunk=CHUNK) == checkpoint.read(folder)
    assert list(notes.iterdir()) == []


def test_take_notes_ignores_half_written_chunk(notes: Path, folder: Path) -> None:
    before: CheckpointRecord = checkpoint.read(folder)
    (notes / "failing-chunk.json").write_text('{"to_ms": 1')
    assert take_notes(notes, folder, before).failing_chunk is None
    assert list(notes.iterdir()) == []
