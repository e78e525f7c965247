"""Writes the tuner's HTTP address into a file for the health check of the container image.

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


def write_address(http: HttpSettings, port: int) -> None:
    """Writes the address into the folder of ``RHEOSTAT_STATE_DIR``. Does nothing if the variable is not set."""
    folder = os.environ.get("RHEOSTAT_STATE_DIR")
    if not folder:
        return
    file = Path(folder) / FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(f".{os.getpid()}")
        temporary.write_text(http.address(port) + "\n")
        temporary.replace(file)  # A reader sees the old or the new content, never a part of it.
    except OSError as error:
        log.warning(
            "the address of the tuner cannot be written, so the image's health check will fail",
            file=str(file),
            error=error.strerror or str(error),
        )
