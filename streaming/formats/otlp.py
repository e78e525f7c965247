"""Turns batches of OpenTelemetry data points into scrapes; shared by ``otlp_json.py`` and ``otlp_proto.py``.

A record is a batch of points from several nodes and times. It becomes one scrape for each known node and time. If a point comes
from an unknown node, the record also gives one refused scrape.

Sums are used only if they are cumulative. Deltas would have to be added up, in a state that survives a restart of the Collector and
of the stream.

Metric names come from conf/collectors/otel-jmx-rules.yaml, from a Prometheus receiver (``prometheus_names.py``), or from
OpenTelemetry's own rules for Kafka, if the metric measures the same.

Vocabulary:
    point   a data point of a known metric; attributes that it lacks come from its resource.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming import kernel
from streaming.formats.common import NO_NODE, Source, let, node_of, scrape
from streaming.formats.otlp_names import METRIC_NAMES, NAMES
from streaming.formats.prometheus_names import SELECTORS, is_plausible, labels_of, metric_of
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

_SELECTORS = (*SELECTORS, "direction", "state", "operation")
_IDENTITY = (*NODE_ATTRIBUTES, *HOST_ATTRIBUTES)

ATTRIBUTES_TYPE = "array<struct<key string, value struct<stringValue string, intValue string>>>"
_CUMULATIVE = ("2", "AGGREGATION_TEMPORALITY_CUMULATIVE")
_NO_VALUE = 1  # Bit of a point's flags: no recorded value.
# Spark copies the names of a resource for each of its points. A name of 0.5 MB with 20,000 points would need 10 GB.
_OWNER_CHARS_MAX = 256


def scrapes(reason: Column, record: Column, source: Source) -> Column:
    """Returns a scrape for each node and time, or one refused scrape for the whole record.

    Args:
        reason: why the record is refused as a whole; NULL if it is not refused.
        record: a struct with ``resourceMetrics`` in OTLP's structure, with the fields that are read here. Numbers may be text, as
            protobuf's JSON allows.
    """
    return let(_points(record, source), lambda points: _scrapes_by_node(reason, points, source))


def _points(record: Column, source: Source) -> Column:
    """Returns all points of known metrics; NULL if the record has no data points at all."""
    return _flat(
        record.resourceMetrics, lambda r: let(_owner(r, source), lambda owner: _points_of_resource(r, owner, source))
    )


def _points_of_resource(resource: Column, owner: Column, source: Source) -> Column:
    return _flat(
        resource.scopeMetrics,
        lambda scope: _flat(
            F.filter(scope.metrics, lambda m: F.lower(m["name"]).isin(*METRIC_NAMES)),
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

    def name(names: Sequence[str]) -> Column:
        return F.substring(_first_value(attributes, names), 1, _OWNER_CHARS_MAX)

    return F.struct(
        name(CLUSTER_ATTRIBUTES).alias("cluster"),
        name(ROLE_ATTRIBUTES).alias("role"),
        name(HOST_ATTRIBUTES).alias("host"),
        _node(attributes, source).alias("node"),
    )


def _node(attributes: Column, source: Source) -> Column:
    # The node is the first attribute that is a number or a known host, because service.instance.id may be a UUID.
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
    sample_name = metric_of(metric["name"], _first_value(point.attributes, _SELECTORS), NAMES)
    return let(sample_name, lambda name: F.when(name.isNotNull(), _known_point(name, metric, point, owner, source)))


def _known_point(name: Column, metric: Column, point: Column, owner: Column, source: Source) -> Column:
    """Returns the point under its name in ``contract.Metric``. Attributes that the point lacks are copied from ``owner``."""
    attributes = point.attributes
    has_identity = F.exists(
        F.coalesce(attributes, F.array().cast(ATTRIBUTES_TYPE)), lambda attribute: attribute.key.isin(*_IDENTITY)
    )

    def own_value(names: Sequence[str]) -> Column:
        # Most points have no identity of their own; the check saves a look-up for each name.
        return F.when(has_identity, _first_value(attributes, names))

    node = F.when(has_identity, F.coalesce(_node(attributes, source), owner.node)).otherwise(owner.node)
    role = F.coalesce(own_value(ROLE_ATTRIBUTES), owner.role)
    number = F.coalesce(point.asDouble, point.asInt)
    value = number.try_cast("double") * F.when(_in_seconds(name, metric), 1000.0).otherwise(1.0)
    nanos = point.timeUnixNano.try_cast("long")
    has_value = ~F.coalesce(point.flags.try_cast("int").bitwiseAND(_NO_VALUE) == _NO_VALUE, F.lit(False))
    return F.struct(
        F.coalesce(own_value(CLUSTER_ATTRIBUTES), owner.cluster, F.lit(source.cluster)).alias("cluster"),
        F.when(role.isin([role.value for role in NodeRole]), role).alias("role"),
        node.alias("node"),
        F.when(nanos > 0, F.floor(nanos / F.lit(1_000_000))).cast("long").alias("ts"),
        name.alias("n"),
        labels_of(name, lambda *names: _first_value(attributes, names)).alias("l"),
        F.when(has_value & is_plausible(name, F.lit(""), value), value).alias("v"),
        F.coalesce(own_value(HOST_ATTRIBUTES), owner.host).alias("host"),
        F.when(number.isNotNull() & value.isNull(), F.concat(F.lit("value is not a number: "), number))
        .when(
            point.timeUnixNano.isNotNull() & nanos.isNull(),
            F.concat(F.lit("timeUnixNano is not a whole number: "), point.timeUnixNano),
        )
        .alias("problem"),
    )


def _in_seconds(name: Column, metric: Column) -> Column:
    return name.isin(Metric.TOTAL_TIME_P99, Metric.TOTAL_TIME_MEAN) & F.coalesce(metric.unit == "s", F.lit(False))


def _scrapes_by_node(reason_of_record: Column, points: Column, source: Source) -> Column:
    problem = F.get(F.filter(points, lambda p: p.problem.isNotNull()), F.lit(0)).problem
    reason = F.coalesce(reason_of_record, F.concat(F.lit("a data point's "), F.substring(problem, 1, 100)))
    nodeless = F.filter(points, lambda p: p.node.isNull())
    refused = F.transform(F.slice(nodeless, 1, 1), lambda p: _refused_scrape(_no_node(p.host), source))
    samples = F.transform(points, lambda p: F.struct(*[p[field] for field in kernel.POINT_FIELDS]))
    return F.when(reason.isNotNull(), F.array(_refused_scrape(reason, source))).otherwise(
        F.concat(kernel.scrapes_of_points(samples), refused)
    )


def _refused_scrape(reason: Column, source: Source) -> Column:
    null = F.lit(None)
    return scrape(reason=reason, cluster=F.lit(source.cluster), node=null, role=null, ts=null, samples=null)


def _no_node(host: Column) -> Column:
    return F.replace(F.lit(NO_NODE), F.lit("{}"), F.coalesce(F.substring(host, 1, 100), F.lit("(no host)")))


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
