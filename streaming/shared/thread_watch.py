"""Notices threads of this process that end by an error: they are logged, counted, and named until the process ends.

Python prints such an error to stderr and goes on without the thread, which nothing else notices. A process that is useless or
dangerous without one of its threads starts that one as a ``VitalThread``: it ends with it, and is started again by whatever
supervises it.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

import structlog

log = structlog.get_logger("threads")

_NAMED_MAX = 10


class VitalThread(threading.Thread):
    """A thread without which its process does not go on."""


class ThreadWatch:
    """The threads of this process that have ended by an error. ``install`` makes it the one that notices."""

    def __init__(self, on_vital_end: Callable[[], None] = lambda: None) -> None:
        """
        Args:
            on_vital_end: asks the process to end; called in the thread that ends.
        """
        self._on_vital_end = on_vital_end
        self._lock = threading.Lock()
        self._ended: dict[str, str] = {}  # The first ones by name, with their errors.
        self._count = 0
        self.vital_end: str | None = None  # The complaint about the first vital thread that ended.

    def install(self) -> None:
        threading.excepthook = self.note

    @property
    def count(self) -> int:
        """How many threads have ended by an error since the process began."""
        return self._count

    def complaints(self) -> list[str]:
        """One sentence for each thread that has ended by an error, the first ten."""
        with self._lock:
            return [_complaint(name, error) for name, error in self._ended.items()]

    def note(self, ended: threading.ExceptHookArgs) -> None:
        """Called by Python in the thread that ends."""
        name = ended.thread.name if ended.thread is not None else "unknown"
        error = f"{ended.exc_type.__name__}: {ended.exc_value}"
        is_vital = isinstance(ended.thread, VitalThread)
        with self._lock:
            self._count += 1
            if len(self._ended) < _NAMED_MAX:
                self._ended.setdefault(name, error)
            if is_vital and self.vital_end is None:
                self.vital_end = _complaint(name, error)
        where = "".join(traceback.format_exception(ended.exc_type, ended.exc_value, ended.exc_traceback))
        if is_vital:
            log.error("a thread has ended by an error, and so this process ends", thread=name, traceback=where)
            self._on_vital_end()
        else:
            log.error(
                "a thread has ended by an error; the process goes on without it. Restart it when it can be spared, and report this",
                thread=name,
                traceback=where,
            )


def _complaint(thread: str, error: str) -> str:
    return f"the thread {thread} has ended by an error ({error}): its log has more, a restart brings it back"
