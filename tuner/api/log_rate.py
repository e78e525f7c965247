"""Limits the log lines that HTTP clients can cause in asyncio and uvicorn."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES_MAX = 5
PERIOD_S = 60.0


class LogRateFilter(logging.Filter):
    """Passes at most ``lines_max`` lines per message and period. The first line of the next period tells how many were dropped."""

    def __init__(
        self,
        lines_max: int = LINES_MAX,
        period_s: float = PERIOD_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._lines_max = lines_max
        self._period_s = period_s
        self._monotonic = monotonic
        self._began_s = monotonic()
        self._lines: dict[str, int] = {}
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now_s = self._monotonic()
        if now_s - self._began_s >= self._period_s:
            self._began_s = now_s
            self._lines.clear()
        # The key is the line of code that logs the message, because the text may contain data from a client.
        key = f"{record.pathname}:{record.lineno}"
        count = self._lines[key] = self._lines.get(key, 0) + 1
        if count > self._lines_max:
            self._dropped += 1
            return False
        if self._dropped and count == 1:
            record.msg = f"{record.getMessage()} ({self._dropped} lines were dropped before this one)"
            record.args = ()
            self._dropped = 0
        return True


def limit_library_logs() -> None:
    """Adds the limit to the loggers of asyncio and uvicorn in this process; further calls change nothing."""
    for name in ("asyncio", "uvicorn.error"):
        logger = logging.getLogger(name)
        if not any(isinstance(known, LogRateFilter) for known in logger.filters):
            logger.addFilter(LogRateFilter())
