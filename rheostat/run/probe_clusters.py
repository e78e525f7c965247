"""Checks at the start of `rheostat run` which clusters answer, and that two names never stand for the same Kafka cluster."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import structlog

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError, UnreachableError
from rheostat.run.services import PROBE_S_MAX, check_files, probe, probe_kafka
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient, ClusterError


def probe_clusters(settings: Settings) -> None:
    """Checks all clusters once, at the same time. If some clusters answer, the clusters that do not answer are only logged.

    Raises:
        BadInputError: two names stand for one Kafka cluster; or a certificate or key cannot be read.
        UnreachableError: the metrics cluster does not answer, or no watched cluster does.
    """
    if not settings.clusters:
        probe(settings)
        return
    check_files(settings)
    connections = {name: cluster.kafka for name, cluster in settings.clusters.items()}
    connections.setdefault(settings.cluster, settings.kafka)
    with ThreadPoolExecutor(len(connections), thread_name_prefix="probe") as pool:
        results = dict(zip(connections, pool.map(_cluster_id, connections.values()), strict=True))
    unreachable = {name: str(error) for name, error in results.items() if isinstance(error, UnreachableError)}
    if settings.cluster in unreachable:
        raise UnreachableError(
            f"The metrics cluster {settings.cluster}, which has all signals, does not answer. {unreachable[settings.cluster]}"
        )
    if all(name in unreachable for name in settings.clusters):
        raise UnreachableError("\n".join(f"Cluster {name}: {text}" for name, text in unreachable.items()))
    for name, text in unreachable.items():
        structlog.get_logger("start").error(
            "a cluster does not answer: its tuner tries again, and the tuners of the other clusters start",
            cluster=name,
            error=text,
        )
    names: dict[str, str] = {}
    for name, cluster_id in results.items():
        if isinstance(cluster_id, str) and names.setdefault(cluster_id, name) != name:
            raise BadInputError(
                f"clusters.{name}.kafka: {name} and {names[cluster_id]} are the same Kafka cluster, with the id {cluster_id}. "
                "Two tuners would set the same throttles: remove one of the names"
            )


def _cluster_id(kafka: KafkaSettings) -> str | UnreachableError | None:
    """Returns the id of a Kafka cluster, or why the cluster does not answer; None if its answer has no id."""
    timeout_s = min(PROBE_S_MAX, kafka.request_timeout_s)
    try:
        probe_kafka(kafka)
        with ClusterClient(kafka.model_copy(update={"request_timeout_s": timeout_s}), "rheostat-probe") as client:
            return client.cluster_id()
    except UnreachableError as error:
        return error
    except ClusterError as error:
        return UnreachableError(str(error))
