"""Parses Telegraf's ``data_format = "json"``: a metric is an object with name, tags, fields and timestamp.

Telegraf sends one metric per record, or several as ``{"metrics": [...]}``. The value is wrapped before it is parsed;
``rheostat_json.py`` explains why. The schema names only the known fields and tags, about thirty, so that Spark's reader skips
hundreds of others.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats import telegraf
from streaming.formats.common import NOT_JSON, Source, envelope_or, let

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
    """Implements ``common.Format``: returns a scrape for each known metric."""
    text = F.col("value").cast("string")
    wrapped = F.concat(F.lit('{"record":'), text, F.lit(',"whole":true}'))
    return let(F.from_json(wrapped, _SCHEMA, _OPTIONS), lambda json: _scrapes_of_record(text, json, source))


def _scrapes_of_record(text: Column, json: Column, source: Source) -> Column:
    record = json["record"]
    single = F.struct(*[record[part].alias(part) for part in _PARTS])
    metrics = F.transform(
        F.coalesce(record["metrics"], F.array(single)),
        lambda m: F.struct(telegraf.kind_of(m["name"]).alias("kind"), *[m[part].alias(part) for part in _PARTS]),
    )
    return let(metrics, lambda known: telegraf.scrapes(_reason(text, json, known), known, _READER, source))


def _reason(text: Column, json: Column, metrics: Column) -> Column:
    """Returns why the record is refused, or NULL. Each check may rely on the checks before it."""
    # Spark accepts any JSON value for a text field and returns its source text.
    not_text = r"^(?:-?\d[-+.\deE]*|true|false|[\[{].*)$"
    bad_name = F.get(F.filter(metrics, lambda m: m["name"].rlike(not_text)), F.lit(0))["name"]
    return (
        # A tombstone parses to NULL and would vanish without this check.
        F.when(text.isNull() | (F.length("value") == 0), "empty record")
        .when(~F.is_valid_utf8(text), envelope_or("invalid UTF-8"))
        .when(json["record"].isNull() | json["whole"].isNull(), envelope_or(NOT_JSON))
        .when(
            F.exists(metrics, lambda m: F.coalesce(m["name"], F.lit("")) == ""),
            "no name: neither a metric nor a list of metrics",
        )
        .when(bad_name.isNotNull(), F.concat(F.lit("name is not text: "), bad_name[0:40]))
        .when(F.exists(metrics, lambda m: m["fields"].isNull()), "no fields, or fields is not an object")
        # Spark's reader rejected a value although all parts exist. A record of unknown measurements is not refused for this: their
        # fields may have the name of a known field and any type.
        .when(
            json["_corrupt_record"].isNotNull() & F.exists(metrics, lambda m: m["kind"] != ""),
            "tags is not an object, or a field is not a number",
        )
    )
