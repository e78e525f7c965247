"""Opens clients of the metrics cluster, which has the topics of samples, signals, history and profiles.

Usually the metrics cluster is the watched cluster itself. With several clusters, it may be another cluster. In this case a command
first checks that the metrics cluster answers, because before that it has checked only the watched cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaConsumer

from rheostat.config.settings import Settings
from rheostat.run.services import probe_kafka
from streaming.shared.kafka import consumer
from streaming.shared.kafka.cluster import ClusterClient


def metrics_consumer(settings: Settings, client_id: str, **extra: Any) -> KafkaConsumer:
    """Returns a consumer of the metrics cluster.

    Raises:
        UnreachableError: the metrics cluster is another cluster than the watched one, and does not answer.
    """
    if settings.has_own_metrics_cluster:
        probe_kafka(settings.metrics_kafka)
    return consumer(settings.metrics_kafka, client_id, **extra)


@contextmanager
def metrics_client(client: ClusterClient, settings: Settings) -> Iterator[ClusterClient]:
    """Yields a client of the metrics cluster: ``client`` itself if that is the watched cluster."""
    if not settings.has_own_metrics_cluster:
        yield client
        return
    with ClusterClient(settings.metrics_kafka, "rheostat-metrics") as other:
        yield other


@contextmanager
def metrics_topic_reader(
    client: ClusterClient, settings: Settings, topic: str, client_id: str
) -> Iterator[KafkaConsumer | None]:
    """Yields a consumer for a topic of the metrics cluster; None: the topic does not exist.

    Args:
        client: of the watched cluster.

    Raises:
        ClusterError: the metrics cluster cannot be read.
    """
    with metrics_client(client, settings) as metrics:
        exists = bool(metrics.partitions([topic]))
    if not exists:
        yield None
        return
    with closing(metrics_consumer(settings, client_id)) as reader:
        yield reader
