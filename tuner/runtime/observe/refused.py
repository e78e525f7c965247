"""Records that cannot be read: each is counted, and the log tells of one a minute.

A topic may hold any number of them, and a line for each would fill the disk that the log is on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import structlog

log = structlog.get_logger("tuner")

LOG_EVERY_S = 60.0
_KEY_BYTES_MAX = 100


class RefusedRecords:
    """Counts the records of one topic that were refused."""

    def __init__(self, topic: str, effect: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            effect: what follows from a refused record, for the log.
        """
        self.count = 0
        self._topic = topic
        self._effect = effect
        self._monotonic = monotonic
        self._told = 0
        self._told_at_s = float("-inf")

    def refuse(self, record: Any, why: str) -> None:
        """Count one record. The log names it, unless it named another one within the last minute.

        Args:
            record: as the Kafka client gives it, with ``partition``, ``offset`` and ``key``.
        """
        self.count += 1
        now_s = self._monotonic()
        if now_s < self._told_at_s + LOG_EVERY_S:
            return
        log.warning(
            f"a record cannot be read: {self._effect}",
            topic=self._topic,
            partition=record.partition,
            offset=record.offset,
            key=repr((record.key or b"")[:_KEY_BYTES_MAX]),
            reason=why,
            refused_since=self.count - self._told,
            refused=self.count,
        )
        self._told, self._told_at_s = self.count, now_s
