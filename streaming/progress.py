"""How old and how far behind a batch was, out of Spark's report of it. What Spark does not say is None, never 0."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol


class Query(Protocol):
    """Of one run of a query: Spark's newest report, and the last of them, oldest first."""

    @property
    def lastProgress(self) -> Mapping[str, Any] | None: ...  # noqa: N802 - Spark's name for it.

    @property
    def recentProgress(self) -> Iterable[Mapping[str, Any]]: ...  # noqa: N802 - Spark's name for it.


class Reports:
    """What a query has reported since it was last asked, so that what is counted of batches is counted of every one.

    Batches end more often than somebody asks. All that Spark keeps is read only when the newest report is not the next
    batch's: it is some hundred kB of JSON.
    """

    def __init__(self) -> None:
        self._reported = -1
        self._newest: str | None = None
        self.any = False  # Whether there was one at all, with input or without.

    def new(self, query: Query) -> list[Mapping[str, Any]]:
        """Of every batch with input that was not told before, oldest first."""
        last = query.lastProgress
        if last is None or last["timestamp"] == self._newest:
            return []
        self.any, self._newest = True, last["timestamp"]
        is_next = last["numInputRows"] and last["batchId"] == self._reported + 1
        candidates = [last] if is_next else query.recentProgress
        # Nobody has input to report of twice; the number of a batch to come stands in the reports of an idle query.
        found = [one for one in candidates if one["numInputRows"] and one["batchId"] > self._reported]
        if found:
            self._reported = found[-1]["batchId"]
        return found


def event_time_s(report: Mapping[str, Any], which: str) -> float | None:
    """
    Args:
        which: "max", the newest record's time, or "watermark".
    """
    text = (report.get("eventTime") or {}).get(which)
    try:
        at = datetime.fromisoformat(text) if text is not None else None
    except ValueError:
        return None
    # Before the first record the watermark is at the beginning of time.
    return at.timestamp() if at is not None and at.timestamp() > 0 else None


def behind_records(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Records that were there when the batch was cut, and that it left; of Kafka's sources."""
    known = [left for source in sources if (left := _left(source)) is not None]
    return sum(known) if known else None


def _left(source: Mapping[str, Any]) -> int | None:
    read, there = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if read is None or there is None:
        return None
    return sum(max(0, offset - read.get(partition, offset)) for partition, offset in there.items())


def _offsets(text: str | None) -> dict[tuple[str, str], int] | None:
    """Kafka's ``{"topic": {"0": 12}}``, flat; None where it is of another source."""
    try:
        by_topic = json.loads(text or "")
        return {(topic, number): int(at) for topic, found in by_topic.items() for number, at in found.items()}
    except (ValueError, TypeError, AttributeError):
        return None
