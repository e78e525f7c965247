"""Which rack each broker says it is in (broker.rack)."""

from __future__ import annotations

from kafka.protocol.metadata import MetadataRequest

from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.wire import Wire


def broker_racks(settings: KafkaSettings, client_id: str) -> dict[int, str | None]:
    """Of the brokers that are alive and unfenced now; None: it says none."""
    wire = Wire(settings, client_id)
    try:
        found = wire.one("describe the cluster", MetadataRequest(topics=[], allow_auto_topic_creation=False))
        return {int(b.node_id): None if b.rack is None else str(b.rack) for b in found.brokers}
    finally:
        wire.close()
