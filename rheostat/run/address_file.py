"""Where the tuner answers, left in a file for a health check: which port and whether it takes TLS, only the settings know, and
reading those takes a whole Python with its libraries every ten seconds."""

from __future__ import annotations

import os
from pathlib import Path

import structlog

from tuner.settings.http import HttpSettings

log = structlog.get_logger("tuner")

FILE = "tuner-address"


def leave_address(http: HttpSettings, port: int) -> None:
    """Into the folder that ``RHEOSTAT_STATE_DIR`` names; where it names none, nobody looks there."""
    folder = os.environ.get("RHEOSTAT_STATE_DIR")
    if not folder:
        return
    file = Path(folder) / FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(http.address(port) + "\n")
        fresh.replace(file)  # Whoever reads it meanwhile reads the one or the other.
    except OSError as error:
        log.warning(
            "the image's health check will not find the tuner", file=str(file), error=error.strerror or str(error)
        )
