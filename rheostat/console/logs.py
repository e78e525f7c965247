"""Configures logging: one JSON object per line, or plain lines on a terminal.

If systemd's journal reads the output, each line begins with the priority of syslog, such as ``<3>`` for an error. The journal
removes this prefix and stores the priority in its field ``PRIORITY``.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict

from rheostat.console.escape import escaped

# The priorities of syslog(3), by the name of the level.
_PRIORITIES = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
LogLevel = Literal["debug", "info", "warning", "error"]
_NUMBERS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_lowest_shown = logging.INFO


def set_log_level(level: LogLevel) -> None:
    """Shows lines of this level and above from now on, also in modules that already have their logger."""
    global _lowest_shown
    _lowest_shown = _NUMBERS[level]
    # kafka-python logs every connection and retry. Its callers receive the errors that matter.
    logging.getLogger("kafka").setLevel(logging.WARNING if level == "debug" else logging.CRITICAL)
    logging.getLogger().setLevel(logging.WARNING if level == "debug" else logging.ERROR)


def set_up_logs(stream: TextIO | None = None, level: LogLevel = "info", **fields: str) -> None:
    """Configures structlog and the standard library's logging.

    Args:
        stream: the output; None means stderr.
        level: the lowest level that is shown.
        fields: fields of every JSON line, for example the cluster.
    """
    out = stream if stream is not None else sys.stderr
    as_json = not out.isatty()
    renderer: Any = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(pad_event_to=0)

    if is_journal(out):
        renderer = _with_priority(renderer)

    def add_fields(_logger: Any, _method: str, line: EventDict) -> EventDict:
        return {**fields, **line} if as_json else line

    structlog.configure(
        processors=[
            _drop_below_level,
            add_fields,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.format_exc_info,
            _escape_line,
            renderer,
        ],
        # Writes a line and its line break at once, because the parts of `run` share one output, which is unbuffered in a container.
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.ERROR, stream=out, format="%(name)s %(levelname)s %(message)s")
    set_log_level(level)
    # Py4J logs a traceback for each call to a JVM that has ended. Its callers report the error.
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: "py4j" not in Path(record.pathname).parts)


def is_journal(out: TextIO) -> bool:
    """Returns whether systemd's journal reads this output. systemd names its device and inode in ``JOURNAL_STREAM``."""
    named = os.environ.get("JOURNAL_STREAM")
    if not named:
        return False
    try:
        status = os.fstat(out.fileno())
    except (OSError, ValueError):  # Without a file descriptor, it is no output of the process.
        return False
    return named == f"{status.st_dev}:{status.st_ino}"


def _with_priority(renderer: Any) -> Any:
    def render(logger: Any, method: str, line: EventDict) -> str:
        priority = _PRIORITIES.get(str(line.get("level")), _PRIORITIES["info"])
        return f"<{priority}>{renderer(logger, method, line)}"

    return render


def _drop_below_level(_logger: Any, method: str, line: EventDict) -> EventDict:
    # ``exception`` and ``critical`` are always shown.
    if _NUMBERS.get(method, logging.CRITICAL) < _lowest_shown:
        raise structlog.DropEvent
    return line


def _escape_line(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """Returns the log line with control characters escaped; line breaks of a traceback stay."""
    return {
        key: "\n".join(map(escaped, value.split("\n"))) if isinstance(value, str) else value
        for key, value in line.items()
    }
