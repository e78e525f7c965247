"""The thorough compiler of Spark's JVM steps back while others want the cores.

Intuition: a JVM that starts has two kinds of work, its own and the compiling of it. The quick compiler pays at once. The
thorough one takes seconds for code that pays in a minute, and on two cores takes them from the start itself. As the thread
of the least weight it has what the others leave: next to nothing while Spark starts, and plenty between two batches.

Only Linux gives every thread a priority of its own. Elsewhere, and where it is refused, all stays as it was.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

_NAME = "C2 CompilerThre"  # Linux cuts names at 15 characters. Threads that it starts later have its priority.
_NICE = 19
_LOOK_S = 0.1


@contextmanager
def steps_back() -> Iterator[None]:
    """In every JVM that this process starts until the block is left; the one that runs Spark has the thread from its start."""
    if not sys.platform.startswith("linux"):
        yield
        return
    before = _children()
    done = threading.Event()

    def watch() -> None:
        while not any(_weaken(pid) for pid in _children() - before) and not done.wait(_LOOK_S):
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


def _weaken(pid: int) -> bool:
    """Whether the process had such threads. One that is gone has none."""
    found = False
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            if (thread / "comm").read_text().strip() == _NAME:
                os.setpriority(os.PRIO_PROCESS, int(thread.name), _NICE)
                found = True
    return found
