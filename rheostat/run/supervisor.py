"""Runs collector, stream, tuner and learn as child processes for `rheostat run`, and restarts a part that dies, with back-off.

The parts are separate processes, so that a crash of one part does not end the others. A part whose work has stopped is killed, and
restarted like a part that died. At the end all parts get SIGTERM, the tuner first, and end in parallel.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from rheostat.run.part_reports import WATCHDOG_S, PartReports
from rheostat.run.process import spawn

log = structlog.get_logger("run")

SHARED_PARTS = ("collect", "stream")  # One process of each kind serves all clusters.
TUNE = "tune"
LEARN = "learn"
STOP_S_MAX = 14.0  # For all children together; Ctrl-C ends `rheostat run` within 15 s.
# The stream gets a lower priority: Spark computes in bursts, may share its machine with brokers, and can wait longer than other
# parts.
STREAM_NICE = 5
LEARN_NICE = 10  # learn has the lowest priority: a profile is valid for hours.
LEARN_DELAY_S = 20.0  # learn starts after the stream, because it reads what the stream writes.
BACKOFF_S_MIN, BACKOFF_S_MAX = 1.0, 30.0
# Longer for learn: its absence changes no decision for hours, and each start of learn takes seconds of CPU time.
LEARN_BACKOFF_S_MAX = 300.0
WELL_AFTER_S = 60.0  # A child that ran for this long has recovered: its next restart has the shortest back-off again.
_NICE = {"stream": STREAM_NICE, LEARN: LEARN_NICE}
_CHECK_EVERY_S = 0.2
_KILL_S_MAX = 5.0  # Longest wait for the end of a killed part.
_STDERR = 2  # File descriptor.


@dataclass(slots=True)
class Child:
    """A part of rheostat that runs as a child process."""

    name: str
    command: Sequence[str]
    nice: int = 0
    process: subprocess.Popen[bytes] | None = None  # None while it does not run.
    started_s: float = 0.0  # When it was last started.
    backoff_s: float = BACKOFF_S_MIN  # The delay of the next restart.
    backoff_s_max: float = BACKOFF_S_MAX
    start_at_s: float = 0.0  # When to start it, if it does not run.
    restarts: int = 0
    is_killed: bool = False  # Whether its process was killed, but has not ended yet.


class Supervisor:
    """Keeps child processes running until it is stopped."""

    def __init__(
        self,
        children: Sequence[Child],
        *,
        log_to: Path | int = _STDERR,
        monotonic: Callable[[], float] = time.monotonic,
        reports: PartReports | None = None,
    ) -> None:
        """
        Args:
            reports: receives the reports of the parts; None if the parts send no reports. A hanging part is then not noticed.
        """
        self.children = list(children)
        self._reports = reports
        self._log_to = log_to
        self._monotonic = monotonic

    def run(self, stop: threading.Event) -> None:
        """Keeps the children running until ``stop`` is set, then ends all of them."""
        try:
            while not stop.is_set():
                self.check()
                stop.wait(_CHECK_EVERY_S)
        finally:
            self.stop()

    def check(self) -> None:
        """Starts the children that are due, and schedules the restart of children that died."""
        now_s = self._monotonic()
        if self._reports is not None:
            self._reports.receive()
            self._kill_silent(self._reports.silent())
        for child in self.children:
            if child.process is not None and (code := child.process.poll()) is not None:
                child.process = None
                if now_s - child.started_s >= WELL_AFTER_S:
                    child.backoff_s = BACKOFF_S_MIN
                child.start_at_s = now_s + child.backoff_s
                child.restarts += 1
                log.error("a process ended and will be restarted", part=child.name, code=code, in_s=child.backoff_s)
                child.backoff_s = min(child.backoff_s_max, child.backoff_s * 2)
            if child.process is None and now_s >= child.start_at_s:
                environ = self._reports.environment() if self._reports is not None else None
                child.process = spawn(child.command, log=self._log_to, nice=child.nice, environ=environ)
                child.started_s, child.is_killed = now_s, False
                if self._reports is not None:
                    self._reports.started(child.name, child.process.pid)
                log.info("process started", part=child.name, pid=child.process.pid)

    def _kill_silent(self, names: Collection[str]) -> None:
        for child in self.children:
            if child.process is None or child.is_killed or child.name not in names:
                continue
            if child.process.poll() is None:
                log.error(
                    f"a process has reported no progress for {WATCHDOG_S:.0f} s, so it is killed",
                    part=child.name,
                    pid=child.process.pid,
                )
                child.is_killed = True
                _kill(child.name, child.process)

    def send_signal(self, name: str, number: int) -> None:
        """Sends a signal to the child with this name, if it runs. Safe to call from a signal handler."""
        for child in self.children:
            if child.name == name and child.process is not None:
                child.process.send_signal(number)

    def stop(self) -> None:
        """Sends SIGTERM to all children, the tuner first, and kills children that still run after ``STOP_S_MAX`` seconds."""
        ending: list[tuple[str, subprocess.Popen[bytes]]] = []
        for child in reversed(self.children):
            if child.process is not None:
                ending.append((child.name, child.process))
                child.process.terminate()
                child.process = None
        until_s = time.monotonic() + STOP_S_MAX
        for name, process in ending:
            try:
                process.wait(timeout=max(0.0, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                _kill(name, process)
            if process.returncode is not None:
                log.info("process stopped", part=name, code=process.returncode)


def _kill(name: str, process: subprocess.Popen[bytes]) -> None:
    """Kills a part, and the processes that it has started: they are in the process group of its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(timeout=_KILL_S_MAX)
    except subprocess.TimeoutExpired:
        log.error(
            f"a process was killed and has not ended after {_KILL_S_MAX:.0f} s, probably because it waits for a disk that does "
            "not answer",
            part=name,
            pid=process.pid,
        )


def tuner_names(clusters: Collection[str]) -> list[str]:
    """Returns the part name of the tuner of each cluster; only "tune" for a settings file with one cluster."""
    return [f"{TUNE} {cluster}" for cluster in clusters] or [TUNE]


def children_for(config: Path, *, dry_run: bool, learn: bool = False, clusters: Collection[str] = ()) -> list[Child]:
    """Returns the children for one settings file; each runs one command of this program.

    Args:
        learn: also run `rheostat learn`.
        clusters: the names of several clusters, each of which has a tuner of its own.
    """
    children = []
    for part in (*((LEARN,) if learn else ()), *SHARED_PARTS, *tuner_names(clusters)):
        process, _, cluster = part.partition(" ")
        command = [sys.executable, "-m", "rheostat", process, "--config", str(config), "--wait-for-cluster"]
        if cluster:
            command += ["--cluster", cluster]
        if process == TUNE and dry_run:
            command.append("--dry-run")
        start_at_s = time.monotonic() + LEARN_DELAY_S if part == LEARN else 0.0
        backoff_s_max = LEARN_BACKOFF_S_MAX if part == LEARN else BACKOFF_S_MAX
        children.append(
            Child(part, command, nice=_NICE.get(part, 0), start_at_s=start_at_s, backoff_s_max=backoff_s_max)
        )
    return children
