"""The state of a store that a thread fills only after the first request for it: read, still being read, or unreadable."""

from __future__ import annotations

import threading
from collections.abc import Callable


class ReadOnRequest:
    """Tells readers whether the store is filled, and tells the thread that fills the store about requests. Thread-safe.

    Attributes:
        on_request: called with each request; the thread that fills the store sets it.
    """

    def __init__(self, subject: str) -> None:
        """
        Args:
            subject: what the thread reads, such as "the journal", for the sentence in ``unread_reason``.
        """
        self.on_request: Callable[[], None] = lambda: None
        self._subject = subject
        self._is_read = threading.Event()
        self._problem: str | None = None

    def mark_read(self) -> None:
        """Records that everything up to the present is read."""
        self._problem = None
        self._is_read.set()

    def mark_unreadable(self, problem: str) -> None:
        """Records why nothing can be read now. The store keeps the data that it already has."""
        self._problem = problem
        self._is_read.clear()

    @property
    def is_read(self) -> bool:
        """Returns whether everything up to the present is read."""
        return self._is_read.is_set()

    def unread_reason(self, wait_s: float) -> str | None:
        """Returns why the store is not filled yet; None if it is filled.

        Args:
            wait_s: how long to wait for the thread. The first request starts the thread.
        """
        self.on_request()
        # After an error the thread retries only after a pause, so waiting would not help.
        if self._is_read.wait(wait_s if self._problem is None else 0):
            return None
        return self._problem or f"the tuner is still reading {self._subject}: ask again in some seconds"
