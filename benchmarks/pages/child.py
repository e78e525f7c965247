"""Runs the tuner in a child process: the parent sends a number of cycles, and the child returns their times."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from typing import Any


class TooLong(Exception):
    """The time of the benchmark is over."""


class Child:
    """The process of the tuner."""

    def __init__(self, brokers: int, ends_at_s: float) -> None:
        """Args:
        ends_at_s: the time, by time.monotonic(), at which all waits end.
        """
        self._ends_at_s = ends_at_s
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        command = [sys.executable, "-m", "benchmarks.pages.large", str(brokers)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self.port: int = self._next("the cluster is made")["port"]
        except BaseException:
            self.end()
            raise

    def cycles(self, count: int, *, paced: bool = True) -> Any:
        """Runs cycles and returns their times.

        Args:
            paced: one cycle every five seconds, as in a tuner; otherwise without pauses.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count} {'paced' if paced else 'at_once'}\n")
        self._process.stdin.flush()
        return self._next(f"{count} cycles end")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line)
        self._said.put("")

    def _next(self, what: str) -> Any:
        try:
            line = self._said.get(timeout=max(0.0, self._ends_at_s - time.monotonic()))
        except queue.Empty:
            raise TooLong(
                f"still waiting until {what}: this machine is busy with something else; --seconds allows more"
            ) from None
        if not line:
            raise RuntimeError("the tuner's process has ended; its complaint is above")
        return json.loads(line)

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
