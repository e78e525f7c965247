"""Parses OpenTelemetry metrics in JSON, as the Collector's kafka exporter writes them with ``encoding: otlp_json``.

    {"resourceMetrics": [{"resource": {"attributes": […]}, "scopeMetrics": [{"metrics": [
        {"name": "kafka_server_leaderreplication_byte_rate", "gauge": {"dataPoints": [
            {"attributes": […], "timeUnixNano": "1700000010000000000", "asDouble": 4.2e6}]}}]}]}]}

A record is a batch of points from several nodes and times. It becomes one scrape for each known node and time. If any points come
from an unknown node, it also becomes one refused scrape.

Numbers follow protobuf's JSON: 64-bit integers may be text, enums are numbers or names, NaN and Infinity are words. Sums are used
only if they are cumulative: adding up deltas would need state that survives a restart of the Collector or of the stream.

Metric names come from conf/collectors/otel-jmx-rules.yaml, from a Prometheus receiver (``prometheus_names.py``), or from
OpenTelemetry's own rules for Kafka, if the metric measures the same.

Vocabulary:
    point   a data point of a known metric; attributes that it lacks come from its resource.
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

# Names of opentelemetry-java-contrib's jmx-scraper, the Java agent and the older gatherer. Keys include the selector.
OTEL_NAMES = MappingProxyType(
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
        "kafka.request.time.total": Metric.TOTAL_TIME_COUNT,  # In spite of its name, this is the histogram's Count.
    }
)
_SELECTORS = (*SELECTORS, "direction", "state", "operation")
_NAMES = METRICS | OTEL_NAMES
_IDENTITY = (*NODE_ATTRIBUTES, *HOST_ATTRIBUTES)
_METRIC_NAMES = sorted({key.split("/")[0] for key in _NAMES})

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
_NO_VALUE = 1  # Bit of a point's flags: no recorded value.


def scrapes(source: Source) -> Column:
    """Implements ``common.Format``: returns a scrape for each node and time."""
    text = F.col("value").cast("string")
    wrapped = F.concat(F.lit('{"record":'), text, F.lit(',"whole":true}'))
    json = F.from_json(wrapped, _SCHEMA, _OPTIONS)
    return let(
        json,
        lambda parsed: let(
            _points(parsed.record, source), lambda points: _scrapes_by_node(text, parsed, points, source)
        ),
    )


def _points(record: Column, source: Source) -> Column:
    """Returns all points of known metrics; NULL if the record has no data points at all."""
    return _flat(
        record.resourceMetrics, lambda r: let(_owner(r, source), lambda owner: _points_of_resource(r, owner, source))
    )


def _points_of_resource(resource: Column, owner: Column, source: Source) -> Column:
    return _flat(
        resource.scopeMetrics,
        lambda scope: _flat(
            F.filter(scope.metrics, lambda m: F.lower(m["name"]).isin(*_METRIC_NAMES)),
            lambda m: F.filter(
                F.transform(_data_points(m), lambda p: _point(m, p, owner, source)), lambda p: p.isNotNull()
            ),
        ),
    )


def _flat(array: Column, body: Callable[[Column], Column]) -> Column:
    """Returns the arrays that ``body`` returns for the elements, concatenated."""
    return F.flatten(F.filter(F.transform(array, body), lambda part: part.isNotNull()))


def _data_points(metric: Column) -> Column:
    cumulative = metric.sum.aggregationTemporality.isin(*_CUMULATIVE)
    return F.coalesce(metric.gauge.dataPoints, F.when(cumulative, metric.sum.dataPoints))


def _owner(resource: Column, source: Source) -> Column:
    """Returns cluster, role, host and node of a resource, each NULL if the resource does not name it."""
    attributes = resource.resource.attributes
    return F.struct(
        _first_value(attributes, CLUSTER_ATTRIBUTES).alias("cluster"),
        _first_value(attributes, ROLE_ATTRIBUTES).alias("role"),
        _first_value(attributes, HOST_ATTRIBUTES).alias("host"),
        _node(attributes, source).alias("node"),
    )


def _node(attributes: Column, source: Source) -> Column:
    # The first number or known host, not the first attribute: service.instance.id may be a UUID.
    id_text = F.get(F.filter(_values(attributes, NODE_ATTRIBUTES), lambda text: text.rlike(r"^\d{1,9}$")), F.lit(0))
    hosts = _values(attributes, HOST_ATTRIBUTES)
    stated_node = node_of(id_text, F.lit(""), source)
    if not source.hosts:
        return stated_node
    host_nodes = F.filter(
        F.transform(hosts, lambda host: node_of(F.lit(None), host, source)), lambda node: node.isNotNull()
    )
    return F.coalesce(stated_node, F.get(host_nodes, F.lit(0)))


def _point(metric: Column, point: Column, owner: Column, source: Source) -> Column:
    """Returns the point with its identity; NULL if its metric is unknown."""
    sample_name = metric_of(metric["name"], _first_value(point.attributes, _SELECTORS), _NAMES)
    return let(sample_name, lambda name: F.when(name.isNotNull(), _known_point(name, metric, point, owner, source)))


def _known_point(name: Column, metric: Column, point: Column, owner: Column, source: Source) -> Column:
    """Returns the point under its name in ``contract.Metric``. Attributes that the point lacks are copied from ``owner``."""
    attributes = point.attributes
    has_identity = F.exists(
        F.coalesce(attributes, F.array().cast(_ATTRIBUTES)), lambda attribute: attribute.key.isin(*_IDENTITY)
    )

    def own_value(names: Sequence[str]) -> Column:
        # Most points have no identity of their own; the check saves a look-up for each name.
        return F.when(has_identity, _first_value(attributes, names))

    node = F.when(has_identity, F.coalesce(_node(attributes, source), owner.node)).otherwise(owner.node)
    number = F.coalesce(point.asDouble, point.asInt)
    value = number.try_cast("double")
    nanos = point.timeUnixNano.try_cast("long")
    no_value = point.flags.try_cast("int").bitwiseAND(_NO_VALUE) == _NO_VALUE
    identity = F.struct(
        F.coalesce(own_value(CLUSTER_ATTRIBUTES), owner.cluster, F.lit(source.cluster)).alias("cluster"),
        F.coalesce(own_value(ROLE_ATTRIBUTES), owner.role).alias("role"),
        node.alias("node"),
        F.when(nanos > 0, F.floor(nanos / F.lit(1_000_000))).cast("long").alias("ts"),
    )
    return F.struct(
        identity.alias("identity"),
        F.coalesce(own_value(HOST_ATTRIBUTES), owner.host).alias("host"),
        name.alias("n"),
        labels_of(name, lambda *names: _first_value(attributes, names)).alias("l"),
        F.when(
            ~F.coalesce(no_value, F.lit(False)), value * F.when(_in_seconds(name, metric), 1000.0).otherwise(1.0)
        ).alias("v"),
        F.when(number.isNotNull() & value.isNull(), F.concat(F.lit("value is not a number: "), number))
        .when(
            point.timeUnixNano.isNotNull() & nanos.isNull(),
            F.concat(F.lit("timeUnixNano is not a whole number: "), point.timeUnixNano),
        )
        .alias("problem"),
    )


def _in_seconds(name: Column, metric: Column) -> Column:
    return name.isin(Metric.TOTAL_TIME_P99, Metric.TOTAL_TIME_MEAN) & F.coalesce(metric.unit == "s", F.lit(False))


def _scrapes_by_node(text: Column, json: Column, points: Column, source: Source) -> Column:
    reason = _reason(text, json, points)
    nodeless = F.filter(points, lambda p: p.identity.node.isNull())
    with_node = F.filter(points, lambda p: p.identity.node.isNotNull())
    identities = F.array_distinct(F.transform(with_node, lambda p: p.identity))
    good = F.transform(identities, lambda identity: _good_scrape(identity, points))
    refused = F.transform(F.slice(nodeless, 1, 1), lambda p: _refused_scrape(_no_node(p.host), source))
    return F.when(reason.isNotNull(), F.array(_refused_scrape(reason, source))).otherwise(
        F.concat(F.filter(good, lambda s: F.size(s.samples) > 0), refused)
    )


def _good_scrape(identity: Column, points: Column) -> Column:
    """Returns the scrape of one node and time, made of all usable points with this identity."""
    own_points = F.filter(
        points,
        lambda p: p.identity.eqNullSafe(identity) & p.l.isNotNull() & is_number(p.v) & is_plausible(p.n, p.v),
    )
    return scrape(
        reason=F.lit(None),
        cluster=identity.cluster,
        node=identity.node,
        role=F.when(identity.role.isin([role.value for role in NodeRole]), identity.role),
        ts=identity.ts,
        samples=F.transform(own_points, lambda p: F.struct(p.n.alias("n"), p.l.alias("l"), p.v.alias("v"))),
    )


def _refused_scrape(reason: Column, source: Source) -> Column:
    null = F.lit(None)
    return scrape(reason=reason, cluster=F.lit(source.cluster), node=null, role=null, ts=null, samples=null)


def _no_node(host: Column) -> Column:
    return F.replace(F.lit(NO_NODE), F.lit("{}"), F.coalesce(F.substring(host, 1, 100), F.lit("(no host)")))


def _reason(text: Column, json: Column, points: Column) -> Column:
    """Returns why the record as a whole is refused, or NULL. Each check may rely on the checks before it."""
    problem = F.get(F.filter(points, lambda p: p.problem.isNotNull()), F.lit(0)).problem
    return (
        # A tombstone parses to NULL and would vanish without this check.
        F.when(text.isNull() | (F.length("value") == 0), "empty record")
        .when(~F.is_valid_utf8(text), "invalid UTF-8")
        .when(json.record.isNull() | json.whole.isNull(), "not JSON: one object and nothing else is expected")
        .when(json["_corrupt_record"].isNotNull(), "a field has the wrong type")
        .when(json.record.resourceMetrics.isNull(), "no resourceMetrics: not OTLP, or not as JSON")
        .when(problem.isNotNull(), F.concat(F.lit("a data point's "), F.substring(problem, 1, 100)))
    )


def _first_value(attributes: Column, names: Sequence[str]) -> Column:
    """Returns the value of the first of these attributes that is present, as text."""
    return F.get(_values(attributes, names), F.lit(0))


def _values(attributes: Column, names: Sequence[str]) -> Column:
    """Returns the values of these attributes in the order of the names, without NULL and empty values."""
    values = F.transform(F.array(*[F.lit(name) for name in names]), lambda name: _value(attributes, name))
    # Most points have no attributes; the check saves a look-up for each name.
    return F.when(F.size(attributes) > 0, F.filter(values, lambda value: F.coalesce(value, F.lit("")) != ""))


def _value(attributes: Column, name: Column) -> Column:
    value = F.get(F.filter(attributes, lambda attribute: attribute.key == name), F.lit(0)).value
    return F.coalesce(value.stringValue, value.intValue)
