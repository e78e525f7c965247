"""Telegraf's ``data_format = "json"``: a metric is an object with name, tags, fields and timestamp.

Telegraf sends one a record; several under ``{"metrics": [...]}``, as its batches are written, are read too. Against the
leniency of Spark's reader the value is wrapped before it is read; rheostat_json.py says why.

Only the fields and tags that we know are named to the reader, which skips the others without making values of them: of
the hundreds that come from a broker, among them texts like the unit of a rate, some thirty are ours.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats import telegraf
from streaming.formats.common import Source, let

_TAG_TYPES = ", ".join(f"`{tag}` string" for tag in telegraf.TAGS)
_FIELDS = dict.fromkeys(field for fields in telegraf.FIELDS.values() for field in fields)
_FIELD_TYPES = ", ".join(f"`{field}` double" for field in _FIELDS)
_METRIC = f"name string, tags struct<{_TAG_TYPES}>, fields struct<{_FIELD_TYPES}>, timestamp string"
_SCHEMA = f"record struct<{_METRIC}, metrics array<struct<{_METRIC}>>>, whole boolean, _corrupt_record string"
_PARTS = ("name", "tags", "fields", "timestamp")
_OPTIONS = {"columnNameOfCorruptRecord": "_corrupt_record", "allowSingleQuotes": "false"}

_READER = telegraf.Reader(
    tag=lambda m, tag: F.nullif(m["tags"].getField(tag), F.lit("")),
    number=lambda m, field: m["fields"].getField(field),
    time=lambda m: m["timestamp"],
)


def scrapes(source: Source) -> Column:
    """``common.Format``: a scrape for each metric that is ours."""
    text = F.col("value").cast("string")
    wrapped = F.concat(F.lit('{"record":'), text, F.lit(',"whole":true}'))
    return let(F.from_json(wrapped, _SCHEMA, _OPTIONS), lambda json: _scrapes(text, json, source))


def _scrapes(text: Column, json: Column, source: Source) -> Column:
    record = json["record"]
    alone = F.struct(*[record[part].alias(part) for part in _PARTS])
    metrics = F.transform(
        F.coalesce(record["metrics"], F.array(alone)),
        lambda m: F.struct(telegraf.kind_of(m["name"]).alias("kind"), *[m[part].alias(part) for part in _PARTS]),
    )
    return let(metrics, lambda known: telegraf.scrapes(_reason(text, json, known), known, _READER, source))


def _reason(text: Column, json: Column, metrics: Column) -> Column:
    """The first thing that is wrong with the record's form. Each rung may rely on those above it."""
    # Spark reads any JSON where text is asked for, as the text that it is.
    not_text = r"^(?:-?\d[-+.\deE]*|true|false|[\[{].*)$"
    strange = F.get(F.filter(metrics, lambda m: m["name"].rlike(not_text)), F.lit(0))["name"]
    return (
        # A tombstone parses to NULL, and NULL is neither good nor bad: it would vanish without this rung.
        F.when(text.isNull() | (F.length("value") == 0), "empty record")
        .when(~F.is_valid_utf8(text), "invalid UTF-8")
        .when(json["record"].isNull() | json["whole"].isNull(), "not JSON: one object and nothing else is expected")
        .when(
            F.exists(metrics, lambda m: F.coalesce(m["name"], F.lit("")) == ""),
            "no name: neither a metric nor a list of metrics",
        )
        .when(strange.isNotNull(), F.concat(F.lit("name is not text: "), strange[0:40]))
        .when(F.exists(metrics, lambda m: m["fields"].isNull()), "no fields, or fields is not an object")
        # All parts are there, and still the reader met something it could not take. Fields of other measurements may
        # have our names and be anything.
        .when(
            json["_corrupt_record"].isNotNull() & F.exists(metrics, lambda m: m["kind"] != ""),
            "tags is not an object, or a field is not a number",
        )
    )
