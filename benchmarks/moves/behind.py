"""Gives background processes a lower CPU priority than the processes that are timed.

In production rheostat runs on other machines, and the code of brokers is compiled long ago. In a benchmark both share two cores
with the brokers and clients that are timed. nice(1) is not enough: the kernel first shares CPU time between sessions, so the
compiler of one broker competes with the request threads of another, and delays each hop of a record by some milliseconds. A thread
that wakes up runs before threads in a cgroup of the idle class.

Single threads can be moved only with version 1 of cgroups. Without it, or without the right, nice(1) is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.links.watch import say

# As rheostat's processes are started; in a cgroup of the idle class it says nothing more.
NICE = 10
_CPU = Path("/sys/fs/cgroup/cpu")
_COMPILERS = ("C1 CompilerThre", "C2 CompilerThre")  # Linux keeps fifteen letters.


class Behind:
    """A cgroup of the idle class. All processes in it must have ended when it is closed.

    ``cpu`` is the mount point of the kernel's cpu controller.
    """

    def __init__(self, cpu: Path = _CPU) -> None:
        self._cpu = cpu
        self._group: Path | None = None

    def __enter__(self) -> Behind:
        group = self._cpu / f"rheostat-bench-{os.getpid()}"
        try:
            group.mkdir()
            self._group = group
            (group / "cpu.idle").write_text("1")
        except OSError as error:
            self.__exit__()
            say(f"no cgroup of the idle class ({error}): rheostat and Java's compilers give way by nice(1) alone")
        return self

    def __exit__(self, *_: object) -> None:
        group, self._group = self._group, None
        if group is not None:
            try:
                group.rmdir()
            except OSError as error:
                say(f"{group} is left behind: {error}")

    @property
    def is_idle_class(self) -> bool:
        return self._group is not None

    def put(self, processes: Iterable[int]) -> list[int]:
        """Moves processes and their present and future children to the cgroup.

        Returns: the moved processes; none if only nice(1) is available, with which they were started.
        """
        found: list[int] = []
        for pid in processes:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                found += [each.pid for each in (process, *process.children(recursive=True))]
        return [pid for pid in found if self._group is not None and _written(self._group / "cgroup.procs", pid)]

    def put_compilers(self, processes: Iterable[int]) -> list[int]:
        """Moves the Java compiler threads of these processes; Java starts and ends them as needed.

        Returns: the threads that were moved.
        """
        found = []
        for pid in processes:
            for task in Path(f"/proc/{pid}/task").glob("*"):
                with suppress(FileNotFoundError, ProcessLookupError):
                    if (task / "comm").read_text().startswith(_COMPILERS):
                        found.append(int(task.name))
        if self._group is None:
            return [task for task in found if _niced(task)]
        return [task for task in found if _written(self._group / "tasks", task)]


def _written(file: Path, task: int) -> bool:
    with suppress(ProcessLookupError):  # It has ended, and has nothing to give.
        file.write_text(str(task))
        return True
    return False


def _niced(task: int) -> bool:
    with suppress(ProcessLookupError):  # As above.
        os.setpriority(os.PRIO_PROCESS, task, NICE)
        return True
    return False
