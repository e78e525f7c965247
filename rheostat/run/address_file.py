"""Writes the HTTP address of each tuner into a file for the health check of the container image.

The check runs every ten seconds. It needs the port and whether TLS is used; to read them from the settings, each check would have
to start Python with all libraries.
"""

from __future__ import annotations

import os
from pathlib import Path

import structlog

from tuner.settings.http import HttpSettings

log = structlog.get_logger("tuner")

FILE = "tuner-address"


def forget_addresses() -> None:
    """Removes the addresses of an earlier run, which may have had tuners of other clusters."""
    folder = os.environ.get("RHEOSTAT_STATE_DIR")
    try:
        for file in Path(folder).glob(f"{FILE}*") if folder else ():
            file.unlink(missing_ok=True)
    except OSError as error:
        _warn(str(error.filename), error)


def write_address(http: HttpSettings, port: int, cluster: str | None = None) -> None:
    """Writes the address into the folder of ``RHEOSTAT_STATE_DIR``. Does nothing if the variable is not set.

    Args:
        cluster: the cluster of the tuner, if the settings have several.
    """
    folder = os.environ.get("RHEOSTAT_STATE_DIR")
    if not folder:
        return
    file = Path(folder) / (FILE if cluster is None else f"{FILE}-{cluster}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        temporary.write_text(http.address(port) + "\n")
        temporary.replace(file)  # A reader sees the old or the new content, never a part of it.
    except OSError as error:
        _warn(str(file), error)


def _warn(file: str, error: OSError) -> None:
    log.warning(
        "the address of the tuner cannot be written, so the image's health check will fail",
        file=file,
        error=error.strerror or str(error),
    )
