"""`rheostat run`: collector, stream and tuner as children; one that dies is started again, with back-off.

Each is a process of its own, so that Spark's memory or a bug in one cannot take the others along. They are asked to end in the
reverse order, first the one that acts, and end side by side.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from rheostat.run.process import spawn

log = structlog.get_logger("run")

PARTS = ("collect", "stream", "tune")
STOP_S_MAX = 14.0  # Of all parts together; Ctrl-C is answered within 15 s.
# Spark computes in bursts, and may share its machine with brokers: it is the one that can wait.
STREAM_NICE = 5
BACKOFF_S_MIN, BACKOFF_S_MAX = 1.0, 30.0
WELL_AFTER_S = 60.0  # A child that lived this long has recovered; its next death starts the back-off anew.
_LOOK_S = 0.2
_STDERR = 2


@dataclass(slots=True)
class Child:
    name: str
    command: Sequence[str]
    nice: int = 0
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    backoff_s: float = BACKOFF_S_MIN
    start_at_s: float = 0.0
    restarts: int = field(default=0)


class Supervisor:
    def __init__(
        self,
        children: Sequence[Child],
        *,
        log_to: Path | int = _STDERR,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.children = list(children)
        self._log_to = log_to
        self._monotonic = monotonic

    def run(self, stop_asked: threading.Event) -> None:
        """Keeps the children running until ``stop_asked``; then none is left."""
        try:
            while not stop_asked.is_set():
                self.look()
                stop_asked.wait(_LOOK_S)
        finally:
            self.stop()

    def look(self) -> None:
        """Starts what is due, notices what died."""
        now_s = self._monotonic()
        for child in self.children:
            if child.process is not None and (code := child.process.poll()) is not None:
                child.process = None
                if now_s - child.started_s >= WELL_AFTER_S:
                    child.backoff_s = BACKOFF_S_MIN
                child.start_at_s = now_s + child.backoff_s
                child.restarts += 1
                log.error("a part ended; starting it again", part=child.name, code=code, in_s=child.backoff_s)
                child.backoff_s = min(BACKOFF_S_MAX, child.backoff_s * 2)
            if child.process is None and now_s >= child.start_at_s:
                child.process = spawn(child.command, log=self._log_to, nice=child.nice)
                child.started_s = now_s
                log.info("part started", part=child.name, pid=child.process.pid)

    def tell(self, name: str, number: int) -> None:
        """Sends a signal to the child of that name, if it runs. What a handler may call."""
        for child in self.children:
            if child.name == name and child.process is not None:
                child.process.send_signal(number)

    def stop(self) -> None:
        """Asks all parts to end, first the one that acts, and kills what is still there after ``STOP_S_MAX``."""
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
                process.kill()
                process.wait(timeout=10)
            log.info("part stopped", part=name, code=process.returncode)


def children_for(config: Path, *, dry_run: bool) -> list[Child]:
    """The parts of one configuration, as this very program with another command."""
    own = [sys.executable, "-m", "rheostat"]
    extra = {"tune": ["--dry-run"] if dry_run else []}
    nice = {"stream": STREAM_NICE}
    return [
        Child(part, [*own, part, "--config", str(config), "--wait", *extra.get(part, [])], nice.get(part, 0))
        for part in PARTS
    ]
