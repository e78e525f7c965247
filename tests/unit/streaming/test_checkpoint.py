"""The checkpoint's record: nothing is reset silently, and what does not fit is named with its remedy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streaming import checkpoint
from streaming.checkpoint import CheckpointRecord, MadeWith, Skipped
from streaming.errors import StreamError

NOW = MadeWith(
    "4.2.0", "struct<span:struct<start:timestamp>>", 30, 5, 10, 1, ("rheostat.metrics as rheostat_json from k:1",)
)
REMEDY = "Remove the folder {}, or set another stream.checkpoint_dir; this loses the signals of the last half minute"


def finished(folder: Path, batches: int, *sources: dict[str, dict[str, int]]) -> None:
    """Writes Spark's files of so many batches, each with the same offsets."""
    for log in ("offsets", "commits"):
        (folder / log).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text('{"id":"x"}')
    for batch in range(batches):
        lines = ["v1", '{"batchWatermarkMs":0}', *(json.dumps(source) for source in sources)]
        (folder / "offsets" / str(batch)).write_text("\n".join(lines))
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A complete checkpoint of a query."""
    record = checkpoint.open_record(tmp_path, NOW)
    finished(tmp_path / record.live, 3, {"rheostat.metrics": {"0": 7, "1": 9}})
    return tmp_path


def refusal(folder: Path, now: MadeWith = NOW) -> str:
    with pytest.raises(StreamError) as caught:
        checkpoint.open_record(folder, now)
    assert REMEDY.format(folder) in str(caught.value)
    return str(caught.value)


def test_open_record_in_empty_folder_writes_record(tmp_path: Path) -> None:
    record = checkpoint.open_record(tmp_path, NOW)
    assert record == CheckpointRecord(NOW, "live-1")
    assert [path.name for path in tmp_path.iterdir()] == ["rheostat.json"]
    assert checkpoint.open_record(tmp_path, NOW) == record
    assert checkpoint.positions(tmp_path, record) is None


def test_positions_are_those_of_last_finished_batch(whole: Path) -> None:
    record = checkpoint.open_record(whole, NOW)
    begun = ["v1", "{}", json.dumps({"rheostat.metrics": {"0": 70, "1": 90}})]
    (whole / "live-1" / "offsets" / "3").write_text("\n".join(begun))
    assert checkpoint.positions(whole, record) == [{"rheostat.metrics": {0: 7, 1: 9}}]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"spark": "4.3.0"}, "Spark: 4.2.0 then, 4.3.0 now"),
        ({"window_s": 60}, "stream.window_s: 30 then, 60 now"),
        (
            {"slide_s": 10, "watermark_delay_s": 20},
            "stream.slide_s: 5 then, 10 now; stream.watermark_delay_s: 10 then, 20 now",
        ),
        ({"shuffle_partitions": 4}, "stream.shuffle_partitions: 1 then, 4 now"),
        ({"state": "struct<other>"}, "what the state keeps: struct<span"),
        ({"sources": (*NOW.sources, "t as otlp_json from k:1")}, "rheostat_json from k:1, t as otlp_json from k:1 now"),
    ],
)
def test_open_record_refuses_other_values(whole: Path, changed: dict[str, Any], said: str) -> None:
    assert said in refusal(whole, replace(NOW, **changed))
    assert checkpoint.open_record(whole, NOW).live == "live-1", "a refusal changes nothing"


def test_open_record_shows_difference_of_long_values(tmp_path: Path) -> None:
    then = replace(NOW, state="struct<" + "a long field:double," * 40 + "gauges:array<double>>")
    checkpoint.open_record(tmp_path, then)
    said = refusal(tmp_path, replace(then, state=then.state.replace("gauges:array", "gauges:map")))
    assert "gauges:array" in said
    assert "gauges:map" in said
    assert len(said) < 700


def test_open_record_refuses_files_without_record(tmp_path: Path) -> None:
    finished(tmp_path, 1, {})
    assert "has files (commits, metadata, offsets) and no rheostat.json" in refusal(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v": "9"}', '{"v": 2, "live": "live-1"}'])
def test_open_record_names_damaged_record(whole: Path, text: str) -> None:
    (whole / "rheostat.json").write_text(text)
    assert f"The checkpoint is damaged: {whole}/rheostat.json" in refusal(whole)


@pytest.mark.parametrize("version", [1, 9])
def test_open_record_of_other_version_names_remedy(whole: Path, version: int) -> None:
    (whole / "rheostat.json").write_text(f'{{"v": {version}, "made_with": {{}}, "live": "live-1"}}')
    message = refusal(whole)
    assert message.startswith(
        f"Another version of rheostat wrote the checkpoint {whole} (record version {version}, this version reads 2); it is not damaged. "
        f"Run that version, or begin again. Remove the folder {whole}, or set another stream.checkpoint_dir"
    )
    assert "\n" not in message


@pytest.mark.parametrize("name", ["metadata", "offsets/2", "offsets/1", "commits/2"])
@pytest.mark.parametrize("kept_bytes", [0, 2, 8])
def test_open_record_names_truncated_spark_file(whole: Path, name: str, kept_bytes: int) -> None:
    file = whole / "live-1" / name
    file.write_bytes(file.read_bytes()[:kept_bytes])
    assert f"The checkpoint is damaged: {file}: empty or cut" in refusal(whole)


def test_open_record_treats_missing_offsets_as_damage(whole: Path) -> None:
    file = whole / "live-1" / "offsets" / "2"
    text = file.read_text()
    file.write_text("\n".join(text.splitlines()[:2]))
    assert "not the offsets of 1 sources" in refusal(whole)
    file.unlink()
    assert "batch 2 is committed and has no offsets" in refusal(whole)
    (whole / "live-1" / "metadata").unlink()
    assert "metadata: empty or cut" in refusal(whole)


def test_switch_live_folder_is_atomic(whole: Path) -> None:
    before = checkpoint.open_record(whole, NOW)
    after = replace(
        before,
        live=before.next_live(),
        live_from_ms=70_000,
        whole_from_ms=100_000,
        skipped=(Skipped(5_000, 100_000, 9),),
    )
    # The crash came before the record: what was begun goes.
    (whole / after.live).mkdir()
    assert checkpoint.open_record(whole, NOW) == before
    assert not (whole / after.live).exists()
    # It came after the record, and before the old folder was gone.
    checkpoint.write(whole, after)
    assert checkpoint.open_record(whole, NOW) == after
    assert not (whole / before.live).exists()
    assert checkpoint.positions(whole, after) is None

    finished(whole / after.live, 1, {})
    again = replace(after, live=after.next_live())
    checkpoint.switch_live_folder(whole, after, again)
    assert sorted(path.name for path in whole.iterdir()) == ["rheostat.json"]
    assert again.live == "live-3"
