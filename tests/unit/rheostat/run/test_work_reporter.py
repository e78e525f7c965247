"""The service manager learns when a process is ready and that its work goes on, and gets no ping once the work has stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from notify_kit import NotifySocket, notify_socket

from rheostat.run.service_manager import ServiceManager
from rheostat.run.work_reporter import WorkReporter
from streaming.shared.heartbeat import Heartbeat

CONFIG = (
    "cluster: main\nkafka:\n  bootstrap_servers: 127.0.0.1:1\n  request_timeout_s: 1\ntuner:\n  rate_bytes_per_s_max: 50000000\n"
    "stream: {checkpoint_dir: ./checkpoint}\n"
)


class ManualClock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def received(tmp_path: Path) -> Iterator[NotifySocket]:
    with notify_socket(tmp_path / "notify") as opened:
        yield opened


def test_ready_is_told_once_and_pings_go_on(received: NotifySocket) -> None:
    heartbeat = Heartbeat()
    reporter = WorkReporter(ServiceManager(received.address, watchdog_s=60.0), heartbeat, threading.Event())
    heartbeat.beat(10.0, "waits")
    reporter.report()
    assert received.take() == ["STATUS=waits", "EXTEND_TIMEOUT_USEC=60000000", "WATCHDOG=1"]
    heartbeat.beat(10.0, "measures", ready=True)
    for _ in range(2):
        reporter.report()
    assert received.take() == ["READY=1", "STATUS=measures", "WATCHDOG=1", "WATCHDOG=1"]


def test_process_whose_work_hangs_sends_nothing(received: NotifySocket) -> None:
    clock = ManualClock()
    heartbeat = Heartbeat(clock)
    reporter = WorkReporter(ServiceManager(received.address, watchdog_s=60.0), heartbeat, threading.Event())
    heartbeat.beat(10.0, "measures", ready=True)
    reporter.report()
    received.take()
    clock.now_s += 11.0
    reporter.report()
    assert received.take() == []
    heartbeat.beat(10.0)
    reporter.report()
    assert received.take() == ["WATCHDOG=1"]


def test_hung_start_is_not_extended(received: NotifySocket) -> None:
    clock = ManualClock()
    heartbeat = Heartbeat(clock)
    heartbeat.beat(30.0, "waits")
    clock.now_s += 31.0
    WorkReporter(ServiceManager(received.address), heartbeat, threading.Event()).report()
    assert received.take() == []


def test_stop_is_told_before_close_returns(received: NotifySocket) -> None:
    stop = threading.Event()
    reporter = WorkReporter(ServiceManager(received.address), Heartbeat(), stop)
    reporter.start()
    stop.set()
    reporter.close()
    assert received.take()[-2:] == ["STOPPING=1", "STATUS=stopping"]


@pytest.mark.parametrize("part", ["collect", "learn"])
def test_part_without_cluster_says_that_it_waits(part: str, tmp_path: Path, received: NotifySocket) -> None:
    (tmp_path / "rheostat.yaml").write_text(CONFIG)
    with subprocess.Popen(
        [sys.executable, "-m", "rheostat", part, "--wait-for-cluster", "--config", str(tmp_path / "rheostat.yaml")],
        env={**os.environ, "NOTIFY_SOCKET": received.address, "WATCHDOG_USEC": "60000000"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            lines = received.until("STATUS=waits for the cluster", 60.0)
            assert any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in lines)
            process.send_signal(signal.SIGTERM)
            lines += received.until("STOPPING=1", 30.0)
            assert process.wait(timeout=30) == 0
            assert "READY=1" not in lines
        finally:
            process.kill()
