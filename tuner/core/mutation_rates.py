"""Combines signals into the mutation rates of a cluster: how many partitions and topics its clients create and delete per second.

No quota is needed. Each rate names its source, because Kafka counts mutations only for tenants, and only once a quota exists:

- PARTITION_COUNT, TOPIC_COUNT: changes of the controller's number of partitions or topics, from scrape to scrape. Partitions that
    are created and deleted between two scrapes are not seen. So while both happen, the rate is a lower bound.
- REQUEST_COUNT: answered requests. One request creates or deletes any number of topics. A node that is broker and controller counts
  a request twice that it forwards to itself. If all brokers are such nodes and are measured, that is corrected; otherwise the
  rate is an upper bound.
- QUOTA_ACCOUNTS: the sum over the tenants of Kafka's quota accounts (KIP-599), exact, a mean over 30 to 60 s.

A rate that was not measured is None, never 0.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from streaming.shared.contract import MUTATION_REFUSED_FROM_VERSION, BrokerSignal, ControllerSignal, TenantSignal
from tuner.core.freshness import Freshness, freshness

# Older signals are not current.
SIGNAL_AGE_S_MAX = 60.0
# Clients may use a new client-id for each request.
TENANTS_MAX = 50
_TOKENS_MAX = 1e15  # Kafka reports about 1e20 tokens for a tenant without a quota.


class MutationSource(StrEnum):
    PARTITION_COUNT = "partition_count"
    TOPIC_COUNT = "topic_count"
    REQUEST_COUNT = "request_count"
    QUOTA_ACCOUNTS = "quota_accounts"


class RequestKind(StrEnum):
    """The requests that a mutation quota counts, by Kafka's names."""

    CREATE = "CreateTopics"
    DELETE = "DeleteTopics"
    ADD = "CreatePartitions"


class Bound(StrEnum):
    """Whether a rate is exact."""

    EXACT = "exact"
    AT_LEAST = "at_least"
    AT_MOST = "at_most"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedRate:
    per_s: float
    source: MutationSource
    bound: Bound = Bound.EXACT


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationRequestRate:
    """Answered requests of one kind, also those that a quota refused.

    Attributes:
        mean_ms: mean time until the answer; None without requests. A node that is broker and controller includes the times of the
            requests that it forwards.
        old_ratio: share of the requests in a version that Kafka cannot refuse, so that a quota delays them; None: not measured.
    """

    kind: RequestKind
    rate: SourcedRate
    mean_ms: float | None
    old_ratio: float | None

    @property
    def refused_from_version(self) -> int:
        """The first version of this request that Kafka can refuse."""
        return MUTATION_REFUSED_FROM_VERSION[self.kind.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRate:
    """The mutations of one tenant in Kafka's quota accounts.

    Attributes:
        tokens: partitions left in the token bucket, negative while it is overdrawn; None: no quota limits the tenant.
    """

    user: str | None
    client_id: str | None
    per_s: float
    tokens: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationRates:
    """The mutation rates of a cluster, from the newest signal of its active controller.

    Attributes:
        mutations: partitions created and deleted, the best of all sources.
        requests: rates of the kinds that are measured.
        accounted_per_s: sum over all tenants of Kafka's quota accounts; None: Kafka keeps no accounts, because no mutation quota
            has been set since the controller started.
        tenants: the busiest tenants of the accounts, at most ``TENANTS_MAX``.
        tenant_count: all tenants of the accounts.
    """

    controller: ControllerSignal
    mutations: SourcedRate | None
    partitions_created: SourcedRate | None
    partitions_deleted: SourcedRate | None
    topics_created: SourcedRate | None
    topics_deleted: SourcedRate | None
    requests: Mapping[RequestKind, MutationRequestRate]
    accounted_per_s: float | None
    tenants: tuple[TenantRate, ...]
    tenant_count: int


def mutation_rates(
    controllers: Mapping[int, ControllerSignal],
    brokers: Mapping[int, BrokerSignal],
    tenants: Iterable[TenantSignal],
    now_ms: int,
    age_s_max: float = SIGNAL_AGE_S_MAX,
) -> MutationRates | None:
    """Returns the mutation rates of the cluster; None if no active controller has a fresh signal."""
    fresh = {n: s for n, s in controllers.items() if freshness(s, now_ms, age_s_max) is Freshness.FRESH}
    active = max((s for s in fresh.values() if s.active), key=lambda s: (s.sampled_at_ms, s.node), default=None)
    if active is None:
        return None
    accounts = [
        s
        for s in tenants
        if s.node == active.node
        and s.mutation_rate_per_s is not None
        and freshness(s, now_ms, age_s_max) is Freshness.FRESH
    ]
    accounted_per_s = sum(s.mutation_rate_per_s or 0.0 for s in accounts) if accounts else None
    deletes, creates = active.delete_requests_per_s, active.create_requests_per_s
    # A source that does not report additions is taken as one without additions.
    additions = active.addition_requests_per_s or 0.0
    created_is_exact, deleted_is_exact = deletes == 0, creates == 0 and additions == 0
    created = _counted(active.partitions_created_per_s, MutationSource.PARTITION_COUNT, is_exact=created_is_exact)
    deleted = _counted(active.partitions_deleted_per_s, MutationSource.PARTITION_COUNT, is_exact=deleted_is_exact)
    return MutationRates(
        controller=active,
        mutations=_all_mutations(created, deleted, accounted_per_s),
        partitions_created=created,
        partitions_deleted=deleted,
        topics_created=_counted(active.topics_created_per_s, MutationSource.TOPIC_COUNT, is_exact=created_is_exact),
        topics_deleted=_counted(active.topics_deleted_per_s, MutationSource.TOPIC_COUNT, is_exact=creates == 0),
        requests=_request_rates(active, fresh, set(brokers)),
        accounted_per_s=accounted_per_s,
        tenants=tuple(_tenant_rate(s) for s in heapq.nsmallest(TENANTS_MAX, accounts, key=_busiest_first)),
        tenant_count=len(accounts),
    )


def _busiest_first(signal: TenantSignal) -> tuple[float, str, str]:
    return -(signal.mutation_rate_per_s or 0.0), signal.user or "", signal.client_id or ""


def _tenant_rate(signal: TenantSignal) -> TenantRate:
    tokens = signal.tokens
    return TenantRate(
        user=signal.user,
        client_id=signal.client_id,
        per_s=signal.mutation_rate_per_s or 0.0,
        tokens=tokens if tokens is not None and tokens < _TOKENS_MAX else None,
    )


def _counted(per_s: float | None, source: MutationSource, *, is_exact: bool) -> SourcedRate | None:
    if per_s is None:
        return None
    return SourcedRate(per_s=per_s, source=source, bound=Bound.EXACT if is_exact else Bound.AT_LEAST)


def _all_mutations(
    created: SourcedRate | None, deleted: SourcedRate | None, accounted_per_s: float | None
) -> SourcedRate | None:
    """Returns the sum of creations and deletions: an exact count first, then the accounts, then the lower bound of the count."""
    counted: SourcedRate | None = None
    if created is not None and deleted is not None:
        both_are_exact = created.bound is Bound.EXACT and deleted.bound is Bound.EXACT
        # While only one of the two happens, the other is 0 and its bound is exact.
        one_is_exact_and_other_zero = (created.bound is Bound.EXACT and deleted.per_s == 0) or (
            deleted.bound is Bound.EXACT and created.per_s == 0
        )
        counted = SourcedRate(
            per_s=created.per_s + deleted.per_s,
            source=MutationSource.PARTITION_COUNT,
            bound=Bound.EXACT if both_are_exact or one_is_exact_and_other_zero else Bound.AT_LEAST,
        )
    if accounted_per_s is None or (counted is not None and counted.bound is Bound.EXACT):
        return counted
    if counted is not None and counted.per_s > accounted_per_s:  # The accounts react more slowly.
        return counted
    return SourcedRate(per_s=accounted_per_s, source=MutationSource.QUOTA_ACCOUNTS)


def _request_rates(
    active: ControllerSignal, controllers: Mapping[int, ControllerSignal], brokers: set[int]
) -> dict[RequestKind, MutationRequestRate]:
    measured = {
        RequestKind.CREATE: (
            [s.create_requests_per_s for s in controllers.values()],
            active.create_requests_per_s,
            active.create_mean_ms,
            active.old_create_requests_per_s,
        ),
        RequestKind.DELETE: (
            [s.delete_requests_per_s for s in controllers.values()],
            active.delete_requests_per_s,
            active.delete_mean_ms,
            active.old_delete_requests_per_s,
        ),
        RequestKind.ADD: (
            [s.addition_requests_per_s for s in controllers.values()],
            active.addition_requests_per_s,
            active.addition_mean_ms,
            active.old_addition_requests_per_s,
        ),
    }
    # Versions are counted from the first request on. So they are measured if any kind has a count.
    has_versions = active.refusable_requests_per_s is not None or any(old is not None for *_, old in measured.values())
    rates: dict[RequestKind, MutationRequestRate] = {}
    for kind, (on_all, on_active, mean_ms, old) in measured.items():
        if on_active is None:
            continue
        old_ratio = min(1.0, (old or 0.0) / on_active) if has_versions and on_active > 0 else None
        rates[kind] = MutationRequestRate(
            kind=kind,
            rate=_request_rate(
                active.node, on_active, on_all, are_all_combined=brokers <= set(controllers), brokers=brokers
            ),
            mean_ms=mean_ms,
            old_ratio=old_ratio,
        )
    return rates


def _request_rate(
    active: int, on_active: float, on_all: list[float | None], *, are_all_combined: bool, brokers: set[int]
) -> SourcedRate:
    """Returns the rate of one kind of requests.

    Args:
        on_all: the counts of all nodes with a controller. A broker that is no controller sends no signal with such counts.
    """
    source = MutationSource.REQUEST_COUNT
    if active not in brokers:
        return SourcedRate(per_s=on_active, source=source)
    known = [per_s for per_s in on_all if per_s is not None]
    if not are_all_combined or len(known) < len(on_all):
        return SourcedRate(per_s=on_active, source=source, bound=Bound.AT_MOST)
    # Each request counts once on the broker that received it, and once on the active controller.
    return SourcedRate(per_s=sum(known) / 2, source=source)
