"""Kafka, wrapped once: settings, clients, and the admin calls rheostat makes, as typed values with typed failures.

kafka-python gives errors back as strings and missing rights as empty answers; nobody outside this package has to know.
"""

from streaming.shared.kafka.clients import admin_client, close_admin, consumer, producer
from streaming.shared.kafka.settings import KafkaSettings

__all__ = ["KafkaSettings", "admin_client", "close_admin", "consumer", "producer"]
