"""Mutation rates of a cluster: the source and the bound of each, on clusters with and without quotas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tuner_cases import broker_signal

from streaming.shared.contract import ControllerSignal, TenantSignal
from tuner.core.mutation_rates import (
    TENANTS_MAX,
    Bound,
    MutationRates,
    MutationSource,
    RequestKind,
    SourcedRate,
    mutation_rates,
)

NOW_MS = 1_700_000_000_000
BUSY: dict[str, Any] = {
    "create_requests_per_s": 8.0,
    "delete_requests_per_s": 0.0,
    "addition_requests_per_s": 0.0,
    "create_mean_ms": 50.0,
    "partitions_created_per_s": 60.0,
    "partitions_deleted_per_s": 0.0,
    "topics_created_per_s": 16.0,
    "topics_deleted_per_s": 0.0,
    "refusable_requests_per_s": 8.0,
}


def controller(node: int = 100, *, active: float | None = 1.0, age_s: float = 2.0, **fields: Any) -> ControllerSignal:
    at_ms = NOW_MS - round(age_s * 1000)
    return ControllerSignal("c", node, at_ms + 500, at_ms, 6, 1.0, active=active, **{**BUSY, **fields})


def tenant(
    client_id: str, per_s: float | None, *, node: int = 100, tokens: float | None = 1e20, age_s: float = 2.0
) -> TenantSignal:
    at_ms = NOW_MS - round(age_s * 1000)
    return TenantSignal("c", node, at_ms + 500, at_ms, 6, 1.0, None, client_id, per_s, tokens)


def rates(*tenants: TenantSignal, brokers: tuple[int, ...] = (1, 2), **fields: Any) -> MutationRates:
    found = mutation_rates({100: controller(**fields)}, {b: broker_signal(b) for b in brokers}, tenants, NOW_MS)
    assert found is not None
    return found


def counted(
    per_s: float, bound: Bound = Bound.EXACT, source: MutationSource = MutationSource.PARTITION_COUNT
) -> SourcedRate:
    return SourcedRate(per_s=per_s, source=source, bound=bound)


def test_rates_without_quota_come_from_partition_count() -> None:
    found = rates()
    assert found.mutations == counted(60.0)
    assert found.partitions_created == counted(60.0)
    assert found.topics_created == counted(16.0, source=MutationSource.TOPIC_COUNT)
    assert (found.accounted_per_s, found.tenants, found.tenant_count) == (None, (), 0)


def test_count_is_lower_bound_while_both_kinds_happen() -> None:
    found = rates(delete_requests_per_s=4.0, partitions_deleted_per_s=20.0)
    assert found.partitions_created == counted(60.0, Bound.AT_LEAST)
    assert found.partitions_deleted == counted(20.0, Bound.AT_LEAST)
    assert found.mutations == counted(80.0, Bound.AT_LEAST)


def test_additions_make_deletions_a_lower_bound() -> None:
    found = rates(create_requests_per_s=0.0, addition_requests_per_s=1.0, delete_requests_per_s=1.0)
    assert found.partitions_deleted is not None
    assert found.partitions_deleted.bound is Bound.AT_LEAST


def test_unknown_request_counts_give_no_exact_rate() -> None:
    found = rates(create_requests_per_s=None, delete_requests_per_s=None)
    assert found.mutations == counted(60.0, Bound.AT_LEAST)
    assert set(found.requests) == {RequestKind.ADD}


def test_quota_accounts_replace_lower_bound_and_not_exact_count() -> None:
    accounts = (tenant("etl", 90.0, tokens=-3.0), tenant("calm", 5.0))
    both = rates(*accounts, delete_requests_per_s=4.0, partitions_deleted_per_s=20.0)
    assert both.mutations == counted(95.0, source=MutationSource.QUOTA_ACCOUNTS)
    assert rates(*accounts).mutations == counted(60.0)
    # At the start of a storm, the accounts cover 30 to 60 s and lag behind.
    assert rates(tenant("etl", 9.0), delete_requests_per_s=4.0).mutations == counted(60.0, Bound.AT_LEAST)
    assert [(t.client_id, t.per_s, t.tokens) for t in both.tenants] == [("etl", 90.0, -3.0), ("calm", 5.0, None)]


def test_only_busiest_tenants_are_kept_and_all_are_counted() -> None:
    found = rates(*(tenant(f"c{n}", float(n)) for n in range(TENANTS_MAX + 10)))
    assert found.tenant_count == TENANTS_MAX + 10
    assert [t.client_id for t in found.tenants] == [f"c{n}" for n in range(TENANTS_MAX + 9, 9, -1)]
    assert found.accounted_per_s == sum(range(TENANTS_MAX + 10))


def test_accounts_of_inactive_controller_and_old_accounts_do_not_count() -> None:
    found = rates(tenant("gone", 5.0, node=101), tenant("old", 5.0, age_s=61.0), tenant("unknown", None))
    assert (found.accounted_per_s, found.tenants) == (None, ())


def test_unmeasured_active_controller_gives_no_rates() -> None:
    for signals in ({}, {100: controller(active=0.0)}, {100: controller(active=None)}, {100: controller(age_s=61.0)}):
        assert mutation_rates(signals, {}, (), NOW_MS) is None


def test_newest_active_controller_counts_after_failover() -> None:
    found = mutation_rates({100: controller(age_s=9.0), 101: controller(101, age_s=1.0)}, {}, (), NOW_MS)
    assert found is not None
    assert found.controller.node == 101


def test_missing_counts_stay_unknown() -> None:
    found = rates(partitions_created_per_s=None, partitions_deleted_per_s=None, topics_created_per_s=None)
    assert (found.mutations, found.partitions_created, found.topics_created) == (None, None, None)


def test_isolated_controller_counts_each_request_once() -> None:
    assert rates().requests[RequestKind.CREATE].rate == counted(8.0, source=MutationSource.REQUEST_COUNT)


def test_combined_nodes_are_corrected_for_forwarding_to_themselves() -> None:
    # Ten requests/s: four through node 1, which is active, and three each through nodes 2 and 3.
    nodes = {
        1: controller(1, create_requests_per_s=14.0),
        2: controller(2, active=0.0, create_requests_per_s=3.0),
        3: controller(3, active=0.0, create_requests_per_s=3.0),
    }
    brokers = {n: broker_signal(n) for n in nodes}
    found = mutation_rates(nodes, brokers, (), NOW_MS)
    assert found is not None
    assert found.requests[RequestKind.CREATE].rate == counted(10.0, source=MutationSource.REQUEST_COUNT)
    # A fourth broker is no controller, and its count is not known.
    with_broker = mutation_rates(nodes, brokers | {4: broker_signal(4)}, (), NOW_MS)
    assert with_broker is not None
    assert with_broker.requests[RequestKind.CREATE].rate == counted(14.0, Bound.AT_MOST, MutationSource.REQUEST_COUNT)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"old_create_requests_per_s": 2.0, "refusable_requests_per_s": 6.0}, 0.25),
        ({"old_create_requests_per_s": 8.0, "refusable_requests_per_s": None}, 1.0),
        ({}, 0.0),
        ({"refusable_requests_per_s": None}, None),
        ({"create_requests_per_s": 0.0}, None),
    ],
)
def test_share_of_old_clients_needs_versions_and_requests(fields: dict[str, Any], expected: float | None) -> None:
    found = rates(**fields)
    request = found.requests[RequestKind.CREATE]
    assert request.old_ratio == expected
    assert request.refused_from_version == 6


def test_silent_combined_controller_leaves_an_upper_bound() -> None:
    nodes = {1: controller(1), 2: replace(controller(2, active=0.0), create_requests_per_s=None)}
    found = mutation_rates(nodes, {n: broker_signal(n) for n in nodes}, (), NOW_MS)
    assert found is not None
    assert found.requests[RequestKind.CREATE].rate.bound is Bound.AT_MOST
