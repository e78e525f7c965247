"""Whether a file has changed since it was read."""

from __future__ import annotations

import os

FileStamp = tuple[int, int, int]


def file_stamp(file: str | os.PathLike[str]) -> FileStamp | None:
    """Returns a value that differs after each change of the file, also one that keeps its size and its modification time.

    None: the file is not there, or cannot be reached.
    """
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_ino, found.st_size
