"""Content of a large cluster's metrics page beside its brokers: orders, tenants and quotas, plans, and named partitions."""

from __future__ import annotations

from streaming.shared.contract import (
    ControllerSignal,
    FetcherThreadLag,
    LagTrend,
    ReplicationSignal,
    Side,
    TenantSignal,
)
from tuner.api.plan_status_store import PLANS_NAMED_MAX, PlanStatusStore
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.control.mutation_quota.decision import QuotaReason, SetQuota, TenantShare, TotalRateReport
from tuner.control.mutation_quota.entity import QuotaEntity, Tenant
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.policy import QuotaStep
from tuner.control.mutation_quota.state import MutationMemory, TotalRate
from tuner.control.reassignment.partition_progress import PartitionProgress
from tuner.control.reassignment.policy import PlanDecision
from tuner.core.batch_limits import BatchLimits
from tuner.core.controller import ClusterWideMeasures, ControllerObjective
from tuner.core.operator_orders import Orders, Override
from tuner.core.reassignment_plan import Plan, PlanHead, PlanPartition
from tuner.core.throttle_limits import MB

PARTITIONS_NAMED = 100
OVERRIDES = 20
YIELDS = 20
TENANTS = 200  # The page names fifty of them.
_HOUR_MS = 3_600_000


def orders(now_ms: int) -> Orders:
    """Returns operator orders for the leader side of the first brokers."""
    until_ms = now_ms + _HOUR_MS
    return Orders(
        now_ms, overrides={(b, Side.LEADER): Override(30 * MB + b, until_ms, "kim") for b in range(OVERRIDES)}
    )


def replication_signals(cluster: str, brokers: int, now_ms: int) -> dict[int, ReplicationSignal]:
    """Returns the lags of all brokers, of which one in ten lags. Each broker has two fetcher threads for one source."""
    trend = LagTrend(slope_messages_per_s=120.25, span_s=25.0, points=6, r2=0.975)
    signals = {}
    for broker in range(brokers):
        threads = tuple(
            FetcherThreadLag(
                source=(broker + 1) % brokers,
                fetcher=fetcher,
                partitions=100.0,
                lag_sum_messages=50_000.0 + broker,
                lag_max_messages=4_800.0,
                fetched_bytes_per_s=12.5 * MB + broker,
                trend=trend,
            )
            for fetcher in range(2)
        )
        signals[broker] = ReplicationSignal(
            cluster=cluster,
            broker=broker,
            window_end_ms=now_ms,
            sampled_at_ms=now_ms - 2_000,
            samples=6,
            completeness=1.0,
            partitions=200.0,
            lag_sum_messages=0.0 if broker % 10 else 100_000.0 + broker,
            lag_max_messages=4_800.0 + broker,
            lag_sum_bytes=50.5 * MB + broker,
            lag_max_s=24.5,
            adding_partitions=2.0,
            adding_lag_sum_messages=60_000.0 + broker,
            trend=trend,
            trend_5min=trend,
            thread_count=2.0,
            threads=threads,
        )
    return signals


def externally_owned_until_ms(now_ms: int) -> dict[tuple[int, Side], int]:
    """Returns throttles that another tool changed a minute ago."""
    return {(b, Side.FOLLOWER): now_ms + _HOUR_MS - 60_000 for b in range(YIELDS)}


def quotas(cluster: str, now_ms: int) -> QuotaStatusStore:
    """Returns a status store with a loaded controller and half of the tenants throttled."""
    controller = ControllerSignal(
        cluster,
        5_000,
        now_ms + 1_000,
        now_ms - 2_000,
        6,
        1.0,
        active=1.0,
        event_queue_time_mean_ms=123.456,
        idle_ratio=0.4321,
        operations_per_s=351.25,
        mutations_rejected_per_s=21.75,
    )
    tenants = [Tenant(f"team-payments-{n:03d}", f"checkout-service-{n:03d}") for n in range(TENANTS)]
    books = tuple(
        TenantSignal(cluster, 5_000, now_ms + 1_000, now_ms - 2_000, 6, 1.0, t.user, t.client_id, 5.125 + n, -12.5 - n)
        for n, t in enumerate(tenants)
    )
    shares = tuple(
        TenantShare(t, 5.125 + n, n % 2 == 0, 2.125 + n, 2.125 + n, QuotaReason.FAIR_SHARE, None)
        for n, t in enumerate(tenants)
    )
    written = SetQuota(QuotaEntity("team-payments-000"), None, 2.125, QuotaReason.FAIR_SHARE, "it gets 2.125")
    said = TotalRateReport(400.25, 0.8125, QuotaReason.AT_CAP, "at the cap")
    board = QuotaStatusStore(cluster, ControllerObjective(create_probe_p90_ms_max=60.0, forwarding_busy_ratio_max=0.1))
    view = QuotaView(
        now_ms,
        {},
        {5_000: controller},
        books,
        ClusterWideMeasures(create_probe_p90_ms=41.5, forwarding_busy_ratio=0.07),
    )
    board.publish(view, QuotaStep(MutationMemory(), (said, written), shares), MutationMemory(TotalRate(400.25)))
    board.record_failures(1)
    return board


def plans(cluster: str) -> PlanStatusStore:
    """Returns as many plans as the page names, with a thousand partitions each, a fifth of them done."""
    board = PlanStatusStore(cluster)
    board.record_step(turns(), BatchLimits())
    return board


def turns() -> tuple[PlanDecision, ...]:
    return tuple(_plan(f"drain-broker-{number:04d}") for number in range(PLANS_NAMED_MAX))


def _plan(name: str) -> PlanDecision:
    keys = [("orders", partition) for partition in range(1_000)]
    parts = PartitionProgress(arrived=keys[:200])
    return PlanDecision(
        Plan(PlanHead(name, "kim@desk", 0, 0, len(keys)), dict.fromkeys(keys, PlanPartition((3, 1), (1, 2)))), parts
    )
