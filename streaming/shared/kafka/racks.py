"""Reads the rack of each broker (``broker.rack``)."""

from __future__ import annotations

from kafka.protocol.metadata import MetadataRequest

from streaming.shared.kafka.cluster_connection import ClusterConnection
from streaming.shared.kafka.settings import KafkaSettings


def broker_racks(settings: KafkaSettings, client_id: str) -> dict[int, str | None]:
    """Returns the rack of each alive, unfenced broker; None if it has none."""
    connection = ClusterConnection(settings, client_id)
    try:
        answer = connection.send_any(
            "describe the cluster", MetadataRequest(topics=[], allow_auto_topic_creation=False)
        )
        return {int(b.node_id): None if b.rack is None else str(b.rack) for b in answer.brokers}
    finally:
        connection.close()
