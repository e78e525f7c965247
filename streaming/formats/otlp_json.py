"""OpenTelemetry metrics as JSON: what the Collector's kafka exporter writes with ``encoding: otlp_json``.

    {"resourceMetrics": [{"resource": {"attributes": […]}, "scopeMetrics": [{"metrics": [
        {"name": "kafka_server_leaderreplication_byte_rate", "gauge": {"dataPoints": [
            {"attributes": […], "timeUnixNano": "1700000010000000000", "asDouble": 4.2e6}]}}]}]}]}

A record is a batch: several nodes, each perhaps several times. It becomes one scrape for each node and time, and one
refusal more for whoever it comes from that nobody knows; the known ones are not lost for that.

Numbers follow protobuf's JSON: 64 bits may be text, enums are numbers or names, NaN and Infinity are words. A sum must
be cumulative: what came in since the last export would have to be added up here, over restarts of either side.

Names are those of conf/collectors/otel-jmx-rules.yaml, which are ours; those of a Prometheus receiver
(``prometheus_names.py``); and, as far as they measure the same, those of OpenTelemetry's own rules for Kafka.

Vocabulary:
    point   a data point of a metric of ours, with the attributes of its resource where it has none of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats.common import NO_NODE, Source, is_number, let, node_of, scrape
from streaming.formats.prometheus_names import METRICS, SELECTORS, is_plausible, labels_of, metric_of
from streaming.shared.contract import Metric, NodeRole

NODE_ATTRIBUTES = (
    "broker_id",
    "node_id",
    "kafka.broker.id",
    "kafka.node.id",
    "kafka_broker_id",
    "kafka_node_id",
    "service.instance.id",
)
HOST_ATTRIBUTES = ("host.name", "server.address", "net.host.name", "service.instance.id", "instance", "host")
CLUSTER_ATTRIBUTES = ("cluster", "kafka.cluster", "kafka_cluster", "kafka.cluster.name")
ROLE_ATTRIBUTES = ("role",)

# Of opentelemetry-java-contrib's jmx-scraper, the Java agent, and the gatherer before them. Key: with the selector.
STOCK = MappingProxyType(
    {
        "kafka.network.io/in": Metric.CLIENT_IN,
        "kafka.network.io/out": Metric.CLIENT_OUT,
        "kafka.partition.count": Metric.PARTITION_COUNT,
        "kafka.leader.count": Metric.LEADER_COUNT,
        "kafka.isr.operation.count/shrink": Metric.ISR_SHRINKS,
        "kafka.isr.operation.count/expand": Metric.ISR_EXPANDS,
        "kafka.max.lag": Metric.REPLICA_LAG_MAX,
        "kafka.lag.max": Metric.REPLICA_LAG_MAX,
        "kafka.controller.active.count": Metric.ACTIVE_CONTROLLER,
        "kafka.request.handler.idle.1m": Metric.HANDLER_IDLE,
        "kafka.request.time.99p": Metric.TOTAL_TIME_P99,
        "kafka.request.total.time.99p": Metric.TOTAL_TIME_P99,
        "kafka.request.time.avg": Metric.TOTAL_TIME_MEAN,
        "kafka.request.time.total": Metric.TOTAL_TIME_COUNT,  # Called a time, and is the histogram's Count.
    }
)
_SELECTORS = (*SELECTORS, "direction", "state", "operation")
_NAMES = METRICS | STOCK
_WHOSE = (*NODE_ATTRIBUTES, *HOST_ATTRIBUTES)
_FIRST_PARTS = sorted({key.split("/")[0] for key in _NAMES})

_ATTRIBUTES = "array<struct<key string, value struct<stringValue string, intValue string>>>"
_POINTS = f"array<struct<attributes {_ATTRIBUTES}, timeUnixNano string, asDouble string, asInt string, flags string>>"
_METRIC = (
    f"struct<name string, unit string, gauge struct<dataPoints {_POINTS}>,"
    f" sum struct<aggregationTemporality string, dataPoints {_POINTS}>>"
)
_SCHEMA = (
    f"record struct<resourceMetrics array<struct<resource struct<attributes {_ATTRIBUTES}>,"
    f" scopeMetrics array<struct<metrics array<{_METRIC}>>>>>>, whole boolean, _corrupt_record string"
)
_OPTIONS = {"columnNameOfCorruptRecord": "_corrupt_record", "allowSingleQuotes": "false"}
_CUMULATIVE = ("2", "AGGREGATION_TEMPORALITY_CUMULATIVE")
_NO_VALUE = 1  # Bit of flags: the point says that there was nothing to measure.


def scrapes(source: Source) -> Column:
    """``common.Format``: a scrape for each node and time."""
    text = F.col("value").cast("string")
    wrapped = F.concat(F.lit('{"record":'), text, F.lit(',"whole":true}'))
    json = F.from_json(wrapped, _SCHEMA, _OPTIONS)
    return let(
        json, lambda read: let(_points(read.record, source), lambda points: _scrapes(text, read, points, source))
    )


def _points(record: Column, source: Source) -> Column:
    """All data points that are ours; NULL when there is not even one of somebody else's."""
    return _flat(record.resourceMetrics, lambda r: let(_owner(r, source), lambda owner: _points_of(r, owner, source)))


def _points_of(resource: Column, owner: Column, source: Source) -> Column:
    return _flat(
        resource.scopeMetrics,
        lambda scope: _flat(
            F.filter(scope.metrics, lambda m: F.lower(m["name"]).isin(*_FIRST_PARTS)),
            lambda m: F.filter(
                F.transform(_data_points(m), lambda p: _point(m, p, owner, source)), lambda p: p.isNotNull()
            ),
        ),
    )


def _flat(array: Column, body: Callable[[Column], Column]) -> Column:
    """The arrays that ``body`` makes of the elements, as one."""
    return F.flatten(F.filter(F.transform(array, body), lambda made: made.isNotNull()))


def _data_points(metric: Column) -> Column:
    cumulative = metric.sum.aggregationTemporality.isin(*_CUMULATIVE)
    return F.coalesce(metric.gauge.dataPoints, F.when(cumulative, metric.sum.dataPoints))


def _owner(resource: Column, source: Source) -> Column:
    """Who the points of a resource are of, as far as the resource tells."""
    attributes = resource.resource.attributes
    return F.struct(
        _first(attributes, CLUSTER_ATTRIBUTES).alias("cluster"),
        _first(attributes, ROLE_ATTRIBUTES).alias("role"),
        _first(attributes, HOST_ATTRIBUTES).alias("host"),
        _node(attributes, source).alias("node"),
    )


def _node(attributes: Column, source: Source) -> Column:
    # The first that is a number or a known host, not the first there is: a service's instance may as well be a UUID.
    told = F.get(F.filter(_all(attributes, NODE_ATTRIBUTES), lambda one: one.rlike(r"^\d{1,9}$")), F.lit(0))
    hosts = _all(attributes, HOST_ATTRIBUTES)
    own = node_of(told, F.lit(""), source)
    if not source.hosts:
        return own
    known = F.filter(F.transform(hosts, lambda host: node_of(F.lit(None), host, source)), lambda one: one.isNotNull())
    return F.coalesce(own, F.get(known, F.lit(0)))


def _point(metric: Column, point: Column, owner: Column, source: Source) -> Column:
    """NULL when it is not ours."""
    n = metric_of(metric["name"], _first(point.attributes, _SELECTORS), _NAMES)
    return let(n, lambda name: F.when(name.isNotNull(), _of(name, metric, point, owner, source)))


def _of(n: Column, metric: Column, point: Column, owner: Column, source: Source) -> Column:
    own = point.attributes
    named = F.exists(F.coalesce(own, F.array().cast(_ATTRIBUTES)), lambda one: one.key.isin(*_WHOSE))
    node = F.when(named, F.coalesce(_node(own, source), owner.node)).otherwise(owner.node)
    written = F.coalesce(point.asDouble, point.asInt)
    value = written.try_cast("double")
    nanos = point.timeUnixNano.try_cast("long")
    nothing = point.flags.try_cast("int").bitwiseAND(_NO_VALUE) == _NO_VALUE
    who = F.struct(
        F.coalesce(F.when(named, _first(own, CLUSTER_ATTRIBUTES)), owner.cluster, F.lit(source.cluster)).alias(
            "cluster"
        ),
        F.coalesce(F.when(named, _first(own, ROLE_ATTRIBUTES)), owner.role).alias("role"),
        node.alias("node"),
        F.when(nanos > 0, F.floor(nanos / F.lit(1_000_000))).cast("long").alias("ts"),
    )
    return F.struct(
        who.alias("who"),
        F.coalesce(F.when(named, _first(own, HOST_ATTRIBUTES)), owner.host).alias("host"),
        n.alias("n"),
        labels_of(n, lambda *names: _first(own, names)).alias("l"),
        F.when(~F.coalesce(nothing, F.lit(False)), value * F.when(_in_seconds(n, metric), 1000.0).otherwise(1.0)).alias(
            "v"
        ),
        F.when(written.isNotNull() & value.isNull(), F.concat(F.lit("value is not a number: "), written))
        .when(
            point.timeUnixNano.isNotNull() & nanos.isNull(),
            F.concat(F.lit("timeUnixNano is not a whole number: "), point.timeUnixNano),
        )
        .alias("wrong"),
    )


def _in_seconds(name: Column, metric: Column) -> Column:
    return name.isin(Metric.TOTAL_TIME_P99, Metric.TOTAL_TIME_MEAN) & F.coalesce(metric.unit == "s", F.lit(False))


def _scrapes(text: Column, json: Column, points: Column, source: Source) -> Column:
    reason = _reason(text, json, points)
    strangers = F.filter(points, lambda p: p.who.node.isNull())
    known = F.array_distinct(F.transform(F.filter(points, lambda p: p.who.node.isNotNull()), lambda p: p.who))
    good = F.transform(known, lambda who: _good(who, points))
    refused = F.transform(F.slice(strangers, 1, 1), lambda p: _refused(_no_node(p.host), source))
    return F.when(reason.isNotNull(), F.array(_refused(reason, source))).otherwise(
        F.concat(F.filter(good, lambda one: F.size(one.samples) > 0), refused)
    )


def _good(who: Column, points: Column) -> Column:
    mine = F.filter(
        points,
        lambda p: p.who.eqNullSafe(who) & p.l.isNotNull() & is_number(p.v) & is_plausible(p.n, p.v),
    )
    return scrape(
        reason=F.lit(None),
        cluster=who.cluster,
        node=who.node,
        role=F.when(who.role.isin([one.value for one in NodeRole]), who.role),
        ts=who.ts,
        samples=F.transform(mine, lambda p: F.struct(p.n.alias("n"), p.l.alias("l"), p.v.alias("v"))),
    )


def _refused(reason: Column, source: Source) -> Column:
    nothing = F.lit(None)
    return scrape(reason=reason, cluster=F.lit(source.cluster), node=nothing, role=nothing, ts=nothing, samples=nothing)


def _no_node(host: Column) -> Column:
    return F.replace(F.lit(NO_NODE), F.lit("{}"), F.coalesce(F.substring(host, 1, 100), F.lit("(no host)")))


def _reason(text: Column, json: Column, points: Column) -> Column:
    """The first thing that is wrong with the record as a whole. Each rung may rely on those above it."""
    wrong = F.get(F.filter(points, lambda p: p.wrong.isNotNull()), F.lit(0)).wrong
    return (
        # A tombstone parses to NULL, and NULL is neither good nor bad: it would vanish without this rung.
        F.when(text.isNull() | (F.length("value") == 0), "empty record")
        .when(~F.is_valid_utf8(text), "invalid UTF-8")
        .when(json.record.isNull() | json.whole.isNull(), "not JSON: one object and nothing else is expected")
        .when(json["_corrupt_record"].isNotNull(), "a field has the wrong type")
        .when(json.record.resourceMetrics.isNull(), "no resourceMetrics: not OTLP, or not as JSON")
        .when(wrong.isNotNull(), F.concat(F.lit("a data point's "), F.substring(wrong, 1, 100)))
    )


def _first(attributes: Column, names: Sequence[str]) -> Column:
    """Of the attributes with one of these names, as text."""
    return F.get(_all(attributes, names), F.lit(0))


def _all(attributes: Column, names: Sequence[str]) -> Column:
    """In the order of the names; none of them NULL or empty."""
    found = F.transform(F.array(*[F.lit(name) for name in names]), lambda name: _value(attributes, name))
    # Most points have none, and are not asked for each name then.
    return F.when(F.size(attributes) > 0, F.filter(found, lambda value: F.coalesce(value, F.lit("")) != ""))


def _value(attributes: Column, name: Column) -> Column:
    value = F.get(F.filter(attributes, lambda one: one.key == name), F.lit(0)).value
    return F.coalesce(value.stringValue, value.intValue)
