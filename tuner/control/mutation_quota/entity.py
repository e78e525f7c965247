"""Resolves which client quota applies to a client, in Kafka's order of precedence.

A quota is set for an entity: a user, a client-id, or both, each by name or as ``<default>``. Kafka applies the most specific quota
that fits a client. The kind of this quota decides whether the client's mutations count in a token bucket of its user, of its
client-id, or of the pair of the two. A ``<default>`` quota is not shared: each tenant that it fits has its own bucket.

    user + client-id → user + <default> → user → <default> + client-id → <default> + <default> → <default> user
        → client-id → <default> client-id

Invariant: the quota for a tenant's own name has precedence over all other quotas that can limit the tenant's bucket.

Terms:
    tenant  the owner of a bucket: a user, a client-id, or a pair of the two, as in the labels of Kafka's metrics.
    entity  the name that a quota is set for; it may contain ``<default>``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from streaming.shared.contract.quotas import Default, EntityName, QuotaEntity

__all__ = [
    "DEFAULT",
    "QuotaEntity",
    "Tenant",
    "candidate_entities",
    "entities_by_precedence",
    "find_quota_in_force",
    "find_rebucketed_tenants",
    "precedence_rank",
    "resolve_quota",
]

DEFAULT: Literal[Default.DEFAULT] = Default.DEFAULT


# Key: user and client-id, each True for a name, False for <default>, None for absent.
_PRECEDENCE = {
    (True, True): 0,
    (True, False): 1,
    (True, None): 2,
    (False, True): 3,
    (False, False): 4,
    (False, None): 5,
    (None, True): 6,
    (None, False): 7,
}


@dataclass(frozen=True, slots=True)
class Tenant:
    """The owner of a token bucket, by name."""

    user: str | None = None
    client_id: str | None = None

    def __post_init__(self) -> None:
        assert self.user is not None or self.client_id is not None

    @property
    def entity(self) -> QuotaEntity:
        """The entity of the tenant's own name."""
        return QuotaEntity(self.user, self.client_id)

    @property
    def key(self) -> tuple[str, str]:
        """Sort key."""
        return (self.user or "", self.client_id or "")

    def __str__(self) -> str:
        return str(self.entity)


def entities_by_precedence(user: str, client_id: str) -> tuple[tuple[QuotaEntity, Tenant], ...]:
    """Returns all entities that fit a client, highest precedence first, each with the bucket that its quota would use."""
    pair, user_bucket, client_bucket = Tenant(user, client_id), Tenant(user), Tenant(client_id=client_id)
    return (
        (QuotaEntity(user, client_id), pair),
        (QuotaEntity(user, DEFAULT), pair),
        (QuotaEntity(user), user_bucket),
        (QuotaEntity(DEFAULT, client_id), pair),
        (QuotaEntity(DEFAULT, DEFAULT), pair),
        (QuotaEntity(DEFAULT), user_bucket),
        (QuotaEntity(client_id=client_id), client_bucket),
        (QuotaEntity(client_id=DEFAULT), client_bucket),
    )


def precedence_rank(entity: QuotaEntity) -> int:
    """Returns the entity's place in Kafka's order of precedence; 0 is the highest precedence."""
    return _PRECEDENCE[_is_name(entity.user), _is_name(entity.client_id)]


def _is_name(part: EntityName | None) -> bool | None:
    return None if part is None else part is not DEFAULT


def resolve_quota(
    quotas: Mapping[QuotaEntity, float], user: str, client_id: str
) -> tuple[QuotaEntity, Tenant, float] | None:
    """Returns the quota in force for a client, its bucket and its rate (partitions/s); None if no quota fits."""
    for entity, tenant in entities_by_precedence(user, client_id):
        if entity in quotas:
            return entity, tenant, quotas[entity]
    return None


def find_quota_in_force(quotas: Mapping[QuotaEntity, float], tenant: Tenant) -> tuple[QuotaEntity, float] | None:
    """Returns the entity and rate (partitions/s) of the quota that limits this tenant's bucket; None if there is none."""
    return next(((entity, quotas[entity]) for entity in candidate_entities(tenant) if entity in quotas), None)


def candidate_entities(tenant: Tenant) -> list[QuotaEntity]:
    """Returns the entities whose quota can limit this tenant's bucket, highest precedence first."""
    user, client_id = tenant.user, tenant.client_id
    if user is not None and client_id is not None:
        return [entity for entity, bucket in entities_by_precedence(user, client_id) if bucket == tenant]
    if user is not None:
        return [QuotaEntity(user), QuotaEntity(DEFAULT)]
    return [QuotaEntity(client_id=client_id), QuotaEntity(client_id=DEFAULT)]


def find_rebucketed_tenants(
    entity: QuotaEntity, quotas: Mapping[QuotaEntity, float], tenants: Iterable[Tenant]
) -> tuple[Tenant, ...]:
    """Returns the tenants whose clients would move to another bucket if a new quota were set for this entity.

    Only tenants that are pairs of user and client-id can move. Example: the quota for the ``<default>`` user with a client-id has a
    bucket for each pair. A new quota for the user has precedence over it, and has one bucket for the user. ``find_shadowed_quota``
    (precedence.py) makes the same check for quotas that other tools have set.
    """
    if entity in quotas:
        return ()
    moved = []
    for tenant in tenants:
        if tenant.user is None or tenant.client_id is None or entity.user != tenant.user:
            continue
        bucket_before = _find_bucket(quotas, tenant.user, tenant.client_id)
        # The rate of the new quota does not matter for the bucket.
        bucket_after = _find_bucket({**quotas, entity: 0.0}, tenant.user, tenant.client_id)
        if bucket_before == tenant and bucket_after not in (None, tenant):
            moved.append(tenant)
    return tuple(moved)


def _find_bucket(quotas: Mapping[QuotaEntity, float], user: str, client_id: str) -> Tenant | None:
    """Returns the owner of the bucket in which the mutations of a client count; None if no quota fits."""
    quota = resolve_quota(quotas, user, client_id)
    return None if quota is None else quota[1]
