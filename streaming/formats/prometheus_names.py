"""Maps the metric names of common Prometheus rule files to ``contract.Metric``.

Each rule file forms the names of meters, gauges, percentiles and counts in its own way. So the table is built by kind of MBean, for
these families:

    rheostat      conf/collectors/jmx-exporter.yaml; the names of contract.Metric
    jmx_exporter  kafka-2_0_0.yml, kafka-kraft-3_0_0.yml and Strimzi's rules: no PerSec, percentiles as a label
    reporter      Strimzi's Metrics Reporter: with PerSec, totals end in _total; older versions repeat kafka_server_
    confluent     jmx-monitoring-stacks and Grafana Cloud's Kafka integration: a meter's Count has the bare name
    bitnami       attribute names at the end, total_ in place of a topic

The table also has one series of node_exporter, the speed of a network interface. It describes a machine, not a broker.

Case is ignored, because lowercaseOutputName is a user's choice. A name is left out if it means something else in one of the
families. Example: in jmx_exporter and Strimzi one name is the handlers' idle share since JVM start, which would hide an overload of
minutes.

Vocabulary:
    selector  the label that distinguishes several series of one name: a quantile, an error, a quota's resource.
    key       a key of the table ``METRICS``: the name in lower case, followed by "/" and the selector if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats import link_speeds
from streaming.shared.contract import MUTATION_REFUSED_FROM_VERSION, Metric

SELECTORS = ("quantile", "error", "resource")
REQUESTS = MappingProxyType(
    {name.lower(): name for name in ("Produce", "FetchConsumer", "FetchFollower", *MUTATION_REFUSED_FROM_VERSION)}
)
_USER = r'user="?([^",]*)'

# The idle share is sometimes slightly above 1. A meter's Count under the same name, in nanoseconds, is far above 1.
IDLE_RATIO_MAX = 2.0

_METERS = {
    Metric.CLIENT_IN: ("kafka_server_brokertopicmetrics", "bytesin"),
    Metric.CLIENT_OUT: ("kafka_server_brokertopicmetrics", "bytesout"),
    Metric.REPLICATION_IN: ("kafka_server_brokertopicmetrics", "replicationbytesin"),
    Metric.REPLICATION_OUT: ("kafka_server_brokertopicmetrics", "replicationbytesout"),
    Metric.REASSIGNMENT_IN: ("kafka_server_brokertopicmetrics", "reassignmentbytesin"),
    Metric.REASSIGNMENT_OUT: ("kafka_server_brokertopicmetrics", "reassignmentbytesout"),
    Metric.ISR_SHRINKS: ("kafka_server_replicamanager", "isrshrinks"),
    Metric.ISR_EXPANDS: ("kafka_server_replicamanager", "isrexpands"),
}
_GAUGES = {
    Metric.REPLICA_LAG_MAX: ("kafka_server_replicafetchermanager", "maxlag"),
    Metric.UNDER_MIN_ISR: ("kafka_server_replicamanager", "underminisrpartitioncount"),
    Metric.PARTITION_COUNT: ("kafka_server_replicamanager", "partitioncount"),
    Metric.LEADER_COUNT: ("kafka_server_replicamanager", "leadercount"),
    Metric.ACTIVE_CONTROLLER: ("kafka_controller_kafkacontroller", "activecontrollercount"),
    Metric.CONTROLLER_IDLE: ("kafka_controller_controllereventmanager", "avgidleratio"),
    Metric.OPERATIONS_STARTED: ("kafka_controller_kafkacontroller", "eventqueueoperationsstartedcount"),
    Metric.OPERATIONS_TIMED_OUT: ("kafka_controller_kafkacontroller", "eventqueueoperationstimedoutcount"),
    Metric.HEARTBEATS_TIMED_OUT: ("kafka_controller_kafkacontroller", "timedoutbrokerheartbeatcount"),
    Metric.CLUSTER_TOPICS: ("kafka_controller_kafkacontroller", "globaltopiccount"),
    Metric.CLUSTER_PARTITIONS: ("kafka_controller_kafkacontroller", "globalpartitioncount"),
    Metric.ACTIVE_BROKERS: ("kafka_controller_kafkacontroller", "activebrokercount"),
    Metric.FENCED_BROKERS: ("kafka_controller_kafkacontroller", "fencedbrokercount"),
    Metric.METADATA_LAG: ("kafka_controller_kafkacontroller", "lastappliedrecordlagms"),
    Metric.METADATA_COMMITTED: ("kafka_controller_kafkacontroller", "lastcommittedrecordoffset"),
}
_P99 = {
    Metric.TOTAL_TIME_P99: "kafka_network_requestmetrics_totaltimems",
    Metric.EVENT_QUEUE_TIME_P99: "kafka_controller_controllereventmanager_eventqueuetimems",
    Metric.EVENT_PROCESSING_P99: "kafka_controller_controllereventmanager_eventqueueprocessingtimems",
}
_REQUEST_TIMES = (Metric.TOTAL_TIME_P99, Metric.TOTAL_TIME_MEAN, Metric.TOTAL_TIME_COUNT)
_SAME_EVERYWHERE = (
    Metric.BROKER_METADATA_LAG,
    Metric.LEADER_THROTTLED,
    Metric.FOLLOWER_THROTTLED,
    Metric.LOG_DIR_COPIED,
    Metric.TOTAL_TIME_MEAN,
    Metric.TOTAL_TIME_COUNT,
    Metric.EVENT_QUEUE_TIME_MEAN,
    Metric.EVENT_QUEUE_TIME_COUNT,
    Metric.EVENT_PROCESSING_MEAN,
    Metric.EVENT_PROCESSING_COUNT,
)
_QUOTA = {
    Metric.MUTATION_RATE: "mutation_rate",
    Metric.MUTATION_TOKENS: "tokens",
    Metric.MUTATION_THROTTLE_TIME: "throttle_time",
}
_NETWORK = {Metric.NETWORK_IN: "incoming_byte_total", Metric.NETWORK_OUT: "outgoing_byte_total"}


def _families() -> Iterator[tuple[str, str]]:
    """Yields the key of each name in each family, and its metric."""
    for metric, (bean, name) in _METERS.items():
        yield f"{bean}_{name}_total", metric
        yield f"{bean}_{name}persec_total", metric
        yield f"{bean}_{name}persec", metric
        yield f"{bean}_{name}persec_count", metric
        yield f"{bean}_total_{name}persec_count", metric
    for metric, (bean, name) in _GAUGES.items():
        yield f"{bean}_{name}", metric
        yield f"{bean}_{name}_value", metric
        yield f"{bean}_total_{name}_value", metric
    for metric, histogram in _P99.items():
        yield f"{histogram}/0.99", metric
        yield f"{histogram}_99thpercentile", metric
        yield f"{histogram}_p99", metric
    for metric in _SAME_EVERYWHERE:
        yield metric, metric
    yield "kafka_server_broker_metadata_metrics_last_applied_record_lag_ms", Metric.BROKER_METADATA_LAG
    yield Metric.TOTAL_TIME_COUNT.removesuffix("_total"), Metric.TOTAL_TIME_COUNT
    for metric, name in _QUOTA.items():
        yield f"kafka_server_controllermutation_{name}", metric
        yield f"kafka_server_quota_{name}/ControllerMutation", metric
    for metric, name in _NETWORK.items():
        yield f"kafka_server_socketservermetrics_{name}", metric
        yield f"kafka_server_socket_server_metrics_{name}", metric
    idle = Metric.HANDLER_IDLE
    for suffix in ("", "_oneminuterate", "_total"):  # "_total" is confluent's name of the one-minute rate.
        yield f"{idle}{suffix}", idle
    yield "kafka_server_kafkarequesthandlerpool_total_requesthandleravgidlepercent_oneminuterate", idle
    for name in ("requests_total", "requestspersec", "requestspersec_total", "requestspersec_count"):
        yield f"kafka_network_requestmetrics_{name}", Metric.REQUESTS_BY_VERSION
    yield Metric.MUTATIONS_REJECTED, Metric.MUTATIONS_REJECTED
    yield Metric.LINK_SPEED, Metric.LINK_SPEED
    for name in ("errors_total", "errorspersec", "errorspersec_total", "errorspersec_count"):
        yield f"kafka_network_requestmetrics_{name}/THROTTLING_QUOTA_EXCEEDED", Metric.MUTATIONS_REJECTED


METRICS: Mapping[str, str] = MappingProxyType(dict(_families()))
METRICS_OF_MACHINES = frozenset({Metric.LINK_SPEED})  # The record's host need not be a broker.
_DOUBLED_PREFIX = "kafka_server_kafka_"  # Older versions of Strimzi's reporter send it.


def metric_of(name: Column, selector: Column, metrics: Mapping[str, str] = METRICS) -> Column:
    """Returns the name in ``contract.Metric``; NULL for an unknown metric."""
    table = F.create_map(*[F.lit(part) for pair in metrics.items() for part in pair])
    lower = F.lower(name)
    single_prefix = F.when(
        F.startswith(lower, F.lit(_DOUBLED_PREFIX)), F.substring(lower, len("kafka_server_") + 1, 200)
    ).otherwise(lower)
    # The order of rules in kafka-2_0_0.yml leaves the user in the resource: ControllerMutation, user="u".
    key_selector = F.when(F.startswith(selector, F.lit("ControllerMutation,")), "ControllerMutation").otherwise(
        selector
    )
    # A look-up scans the whole table, so names that cannot be in it are not looked up.
    is_candidate = F.startswith(lower, F.lit("kafka")) | F.startswith(lower, F.lit("node_network_speed"))
    return F.when(is_candidate, F.try_element_at(table, F.concat_ws("/", single_prefix, key_selector)))


def labels_of(metric: Column, label: Callable[..., Column]) -> Column:
    """Returns the canonical labels of a sample; NULL if the sample is not usable, for example because it has a topic.

    Args:
        label: returns the value of the first of the given label names that the sample has, or NULL.
    """
    requests = F.create_map(*[F.lit(part) for pair in REQUESTS.items() for part in pair])
    request = label("request", "type")
    resource = label("resource")
    user = F.coalesce(label("user"), F.when(F.contains(resource, F.lit("user=")), F.regexp_extract(resource, _USER, 1)))
    client = label("client_id", "clientId", "clientid", "client-id")
    return (
        F.when(label("topic").isNotNull(), None)
        .when(metric.isin(*_REQUEST_TIMES), _pairs(request=F.try_element_at(requests, F.lower(request))))
        .when(
            metric == Metric.REQUESTS_BY_VERSION,
            F.when(
                F.lower(request).isin([name.lower() for name in MUTATION_REFUSED_FROM_VERSION])
                & label("version").isNotNull(),
                _pairs(request=F.try_element_at(requests, F.lower(request)), version=label("version")),
            ),
        )
        .when(metric == Metric.MUTATIONS_REJECTED, _pairs(request=request))
        .when(metric.isin(*_QUOTA), _pairs(client_id=_unquoted(client), user=_unquoted(user)))
        .when(
            metric.isin(*_NETWORK),
            _pairs(
                listener=label("listener"),
                networkprocessor=label("networkprocessor", "networkProcessor", "network_processor"),
            ),
        )
        .when(metric == Metric.LINK_SPEED, _pairs(device=label("device")))
        .otherwise("")
    )


def is_plausible(metric: Column, labels: Column, value: Column) -> Column:
    """Returns whether the value is possible for this metric; see ``IDLE_RATIO_MAX`` and ``link_speeds``.

    Args:
        labels: the canonical labels of the sample.
    """
    device = F.substring_index(labels, "device=", -1)
    return (
        F.when(metric == Metric.HANDLER_IDLE, value.between(0, IDLE_RATIO_MAX))
        .when(metric == Metric.LINK_SPEED, link_speeds.is_usable(device, value))
        .otherwise(F.lit(True))
    )


def _unquoted(name: Column) -> Column:
    return F.btrim(name, F.lit('"'))  # JMX quotes names with special characters.


def _pairs(**labels: Column) -> Column:
    """Returns the labels in the form of ``contract.canonical_labels``; NULL if all are NULL."""
    pairs = [F.concat(F.lit(f"{name}="), labels[name]) for name in sorted(labels)]
    return F.when(F.coalesce(*pairs).isNotNull(), F.concat_ws(",", *pairs))
