"""Our own wire format: a JSON object with all samples of one scrape of one node (contract.py, "Raw metrics").

Spark's JSON reader is lenient where it hurts: it reads the first value and ignores what follows, returns half of a
record with a field of the wrong type, and takes NaN for a number. So the value is wrapped before it is read, as
``{"record": <value>, "whole": true}``: an object after the first, or anything else, breaks the wrapper or leaves
``whole`` unread. Nothing is parsed twice for that.

Vocabulary:
    own time   the scrape's ``ts``, by the clock of whoever scraped.
    log time   Kafka's timestamp of the record.

Own time counts only while it agrees with log time. One clock that is minutes fast would push the watermark past
everybody else's samples. It is replaced, not clamped: clamped samples land behind the watermark and are lost too.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from streaming.contract import SCHEMA_VERSION, Role

CLOCK_ERROR_MS_MAX = 30_000
VALUE_MAX = 1e300  # Beyond it sums and squares would overflow; no measured quantity comes near.

_SCHEMA = (
    "record struct<v long, cluster string, node int, role string, ts long,"
    " samples array<struct<n string, l string, v double>>>, whole boolean, _corrupt_record string"
)
_OPTIONS = {"columnNameOfCorruptRecord": "_corrupt_record", "allowSingleQuotes": "false"}


def parse(raw: DataFrame) -> DataFrame:
    """The common schema (``streaming/formats/__init__.py``) from value, topic, partition, offset, timestamp."""
    text = F.col("value").cast("string")
    wrapped = F.concat(F.lit('{"record":'), text, F.lit(',"whole":true}'))
    record = F.col("json.record")
    # As a generator of one row, because the optimizer pushes filters through a projection and would parse every record
    # again for each rung of the reason; it does not push them through a generator.
    parsed = raw.select("*", F.explode(F.array(F.from_json(wrapped, _SCHEMA, _OPTIONS))).alias("json"))
    return parsed.select(
        "topic",
        "partition",
        "offset",
        "value",
        _reason(text, F.col("json")).alias("reason"),
        record.cluster.alias("cluster"),
        record.node.alias("node"),
        record.role.alias("role"),
        _event_time_ms(record.ts, F.unix_millis("timestamp")).alias("ts"),
        F.filter(record.samples, _is_measurement).alias("samples"),
    )


def _reason(text: Column, json: Column) -> Column:
    """The first thing that is wrong. Each rung may rely on those above it."""
    record = json.record
    version = record.v.cast("string")
    return (
        # A tombstone parses to NULL, and NULL is neither good nor bad: it would vanish without this rung.
        F.when(text.isNull() | (F.length("value") == 0), "empty record")
        .when(~F.is_valid_utf8(text), "invalid UTF-8")
        .when(record.isNull() | json.whole.isNull(), "not JSON: one object and nothing else is expected")
        .when(record.v.isNull(), "no schema version")
        .when(
            record.v != SCHEMA_VERSION,
            F.concat(F.lit("schema version "), version, F.lit(f", this program reads {SCHEMA_VERSION}")),
        )
        .when(F.coalesce(record.cluster, F.lit("")) == "", "no cluster")
        .when(record.node.isNull(), "no node, or not a whole number")
        .when(record.node < 0, "node is negative")
        .when(record.role.isNull(), "no role")
        .when(~record.role.isin([role.value for role in Role]), F.concat(F.lit("unknown role "), record.role[0:40]))
        .when(record.ts.isNull(), "no ts, or not a whole number")
        .when(record.samples.isNull(), "no samples, or not a list of objects")
        # All fields are there, and still the reader met something it could not take: a sample, then.
        .when(json["_corrupt_record"].isNotNull(), "a sample has a field of the wrong type")
    )


def _event_time_ms(own: Column, log: Column) -> Column:
    # Not abs(own - log): a ts near the end of its type would overflow, which ends the query under ANSI rules.
    return F.when(own.between(log - CLOCK_ERROR_MS_MAX, log + CLOCK_ERROR_MS_MAX), own).otherwise(log)


def _is_measurement(sample: Column) -> Column:
    # Spark orders NaN above every number, so the comparison drops it as well.
    return F.coalesce(sample.n.isNotNull() & sample.l.isNotNull() & (F.abs(sample.v) < VALUE_MAX), F.lit(False))
