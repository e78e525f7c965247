"""Lowers the priority of the JVM's optimizing compiler (C2) so that it does not slow down Spark's start.

C2 spends seconds of CPU time on code that makes Spark faster only after a minute. On two cores, C2 competes with Spark's start. At
the lowest priority, C2 uses only idle CPU time: little while Spark starts, much between two batches.

Only Linux has per-thread priorities. Elsewhere, and where the change is refused, nothing changes.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

_NAME = "C2 CompilerThre"  # Linux cuts names at 15 characters. Threads that the compiler starts inherit its priority.
_NICE = 19
_POLL_S = 0.1


@contextmanager
def lowered_priority() -> Iterator[None]:
    """Lowers the compiler's priority in every JVM that this process starts within the block."""
    if not sys.platform.startswith("linux"):
        yield
        return
    before = _children()
    done = threading.Event()

    def watch() -> None:
        while not any(_lower_priority(pid) for pid in _children() - before) and not done.wait(_POLL_S):
            pass

    watcher = threading.Thread(target=watch, name="compiler-thread", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def _lower_priority(pid: int) -> bool:
    """Lowers the priority of the process's compiler threads. Returns False if it has no such threads, or if it has ended."""
    has_compiler_threads = False
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            if (thread / "comm").read_text().strip() == _NAME:
                os.setpriority(os.PRIO_PROCESS, int(thread.name), _NICE)
                has_compiler_threads = True
    return has_compiler_threads
