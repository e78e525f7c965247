"""One tuner process under test: its log, its steps, and the point at which it dies."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

import psutil

from rheostat.run.process import spawn

_LAUNCHER = Path(__file__).with_name("launcher.py")
_STACKS_S = 1.0


class Tuner:
    """One ``rheostat tune`` process that starts after ``begin``; see launcher.py."""

    def __init__(self, folder: Path, config: Path) -> None:
        number = len(list(folder.glob("clock-*")))
        self.log = folder / f"tuner-{number}.log"
        self.trace = folder / f"trace-{number}.jsonl"
        self.clock = folder / f"clock-{number}"
        self.clock.write_text("0")
        self.stops = folder / f"stops-{number}"
        self.trace.touch()
        self._plan = folder / f"plan-{number}.json"
        command = [sys.executable, str(_LAUNCHER), str(self.clock), str(self._plan), "tune", "--config", str(config)]
        self.process: subprocess.Popen[bytes] = spawn(command, log=self.log)

    def begin(self, spares: Collection[str] | None) -> None:
        """Starts the work.

        Args:
            spares: the tuner dies at the first point that is not in this list; None: it lives.
        """
        about = {"trace": str(self.trace), "spares": None if spares is None else list(spares), "stops": str(self.stops)}
        _write_atomically(self._plan, json.dumps(about))

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_tail(self) -> str:
        """Returns the end of its log, with a stack trace of each thread."""
        if self.alive():
            self.process.send_signal(signal.SIGUSR1)
            threading.Event().wait(_STACKS_S)
        return self.said()[-6000:]

    def lines(self) -> list[dict[str, Any]]:
        """Returns the complete lines of its log."""
        return [
            json.loads(line)
            for line in self.said().splitlines(keepends=True)
            if line.startswith("{") and line[-1] == "\n"
        ]

    def acts(self) -> bool:
        """Returns whether the tuner's last message about its role is "active"."""
        words = [line["event"] for line in self.lines()]
        turns = [word for word in words if word == "active" or "all writes stopped" in word]
        return turns[-1:] == ["active"]

    def stands_by(self) -> bool:
        words = [line["event"] for line in self.lines()]
        turns = [word for word in words if word == "active" or "standing by" in word or "all writes stopped" in word]
        return bool(turns) and turns[-1] != "active"

    def decided(self, *reasons: str) -> bool:
        return any(line.get("reason") in reasons for line in self.lines())

    def steps(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.trace.read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def points(self) -> list[str]:
        return [line["point"] for line in self.steps() if "point" in line]

    def changes(self) -> list[dict[str, Any]]:
        """Returns its requests that changed the cluster."""
        return [line for line in self.steps() if line.get("step", "").startswith("alter")]

    def alive(self) -> bool:
        return self.process.poll() is None

    def set_clock(self, shift_s: float) -> None:
        """Shifts its wall clock by this time."""
        _write_atomically(self.clock, str(shift_s))

    def suspend_before_next_write(self) -> None:
        """Suspends it before its next write of rates, after its lease check and its record."""
        self.stops.touch()

    def is_suspended(self) -> bool:
        return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=10)


def _write_atomically(file: Path, text: str) -> None:
    """Replaces the file atomically."""
    partial = file.with_name(f"part-{file.name}")
    partial.write_text(text)
    partial.rename(file)
