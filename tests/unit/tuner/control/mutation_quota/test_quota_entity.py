"""Kafka's order of precedence for client quotas, and which bucket comes of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.control.mutation_quota.entity import (
    DEFAULT,
    QuotaEntity,
    Tenant,
    in_force,
    levels,
    resolved,
    taken_over,
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


def test_the_order_is_kafkas() -> None:
    assert list(levels("alice", "app")) == IN_ORDER


@pytest.mark.parametrize("place", range(8))
def test_of_all_that_fit_the_first_wins(place: int) -> None:
    quotas = {entity: float(i + 1) for i, (entity, _) in enumerate(IN_ORDER) if i >= place}
    entity, tenant = IN_ORDER[place]
    assert resolved(quotas, "alice", "app") == (entity, tenant, place + 1.0)
    found = in_force(quotas, tenant)
    assert found == (entity, place + 1.0)


def test_what_is_for_others_is_not_in_force() -> None:
    quotas = {QuotaEntity("bob"): 1.0, QuotaEntity("alice", "other"): 2.0, QuotaEntity(client_id="other"): 3.0}
    assert resolved(quotas, "alice", "app") is None
    assert in_force(quotas, Tenant("alice", "app")) is None


def test_a_user_who_is_called_default_is_not_everybody() -> None:
    assert resolved({QuotaEntity("<default>"): 1.0}, "alice", "app") is None
    assert str(QuotaEntity("<default>")) == "user '<default>'"
    assert str(QuotaEntity(DEFAULT, "app")) == "user <default>, client-id 'app'"


def test_a_users_quota_would_take_a_pair_out_of_its_default_bucket() -> None:
    quotas = {QuotaEntity(DEFAULT, "app"): 5.0, QuotaEntity(DEFAULT): 1.0}
    pair, other, user = Tenant("alice", "app"), Tenant("bob", "app"), Tenant("alice")
    assert taken_over(QuotaEntity("alice"), quotas, [pair, other, user]) == (pair,)
    assert taken_over(QuotaEntity("alice", "app"), quotas, [pair, other, user]) == ()
    # A pair with a quota of its own is not taken, nor is anything by what stands already.
    assert taken_over(QuotaEntity("alice"), {**quotas, QuotaEntity("alice", "app"): 5.0}, [pair]) == ()
    assert taken_over(QuotaEntity("alice"), {**quotas, QuotaEntity("alice"): 1.0}, [pair]) == ()


entities = st.builds(
    QuotaEntity, st.sampled_from(["a", "b", DEFAULT]), st.sampled_from(["x", "y", DEFAULT, None])
) | st.builds(QuotaEntity, st.none(), st.sampled_from(["x", "y", DEFAULT]))


@settings(deadline=None)
@given(
    quotas=st.dictionaries(entities, st.floats(0.1, 10)), user=st.sampled_from("ab"), client_id=st.sampled_from("xy")
)
def test_a_bucket_has_the_quota_that_its_client_was_given(
    quotas: dict[QuotaEntity, float], user: str, client_id: str
) -> None:
    found = resolved(quotas, user, client_id)
    if found is not None:
        entity, tenant, rate = found
        assert in_force(quotas, tenant) == (entity, rate)


@settings(deadline=None)
@given(
    quotas=st.dictionaries(entities, st.floats(0.1, 10)), user=st.sampled_from("ab"), client_id=st.sampled_from("xy")
)
def test_a_quota_under_a_tenants_own_name_reaches_its_bucket_and_takes_only_what_is_said(
    quotas: dict[QuotaEntity, float], user: str, client_id: str
) -> None:
    clients = [(u, c) for u in "ab" for c in "xy"]
    before = {client: resolved(quotas, *client) for client in clients}
    mine = before[user, client_id]
    if mine is None:
        return
    tenants = [found[1] for found in before.values() if found is not None]
    written = {**quotas, mine[1].entity: 77.0}
    after = resolved(written, user, client_id)
    assert after is not None
    assert after[1:] == (mine[1], 77.0)
    moved = {
        f[1] for client, f in before.items() if f is not None and (a := resolved(written, *client)) and a[1] != f[1]
    }
    assert moved == set(taken_over(mine[1].entity, quotas, tenants))
