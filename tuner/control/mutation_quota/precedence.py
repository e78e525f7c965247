"""Where a quota by name would be in somebody's way, and where nothing but a quota of ours makes Kafka count.

Kafka takes the first quota in its order that fits a client, and counts in the bucket of its kind: the user's, the client-id's, or
the pair's. So one of ours for a user keeps every quota for client-ids from his clients; and one that was written while the default
was for users comes before all that is written once it is for client-ids.

Invariant: nothing that somebody set is put out of force by a quota of ours under a name either.

Vocabulary:
    others  what stands without what we made up: where somebody's quota was adopted, theirs is there.
    level   of which kind a bucket is: a user's, a client-id's, a pair's.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity, Tenant, find_quota_in_force, resolve_quota
from tuner.control.mutation_quota.state import MutationMemory


@dataclass(frozen=True, slots=True)
class ForeignQuotas:
    quotas: Mapping[QuotaEntity, float]
    of_client_ids: tuple[QuotaEntity, ...]  # Of no user, in an order.
    unconfirmed: Container[QuotaEntity]  # What a broker that is behind may show.


def find_foreign_quotas(quotas: Mapping[QuotaEntity, float], memory: MutationMemory) -> ForeignQuotas:
    made_up = {entity for entity, ours in memory.owned.items() if ours.before_per_s is None}
    found = {entity: rate for entity, rate in quotas.items() if entity not in made_up}
    return ForeignQuotas(found, tuple(sorted((e for e in found if e.user is None), key=str)), memory.unconfirmed)


def bucket_kind(of: QuotaEntity | Tenant) -> tuple[bool, bool]:
    return of.user is not None, of.client_id is not None


def find_shadowed_quota(tenant: Tenant, others: ForeignQuotas) -> QuotaEntity | None:
    """Somebody's quota that would be out of force for clients of this tenant if one stood under its name; None: none would.

    For a user's quota and those of ``<default>`` users with a client-id see ``taken_over``: whether he has such a client, books
    tell.
    """
    user, client_id = tenant.user, tenant.client_id
    if user is None:
        return None
    if client_id is not None:
        found = resolve_quota(others.quotas, user, client_id)
        return found[0] if found is not None and found[1] != tenant else None
    if QuotaEntity(user) in others.quotas or QuotaEntity(DEFAULT) in others.quotas:
        return None
    return next(iter(others.of_client_ids), None)


def would_lift_out_of_foreign(tenant: Tenant, others: ForeignQuotas, default: QuotaEntity) -> bool:
    """Whether a quota under this name would take clients of this tenant out of a quota that somebody set, and not only out of
    the default of ours."""
    user, client_id = tenant.user, tenant.client_id
    if user is None:
        return False  # All that comes after it is for client-ids, and of those only the default fits.
    if client_id is None:
        return any(e.user is DEFAULT and e.client_id is not None for e in others.quotas)
    found = resolve_quota({**others.quotas, default: 0.0}, user, client_id)
    return found is not None and found[0] != default


def is_leftover_bucket(tenant: Tenant, others: ForeignQuotas, default_entity: QuotaEntity | None) -> bool:
    """Of another level than the default, and nobody else's quota makes Kafka count there: it did by other settings."""
    if default_entity is None or bucket_kind(tenant) == bucket_kind(default_entity):
        return False
    found = find_quota_in_force(others.quotas, tenant)
    return found is None or found[0] in others.unconfirmed
