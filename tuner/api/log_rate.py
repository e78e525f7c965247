"""A limit on the log lines that clients of the HTTP server can cause in the libraries below it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES_MAX = 5
PERIOD_S = 60.0


class LogRateFilter(logging.Filter):
    """Lets so many lines of each message pass in a period; the first line of the next says how many were left out."""

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
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now_s = self._monotonic()
        if now_s - self._began_s >= self._period_s:
            self._began_s = now_s
            self._lines.clear()
        # By the place in the code: a text may hold what a client has sent.
        key = f"{record.pathname}:{record.lineno}"
        count = self._lines[key] = self._lines.get(key, 0) + 1
        if count > self._lines_max:
            self._left_out += 1
            return False
        if self._left_out and count == 1:
            record.msg = f"{record.getMessage()} ({self._left_out} lines were left out before this one)"
            record.args = ()
            self._left_out = 0
        return True


def limit_library_logs() -> None:
    """Limits the lines of asyncio and uvicorn in this process; once, however often it is called."""
    for name in ("asyncio", "uvicorn.error"):
        logger = logging.getLogger(name)
        if not any(isinstance(each, LogRateFilter) for each in logger.filters):
            logger.addFilter(LogRateFilter())
