"""Finds the files that are shipped beside the code, and the cache and state folders.

The shipped files are conf/, deploy/, dashboards/ and compose.yaml. They are inside the installed package, or beside it in a source
checkout, under the same names.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped_path(*parts: str) -> Path:
    """Returns a shipped file or folder, for example ``shipped_path("deploy", "systemd")``.

    Raises:
        FileNotFoundError: this installation does not have the file or folder.
    """
    for root in (_PACKAGE, _PACKAGE.parent):
        path = root.joinpath(*parts)
        if path.exists():
            return path
    raise FileNotFoundError(f"{'/'.join(parts)} is missing from this installation of rheostat")


def conf_file(*parts: str) -> Path:
    """Returns the path of a file in conf/, for example ``conf_file("jvm", "ivy.xml")``."""
    return shipped_path("conf", *parts)


def cache_dir() -> Path:
    """Returns the folder for files that can be downloaded again (JVM artifacts). ``RHEOSTAT_CACHE_DIR`` overrides it."""
    return Path(os.environ.get("RHEOSTAT_CACHE_DIR") or platformdirs.user_cache_dir("rheostat"))


def state_dir() -> Path:
    """Returns the folder for files that other commands read later, such as addresses. ``RHEOSTAT_STATE_DIR`` overrides it."""
    return Path(os.environ.get("RHEOSTAT_STATE_DIR") or platformdirs.user_state_dir("rheostat"))
