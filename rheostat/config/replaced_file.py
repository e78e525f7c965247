"""Replaces a file in one step, so that no reader sees a part of it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, content: bytes, *, is_executable: bool = False) -> None:
    """Writes the content under a temporary name in the same folder, and renames it. Each user may read the file.

    Raises:
        OSError: the file cannot be written; an earlier file is unchanged.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        os.chmod(temporary, 0o755 if is_executable else 0o644)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
