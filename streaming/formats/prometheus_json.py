"""Parses Prometheus samples in JSON, one per record, as prometheus-kafka-adapter or Vector write them.

    {"timestamp": "2026-11-21T13:00:00Z", "value": "42", "name": "up", "labels": {"__name__": "up", "instance": "h:9"}}
    {"name": "up", "timestamp": "…", "tags": {"instance": "h:9"}, "kind": "absolute", "gauge": {"value": 42.0}}

Most samples that Prometheus sends are not about replication. A record with such a sample is not refused, even from an unknown host,
but yields no scrape: rejects for these records would bury the rejects that matter. So the metric name is checked first
(``prometheus_names.py``), and only records with a known name are checked further.

The value is wrapped before it is parsed; ``rheostat_json.py`` explains why.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats.common import (
    NO_NODE,
    NOT_JSON,
    SAMPLES_TYPE,
    SCRAPE_TYPE,
    Source,
    envelope_or,
    is_number,
    let,
    node_of,
    scrape,
)
from streaming.formats.prometheus_names import METRICS_OF_MACHINES, SELECTORS, is_plausible, labels_of, metric_of
from streaming.shared.contract import NodeRole

NODE_LABELS = ("broker_id", "node_id", "kafka_broker_id", "kafka_node_id")
HOST_LABELS = ("instance", "host")
CLUSTER_LABELS = ("cluster", "kafka_cluster")

_SCHEMA = (
    "record struct<timestamp string, value string, name string, labels map<string, string>,"
    " namespace string, tags map<string, string>, kind string, counter struct<value double>, gauge struct<value double>,"
    " aggregated_summary struct<quantiles array<struct<quantile double, value double>>, count double>>,"
    " whole boolean, _corrupt_record string"
)
_OPTIONS = {"columnNameOfCorruptRecord": "_corrupt_record", "allowSingleQuotes": "false"}
_RFC3339 = r"^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$"


def scrapes(source: Source) -> Column:
    """Implements ``common.Format``: returns one scrape with one or two samples, or none if the metric is unknown."""
    text = F.col("value").cast("string")
    wrapped = F.concat(F.lit('{"record":'), text, F.lit(',"whole":true}'))
    json = F.from_json(wrapped, _SCHEMA, _OPTIONS)
    return let(
        json, lambda parsed: let(_identified(parsed), lambda identified: _useful_scrapes(text, identified, source))
    )


def _useful_scrapes(text: Column, identified: Column, source: Source) -> Column:
    scrape_ = F.array(let(_fields(identified, source), lambda fields: _scrape(text, fields, source)))
    useful = F.filter(scrape_, lambda s: s.reason.isNotNull() | (F.size(s.samples) > 0))
    # An unreadable record is kept too, so that it is refused with a reason.
    return F.when(identified.has_known_metric | ~_is_readable(text, identified), useful).otherwise(
        F.array().cast(f"array<{SCRAPE_TYPE}>")
    )


def _is_readable(text: Column, identified: Column) -> Column:
    return F.coalesce(F.is_valid_utf8(text) & identified.json.whole & (identified["name"] != ""), F.lit(False))


def _identified(json: Column) -> Column:
    """Returns the record with its labels and its metrics of the contract; the metrics are NULL for an unknown name."""
    record = json.record
    labels = F.coalesce(record.labels, record.tags)
    bare = F.coalesce(F.try_element_at(labels, F.lit("__name__")), record["name"])
    name = F.when(record.namespace.isNull(), bare).otherwise(F.concat_ws("_", record.namespace, bare))
    selector = _first_label(labels, SELECTORS)
    summary = record.aggregated_summary.isNotNull()
    metric = metric_of(name, F.when(summary, "0.99").otherwise(selector))
    count = F.when(summary, metric_of(F.concat(name, F.lit("_count")), selector))
    return F.struct(
        json.alias("json"),
        labels.alias("labels"),
        F.coalesce(name, F.lit("")).alias("name"),
        metric.alias("metric"),
        count.alias("count"),
        (F.coalesce(metric, count).isNotNull() & F.try_element_at(labels, F.lit("topic")).isNull()).alias(
            "has_known_metric"
        ),
    )


def _fields(identified: Column, source: Source) -> Column:
    """Returns the fields that both reason and scrape need, so that they are computed once."""
    record, labels = identified.json.record, identified.labels
    adapter_value = record.value.try_cast("double")
    # Vector's "incremental" values are deltas and are not used: adding them up would need state in this format.
    absolute = record.kind == "absolute"
    vector_value = F.when(absolute, F.coalesce(record.counter.value, record.gauge.value, _p99(record)))
    host = _first_label(labels, HOST_LABELS)
    return F.struct(
        identified.alias("identified"),
        F.coalesce(adapter_value, vector_value).alias("value"),
        F.when(absolute, record.aggregated_summary["count"]).alias("count"),
        (record.value.isNotNull() & adapter_value.isNull()).alias("is_not_number"),
        F.when(record.timestamp.rlike(_RFC3339), F.unix_millis(record.timestamp.try_cast("timestamp"))).alias("ts"),
        host.alias("host"),
        node_of(_first_label(labels, NODE_LABELS), host, source).alias("node"),
    )


def _scrape(text: Column, fields: Column, source: Source) -> Column:
    identified, labels = fields.identified, fields.identified.labels
    json, record = identified.json, identified.json.record
    samples = _samples(identified.metric, fields.value, labels)
    counts = _samples(identified["count"], fields["count"], labels)
    reason = (
        # A tombstone parses to NULL and would vanish without this check.
        F.when(text.isNull() | (F.length("value") == 0), "empty record")
        .when(~F.is_valid_utf8(text), envelope_or("invalid UTF-8"))
        .when(record.isNull() | json.whole.isNull(), envelope_or(NOT_JSON))
        .when(identified["name"] == "", "no name: neither prometheus-kafka-adapter nor Vector wrote this")
        .when(json["_corrupt_record"].isNotNull(), "a field has the wrong type")
        .when(record.value.isNull() & record.kind.isNull(), "no value")
        .when(
            fields.is_not_number,
            F.concat(F.lit("value is not a number: "), F.substring(record.value, 1, 40)),
        )
        .when(
            record.timestamp.isNotNull() & fields.ts.isNull(),
            F.concat(F.lit("timestamp is not in the form of RFC 3339: "), F.substring(record.timestamp, 1, 40)),
        )
        .when(fields.node.isNull() & ~_is_of_machine(identified.metric), _no_node(fields.host))
    )
    role = F.try_element_at(labels, F.lit("role"))
    return scrape(
        reason=reason,
        cluster=F.coalesce(_first_label(labels, CLUSTER_LABELS), F.lit(source.cluster)),
        node=fields.node,
        role=F.when(role.isin([role.value for role in NodeRole]), role),
        ts=fields.ts,
        # A machine without a broker may report too; that is no reason to refuse a record.
        samples=F.when(fields.node.isNull() & _is_of_machine(identified.metric), F.array().cast(SAMPLES_TYPE))
        .when(identified["count"].isNull(), samples)
        .otherwise(F.concat(samples, counts)),
    )


def _samples(metric: Column, value: Column, labels: Column) -> Column:
    """Returns an array with the sample, or an empty one if the sample is not usable."""
    canonical = labels_of(metric, lambda *names: _first_label(labels, names))
    sample = F.struct(metric.alias("n"), canonical.alias("l"), value.alias("v"))
    usable = metric.isNotNull() & canonical.isNotNull() & is_number(value) & is_plausible(metric, canonical, value)
    return F.when(usable, F.array(sample)).otherwise(F.array().cast(SAMPLES_TYPE))


def _is_of_machine(metric: Column) -> Column:
    return F.coalesce(metric.isin(*METRICS_OF_MACHINES), F.lit(False))


def _no_node(host: Column) -> Column:
    return F.replace(F.lit(NO_NODE), F.lit("{}"), F.coalesce(F.substring(host, 1, 100), F.lit("(no instance)")))


def _p99(record: Column) -> Column:
    return F.get(F.filter(record.aggregated_summary.quantiles, lambda q: q["quantile"] == 0.99), 0).value


def _first_label(labels: Column, names: tuple[str, ...]) -> Column:
    """Returns the value of the first of these labels that is present; Prometheus treats an empty label as absent."""
    values = [F.try_element_at(labels, F.lit(name)) for name in names]
    return F.coalesce(*[F.when(value != "", value) for value in values])
