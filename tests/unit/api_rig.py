"""The tuner's HTTP server with the real status stores, without a tuner: tests publish cycles; a fake service stores orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry
from tuner_cases import (
    CLUSTER,
    LIMITS,
    NOW_MS,
    SOURCE,
    STALLED,
    TARGET,
    broker_signal,
    live,
    move_signal,
    observation,
    owned,
)

from streaming.shared.contract import Side
from tuner.api.api_state import ApiState
from tuner.api.auth import ApiRole, Tokens, TokenVerifier, make_token
from tuner.api.cordon_status_store import CordonStatusStore
from tuner.api.journal_history import JournalHistory
from tuner.api.lag_status_store import LagStatusStore
from tuner.api.limits import TokenBuckets
from tuner.api.metrics import make_registry
from tuner.api.mutation_store import MutationStore
from tuner.api.observers import Observers
from tuner.api.orders_api import OrderChange, OrderNotRecorded
from tuner.api.plan_routes import ROWS_MAX
from tuner.api.plan_service import (
    BrokerLoadRow,
    PlacementRow,
    PlanPreview,
    PlanRefused,
    PlanToStart,
    StartedPlan,
    StartRow,
)
from tuner.api.plan_status_store import PlanStatusStore
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.server import make_app
from tuner.api.status_store import StatusStore
from tuner.api.week_store import WeekStore
from tuner.control.throttle.decision import Decision, Hold, Reason, SetRate
from tuner.control.throttle.objective import Objective
from tuner.control.throttle.state import Memory
from tuner.core.cluster import LiveCluster, Observation
from tuner.core.operator_orders import Orders
from tuner.core.throttle_limits import MB
from tuner.journal.entries import Entry, entry_of

READ_TOKEN = "read-0123456789abcdef"
OPERATE_TOKEN = "operate-0123456789abcdef"
HOSTILE = "<img src=x>" + "ü" * 230
HOUR_MS = 3_600_000
RAISE = SetRate(
    *SOURCE, 10 * MB, 50 * MB, Reason.STALLED_THROTTLE_BOUND,
    "broker 1 leader throttle 10.0 MB/s → 50.0 MB/s: the move onto broker 3 has stalled",
)  # fmt: skip
WELL = Hold(*TARGET, Reason.PROGRESSING, "broker 3 follower throttle: 600 MB remain, 2.0 MB/s nearer")
MEMORY = Memory(stalls={3: STALLED}, owned={SOURCE: owned(None, 50 * MB)}, orders_at_ms=7)


class Clock:
    def __init__(self) -> None:
        self.now_s = NOW_MS / 1000

    def __call__(self) -> float:
        return self.now_s


class KeptDesk:
    """A fake order service. It keeps the newest orders only, as the orders topic does."""

    def __init__(self) -> None:
        self.orders = Orders()
        self.away = False

    def submit(self, change: OrderChange) -> Orders:
        if self.away:
            raise OrderNotRecorded("the order is not taken, as the cluster does not answer")
        now_ms = max(NOW_MS, self.orders.at_ms + 1)
        self.orders = replace(change(self.orders, now_ms), at_ms=now_ms)
        return self.orders


class GivenPlans:
    """Answers with given values. tests/ui/test_ui_acting.py has the real service on real brokers."""

    def __init__(self) -> None:
        self.requests: list[tuple[PlanToStart, str | None]] = []
        self.refusal: PlanRefused | None = None
        self.refusals: tuple[str, ...] = ()

    def preview(self, request: PlanToStart) -> PlanPreview:
        self._note(request, None)
        rows = [PlacementRow(HOSTILE, number, (1, 2), (3, 2)) for number in range(ROWS_MAX + 5)]
        starts = [
            StartRow("now", NOW_MS, None, None, None, None),
            StartRow("your start", NOW_MS + HOUR_MS, NOW_MS + 2 * HOUR_MS, NOW_MS + HOUR_MS, None, 3600.0),
        ]
        loads = [BrokerLoadRow(3, 90 * MB, 0.0, 4, 5, 0, 1)]
        return PlanPreview(
            "It moves 205 partitions.",
            len(rows),
            rows,
            loads,
            starts,
            ["as `fast` as it may"],
            self.refusals,
            "rheostat x",
        )

    def start(self, request: PlanToStart, by: str) -> StartedPlan:
        self._note(request, by)
        return StartedPlan("p-1", request.start_ms or 0, "Plan p-1 is on record.")

    def _note(self, request: PlanToStart, by: str | None) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.requests.append((request, by))


class Rig:
    def __init__(
        self,
        tokens: bool = True,
        *,
        dry_run: bool = False,
        dry_run_by_default: bool = False,
        reads: TokenBuckets | None = None,
        orders: TokenBuckets | None = None,
        verifier: TokenVerifier | None = None,
        plans: bool = True,
    ) -> None:
        self.clock = Clock()
        self.board = StatusStore(
            CLUSTER,
            LIMITS,
            dry_run=dry_run,
            dry_run_by_default=dry_run_by_default,
            wall_clock=self.clock,
            objective=Objective(latency_ms=30.0),
        )
        self.board.become_active()
        self.quotas = QuotaStatusStore(CLUSTER)
        self.plans = PlanStatusStore(CLUSTER, self.clock, first_topics=("payments-*",))
        self.cordons = CordonStatusStore()
        self.lag = LagStatusStore(CLUSTER)
        self.observers = Observers(self.board)
        self.order_service = KeptDesk()
        self.plan_service = GivenPlans()
        self.mutations = MutationStore(CLUSTER)
        self.weeks = WeekStore(CLUSTER)
        self.weeks.mark_read()  # The history is empty.
        self.journal = JournalHistory(CLUSTER)
        self.journal.mark_read()
        self.registry: CollectorRegistry = make_registry(self.board, self.quotas, mutations=self.mutations)
        known = (make_token(READ_TOKEN, "grafana", ApiRole.READ), make_token(OPERATE_TOKEN, "kim", ApiRole.OPERATE))
        self.state = ApiState(
            self.observers,
            self.quotas,
            self.plans,
            self.mutations,
            lag=self.lag,
            weeks=self.weeks,
            cordons=self.cordons,
            journal=self.journal,
        )
        self.app = make_app(
            self.state, self.registry, 5.0, self.clock,
            tokens=Tokens(known if tokens else (), verifier=verifier), order_service=self.order_service,
            plan_service=self.plan_service if plans else None, reads=reads, orders=orders,
            monotonic=self.clock,
        )  # fmt: skip
        self.http = TestClient(self.app, base_url="http://127.0.0.1")

    def cycle(
        self,
        *decisions: Decision,
        cluster: LiveCluster | None = None,
        memory: Memory = MEMORY,
        orders: Orders | None = None,
        **changes: Any,
    ) -> Observation:
        seen = observation(cluster or live(), **changes)
        seen = replace(seen, orders=orders or self.order_service.orders)
        self.observers.record_cycle(seen, memory, decisions or (RAISE, WELL))
        return seen

    def get(self, path: str, who: str | None = READ_TOKEN) -> Any:
        return self.http.get(path, headers=bearer(who))

    def post(self, path: str, body: Mapping[str, Any] | None = None, who: str | None = OPERATE_TOKEN) -> Any:
        return self.http.post(path, json=body, headers=bearer(who))

    def delete(self, path: str, who: str | None = OPERATE_TOKEN) -> Any:
        return self.http.delete(path, headers=bearer(who))


def bearer(secret: str | None) -> dict[str, str]:
    return {} if secret is None else {"Authorization": f"Bearer {secret}"}


def entry(
    kind: str, decision: Decision = RAISE, at_ms: int = NOW_MS, *, failure: str | None = None, **more: Any
) -> Entry:
    return entry_of(kind, decision, at_ms, failure=failure, **more)


def many_brokers(count: int) -> tuple[LiveCluster, dict[str, Any]]:
    """Returns a cluster in which every broker is a source and a destination, and arguments for ``observation``."""
    sides = [(broker, side) for broker in range(1, count + 1) for side in Side]
    cluster = live(dict.fromkeys(sides, 10 * MB), brokers=range(1, count + 1))
    signals = [move_signal(broker, side) for broker, side in sides]
    brokers = [broker_signal(broker, leader=9 * MB, follower=8 * MB) for broker in range(1, count + 1)]
    return cluster, {"signals": signals, "brokers": brokers}
