"""Clients made from the settings. Every one has a client-id of its own, so that quotas and broker logs can tell them apart."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient

from streaming.kafka.settings import KafkaSettings


def admin_client(settings: KafkaSettings, client_id: str) -> KafkaAdminClient:
    """Connects at once.

    Raises:
        kafka.errors.KafkaTimeoutError: no broker answered within ``request_timeout_s``.
    """
    return KafkaAdminClient(client_id=client_id, **settings.for_python())


def producer(settings: KafkaSettings, client_id: str, **extra: Any) -> KafkaProducer:
    """Waits for all in-sync replicas: what rheostat writes is its memory."""
    return KafkaProducer(client_id=client_id, acks="all", compression_type="gzip", **settings.for_python(), **extra)


def consumer(settings: KafkaSettings, client_id: str, **extra: Any) -> KafkaConsumer:
    return KafkaConsumer(client_id=client_id, enable_auto_commit=False, **settings.for_python(), **extra)
