"""Stores the logs of a benchmark's brokers in memory, if there is enough of it.

Production brokers have their own disks; those of a lab share one. A flush of one broker then waits for the writes of all, and while
files are deleted the others stop for half a second to two seconds. Client latency would be that of the disk.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil

from benchmarks.links.watch import say

_MEMORY = Path("/dev/shm")
_LEAST_BYTES = 8e9


def in_memory() -> Path | None:
    """Returns a folder for a lab; None, with a message, if there is not enough memory."""
    free = min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available) if _MEMORY.is_dir() else 0
    if free >= _LEAST_BYTES:
        return _MEMORY
    say(
        f"{_MEMORY} has {free / 1e9:.1f} GB free, {_LEAST_BYTES / 1e9:.0f} are needed: on disk, so latency is the disk's as well"
    )
    return None
