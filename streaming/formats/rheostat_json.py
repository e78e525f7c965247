"""Parses rheostat's own wire format: a JSON object with all samples of one scrape of one node (streaming/shared/contract).

Spark's JSON reader is too lenient: it ignores text after the first value, returns part of a record that has a field of the wrong
type, and accepts NaN as a number. So the value is wrapped as ``{"record": <value>, "whole": true}`` before it is parsed. Text
after the first object then breaks the wrapper or leaves ``whole`` NULL. A second pass over the value is not needed.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats.common import NOT_JSON, Source, envelope_or, let, scrape
from streaming.shared.contract import SCRAPE_VERSION, NodeRole

_SCHEMA = (
    "record struct<v long, cluster string, node int, role string, ts long,"
    " samples array<struct<n string, l string, v double>>>, whole boolean, _corrupt_record string"
)
_OPTIONS = {"columnNameOfCorruptRecord": "_corrupt_record", "allowSingleQuotes": "false"}


def scrapes(source: Source) -> Column:  # noqa: ARG001 - these records are complete in themselves
    """Implements ``common.Format``: returns one scrape per record."""
    text = F.col("value").cast("string")
    wrapped = F.concat(F.lit('{"record":'), text, F.lit(',"whole":true}'))
    return F.array(let(F.from_json(wrapped, _SCHEMA, _OPTIONS), lambda json: _scrape(text, json)))


def _scrape(text: Column, json: Column) -> Column:
    record = json.record
    return scrape(
        reason=_reason(text, json),
        cluster=record.cluster,
        node=record.node,
        role=record.role,
        ts=record.ts,
        samples=record.samples,
    )


def _is_valid_utf8(text: Column) -> Column:
    """Returns whether the text is valid UTF-8; faster than Spark's function of that name, which checks byte by byte.

    ``format_string`` decodes the text and encodes it again, and Java replaces invalid bytes by U+FFFD.
    """
    return F.format_string("%s", text) == text


def _reason(text: Column, json: Column) -> Column:
    """Returns why the record is refused, or NULL. Each check may rely on the checks before it."""
    record = json.record
    version = record.v.cast("string")
    return (
        # A tombstone parses to NULL and would vanish without this check.
        F.when(text.isNull() | (F.length("value") == 0), "empty record")
        .when(~_is_valid_utf8(text), envelope_or("invalid UTF-8"))
        .when(record.isNull() | json.whole.isNull(), envelope_or(NOT_JSON))
        .when(record.v.isNull(), "no schema version")
        .when(
            record.v != SCRAPE_VERSION,
            F.concat(F.lit("schema version "), version, F.lit(f", this program reads {SCRAPE_VERSION}")),
        )
        .when(F.coalesce(record.cluster, F.lit("")) == "", "no cluster")
        .when(record.node.isNull(), "no node, or not a whole number")
        .when(record.node < 0, "node is negative")
        .when(record.role.isNull(), "no role")
        .when(~record.role.isin([role.value for role in NodeRole]), F.concat(F.lit("unknown role "), record.role[0:40]))
        .when(record.ts.isNull(), "no ts, or not a whole number")
        .when(record.samples.isNull(), "no samples, or not a list of objects")
        # All fields are present, so the value that the reader rejected is in a sample.
        .when(json["_corrupt_record"].isNotNull(), "a sample has a field of the wrong type")
    )
