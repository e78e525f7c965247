"""What is elsewhere in life, or long done, gives way to what is timed.

Rheostat has machines of its own, and what brokers do was compiled weeks ago; in a benchmark both share two cores with the brokers
and clients whose time is measured. nice(1) is too little: the kernel first shares the processors out by session, so that the
compiler of one broker is the equal of all that another one serves, and who wakes up beside it waits for the end of its turn, some
milliseconds at each of the hops that a record makes. Whoever wakes up beside a cgroup of the idle class goes first.

Threads can be put there one by one in the first version of cgroups only. Where there is none, or for who may not, nice(1) is what
is left.
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
    """A cgroup of the idle class, for as long as it is open; all that is in it must have ended by then.

    ``cpu`` is where the kernel's processor controller is mounted.
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
        """With all that they have started and will start.

        Returns: those that are in the cgroup now; none where there is nice(1) alone, with which they were started.
        """
        found: list[int] = []
        for pid in processes:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                found += [each.pid for each in (process, *process.children(recursive=True))]
        return [pid for pid in found if self._group is not None and _written(self._group / "cgroup.procs", pid)]

    def put_compilers(self, processes: Iterable[int]) -> list[int]:
        """Those of Java in these processes, which starts and ends them as it needs them.

        Returns: the threads that give way now.
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
