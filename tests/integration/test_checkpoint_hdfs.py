"""The stream with its checkpoint on HDFS: Hadoop's small cluster with one data node."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from fed_stream import FedStream, fed_stream, missing_or_wrong_windows
from lab_parts import RHEOSTAT, Running, rheostat, running, until
from pyspark.sql import SparkSession

from rheostat.jvm.artifacts import resolve_jars
from rheostat.jvm.java import find_java
from rheostat.lab.cluster import Lab, LabSpec
from streaming.checkpoint import RECORD, CheckpointRecord, MadeWith, open_record, read, switch_live_folder
from streaming.checkpoint_files import open_checkpoint
from streaming.checkpoint_location import HadoopFolder
from streaming.checkpoint_lock import locked_by_jvm
from streaming.errors import StreamError
from streaming.hadoop_path import HadoopPath

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(800)]
LAB = LabSpec(brokers=1)
NOW = MadeWith("4.2.0", "state", 30, 5, 10, 1, ("rheostat.metrics as rheostat_json from a:1",), ("A",))
# HDFS gives up a client that is gone after a minute, and needs some seconds to give its file to another client.
TAKE_OVER_S_MAX = 150


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a folder in which every user may write."""
    folder = tmp_path_factory.mktemp("hdfs")
    java, spark_home = find_java().executable, Path(pyspark.__file__).parent
    jars = resolve_jars(Path(__file__).with_name("hadoop-ivy.xml"))["hadoop"]
    class_path = os.pathsep.join([*map(str, jars), f"{spark_home}/jars/*"])
    source = Path(__file__).with_name("HdfsLab.java")
    command = [java, "-Xmx512m", f"-Dtest.build.data={folder}", "-cp", class_path, source, folder / "data"]
    with running(*command, log=folder / "hdfs.log") as process:
        until(lambda: "HDFS is ready at " in process.said() or not process.alive(), 240, "HDFS is up")
        assert process.alive(), process.said()[-3000:]
        yield process.said().partition("HDFS is ready at ")[2].split()[0] + "/open"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "512m").getOrCreate()
    yield session
    session.stop()


def signals_after(fed: FedStream, stream: Running, after_ms: int, timeout_s: float) -> None:
    """Waits until signals contain a scrape that is newer than ``after_ms``."""
    until(lambda: fed.has_both(after_ms) or not stream.alive(), timeout_s, f"signals arrive:\n{stream.said()[-3000:]}")
    assert stream.alive(), stream.said()[-3000:]


def kill(stream: Running) -> None:
    """Ends all processes of a stream at once, so that none can give back a lock."""
    processes = stream.descendants()
    os.kill(stream.pid, signal.SIGKILL)
    for process in processes:
        process.kill()


def test_standby_of_killed_stream_continues_from_its_checkpoint(lab: Lab, hdfs: str, tmp_path: Path) -> None:
    with fed_stream(lab, tmp_path, "local", {}, f"{hdfs}/shared") as fed:
        command = (*RHEOSTAT, "stream", "--config", fed.config)
        with running(*command, log=tmp_path / "first.log") as first:
            signals_after(fed, first, 0, 240)
            with running(*command, log=tmp_path / "second.log") as second:
                until(lambda: fed.has_both(fed.sent_ms[0] + 45_000), 150, "windows end")
                kill(first)
                killed_ms = int(time.time() * 1000)
                signals_after(fed, second, killed_ms, TAKE_OVER_S_MAX)
                sys.stdout.write(f"signals again {time.time() - killed_ms / 1000:.0f} s after the kill\n")
                last_ms = fed.sent_ms[-1]
                signals_after(fed, second, last_ms + 8_000, 60)
                assert second.end(signal.SIGTERM) == 0
        assert not missing_or_wrong_windows(fed, last_ms)
        assert "follows another" not in second.said()


def test_second_process_is_refused_and_file_is_unlocked_by_exit(spark: SparkSession, hdfs: str) -> None:
    folder = HadoopFolder(f"{hdfs}/locked")
    with locked_by_jvm(spark, folder):
        with pytest.raises(StreamError) as refusal, locked_by_jvm(spark, folder, wait_s=2):
            pass
        assert str(refusal.value).startswith(
            f"Another rheostat process uses the checkpoint of the lock file {folder}.lock: stop"
        )
    with locked_by_jvm(spark, folder, wait_s=0):
        pass


def test_record_is_replaced_in_one_step(spark: SparkSession, hdfs: str) -> None:
    folder = open_checkpoint(spark, HadoopFolder(f"{hdfs}/record"))
    assert isinstance(folder, HadoopPath)
    folder.mkdir()
    before = open_record(folder, NOW)
    (folder / before.live / "offsets").mkdir()
    after = CheckpointRecord(NOW, before.next_live())
    switch_live_folder(folder, before, after)
    assert read(folder) == after
    assert sorted(path.name for path in folder.iterdir()) == [RECORD]
    assert open_record(folder, NOW) == after


def test_damaged_record_is_named(spark: SparkSession, hdfs: str) -> None:
    folder = HadoopPath(spark, f"{hdfs}/damaged")
    (folder / RECORD).write_atomically("{")
    with pytest.raises(
        StreamError, match=f"The checkpoint is damaged: {folder}/{RECORD}: .* Remove the folder {folder}, or set"
    ):
        open_record(folder, NOW)


def test_stream_without_rights_ends_with_one_sentence(lab: Lab, hdfs: str, tmp_path: Path) -> None:
    closed = hdfs.removesuffix("/open") + "/closed/checkpoint"
    with fed_stream(lab, tmp_path, "local", {}, closed) as fed:
        done = rheostat("stream", "--config", fed.config, env={"HADOOP_USER_NAME": "guest"}, timeout_s=200)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1, done.stderr[-3000:]
    assert f"The checkpoint {closed} cannot be used. Give the user or the access key of the stream the right to" in last
    assert "Permission denied: user=guest, access=WRITE" in last
    assert "Traceback" not in done.stderr


def test_stream_whose_checkpoint_becomes_read_only_names_it(
    lab: Lab, hdfs: str, spark: SparkSession, tmp_path: Path
) -> None:
    address = f"{hdfs}/turned"
    with fed_stream(lab, tmp_path, "local", {}, address) as fed:
        command = (*RHEOSTAT, "stream", "--config", fed.config)
        env = {"HADOOP_USER_NAME": "guest"}
        with running(*command, log=tmp_path / "stream.log", env=env) as stream:
            signals_after(fed, stream, 0, 240)
            set_read_only(spark, address)
            until(lambda: fed.feed() or not stream.alive(), 60, "the stream ends")
            assert stream.process.wait(10) == 1
    last = stream.said().splitlines()[-1]
    assert f"The checkpoint {address} cannot be used. Give the user or the access key" in last
    assert "Permission denied: user=guest" in last
    assert "Traceback" not in stream.said()


def set_read_only(spark: SparkSession, address: str) -> None:
    """Takes the right to write from all folders of a checkpoint, as the user who owns the file system."""
    assert spark._jvm is not None
    hadoop = spark._jvm.org.apache.hadoop.fs
    files = hadoop.Path(address).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    read_only = hadoop.permission.FsPermission("555")
    folders = [hadoop.Path(address)]
    while folders:
        folder = folders.pop()
        files.setPermission(folder, read_only)
        folders += [status.getPath() for status in files.listStatus(folder) if status.isDirectory()]


def test_name_node_that_is_not_there_ends_the_stream_soon(lab: Lab, tmp_path: Path) -> None:
    address = "hdfs://127.0.0.1:1/checkpoint"
    with fed_stream(lab, tmp_path, "local", {}, address) as fed:
        done = rheostat("stream", "--config", fed.config, timeout_s=200)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1, done.stderr[-3000:]
    assert f"The checkpoint {address} cannot be used. Check the address, that the file system answers" in last
    assert "Traceback" not in done.stderr
