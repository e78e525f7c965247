"""Real causes for which the stream cannot start or dies: one message names cause, place and remedy without Java lines."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from kafka.admin import ConfigResource, ConfigResourceType
from lab_parts import RHEOSTAT, Running, running, until, within

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from streaming.shared.contract import Metric, NodeRole, Sample, Scrape, Topics
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics

LAB = LabSpec(brokers=1)
AT_ONCE_S_MAX = 20.0  # An interpreter on a busy machine; Spark alone takes longer.
SPARK_S_MAX = 120.0
JAVA = re.compile(r"^\s+at [\w.$]+\(|^Caused by: |Exception in thread", re.M)

Mount = Callable[[str], Path]


@pytest.fixture
def config(lab: Lab, tmp_path: Path) -> Callable[..., Path]:
    def write(**stream: object) -> Path:
        settings = yaml.safe_load(lab_config(lab))
        settings["stream"] |= {"checkpoint_dir": str(tmp_path / "checkpoint"), "driver_memory_mb": 512, **stream}
        file = tmp_path / "rheostat.yaml"
        file.write_text(yaml.safe_dump(settings))
        return file

    return write


def refused(config: Path, env: dict[str, str] | None = None, command: tuple[str, ...] = ()) -> str:
    """Returns the message of a stream that does not start: one line, at once."""

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *RHEOSTAT, "stream", "--config", config],
            capture_output=True, text=True, timeout=SPARK_S_MAX, check=False, env={**os.environ, **(env or {})},
        )  # fmt: skip

    done = within(AT_ONCE_S_MAX, run)
    assert done.returncode == 1, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert_plain(done.stderr)
    return last


def assert_plain(text: str) -> None:
    assert not JAVA.search(text), text
    assert "Traceback" not in text, text


def test_stream_that_cannot_start_says_why_before_spark(
    config: Callable[..., Path], mount: Mount, tmp_path: Path
) -> None:
    full = mount("size=8m")
    text = refused(config(checkpoint_dir=f"{full}/checkpoint"))
    assert (
        f"The file system {full}, which holds the checkpoint {full}/checkpoint, is full: 8 MB of 8 MB are free" in text
    )

    text = refused(config(checkpoint_dir=f"{mount('ro')}/checkpoint"))
    assert "is mounted read-only" in text

    theirs = tmp_path / "theirs"
    (theirs / "live-1").mkdir(parents=True)
    os.chown(theirs / "live-1", 10002, 10002)
    (theirs / "live-1").chmod(0o700)
    no_more_than_a_user = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    text = refused(config(checkpoint_dir=str(theirs)), command=no_more_than_a_user)
    assert f"{theirs}/live-1 belongs to uid 10002" in text

    assert "No Java at JAVA_HOME=/nowhere" in refused(config(), {"JAVA_HOME": "/nowhere"})
    old = tmp_path / "jdk8" / "bin"
    old.mkdir(parents=True)
    (old / "java").write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n")
    (old / "java").chmod(0o755)
    assert "Java 8 at JAVA_HOME" in refused(config(), {"JAVA_HOME": str(old.parent)})

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = refused(config(http={"port": port}))
    assert f"The stream process cannot listen on 127.0.0.1:{port}" in text
    assert "stream.http" in text


def test_stream_without_memory_for_its_heap_says_so(config: Callable[..., Path]) -> None:
    file = config(driver_memory_mb=8000)
    text = refused(file, command=("bash", "-c", 'ulimit -v 6000000; exec "$@"', "-"))
    assert "Spark does not start. There is no memory for Java's heap of 8000 MiB" in text
    assert "stream.driver_memory_mb" in text


class Source:
    """Writes scrapes as a collector does."""

    def __init__(self, lab: Lab) -> None:
        self.topics = Topics.with_prefix("rheostat")
        with ClusterClient(lab.kafka_settings(), "test") as client:
            ensure_topics(client, self.topics)
        self._sender = producer(lab.kafka_settings(), "test", linger_ms=0)

    def send(self) -> None:
        at_ms = int(time.time() * 1000)
        for node in range(40):
            one = Scrape("lab", node, NodeRole.BROKER, at_ms, (Sample(Metric.LEADER_COUNT, "", 1.0),))
            self._sender.send(self.topics.metrics, key=one.key(), value=one.value())
        self._sender.flush(timeout=10)

    def close(self) -> None:
        self._sender.close(timeout=5)

    def until_read(self, run: Running) -> None:
        def first_batch() -> bool:
            self.send()
            return any(line["event"] == "the first batch is processed" for line in run.lines()) or not run.alive()

        until(first_batch, SPARK_S_MAX, "the first batch", every_s=0.5)
        assert run.alive()

    def until_dead(self, run: Running) -> str:
        def dead() -> bool:
            self.send()
            return not run.alive()

        until(dead, SPARK_S_MAX, "the stream ends", every_s=0.5)
        assert run.process.returncode == 1
        text = run.said()
        assert "Traceback" not in text
        lines = text.strip().splitlines()
        assert all(line.startswith("{") for line in lines[:-1]), "what Java says is in the log's own form"
        return lines[-1]


def fill(file: Path) -> None:
    """Fills the file system completely."""
    with file.open("wb", buffering=0) as out, suppress(OSError):
        while out.write(bytes(4096)):
            pass


@pytest.mark.campaign
def test_stream_dies_of_a_full_disk_and_says_so(
    lab: Lab, config: Callable[..., Path], mount: Mount, tmp_path: Path
) -> None:
    disk, source = mount("size=40m"), Source(lab)
    file = config(checkpoint_dir=f"{disk}/checkpoint")
    with running(*RHEOSTAT, "stream", "--config", file, log=tmp_path / "stream.log") as run:
        source.until_read(run)
        filler = disk / "filler"
        fill(filler)
        text = source.until_dead(run)
    assert (
        f"The file system {disk}, which holds the checkpoint {disk}/checkpoint, is full: 0 MB of 42 MB are free" in text
    )
    assert "the stream needs 256 MB" in text
    assert "damaged" not in text

    assert f"The file system {disk}" in refused(file)
    filler.unlink()
    with running(*RHEOSTAT, "stream", "--config", file, log=tmp_path / "again.log") as run:
        source.until_read(run)  # From the same checkpoint.
        assert_plain(run.said().split('"stack"')[0])
    source.close()


@pytest.mark.campaign
def test_stream_in_noexec_scratch_space_says_so(
    lab: Lab, config: Callable[..., Path], mount: Mount, tmp_path: Path
) -> None:
    scratch, source = mount("noexec,size=200m"), Source(lab)
    env = {"TMPDIR": str(scratch)}
    with running(*RHEOSTAT, "stream", "--config", config(), log=tmp_path / "stream.log", env=env) as run:
        source.until_read(run)
        with lab.admin() as admin:
            admin.alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, source.topics.metrics, {"compression.type": "zstd"})]
            )
        text = source.until_dead(run)
        with lab.admin() as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, source.topics.metrics, {})])
    assert "Java cannot load the native code for compressed topics" in text
    assert f"the file system {scratch} is mounted noexec" in text
    assert "TMPDIR" in text
    source.close()
