"""Writes the tuner's HTTP address into a file for the health check of the container image.

The check runs every ten seconds; reading the settings for the port and TLS would start Python and all libraries each time.
"""

from __future__ import annotations

import os
from pathlib import Path

import structlog

from tuner.settings.http import HttpSettings

log = structlog.get_logger("tuner")

FILE = "tuner-address"


def write_address(http: HttpSettings, port: int) -> None:
    """Writes the address into the folder of ``RHEOSTAT_STATE_DIR``. Does nothing if that is not set."""
    folder = os.environ.get("RHEOSTAT_STATE_DIR")
    if not folder:
        return
    file = Path(folder) / FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(http.address(port) + "\n")
        fresh.replace(file)  # A reader sees the old file or the new one, never a part.
    except OSError as error:
        log.warning(
            "the address of the tuner cannot be written, so the image's health check will fail",
            file=str(file),
            error=error.strerror or str(error),
        )
