"""Checks whether a managed quota for a tenant's own name would shadow a quota that the operator or another tool has set.

Kafka applies the first quota that fits a client in its order of precedence, and counts mutations in a bucket of the quota's kind:
per user, per client-id, or per pair. A quota for a user therefore disables ("shadows") every client-id quota for this user's
clients. If the operator changes ``default_entity`` to another bucket kind, older quotas of rheostat could shadow its new quotas.

Invariant: no managed quota by name disables a foreign quota.

Terms:
    foreign quota  a quota that rheostat has not created. It stays foreign if rheostat adopts it.
    bucket kind    per user, per client-id, or per pair.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity, Tenant, find_quota_in_force, resolve_quota
from tuner.control.mutation_quota.state import MutationMemory


@dataclass(frozen=True, slots=True)
class ForeignQuotas:
    """Foreign quotas in Kafka.

    Attributes:
        quotas: partitions/s by entity.
        client_id_entities: the entities in ``quotas`` without a user, sorted.
        unconfirmed: entities whose value has changed, but perhaps only because the broker that answered lags behind.
    """

    quotas: Mapping[QuotaEntity, float]
    client_id_entities: tuple[QuotaEntity, ...]
    unconfirmed: Container[QuotaEntity]


def find_foreign_quotas(quotas: Mapping[QuotaEntity, float], memory: MutationMemory) -> ForeignQuotas:
    """Returns all quotas except those that rheostat has created. Adopted quotas existed before, so they are included."""
    created = {entity for entity, owned in memory.owned.items() if owned.before_per_s is None}
    foreign = {entity: rate for entity, rate in quotas.items() if entity not in created}
    client_id_entities = tuple(sorted((entity for entity in foreign if entity.user is None), key=str))
    return ForeignQuotas(foreign, client_id_entities, memory.unconfirmed)


def bucket_kind(owner: QuotaEntity | Tenant) -> tuple[bool, bool]:
    """Returns whether the bucket is per user and whether it is per client-id."""
    return owner.user is not None, owner.client_id is not None


def find_shadowed_quota(tenant: Tenant, foreign: ForeignQuotas) -> QuotaEntity | None:
    """Returns a foreign quota that a quota for this tenant's name would disable for the tenant's clients; None if there is none.

    If the tenant is a user, its quota also has precedence over quotas for ``<default>`` user + client-id.
    ``find_rebucketed_tenants`` checks these quotas, because only the metrics show whether the user has a client with this
    client-id.
    """
    user, client_id = tenant.user, tenant.client_id
    if user is None:
        return None
    if client_id is not None:
        quota = resolve_quota(foreign.quotas, user, client_id)
        if quota is None:
            return None
        entity, bucket, _ = quota
        return entity if bucket != tenant else None
    # A foreign quota for this user or for the ``<default>`` user already shadows every client-id quota. A managed quota for the
    # user then shadows nothing more.
    if QuotaEntity(user) in foreign.quotas or QuotaEntity(DEFAULT) in foreign.quotas:
        return None
    return next(iter(foreign.client_id_entities), None)


def would_bypass_foreign_quota(tenant: Tenant, foreign: ForeignQuotas, default: QuotaEntity) -> bool:
    """Returns whether a quota for this tenant's name would replace a foreign quota for its clients.

    Returns False if it would replace only the managed ``default`` quota.
    """
    user, client_id = tenant.user, tenant.client_id
    if user is None:
        return False  # A client-id quota has precedence only over the quota of the <default> client-id.
    if client_id is None:
        return any(entity.user is DEFAULT and entity.client_id is not None for entity in foreign.quotas)
    quota = resolve_quota({**foreign.quotas, default: 0.0}, user, client_id)
    return quota is not None and quota[0] != default


def is_leftover_bucket(tenant: Tenant, foreign: ForeignQuotas, default_entity: QuotaEntity | None) -> bool:
    """Returns whether this tenant's bucket exists only because an earlier ``default_entity`` had another bucket kind."""
    if default_entity is None or bucket_kind(tenant) == bucket_kind(default_entity):
        return False
    quota = find_quota_in_force(foreign.quotas, tenant)
    # An unconfirmed quota counts as no quota: perhaps it is removed, and only a broker that lags behind still shows it.
    return quota is None or quota[0] in foreign.unconfirmed
