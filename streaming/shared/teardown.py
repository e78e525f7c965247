"""Taking down what was built, each by its name, for an ``ExitStack``: what was built last goes first."""

from __future__ import annotations

from collections.abc import Callable

import structlog

log = structlog.get_logger("tuner")


def named_teardown(name: str, teardown: Callable[[], object]) -> Callable[[], None]:
    """A teardown that says its name when it fails, and lets the others go on."""

    def run() -> None:
        try:
            teardown()
        except Exception as error:  # noqa: BLE001 - whatever it is, the remaining teardowns must still run
            log.warning("could not be taken down", what=name, error=str(error))

    return run
