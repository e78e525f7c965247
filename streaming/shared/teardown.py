"""Named clean-up steps for an ``ExitStack``, which runs the steps in reverse order of construction."""

from __future__ import annotations

from collections.abc import Callable

import structlog

log = structlog.get_logger("tuner")


def named_teardown(name: str, teardown: Callable[[], object]) -> Callable[[], None]:
    """Returns a clean-up step that logs a failure under ``name`` instead of raising it, so that the other steps still run."""

    def run() -> None:
        try:
            teardown()
        except Exception as error:  # noqa: BLE001 - any failure must leave the remaining steps to run
            log.warning(
                "a part of this process could not be shut down; the other parts still shut down",
                part=name,
                error=str(error),
            )

    return run
