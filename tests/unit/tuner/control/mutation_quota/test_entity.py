"""Kafka's order of precedence for client quotas, and the bucket that results."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.control.mutation_quota.entity import (
    DEFAULT,
    QuotaEntity,
    Tenant,
    entities_by_precedence,
    find_quota_in_force,
    find_rebucketed_tenants,
    resolve_quota,
)

# As Kafka's documentation lists it; each with the labels of the bucket, (user, client-id).
IN_ORDER = [
    (QuotaEntity("alice", "app"), Tenant("alice", "app")),
    (QuotaEntity("alice", DEFAULT), Tenant("alice", "app")),
    (QuotaEntity("alice"), Tenant("alice")),
    (QuotaEntity(DEFAULT, "app"), Tenant("alice", "app")),
    (QuotaEntity(DEFAULT, DEFAULT), Tenant("alice", "app")),
    (QuotaEntity(DEFAULT), Tenant("alice")),
    (QuotaEntity(client_id="app"), Tenant(client_id="app")),
    (QuotaEntity(client_id=DEFAULT), Tenant(client_id="app")),
]


def test_quota_precedence_equals_kafkas_order() -> None:
    assert list(entities_by_precedence("alice", "app")) == IN_ORDER


@pytest.mark.parametrize("place", range(8))
def test_first_matching_entity_wins(place: int) -> None:
    quotas = {entity: float(i + 1) for i, (entity, _) in enumerate(IN_ORDER) if i >= place}
    entity, tenant = IN_ORDER[place]
    assert resolve_quota(quotas, "alice", "app") == (entity, tenant, place + 1.0)
    found = find_quota_in_force(quotas, tenant)
    assert found == (entity, place + 1.0)


def test_quota_of_other_entity_does_not_apply() -> None:
    quotas = {QuotaEntity("bob"): 1.0, QuotaEntity("alice", "other"): 2.0, QuotaEntity(client_id="other"): 3.0}
    assert resolve_quota(quotas, "alice", "app") is None
    assert find_quota_in_force(quotas, Tenant("alice", "app")) is None


def test_user_named_default_is_not_the_default_entity() -> None:
    assert resolve_quota({QuotaEntity("<default>"): 1.0}, "alice", "app") is None
    assert str(QuotaEntity("<default>")) == "user '<default>'"
    assert str(QuotaEntity(DEFAULT, "app")) == "user <default>, client-id 'app'"


def test_user_quota_would_shadow_the_pairs_default() -> None:
    quotas = {QuotaEntity(DEFAULT, "app"): 5.0, QuotaEntity(DEFAULT): 1.0}
    pair, other, user = Tenant("alice", "app"), Tenant("bob", "app"), Tenant("alice")
    assert find_rebucketed_tenants(QuotaEntity("alice"), quotas, [pair, other, user]) == (pair,)
    assert find_rebucketed_tenants(QuotaEntity("alice", "app"), quotas, [pair, other, user]) == ()
    # A pair with its own quota keeps its bucket, and an existing quota changes no bucket.
    assert find_rebucketed_tenants(QuotaEntity("alice"), {**quotas, QuotaEntity("alice", "app"): 5.0}, [pair]) == ()
    assert find_rebucketed_tenants(QuotaEntity("alice"), {**quotas, QuotaEntity("alice"): 1.0}, [pair]) == ()


entities = st.builds(
    QuotaEntity, st.sampled_from(["a", "b", DEFAULT]), st.sampled_from(["x", "y", DEFAULT, None])
) | st.builds(QuotaEntity, st.none(), st.sampled_from(["x", "y", DEFAULT]))


@settings(deadline=None)
@given(
    quotas=st.dictionaries(entities, st.floats(0.1, 10)), user=st.sampled_from("ab"), client_id=st.sampled_from("xy")
)
def test_resolved_quota_is_in_force_for_its_bucket(quotas: dict[QuotaEntity, float], user: str, client_id: str) -> None:
    found = resolve_quota(quotas, user, client_id)
    if found is not None:
        entity, tenant, rate = found
        assert find_quota_in_force(quotas, tenant) == (entity, rate)


@settings(deadline=None)
@given(
    quotas=st.dictionaries(entities, st.floats(0.1, 10)), user=st.sampled_from("ab"), client_id=st.sampled_from("xy")
)
def test_named_quota_changes_only_its_own_bucket(quotas: dict[QuotaEntity, float], user: str, client_id: str) -> None:
    clients = [(u, c) for u in "ab" for c in "xy"]
    before = {client: resolve_quota(quotas, *client) for client in clients}
    mine = before[user, client_id]
    if mine is None:
        return
    tenants = [found[1] for found in before.values() if found is not None]
    written = {**quotas, mine[1].entity: 77.0}
    after = resolve_quota(written, user, client_id)
    assert after is not None
    assert after[1:] == (mine[1], 77.0)
    moved = {
        f[1]
        for client, f in before.items()
        if f is not None and (a := resolve_quota(written, *client)) and a[1] != f[1]
    }
    assert moved == set(find_rebucketed_tenants(mine[1].entity, quotas, tenants))
