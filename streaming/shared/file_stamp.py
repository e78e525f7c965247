"""Detects whether a file has changed since it was read."""

from __future__ import annotations

import os

FileStamp = tuple[int, int, int]


def file_stamp(file: str | os.PathLike[str]) -> FileStamp | None:
    """Returns a value that changes with every change of the file, even one that keeps size and modification time.

    Returns None if the file does not exist or cannot be accessed.
    """
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_ctime_ns, status.st_ino, status.st_size
