"""Notices threads of this process that end because of an error: logs, counts and names them.

Python prints the error of a thread to stderr, and continues without the thread. A thread that the process needs is started as a
``VitalThread``: if this thread fails, the process ends, and its supervisor starts the process again.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

import structlog

log = structlog.get_logger("threads")

_NAMED_MAX = 10


class VitalThread(threading.Thread):
    """A thread whose failure ends the process."""


class ThreadWatch:
    """Records the threads that have ended because of an error. ``install`` makes it this process's ``threading.excepthook``."""

    def __init__(self, on_vital_end: Callable[[], None] = lambda: None) -> None:
        """
        Args:
            on_vital_end: requests the end of the process; called in the failing thread.
        """
        self._on_vital_end = on_vital_end
        self._lock = threading.Lock()
        self._ended: dict[str, str] = {}  # Error by thread name, for the first threads that ended.
        self._count = 0
        self.vital_end: str | None = None  # Message about the first vital thread that ended.

    def install(self) -> None:
        threading.excepthook = self.note

    @property
    def count(self) -> int:
        """Number of threads that have ended because of an error since the process started."""
        return self._count

    def complaints(self) -> list[str]:
        """Returns one sentence for each thread that has ended because of an error, for the first ten."""
        with self._lock:
            return [_complaint(name, error) for name, error in self._ended.items()]

    def note(self, ended: threading.ExceptHookArgs) -> None:
        """Records a thread's error. Python calls it in the failing thread."""
        name = ended.thread.name if ended.thread is not None else "unknown"
        error = f"{ended.exc_type.__name__}: {ended.exc_value}"
        is_vital = isinstance(ended.thread, VitalThread)
        with self._lock:
            self._count += 1
            if len(self._ended) < _NAMED_MAX:
                self._ended.setdefault(name, error)
            if is_vital and self.vital_end is None:
                self.vital_end = _complaint(name, error)
        traceback_text = "".join(traceback.format_exception(ended.exc_type, ended.exc_value, ended.exc_traceback))
        if is_vital:
            log.error(
                "a thread has ended because of an error, so this process ends: report this error",
                thread=name,
                traceback=traceback_text,
            )
            self._on_vital_end()
        else:
            log.error(
                "a thread has ended because of an error; the process continues without this thread. Restart the process at a "
                "convenient time and report this error",
                thread=name,
                traceback=traceback_text,
            )


def _complaint(thread: str, error: str) -> str:
    return (
        f"the thread {thread} has ended because of an error ({error}): the log has the traceback; restart this process"
    )
