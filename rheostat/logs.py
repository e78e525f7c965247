"""Logs: one JSON object a line for machines, or a plain line on a terminal."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def set_up_logs(*, json_lines: bool | None = None) -> None:
    """Args: json_lines: None: JSON unless stderr is a terminal."""
    as_json = not sys.stderr.isatty() if json_lines is None else json_lines
    renderer: Any = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(pad_event_to=0)
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    # kafka-python tells of every connection and retry; what matters of it comes back as an error to its caller.
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(name)s %(levelname)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
