"""`rheostat run` receives the reports of its parts: who is ready, and whose work has stopped."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import structlog

from rheostat.run import supervisor as supervisor_module
from rheostat.run.part_reports import WATCHDOG_S, PartReports
from rheostat.run.service_manager import ServiceManager
from rheostat.run.supervisor import Child, Supervisor

HANGS = [
    sys.executable, "-c",
    "import os, threading\n"
    "from rheostat.run.service_manager import ServiceManager\n"
    "manager = ServiceManager.from_environment(os.environ)\n"
    "manager.ready('well'); manager.ping()\n"
    "threading.Event().wait(600)",
]  # fmt: skip


class ManualClock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def reports(clock: ManualClock) -> Iterator[PartReports]:
    opened = PartReports(("collect", "tune"), clock)
    yield opened
    opened.close()


def manager_of(reports: PartReports) -> ServiceManager:
    return ServiceManager.from_environment(reports.environment({}))


def wait_for_ready(supervisor: Supervisor, reports: PartReports) -> None:
    deadline_s = time.monotonic() + 60
    while not reports.is_ready:
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.05)
        supervisor.check()


def test_whole_is_ready_when_each_required_part_is(reports: PartReports) -> None:
    reports.started("collect", os.getpid())
    manager_of(reports).ready("measures")
    reports.receive()
    assert not reports.is_ready, "the tuner has reported nothing"
    reports.started("tune", os.getpid() + 1)
    assert not reports.is_ready
    reports.started("collect", os.getpid() + 2)
    reports.started("tune", os.getpid())
    manager_of(reports).ready("active")
    reports.receive()
    assert not reports.is_ready, "the collector was started again"
    assert reports.status == "collect: starting; tune: active"


def test_whole_is_ready_with_the_tuner_of_one_cluster(clock: ManualClock) -> None:
    reports = PartReports(("collect",), clock, tuners=("tune east", "tune west"))
    reports.started("tune west", os.getpid() + 1)
    for part in ("collect", "tune east"):
        assert not reports.is_ready, "west does not answer, and east has not either"
        reports.started(part, os.getpid())
        manager_of(reports).ready("well")
        reports.receive()
        if part == "collect":
            reports._reports[part].pid = -1  # This process reports for the next part.
    assert reports.is_ready
    reports.close()


def test_message_of_another_process_is_ignored(reports: PartReports) -> None:
    reports.started("tune", os.getpid() + 1)
    manager_of(reports).ready("forged")
    reports.receive()
    assert reports.status == "tune: starting"


def test_reload_of_a_part_is_passed_on(reports: PartReports) -> None:
    told: list[bool] = []
    reports.on_reload = told.append
    reports.started("tune", os.getpid())
    manager = manager_of(reports)
    manager.ready("active")
    manager.reloading()
    reports.receive()
    assert told == [True]
    manager.ready("active")
    reports.receive()
    assert told == [True, False]


def test_part_that_never_pinged_is_not_silent(reports: PartReports, clock: ManualClock) -> None:
    reports.started("tune", os.getpid())
    for _ in range(20):
        clock.now_s += 9.0
        reports.receive()
    assert reports.silent() == []


def test_parts_are_not_silent_after_the_machine_was_suspended(reports: PartReports, clock: ManualClock) -> None:
    reports.started("tune", os.getpid())
    manager_of(reports).ping()
    reports.receive()
    clock.now_s += 3600.0
    assert reports.fault() is not None
    reports.receive()
    assert reports.silent() == []
    assert reports.fault() is None


def test_hung_part_is_killed_and_restarted(clock: ManualClock, tmp_path: Path) -> None:
    reports = PartReports(("part",), clock)
    supervisor = Supervisor([Child("part", HANGS)], log_to=tmp_path / "log", monotonic=clock, reports=reports)
    try:
        supervisor.check()
        wait_for_ready(supervisor, reports)
        first = supervisor.children[0].process
        assert first is not None
        while clock.now_s < 100.0 + WATCHDOG_S:
            clock.now_s += 5.0
            supervisor.check()
        assert first.poll() is None
        clock.now_s += 5.0
        supervisor.check()
        assert first.poll() is not None
        clock.now_s += 1.0
        supervisor.check()
        second = supervisor.children[0].process
        assert second is not None
        assert second.pid != first.pid
        assert not reports.is_ready, "it starts anew"
    finally:
        supervisor.stop()
        reports.close()


SLEEPS = "import time; time.sleep(600)"
STARTS_A_CHILD = [
    sys.executable, "-c",
    "import subprocess, sys\n"
    f"child = subprocess.Popen([sys.executable, '-c', '{SLEEPS}'])\n"
    "print(child.pid, flush=True)\n" + HANGS[2],
]  # fmt: skip


def hang(supervisor: Supervisor, clock: ManualClock) -> None:
    """Lets the time of the watchdog pass without a report."""
    until_s = clock.now_s + WATCHDOG_S + 15.0
    while clock.now_s < until_s:
        clock.now_s += 5.0
        supervisor.check()


def test_hung_part_is_killed_with_its_own_processes(clock: ManualClock, tmp_path: Path) -> None:
    log = tmp_path / "log"
    reports = PartReports(("part",), clock)
    supervisor = Supervisor([Child("part", STARTS_A_CHILD)], log_to=log, monotonic=clock, reports=reports)
    try:
        supervisor.check()
        wait_for_ready(supervisor, reports)
        own_child = psutil.Process(int(log.read_text().split()[0]))
        hang(supervisor, clock)
        psutil.wait_procs([own_child], timeout=10)
        assert not own_child.is_running() or own_child.status() == psutil.STATUS_ZOMBIE
    finally:
        supervisor.stop()
        reports.close()
        for pid in log.read_text().split():
            with suppress(psutil.NoSuchProcess):
                left = psutil.Process(int(pid))
                # Another process may have got this id meanwhile.
                if SLEEPS in left.cmdline():
                    left.kill()


def test_part_that_cannot_be_killed_stops_no_other(
    clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_KILL_S_MAX", 0.1)
    part, other = Child("part", HANGS), Child("other", [sys.executable, "-c", "raise SystemExit(3)"])
    reports = PartReports(("part",), clock)
    supervisor = Supervisor([part, other], log_to=tmp_path / "log", monotonic=clock, reports=reports)
    try:
        supervisor.check()
        wait_for_ready(supervisor, reports)
        stuck = part.process
        assert stuck is not None
        with monkeypatch.context() as unkillable, structlog.testing.capture_logs() as logged:
            unkillable.setattr(os, "killpg", lambda *_: None)
            hang(supervisor, clock)
            hang(supervisor, clock)
            clock.now_s = max(clock.now_s, other.start_at_s)
            supervisor.check()
            assert other.process is not None
            other.process.wait(timeout=20)
            restarts = other.restarts
            supervisor.check()
        assert other.restarts == restarts + 1
        assert part.process is stuck
        assert sum("was killed and has not ended" in line["event"] for line in logged) == 1
        stuck.kill()
        stuck.wait(timeout=10)
        supervisor.check()
        assert part.process is None
        assert part.restarts == 1
    finally:
        supervisor.stop()
        reports.close()


def test_stop_leaves_a_part_that_cannot_be_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "_KILL_S_MAX", 0.1)
    monkeypatch.setattr(supervisor_module, "STOP_S_MAX", 0.1)
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    children = [Child("stuck", sleeps), Child("other", sleeps)]
    supervisor = Supervisor(children, log_to=tmp_path / "log")
    supervisor.check()
    stuck, other = (child.process for child in children)
    assert stuck is not None
    assert other is not None
    kill = os.killpg
    monkeypatch.setattr(stuck, "terminate", lambda: None)
    monkeypatch.setattr(os, "killpg", lambda pid, number: None if pid == stuck.pid else kill(pid, number))
    try:
        supervisor.stop()
        assert stuck.poll() is None
        assert other.wait(timeout=10) < 0
    finally:
        stuck.kill()
        stuck.wait(timeout=10)


def test_supervisor_without_reports_passes_no_socket(tmp_path: Path) -> None:
    prints = [sys.executable, "-c", "import os; print(os.environ.get('NOTIFY_SOCKET'))"]
    supervisor = Supervisor([Child("part", prints)], log_to=tmp_path / "log")
    supervisor.check()
    process = supervisor.children[0].process
    assert process is not None
    assert process.wait(timeout=60) == 0
    supervisor.stop()
    assert (tmp_path / "log").read_text() == "None\n"
