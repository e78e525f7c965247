"""Java's compilers give way to what Java serves.

In life brokers run for weeks, and what they do is compiled. Brokers of a benchmark compile for half an hour, five JVMs on the two
cores on which clients are served and timed, and whoever comes first or does more different things pays for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_NAMES = ("C1 CompilerThre", "C2 CompilerThre")  # Linux keeps fifteen letters.


def give_way(pids: Iterable[int], nice: int) -> list[int]:
    """Of these processes; the threads that now have this priority. One that has ended meanwhile has nothing to give."""
    found = []
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*"):
            try:
                if (task / "comm").read_text().startswith(_NAMES):
                    os.setpriority(os.PRIO_PROCESS, int(task.name), nice)
                    found.append(int(task.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found
