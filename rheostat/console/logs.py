"""Logs: one JSON object a line for machines, or a plain line on a terminal."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict

from rheostat.console.escape import escaped


def set_up_logs(stream: TextIO | None = None, **always: str) -> None:
    """
    Args:
        stream: None: stderr.
        always: what every line of a machine's says besides, of which cluster it is, say.
    """
    out = stream if stream is not None else sys.stderr
    as_json = not out.isatty()
    renderer: Any = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(pad_event_to=0)

    def of_whom(_logger: Any, _method: str, line: EventDict) -> EventDict:
        return {**always, **line} if as_json else line

    structlog.configure(
        processors=[
            of_whom,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.format_exc_info,
            _escaped,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    # kafka-python tells of every connection and retry; what matters of it comes back as an error to its caller.
    logging.basicConfig(level=logging.ERROR, stream=out, format="%(name)s %(levelname)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    # Nor does Py4J's trace for each call to a JVM that has ended: its caller says of what.
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: "py4j" not in Path(record.pathname).parts)


def _escaped(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """Returns the line with escapes for control characters; the line breaks of a trace stay. JSON escapes them anyway."""
    return {
        key: "\n".join(map(escaped, value.split("\n"))) if isinstance(value, str) else value
        for key, value in line.items()
    }
