"""Access to a Kafka cluster: settings, clients, and the admin calls that rheostat makes, with typed values and errors.

kafka-python returns errors as strings, and reports missing rights as empty answers. This package turns both into typed errors.
"""

from streaming.shared.kafka.clients import admin_client, close_admin, consumer, producer
from streaming.shared.kafka.settings import KafkaSettings

__all__ = ["KafkaSettings", "admin_client", "close_admin", "consumer", "producer"]
