"""One tuner under test: what it says, what it does, and when it dies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rheostat.process import spawn

_LAUNCHER = Path(__file__).with_name("launcher.py")


class Tuner:
    """One process that runs ``rheostat tune``; see launcher.py."""

    def __init__(self, folder: Path, config: Path, spares: Collection[str] | None) -> None:
        number = len(list(folder.glob("plan-*.json")))
        self.log = folder / f"tuner-{number}.log"
        self.trace = folder / f"trace-{number}.jsonl"
        self.clock = folder / f"clock-{number}"
        self.clock.write_text("0")
        self.trace.touch()
        plan = folder / f"plan-{number}.json"
        about = {"trace": str(self.trace), "clock": str(self.clock), "spares": None if spares is None else list(spares)}
        plan.write_text(json.dumps(about))
        command = [sys.executable, str(_LAUNCHER), str(plan), "tune", "--config", str(config)]
        self.process: subprocess.Popen[bytes] = spawn(command, log=self.log)

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

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
        turns = [word for word in words if word == "acting" or "acting no more" in word]
        return turns[-1:] == ["acting"]

    def stands_by(self) -> bool:
        words = [line["event"] for line in self.lines()]
        turns = [word for word in words if word == "acting" or "standing by" in word or "acting no more" in word]
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
        partial = self.clock.with_suffix(".part")
        partial.write_text(str(shift_s))
        partial.rename(self.clock)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=10)
