"""Runs one part of a benchmark in its own process, so that other Python code does not delay what is timed."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

from streaming.shared.kafka.cluster import ClusterError

_SPAWN = multiprocessing.get_context("spawn")
_DIES_S = 1.0


class Apart:
    """A child process that calls ``target`` with its end of a pipe and further arguments. It ends when the pipe is closed."""

    def __init__(self, target: Callable[..., None], *asked: object, ends_s_max: float = 5.0) -> None:
        self.line, theirs = _SPAWN.Pipe()
        self._ends_s_max = ends_s_max
        self._process = _SPAWN.Process(target=target, args=(theirs, *asked), daemon=True)
        self._process.start()
        theirs.close()

    def tell(self, what: object) -> None:
        """Sends a value to the process.

        Raises:
            ClusterError: the process has died.
        """
        try:
            self.line.send(what)
        except OSError:
            raise self._died() from None

    def answer(self, within_s: float | None = None) -> Any:
        """Returns the next value that the process sends.

        Raises:
            ClusterError: the process has died, or sends nothing in time.
        """
        try:
            if within_s is not None and not self.line.poll(within_s):
                raise ClusterError(f"a process of the benchmark's has said nothing for {within_s:.0f} s")
            return self.line.recv()
        except (EOFError, OSError):
            raise self._died() from None

    def end(self) -> None:
        """Closes the pipe and waits some seconds for the process to end."""
        self.line.close()
        self._process.join(timeout=self._ends_s_max)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(timeout=self._ends_s_max)

    def _died(self) -> ClusterError:
        self._process.join(timeout=_DIES_S)
        return ClusterError(f"a process of the benchmark's died, with code {self._process.exitcode}")
