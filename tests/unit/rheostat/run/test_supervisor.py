"""A child process that dies is restarted after growing pauses; one that ran for a while starts with a short pause again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rheostat.run import supervisor as supervisor_module
from rheostat.run.supervisor import BACKOFF_S_MAX, WELL_AFTER_S, Child, Supervisor, children_for, tuner_names

DIES = [sys.executable, "-c", "raise SystemExit(3)"]
LIVES = [sys.executable, "-c", "import sys, time; time.sleep(600)"]


class ManualClock:
    """A clock that only the test advances."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def dying(clock: ManualClock, tmp_path: Path) -> Iterator[Supervisor]:
    supervisor = Supervisor([Child("part", DIES)], log_to=tmp_path / "log", monotonic=clock)
    yield supervisor
    supervisor.stop()


def child_after_exit(supervisor: Supervisor) -> Child:
    """Waits for the running child to end, and lets the supervisor notice."""
    child = supervisor.children[0]
    assert child.process is not None
    child.process.wait(timeout=20)
    supervisor.check()
    return child


def test_restart_pauses_double_up_to_a_limit(dying: Supervisor, clock: ManualClock) -> None:
    pauses = []
    for _ in range(7):
        dying.check()
        child = child_after_exit(dying)
        assert child.process is None
        pauses.append(child.start_at_s - clock.now_s)
        clock.now_s = child.start_at_s
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, BACKOFF_S_MAX, BACKOFF_S_MAX]
    assert child.restarts == 7


def test_send_signal_reaches_only_the_named_running_child(tmp_path: Path) -> None:
    supervisor = Supervisor([Child("one", LIVES), Child("other", LIVES)], log_to=tmp_path / "log")
    supervisor.send_signal("one", signal.SIGUSR1)
    try:
        supervisor.check()
        one, other = (child.process for child in supervisor.children)
        assert one is not None
        assert other is not None
        supervisor.send_signal("one", signal.SIGUSR1)
        assert one.wait(timeout=20) == -signal.SIGUSR1
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(timeout=1)
    finally:
        supervisor.stop()


def test_child_is_not_restarted_before_its_pause_ends(dying: Supervisor, clock: ManualClock) -> None:
    dying.check()
    child = child_after_exit(dying)
    clock.now_s = child.start_at_s - 0.1
    dying.check()
    assert child.process is None
    clock.now_s = child.start_at_s
    dying.check()
    assert child.process is not None


def test_child_that_ran_well_restarts_after_short_pause(dying: Supervisor, clock: ManualClock) -> None:
    for _ in range(4):
        dying.check()
        clock.now_s = child_after_exit(dying).start_at_s
    dying.check()
    clock.now_s += WELL_AFTER_S
    child = child_after_exit(dying)
    assert child.start_at_s - clock.now_s == 1.0


def test_stop_leaves_no_process(tmp_path: Path) -> None:
    supervisor = Supervisor([Child("a", LIVES), Child("b", LIVES)], log_to=tmp_path / "log")
    supervisor.check()
    processes = [child.process for child in supervisor.children]
    supervisor.stop()
    assert all(process is not None and process.poll() is not None for process in processes)


def test_children_for_passes_dry_run_to_the_tuner_only() -> None:
    parts = {child.name: list(child.command) for child in children_for(Path("x.yaml"), dry_run=True)}
    assert list(parts) == ["collect", "stream", "tune"]
    assert all(command[:3] == [sys.executable, "-m", "rheostat"] for command in parts.values())
    assert [name for name, command in parts.items() if "--dry-run" in command] == ["tune"]


def test_children_for_several_clusters_has_one_tuner_each() -> None:
    parts = {c.name: list(c.command) for c in children_for(Path("x.yaml"), dry_run=True, clusters=["east", "west"])}
    assert list(parts) == ["collect", "stream", "tune east", "tune west"]
    assert tuner_names(["east", "west"]) == ["tune east", "tune west"]
    assert {name: command[3] for name, command in parts.items()} == {name: name.split()[0] for name in parts}
    assert parts["tune west"][-3:] == ["--cluster", "west", "--dry-run"]
    assert all("--cluster" not in parts[name] for name in ("collect", "stream"))


def test_children_for_starts_learn_later_and_stops_it_last() -> None:
    learn, *others = children_for(Path("x.yaml"), dry_run=True, learn=True)
    assert (learn.name, [child.name for child in others]) == ("learn", ["collect", "stream", "tune"])
    assert learn.start_at_s > time.monotonic()
    assert learn.nice > 0
    assert "--dry-run" not in learn.command
    assert learn.backoff_s_max > others[0].backoff_s_max, (
        "a learn that ends at once costs CPU time, and no decision waits for it"
    )


def test_stop_signals_all_children_at_once_and_kills_survivors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "STOP_S_MAX", 2.0)
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    log = tmp_path / "log"
    supervisor = Supervisor([Child(name, [sys.executable, "-c", deaf]) for name in ("a", "b", "c")], log_to=log)
    supervisor.check()
    processes = [child.process for child in supervisor.children if child.process is not None]
    deadline = time.monotonic() + 30
    while log.read_text().count("deaf") < 3:
        assert time.monotonic() < deadline, "the parts do not start"
    began = time.monotonic()
    supervisor.stop()
    assert time.monotonic() - began < 3 * 2.0  # One after the other would take that.
    assert {process.returncode for process in processes} == {-signal.SIGKILL}
