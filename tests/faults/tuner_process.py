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
    """One process that runs ``rheostat tune``, once it has been told to begin; see launcher.py."""

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
        """Args: spares: it dies at the first point that is not among these; None: it lives."""
        about = {"trace": str(self.trace), "spares": None if spares is None else list(spares), "stops": str(self.stops)}
        _write_whole(self._plan, json.dumps(about))

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def last_words(self) -> str:
        """What it said last, and what each of its threads is about now."""
        if self.alive():
            self.process.send_signal(signal.SIGUSR1)
            threading.Event().wait(_STACKS_S)
        return self.said()[-6000:]

    def lines(self) -> list[dict[str, Any]]:
        """Whole lines of its log only: the last one may just be being written."""
        return [
            json.loads(line)
            for line in self.said().splitlines(keepends=True)
            if line.startswith("{") and line[-1] == "\n"
        ]

    def acts(self) -> bool:
        """By its own last word on it."""
        words = [line["event"] for line in self.lines()]
        turns = [word for word in words if word == "acting" or "all writes stopped" in word]
        return turns[-1:] == ["acting"]

    def stands_by(self) -> bool:
        words = [line["event"] for line in self.lines()]
        turns = [word for word in words if word == "acting" or "standing by" in word or "all writes stopped" in word]
        return bool(turns) and turns[-1] != "acting"

    def decided(self, *reasons: str) -> bool:
        return any(line.get("reason") in reasons for line in self.lines())

    def steps(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.trace.read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def points(self) -> list[str]:
        return [line["point"] for line in self.steps() if "point" in line]

    def changes(self) -> list[dict[str, Any]]:
        """The requests by which it changed something on the cluster."""
        return [line for line in self.steps() if line.get("step", "").startswith("alter")]

    def alive(self) -> bool:
        return self.process.poll() is None

    def set_clock(self, shift_s: float) -> None:
        """Its wall clock differs by this much from everybody else's from now on."""
        _write_whole(self.clock, str(shift_s))

    def stop_before_its_next_write(self) -> None:
        """Of rates. It is certain by then that it may, and on record what it is about to write."""
        self.stops.touch()

    def is_stopped(self) -> bool:
        return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=10)


def _write_whole(file: Path, text: str) -> None:
    """Whoever reads it at any moment finds all of it."""
    partial = file.with_name(f"part-{file.name}")
    partial.write_text(text)
    partial.rename(file)
