"""Reads and changes client quotas (KIP-546), of which rheostat uses the controller mutation quotas (KIP-599).

kafka-python has no method for them, so this module builds the requests. Brokers forward a change to the controller, which applies
it entity by entity: a refused entity keeps its quota and does not affect the others.

Invariant: only the key ``controller_mutation_rate`` of an entity is changed. Other keys, such as producer_byte_rate, stay as they
are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from streaming.shared import kafka_names
from streaming.shared.contract.quotas import Default, EntityName, QuotaEntity
from streaming.shared.kafka.answers import error_for_code, raise_for_code
from streaming.shared.kafka.cluster_connection import ClusterConnection
from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.values import ClusterError


class QuotaClient:
    """An admin connection for quotas. Not thread-safe.

    Kafka applies quotas to this client too, and pauses its connection after a refusal. Use a separate client-id and create no
    topics with it.
    """

    def __init__(self, settings: KafkaSettings, client_id: str) -> None:
        self._connection = ClusterConnection(settings, client_id)

    def close(self) -> None:
        self._connection.close()

    def mutation_quotas(self) -> dict[QuotaEntity, float]:
        """Returns the mutation quotas (partitions/s) by entity; entities without one are absent.

        Raises:
            MissingPermission: DescribeConfigs on Cluster.
            Unreachable: the cluster did not answer in time.
        """
        answer = self._connection.send_any(
            "describe client quotas", DescribeClientQuotasRequest(components=[], strict=False)
        )
        raise_for_code(answer.error_code, "DescribeConfigs on Cluster", "to describe client quotas")
        # The response holds all client quotas, including quotas of ip entities, which have other keys.
        entries = ((e.entity, {str(v.key): float(v.value) for v in e.values}) for e in answer.entries or ())
        return {
            _entity(parts): rates[kafka_names.MUTATION_RATE]
            for parts, rates in entries
            if kafka_names.MUTATION_RATE in rates
        }

    def alter_mutation_quotas(
        self, changes: Mapping[QuotaEntity, float | None], *, validate_only: bool = False
    ) -> dict[QuotaEntity, ClusterError | None]:
        """Sets (partitions/s) or removes (None) the quota of each entity. Returns errors by entity (None means success).

        Args:
            validate_only: Kafka checks rights and values and changes nothing.

        Raises:
            Unreachable: the outcome is unknown.
        """
        if not changes:
            return {}
        entries = [_entry(entity, rate) for entity, rate in changes.items()]
        answer = self._connection.send_any(
            "alter client quotas", AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
        )
        return {
            _entity(e.entity): error_for_code(
                e.error_code, e.error_message, "AlterConfigs on Cluster", "to alter client quotas"
            )
            for e in answer.entries
        }


def _entry(entity: QuotaEntity, rate: float | None) -> Any:
    data = AlterClientQuotasRequest.EntryData
    names = ((kafka_names.QUOTA_USER, entity.user), (kafka_names.QUOTA_CLIENT_ID, entity.client_id))
    return data(
        entity=[
            data.EntityData(entity_type=kind, entity_name=None if isinstance(name, Default) else name)
            for kind, name in names
            if name is not None
        ],
        ops=[data.OpData(key=kafka_names.MUTATION_RATE, value=0.0 if rate is None else rate, remove=rate is None)],
    )


def _entity(parts: Any) -> QuotaEntity:
    names: dict[str, EntityName] = {
        str(p.entity_type): Default.DEFAULT if p.entity_name is None else str(p.entity_name) for p in parts
    }
    return QuotaEntity(names.get(kafka_names.QUOTA_USER), names.get(kafka_names.QUOTA_CLIENT_ID))
