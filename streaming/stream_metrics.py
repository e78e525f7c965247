"""The stream about itself, for Prometheus: how old what it makes is, how far it is behind, what it could not read."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.metric_defs import MetricDef, Unit, defined_in
from streaming.metric_page import family
from streaming.stream_counts import StreamCounts

_C = ("cluster",)

BATCH_AT = MetricDef(
    "rheostat_stream_last_batch_timestamp_seconds", "gauge", Unit.SINCE_1970, _C,
    "When the last batch that had input ended; absent before the first.",
)  # fmt: skip
BATCH_SECONDS = MetricDef("rheostat_stream_batch_seconds", "gauge", Unit.SECONDS, _C, "How long that batch took.")
BATCH_INTERVAL = MetricDef(
    "rheostat_stream_batch_interval_seconds", "gauge", Unit.SECONDS, _C,
    "How often windows end (stream.hop_s): batches that take longer fall behind.",
)  # fmt: skip
NEWEST_INPUT_AT = MetricDef(
    "rheostat_stream_newest_input_timestamp_seconds", "gauge", Unit.SINCE_1970, _C,
    "When Kafka took the newest record of that batch; its distance from the batch's end is the age of a signal.",
)  # fmt: skip
WATERMARK_AT = MetricDef(
    "rheostat_stream_watermark_timestamp_seconds", "gauge", Unit.SINCE_1970, _C,
    "Windows that ended before this are closed; what comes for them is left out.",
)  # fmt: skip
BEHIND = MetricDef(
    "rheostat_stream_input_behind_records", "gauge", Unit.COUNT, _C,
    "Records in the input topics that were not read when that batch began, of all sources.",
)  # fmt: skip
STATE_ROWS = MetricDef(
    "rheostat_stream_state_rows", "gauge", Unit.COUNT, _C, "Rows that Spark keeps between two batches."
)
BATCHES = MetricDef("rheostat_stream_batches_total", "counter", Unit.COUNT, _C, "Batches that had input.")
INPUT_ROWS = MetricDef("rheostat_stream_input_rows_total", "counter", Unit.COUNT, _C, "Records read.")
LATE_ROWS = MetricDef(
    "rheostat_stream_late_rows_total",
    "counter",
    Unit.COUNT,
    _C,
    "Rows that came too late for their windows and are left out.",
)
REJECTS = MetricDef("rheostat_stream_rejects_total", "counter", Unit.COUNT, _C, "Records that could not be read.")
REJECTS_LOST = MetricDef(
    "rheostat_stream_rejects_not_written_total", "counter", Unit.COUNT, _C,
    "Those of them that are not in the rejects topic either: too many at once, or too late.",
)  # fmt: skip
RESTARTS = MetricDef(
    "rheostat_stream_restarts_total", "counter", Unit.COUNT, _C, "Times the query was started again, in this process."
)
BACKLOG = MetricDef(
    "rheostat_stream_backlog_records", "gauge", Unit.COUNT, _C,
    "Records of an outage that are still to be worked off, beside the live query.",
)  # fmt: skip
BACKLOG_LOST = MetricDef(
    "rheostat_stream_backlog_lost_records",
    "gauge",
    Unit.COUNT,
    _C,
    "Records of it that Kafka had deleted before they were read.",
)

ALL = defined_in(globals())


class StreamCollector(Collector):
    def __init__(self, cluster: str, counts: StreamCounts, hop_s: float) -> None:
        self._cluster = cluster
        self._counts = counts
        self._hop_s = hop_s

    def collect(self) -> Iterator[Metric]:
        counts, c = self._counts, (self._cluster,)
        last = counts.last
        if last is not None:
            for definition, measured in (
                (BATCH_AT, last.ended_at_s),
                (BATCH_SECONDS, last.took_s),
                (NEWEST_INPUT_AT, last.newest_input_at_s),
                (WATERMARK_AT, last.watermark_at_s),
                (BEHIND, last.behind_records),
                (STATE_ROWS, last.state_rows),
            ):
                yield family(definition, {c: measured} if measured is not None else {})
        for definition, value in (
            (BATCH_INTERVAL, self._hop_s),
            (BATCHES, counts.batches),
            (INPUT_ROWS, counts.input_rows),
            (LATE_ROWS, counts.late_rows),
            (REJECTS, counts.refused),
            (REJECTS_LOST, counts.refused_not_written),
            (RESTARTS, counts.restarts),
            (BACKLOG, counts.backlog_remaining),
            (BACKLOG_LOST, counts.backlog_lost),
        ):
            yield family(definition, {c: value})


def registry_of(cluster: str, counts: StreamCounts, hop_s: float, own: Collector | None = None) -> CollectorRegistry:
    """
    Args:
        own: what every process tells of itself.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StreamCollector(cluster, counts, hop_s))
    if own is not None:
        registry.register(own)
    return registry
