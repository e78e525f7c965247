"""Paths of Hadoop's file systems, on the one that needs no server: that of the local disk. HDFS and S3 are in tests/integration."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.checkpoint import RECORD, CheckpointRecord, MadeWith, open_record, positions, read, switch_live_folder
from streaming.errors import StreamError
from streaming.hadoop_path import HadoopPath, _as_os_error

NOW = MadeWith("4.2.0", "state", 30, 5, 10, 1, ("rheostat.metrics as rheostat_json from a:1",), ("A",))


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> HadoopPath:
    return HadoopPath(spark, f"file://{tmp_path}")


def test_path_reads_and_writes_like_pathlib(folder: HadoopPath, tmp_path: Path) -> None:
    file = folder / "a" / "b"
    assert (str(file), file.name, str(file.parent)) == (f"file://{tmp_path}/a/b", "b", f"{folder / 'a'}")
    assert not file.exists()
    assert not file.is_dir()
    with pytest.raises(FileNotFoundError) as missing:
        file.read_text()
    assert missing.value.filename == str(file)
    file.write_atomically("first ü")
    file.write_atomically("second ü")
    assert file.read_text() == "second ü"
    assert [path.name for path in (folder / "a").iterdir()] == ["b"]
    assert (folder / "a").is_dir()
    assert abs(file.stat().st_mtime - time.time()) < 60
    (folder / "a").remove_tree()
    assert os.listdir(tmp_path) == []


def test_local_disk_has_no_leases(folder: HadoopPath) -> None:
    assert not (folder / "x.lock").has_leases()


def test_checkpoint_record_works_through_hadoop(folder: HadoopPath, tmp_path: Path) -> None:
    before = open_record(folder, NOW)
    log = tmp_path / before.live
    for name, text in {"metadata": '{"id":"1"}', "offsets/0": 'v1\n{}\n{"m":{"0":7}}', "commits/0": "v1\n{}"}.items():
        (log / name).parent.mkdir(parents=True, exist_ok=True)
        (log / name).write_text(text)
    assert open_record(folder, NOW) == before
    assert positions(folder, before) == [{"m": {0: 7}}]
    after = CheckpointRecord(NOW, before.next_live())
    (tmp_path / "live-9").mkdir()
    switch_live_folder(folder, before, after)
    assert open_record(folder, NOW) == read(folder) == after
    assert sorted(path.name for path in folder.iterdir()) == [RECORD]


def test_damaged_record_is_named(folder: HadoopPath) -> None:
    (folder / RECORD).write_atomically("{")
    with pytest.raises(StreamError) as damage:
        open_record(folder, NOW)
    assert str(damage.value).startswith(f"The checkpoint is damaged: {folder}/{RECORD}: ")
    assert f"Remove the folder {folder}, or set another" in str(damage.value)


def test_unknown_file_system_is_an_os_error(spark: SparkSession) -> None:
    with pytest.raises(OSError, match='No FileSystem for scheme "gopher"'):
        HadoopPath(spark, "gopher://host/x").exists()


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("java.io.FileNotFoundException: File /x does not exist", FileNotFoundError, "File /x does not exist"),
        (
            "org.apache.hadoop.security.AccessControlException: Permission denied: user=guest\n\tat x",
            PermissionError,
            "Permission denied: user=guest",
        ),
        (
            "org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException): Failed to APPEND",
            OSError,
            "AlreadyBeingCreatedException: Failed to APPEND",
        ),
        ("org.apache.hadoop.ipc.RemoteException(a.AccessControlException): no", PermissionError, "no"),
    ],
)
def test_errors_of_hadoop_become_those_of_python(text: str, kind: type[OSError], message: str) -> None:
    error = _as_os_error(text, "hdfs://a/b")
    assert type(error) is kind
    assert (error.strerror, error.filename) == (message, "hdfs://a/b")
