"""Parses OpenTelemetry metrics in protobuf, as the Collector's kafka exporter writes them by default (``encoding: otlp_proto``).

A record is an ExportMetricsServiceRequest. The kernel (kernel/OtlpFunction.java) reads the needed fields of the metrics that
rheostat knows, and skips everything else.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming import kernel
from streaming.formats import otlp
from streaming.formats.common import Source, envelope_or, let


def scrapes(source: Source) -> Column:
    """Implements ``common.Format``: returns a scrape for each node and time."""
    return let(kernel.otlp_record(), lambda record: otlp.scrapes(_reason(record), record, source))


def _reason(record: Column) -> Column:
    """Returns why the record is refused, or NULL. Each check may rely on the checks before it."""
    is_json = F.col("value").cast("string").rlike(r"^\s*+\{")
    return (
        # A tombstone parses to NULL and would vanish without this check.
        F.when(F.coalesce(F.length("value"), F.lit(0)) == 0, "empty record")
        .when(
            record.problem.isNotNull() & is_json,
            "JSON instead of protobuf: set the format otlp_json, or the writer's encoding otlp_proto",
        )
        .when(
            record.problem.isNotNull(),
            F.coalesce(envelope_or(None), F.concat(F.lit("not OTLP in protobuf: "), record.problem)),
        )
        .when(F.size(record.resourceMetrics) == 0, envelope_or("no resourceMetrics: not OTLP's metrics"))
    )
