"""Counts records that cannot be read, and logs at most one of them per minute.

A topic may hold any number of such records, so a log line for each could fill the disk.
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
            effect: the consequence of a refused record, for the log.
        """
        self.count = 0
        self._topic = topic
        self._effect = effect
        self._monotonic = monotonic
        self._logged = 0
        self._logged_at_s = float("-inf")

    def refuse(self, record: Any, why: str) -> None:
        """Counts a record, and logs it unless another record was logged within the last minute.

        Args:
            record: a Kafka record with ``partition``, ``offset`` and ``key``.
        """
        self.count += 1
        now_s = self._monotonic()
        if now_s < self._logged_at_s + LOG_EVERY_S:
            return
        log.warning(
            f"a record cannot be read: {self._effect}",
            topic=self._topic,
            partition=record.partition,
            offset=record.offset,
            key=repr((record.key or b"")[:_KEY_BYTES_MAX]),
            reason=why,
            refused_since=self.count - self._logged,
            refused=self.count,
        )
        self._logged, self._logged_at_s = self.count, now_s
