"""The values of one batch, from Spark's progress report and from the counts of the pipeline."""

from __future__ import annotations

from typing import Any

from streaming import pipeline
from streaming.progress import behind_records, event_time_s

BatchValues = dict[str, Any]


def batch_values(last: Any) -> BatchValues:
    """Returns the values of one batch report. Times are Kafka's.

    late_rows_dropped     rows older than the watermark.
    refused_not_written   refused records that are not in the rejects topic, because they were too many for the state or too late.
    behind_records        records that the batch left unread.
    """
    state = last["stateOperators"]
    return {
        "batch": last["batchId"],
        "at": last["timestamp"],
        "batch_ms": last["durationMs"].get("triggerExecution"),
        "input_rows": last["numInputRows"],
        "input_rows_per_s": last["inputRowsPerSecond"],
        "state_rows": sum(operator["numRowsTotal"] for operator in state),
        "late_rows_dropped": sum(operator["numRowsDroppedByWatermark"] for operator in state),
        "refused": _observed(last, pipeline.REFUSED),
        "refused_not_written": _observed(last, pipeline.REFUSED) - _observed(last, pipeline.WRITTEN),
        "newest_input_at_s": event_time_s(last, "max"),
        "watermark_at_s": event_time_s(last, "watermark"),
        "behind_records": behind_records(last["sources"]),
    }


def _observed(last: Any, name: str) -> int:
    row = last["observedMetrics"].get(name)
    return int(row["rows"]) if row is not None else 0
