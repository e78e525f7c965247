"""Reads age and lag of a batch from Spark's progress reports. Values that Spark does not report are None, never 0."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol


class Query(Protocol):
    """The part of Spark's query that has its progress reports: the newest report, and the recent reports, the oldest first."""

    @property
    def lastProgress(self) -> Mapping[str, Any] | None: ...  # noqa: N802 - Spark's name for it.

    @property
    def recentProgress(self) -> Iterable[Mapping[str, Any]]: ...  # noqa: N802 - Spark's name for it.


class Reports:
    """Returns each batch report of a query once, so that counters cover every batch.

    Several batches can end between two calls. Spark's whole list of reports (about 100 kB of JSON) is read only if the newest
    report does not belong to the next batch.
    """

    def __init__(self) -> None:
        self._last_batch = -1  # Number of the last batch whose report was returned.
        self._newest: str | None = None  # Timestamp of the newest report.
        self.has_reported = False  # Whether there was any report, with input or without.

    def new(self, query: Query) -> list[Mapping[str, Any]]:
        """Returns the new reports of batches with input, oldest first."""
        last = query.lastProgress
        if last is None or last["timestamp"] == self._newest:
            return []
        self.has_reported, self._newest = True, last["timestamp"]
        is_next = last["numInputRows"] and last["batchId"] == self._last_batch + 1
        candidates = [last] if is_next else query.recentProgress
        # Reports of an idle query carry the number of the next batch; only reports with input count.
        new = [report for report in candidates if report["numInputRows"] and report["batchId"] > self._last_batch]
        if new:
            self._last_batch = new[-1]["batchId"]
        return new


def event_time_s(report: Mapping[str, Any], which: str) -> float | None:
    """Returns an event time of the report in epoch seconds; None if it is absent.

    Args:
        which: "max" (time of the newest record) or "watermark".
    """
    text = (report.get("eventTime") or {}).get(which)
    try:
        time = datetime.fromisoformat(text) if text is not None else None
    except ValueError:
        return None
    # Before the first record the watermark is 0.
    return time.timestamp() if time is not None and time.timestamp() > 0 else None


def behind_records(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Returns how many records were in the topics but not in the batch, over all Kafka sources; None if unknown."""
    unread = [records for source in sources if (records := _unread_records(source)) is not None]
    return sum(unread) if unread else None


def _unread_records(source: Mapping[str, Any]) -> int | None:
    batch_ends, topic_ends = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if batch_ends is None or topic_ends is None:
        return None
    return sum(max(0, end - batch_ends.get(partition, end)) for partition, end in topic_ends.items())


def _offsets(text: str | None) -> dict[tuple[str, str], int] | None:
    """Returns Kafka's ``{"topic": {"0": 12}}`` as a flat dictionary; None for a source that is not Kafka."""
    try:
        by_topic = json.loads(text or "")
        return {
            (topic, number): int(offset)
            for topic, by_partition in by_topic.items()
            for number, offset in by_partition.items()
        }
    except (ValueError, TypeError, AttributeError):
        return None
