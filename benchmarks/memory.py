"""Where the brokers of a benchmark keep their logs: in memory, where that has room.

Brokers have disks of their own. Those of a lab share one, each waits for what all have written whenever one of them makes sure of a
record, and while files of one are deleted the others stand still: for half a second to two when partitions move or are deleted.
Clients' latency is then the disk's.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil

from benchmarks.links.watch import say

_MEMORY = Path("/dev/shm")
_LEAST_BYTES = 8e9


def in_memory() -> Path | None:
    """A folder for a lab; None, and said, where there is no room."""
    free = min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available) if _MEMORY.is_dir() else 0
    if free >= _LEAST_BYTES:
        return _MEMORY
    say(
        f"{_MEMORY} has {free / 1e9:.1f} GB free, {_LEAST_BYTES / 1e9:.0f} are needed: on disk, so latency is the disk's as well"
    )
    return None
