"""Finds the files of conf/, and the cache and state folders.

conf/ is inside the installed package, or beside it in a source checkout.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

_PACKAGE = Path(__file__).resolve().parents[1]


def conf_file(*parts: str) -> Path:
    """A file of conf/, e.g. ``conf_file("jvm", "ivy.xml")``."""
    for root in (_PACKAGE / "conf", _PACKAGE.parent / "conf"):
        path = root.joinpath(*parts)
        if path.exists():
            return path
    raise FileNotFoundError(f"conf/{'/'.join(parts)} is missing from this installation of rheostat")


def cache_dir() -> Path:
    """Returns the folder for what can be downloaded again: JVM artifacts. ``RHEOSTAT_CACHE_DIR`` overrides it."""
    return Path(os.environ.get("RHEOSTAT_CACHE_DIR") or platformdirs.user_cache_dir("rheostat"))


def state_dir() -> Path:
    """Returns the folder for what outlives a command: the running lab's address. ``RHEOSTAT_STATE_DIR`` overrides it."""
    return Path(os.environ.get("RHEOSTAT_STATE_DIR") or platformdirs.user_state_dir("rheostat"))
