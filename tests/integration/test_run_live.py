"""`rheostat run` and its processes on a real cluster: ready, supervised, restarted, ended."""

from __future__ import annotations

import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from lab_parts import RHEOSTAT, MakeLab, Running, is_java, running, until
from terminal_kit import CTRL_C, terminal

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from streaming.shared.kafka.cluster import ClusterClient, ClusterError

LAB = LabSpec(brokers=1)
HEALTHY_S_MAX = 3.0
RSS_BYTES_MAX = 150_000_000
READY_S_MAX = 240.0  # On a busy machine Spark needs minutes to start.
LEARN_S_MAX = 120.0
END_S_MAX = 30.0


def config_for(lab: Lab, folder: Path, port: int, **collector: Any) -> Path:
    """An operator's settings file, with everything in this test's folder."""
    settings = yaml.safe_load(lab_config(lab, http={"port": port}))
    settings["stream"]["checkpoint_dir"] = str(folder / "checkpoint")
    settings["collector"] |= collector
    file = folder / "rheostat.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def get(port: int, path: str) -> tuple[int | None, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=2) as got:
            return int(got.status), got.read()
    except urllib.error.HTTPError as error:
        return int(error.code), error.read()
    except OSError:
        return None, b""


def answer(port: int, path: str) -> int | None:
    return get(port, path)[0]


def body(port: int, path: str) -> bytes:
    return get(port, path)[1]


def events(run: Running, event: str) -> list[dict[str, Any]]:
    return [line for line in run.lines() if line["event"] == event]


def part(run: Running, name: str) -> psutil.Process | None:
    """Returns the child process with this command."""
    for process in run.descendants():
        try:
            command = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        if command[1:4] == ["-m", "rheostat", name]:
            return process
    return None


def processor_wait_s(pid: int) -> float:
    """Returns how long the main thread was ready to run while other threads had all processors."""
    _, waited_ns, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(waited_ns) / 1e9


def test_tuner_answers_soon_after_its_start(lab: Lab, tmp_path: Path, port: int) -> None:
    """The shortest of three starts counts, without the time in which it waited for a processor that other tests used."""
    starts_s = []
    for number in range(3):
        began = time.monotonic()
        with running(
            *RHEOSTAT, "tune", "--config", config_for(lab, tmp_path, port), log=tmp_path / f"tune{number}.log"
        ) as tune:  # fmt: skip
            until(lambda: answer(port, "healthz") == 200, 60, "/healthz answers", every_s=0.02)
            starts_s.append(time.monotonic() - began - processor_wait_s(tune.pid))
            until(lambda: events(tune, "tuner started"), 60, "it has found its topics and its journal")
        if min(starts_s) < HEALTHY_S_MAX:
            return
    pytest.fail(f"the starts took {starts_s} s, {HEALTHY_S_MAX} s are allowed")


def test_tuner_needs_little_memory_and_no_java(lab: Lab, tmp_path: Path, port: int) -> None:
    config = config_for(lab, tmp_path, port)
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as tune:
        until(lambda: events(tune, "tuner started"), 60, "it has found its topics and its journal")
        until(lambda: answer(port, "metrics") == 200 and answer(port, "status") == 200, 30, "it answers otherwise too")
        until(lambda: b"no broker signal has arrived yet" in body(port, "readyz"), 60, "a cycle has ended")
        rss = [psutil.Process(tune.pid).memory_info().rss for _ in range(5) if not threading.Event().wait(1)]

        assert max(rss) < RSS_BYTES_MAX
        assert tune.descendants() == []
        until(lambda: answer(port, "readyz") == 503, 10, "the tuner has no signals, and says so")

        assert tune.end(signal.SIGTERM, END_S_MAX) == 0
        assert "Traceback" not in tune.said()


def test_taken_port_is_reported_in_one_sentence(lab: Lab, tmp_path: Path) -> None:
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        taken = thief.getsockname()[1]
        with running(
            *RHEOSTAT, "tune", "--config", config_for(lab, tmp_path, taken), log=tmp_path / "tune.log"
        ) as tune:  # fmt: skip
            assert tune.process.wait(timeout=60) == 1
    mode, error = tune.said().strip().splitlines()
    assert "Starting." in mode
    assert "set tuner.http.port" in error


@pytest.fixture
def run(lab: Lab, tmp_path: Path, port: int) -> Iterator[Running]:
    (tmp_path / "tmp").mkdir()
    with running(
        *RHEOSTAT, "run", "--config", config_for(lab, tmp_path, port),
        log=tmp_path / "run.log", env={"TMPDIR": str(tmp_path / "tmp")},
    ) as run:  # fmt: skip
        yield run


@pytest.mark.timeout(600)
def test_run_becomes_ready_restarts_dead_processes_and_leaves_nothing(run: Running, port: int, tmp_path: Path) -> None:
    starting = b"starting: no broker signal has arrived yet; the stream takes about 30 to 60 s to start, "
    until(lambda: body(port, "readyz").startswith(starting), 30, "/readyz says that the stream starts")
    until(lambda: starting in body(port, "status"), 30, "the status says it, too")
    until(lambda: answer(port, "readyz") == 200 or not run.alive(), READY_S_MAX, "/readyz answers 200")
    [spark] = [line for line in run.lines() if line["event"].startswith("Spark is starting.")]
    assert "30 to 60 s" in spark["event"]
    assert len(events(run, f"The status page is at http://127.0.0.1:{port}")) == 1
    assert [line["why"].encode().startswith(starting) for line in events(run, "the tuner is not ready")][:1] == [True]
    parts = {name: part(run, name) for name in ("collect", "stream", "tune")}
    assert all(parts.values()), parts
    assert len([p for p in run.descendants() if is_java(p)]) == 1  # Spark's; the tuner has none.
    until(lambda: events(run, "learn started"), LEARN_S_MAX, "learn runs")
    assert_log_level_changes_without_restart(run, tmp_path / "rheostat.yaml")
    restarts = "a process ended and will be restarted"
    assert events(run, restarts) == []

    tuner = parts["tune"]
    assert tuner is not None
    tuner.kill()
    until(lambda: events(run, restarts), 5, "the death is logged")
    (said,) = events(run, restarts)
    assert (said["part"], said["code"], said["level"]) == ("tune", -signal.SIGKILL, "error")
    until(lambda: (new := part(run, "tune")) is not None and new.pid != tuner.pid, 10, "another tuner runs")
    until(lambda: answer(port, "readyz") == 200, 120, "/readyz answers 200 again")
    for name in ("collect", "stream"):
        before, now = parts[name], part(run, name)
        assert before is not None
        assert now is not None
        assert before.pid == now.pid

    began = time.monotonic()
    known = len(run.lines())
    assert (
        run.end(signal.SIGINT, 2 * END_S_MAX) == 0
    )  # Ctrl-C; a terminal sends it to this process alone, its parts have sessions of their own.
    assert time.monotonic() - began < END_S_MAX
    assert [line for line in run.lines()[known:] if line["level"] not in ("info", "debug")] == []
    assert [line for line in run.said().splitlines() if not line.startswith("{")] == []  # Nothing in Java's own words.
    until(lambda: run.left() == [], 5, "nothing is left; Spark's Java ends when it sees that its Python has")
    assert [line["part"] for line in events(run, "process stopped")] == ["tune", "stream", "collect", "learn"]
    assert list((tmp_path / "tmp").iterdir()) == []
    assert "Traceback" not in run.said()


def assert_log_level_changes_without_restart(run: Running, config: Path) -> None:
    """SIGHUP to the supervisor changes the log level of each part."""
    settings = yaml.safe_load(config.read_text())
    parts = {None, "collect", "stream", "tune", "learn"}  # None: the supervisor.

    def changed_in(level: str) -> set[str | None]:
        return {line.get("part") for line in events(run, f"log.level is now {level}")}

    for level in ("error", "info"):
        config.write_text(yaml.safe_dump({**settings, "log": {"level": level}}))
        run.process.send_signal(signal.SIGHUP)
        until(lambda level=level: changed_in(level) == parts, 60, f"each part has the log level {level}")  # type: ignore[misc]
    assert events(run, "a process ended and will be restarted") == []


def test_killed_run_ends_its_processes(run: Running, port: int) -> None:
    until(lambda: any(is_java(p) for p in run.descendants()) or not run.alive(), 120, "Spark's Java runs")

    run.end(signal.SIGKILL)

    until(lambda: run.left() == [], 10, "nothing is left, Spark's Java included")


def test_lost_cluster_is_waited_for(make_lab: MakeLab, tmp_path: Path, port: int) -> None:
    """The only broker stops: collector and tuner keep running, report it, and continue when it returns."""
    lab = make_lab(LabSpec(brokers=1))
    config = config_for(lab, tmp_path, port, interval_s=1)
    node = lab.nodes[1]
    with (
        running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as tune,
        running(*RHEOSTAT, "collect", "--config", config, log=tmp_path / "collect.log") as collect,
    ):
        until(lambda: events(tune, "tuner started") and events(collect, "collector started"), 30, "both have started")
        until(lambda: b"no broker signal has arrived yet" in body(port, "readyz"), 60, "the tuner acts")
        until_records_are_written(lab)

        node.stop(20)
        until(lambda: events(collect, "the cluster does not answer"), 30, "the collector says so")
        until(lambda: b"the cluster cannot be read" in body(port, "readyz"), 30, "the tuner says so")
        until(lambda: answer(port, "healthz") == 200, 30, "the tuner's process is well")
        assert tune.alive()
        assert collect.alive()

        node.start(lab._java, lab.artifacts)
        until(lambda: events(collect, "the cluster answers again"), 60, "the collector is back")
        until_records_are_written(lab)
        until(lambda: b"no broker signal has arrived yet" in body(port, "readyz"), 60, "the tuner sees it again")

        for process in (tune, collect):
            assert process.end(signal.SIGTERM) == 0
            assert "Traceback" not in process.said()


def until_records_are_written(lab: Lab) -> None:
    before = until(lambda: end_offset_or_none(lab), 60, "the broker tells the number of records")
    assert before is not None
    until(lambda: (end_offset_or_none(lab) or 0) > before, 60, "records are written")


def end_offset_or_none(lab: Lab) -> int | None:
    """Returns the number of records in the metrics topic."""
    try:
        with ClusterClient(lab.kafka_settings().model_copy(update={"request_timeout_s": 3}), "test") as client:
            offsets = client.end_offsets(client.partitions(["rheostat.metrics"]))
            return sum(offsets.values()) if offsets else None
    except ClusterError:
        return None


@pytest.mark.campaign
def test_ctrl_c_ends_run_without_spark_output(lab: Lab, tmp_path: Path, port: int) -> None:
    config = config_for(lab, tmp_path, port)
    with terminal(*RHEOSTAT, "run", "--config", config, columns=200) as shown:
        until(lambda: answer(port, "readyz") == 200, READY_S_MAX, "/readyz answers 200")
        before = len(shown.screen().splitlines())
        shown.press(CTRL_C)
        began = time.monotonic()
        assert shown.ends(30) in (0, 130)
        assert time.monotonic() - began < END_S_MAX
        after = "\n".join(shown.screen().splitlines()[before:])
    assert "process stopped" in after
    for word in ("ERROR", "Exception", "WARN", "\tat ", "error"):
        assert word not in after
