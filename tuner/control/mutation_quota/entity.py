"""Whom a client quota is for, and which of several is in force: Kafka's order of precedence, letter by letter.

Intuition: a quota stands under a name, or under <default>, of a user, of a client-id, or of both. Of all that fit, Kafka takes
the most particular one; and it keeps one bucket for each user, each client-id or each pair, as the quota that it took was for
users, for client-ids or for pairs. A default is no common purse: everybody whom it fits has a bucket of that size.

    user + client-id → user + <default> → user → <default> + client-id → <default> + <default> → <default> user
        → client-id → <default> client-id

Invariant: a quota written for a tenant's own name is the first in that order for the bucket that it is meant for.

Vocabulary:
    tenant  whose bucket it is: a user, a client-id, or a pair of the two; the labels of Kafka's books.
    entity  whom a quota is set for; also <default>.
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


# By user and client-id: whether a name stands there (True), <default> (False), or neither (None).
_ORDER = {
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
    user: str | None = None
    client_id: str | None = None

    def __post_init__(self) -> None:
        assert self.user is not None or self.client_id is not None

    @property
    def entity(self) -> QuotaEntity:
        """Its own name."""
        return QuotaEntity(self.user, self.client_id)

    @property
    def key(self) -> tuple[str, str]:
        """To sort by."""
        return (self.user or "", self.client_id or "")

    def __str__(self) -> str:
        return str(self.entity)


def entities_by_precedence(user: str, client_id: str) -> tuple[tuple[QuotaEntity, Tenant], ...]:
    """All quotas that fit a client of this user, the one that wins first, each with the bucket that comes of it."""
    pair, of_user, of_client = Tenant(user, client_id), Tenant(user), Tenant(client_id=client_id)
    return (
        (QuotaEntity(user, client_id), pair),
        (QuotaEntity(user, DEFAULT), pair),
        (QuotaEntity(user), of_user),
        (QuotaEntity(DEFAULT, client_id), pair),
        (QuotaEntity(DEFAULT, DEFAULT), pair),
        (QuotaEntity(DEFAULT), of_user),
        (QuotaEntity(client_id=client_id), of_client),
        (QuotaEntity(client_id=DEFAULT), of_client),
    )


def precedence_rank(entity: QuotaEntity) -> int:
    """Its place in Kafka's order of precedence, 0 for what comes before all others."""
    user, client_id = entity.user, entity.client_id
    return _ORDER[_named(user), _named(client_id)]


def _named(name: EntityName | None) -> bool | None:
    return None if name is None else name is not DEFAULT


def resolve_quota(
    quotas: Mapping[QuotaEntity, float], user: str, client_id: str
) -> tuple[QuotaEntity, Tenant, float] | None:
    """The quota in force for a client of this user, its bucket, and its rate; None: none is."""
    for entity, tenant in entities_by_precedence(user, client_id):
        if entity in quotas:
            return entity, tenant, quotas[entity]
    return None


def find_quota_in_force(quotas: Mapping[QuotaEntity, float], tenant: Tenant) -> tuple[QuotaEntity, float] | None:
    """The quota that a bucket has; as its labels say which levels it can have come from, only these are looked at."""
    return next(((entity, quotas[entity]) for entity in candidate_entities(tenant) if entity in quotas), None)


def candidate_entities(tenant: Tenant) -> list[QuotaEntity]:
    """All that its bucket can have its quota from, the one that wins first."""
    user, client_id = tenant.user, tenant.client_id
    if user is not None and client_id is not None:
        return [entity for entity, bucket in entities_by_precedence(user, client_id) if bucket == tenant]
    if user is not None:
        return [QuotaEntity(user), QuotaEntity(DEFAULT)]
    return [QuotaEntity(client_id=client_id), QuotaEntity(client_id=DEFAULT)]


def find_rebucketed_tenants(
    entity: QuotaEntity, quotas: Mapping[QuotaEntity, float], tenants: Iterable[Tenant]
) -> tuple[Tenant, ...]:
    """Tenants whose clients would count in another bucket if a quota stood under this entity, where none stands now.

    A user's quota comes before those of <default> with a client-id: it would put a pair that has one of these into the user's
    own bucket. Nothing else that is written for a tenant's own name does that.
    """
    if entity in quotas:
        return ()
    moved = []
    for tenant in tenants:
        if tenant.user is None or tenant.client_id is None:
            continue
        before = resolve_quota(quotas, tenant.user, tenant.client_id)
        after = (
            resolve_quota({**quotas, entity: 0.0}, tenant.user, tenant.client_id)
            if entity.user == tenant.user
            else before
        )
        if before is not None and after is not None and before[1] == tenant != after[1]:
            moved.append(tenant)
    return tuple(moved)
