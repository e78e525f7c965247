"""The status store has the values of the last cycle, and nothing that no longer exists."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tuner_cases import (
    CLUSTER,
    LIMITS,
    NOW_MS,
    OWN_LISTS,
    SOURCE,
    STALLED,
    TARGET,
    F,
    L,
    broker_signal,
    live,
    move,
    move_signal,
    observation,
    owned,
)

from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.api.api_state import ApiState
from tuner.api.health import TunerHealth
from tuner.api.metrics import make_registry
from tuner.api.observers import Observers
from tuner.api.quota_status_store import TENANTS_NAMED_MAX, QuotaCollector, QuotaStatusStore
from tuner.api.server import make_app
from tuner.api.status_store import RECENT_EVENTS_MAX, StatusStore
from tuner.control.mutation_quota.decision import HoldQuota, QuotaReason, TenantShare
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.policy import QuotaStep
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.decision import ClearLists, Decision, Hold, Reason, SetRate
from tuner.control.throttle.state import Memory, StallState
from tuner.core.cluster import ClusterUnreadable, LiveCluster, Observation, PartitionMove, RateSetting, Setpoint
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.throttle_limits import MB

SET = SetRate(*SOURCE, 10 * MB, 50 * MB, Reason.STALLED_THROTTLE_BOUND, "raise it")
MEMORY = Memory(stalls={3: STALLED}, owned={SOURCE: owned(None, 50 * MB)})


class Clock:
    def __init__(self) -> None:
        self.now_s = NOW_MS / 1000

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def board(clock: Clock) -> StatusStore:
    made = StatusStore(CLUSTER, LIMITS, dry_run=False, wall_clock=clock)
    made.become_active()
    return made


def hold(text: str = "well", reason: Reason = Reason.PROGRESSING) -> Hold:
    return Hold(*SOURCE, reason, text)


def series(board: StatusStore, name: str) -> dict[tuple[str, ...], float]:
    """Label values but the cluster's → value."""
    found = {}
    for family in make_registry(board, QuotaStatusStore(board.cluster)).collect():
        for sample in family.samples:
            if sample.name == name:
                assert sample.labels.get("cluster", CLUSTER) == CLUSTER
                found[tuple(v for k, v in sample.labels.items() if k != "cluster")] = sample.value
    return found


def seen(board: StatusStore, *decisions: Decision, memory: Memory = MEMORY, **changes: Any) -> None:
    board.record_cycle(observation(live(), **changes), memory, decisions)


# -- metrics -----------------------------------------------------------------------------------------------------------


def test_steered_side_exports_setpoint_and_no_headroom(board: StatusStore) -> None:
    seen(board, courses={SOURCE: Setpoint(12 * MB), TARGET: Setpoint(5 * MB, no_headroom=True)})
    assert series(board, "rheostat_setpoint_bytes_per_second") == {
        ("1", "leader"): 12 * MB,
        ("3", "follower"): 5 * MB,
    }
    assert series(board, "rheostat_throttle_no_headroom") == {("1", "leader"): 0.0, ("3", "follower"): 1.0}
    seen(board)
    assert series(board, "rheostat_setpoint_bytes_per_second") == {}


def test_cycle_exports_measured_and_decided_values(board: StatusStore) -> None:
    seen(board, SET, brokers=[broker_signal(1, leader=9.5 * MB, p99=12.5), broker_signal(3, follower=6 * MB, age_s=4)])
    assert series(board, "rheostat_throttle_rate_bytes_per_second") == {("1", "leader"): 1e7, ("3", "follower"): 1e7}
    assert series(board, "rheostat_setpoint_bytes_per_second") == {("1", "leader"): 5e7}
    assert series(board, "rheostat_throttle_rate_max_bytes_per_second") == {(): 5e7}
    assert series(board, "rheostat_throttled_bytes_per_second") == {("1", "leader"): 9.5e6, ("3", "follower"): 6e6}
    assert series(board, "rheostat_steady_state_bytes_per_second") == {
        ("1", "leader"): 6e6,
        ("3", "follower"): 3e6,
    }
    assert series(board, "rheostat_throttle_infeasible") == {("1", "leader"): 0.0, ("3", "follower"): 0.0}
    assert series(board, "rheostat_move_remaining_bytes") == {("3",): 6e8}
    assert series(board, "rheostat_move_remaining_slope_bytes_per_second") == {("3",): -2e6}
    assert series(board, "rheostat_move_stalled") == {("3",): 1.0}
    assert series(board, "rheostat_move_stall_score_seconds") == {("3",): 20.0}
    assert series(board, "rheostat_reassigning_partitions") == {(): 1.0}
    assert series(board, "rheostat_signal_age_seconds") == {("1",): 2.0, ("3",): 4.0}
    assert series(board, "rheostat_produce_p99_seconds") == {("1",): 0.0125, ("3",): 0.009}


@pytest.mark.parametrize(("isr", "count"), [((1, 2), 0.0), ((1,), 1.0)])
def test_partitions_with_returning_replica_are_counted(board: StatusStore, isr: tuple[int, ...], count: float) -> None:
    board.record_cycle(observation(live(moves=(move(isr=isr), move(partition=1)))), MEMORY, (hold(),))
    assert series(board, "rheostat_recovering_partitions") == {(): count}


def test_recovering_replicas_are_counted_by_broker(board: StatusStore) -> None:
    recovery = PartitionMove("orders", 0, 1, (1, 2, 3), (3,), (), (1, 2), recovering=(3,))
    cluster = replace(live(moves=()), recoveries=(recovery, replace(recovery, partition=1)))
    signal = replace(move_signal(3, F), recovering_partitions=2, recovering_bytes=7e8)
    board.record_cycle(observation(cluster, (signal,)), MEMORY, (hold(),))
    assert series(board, "rheostat_recovery_partitions") == {("3",): 2.0}
    assert series(board, "rheostat_recovery_remaining_bytes") == {("3",): 7e8}


def test_infeasible_metric_is_set_per_side(board: StatusStore) -> None:
    seen(board, signals=[move_signal(*SOURCE, steady_state=50 * MB), move_signal(*TARGET, steady_state=3 * MB)])
    assert series(board, "rheostat_throttle_infeasible") == {("1", "leader"): 1.0, ("3", "follower"): 0.0}


@pytest.mark.parametrize(("lost_s", "stalled"), [(0.0, False), (9.0, False), (2.0, True)])
def test_stalled_metric_follows_detector_and_not_score(board: StatusStore, lost_s: float, stalled: bool) -> None:
    seen(board, memory=Memory(stalls={3: StallState(lost_s=lost_s, stalled=stalled)}))
    assert series(board, "rheostat_move_stalled") == {("3",): float(stalled)}
    assert series(board, "rheostat_move_stall_score_seconds") == {("3",): lost_s}


def test_decisions_are_counted_by_action_and_reason(board: StatusStore) -> None:
    seen(board, hold(), SET)
    seen(board, hold())
    assert series(board, "rheostat_decisions_total") == {
        ("hold", "progressing"): 2.0,
        ("set", "stalled_throttle_bound"): 1.0,
    }


def test_failure_metric_counts_only_failed_actions(board: StatusStore) -> None:
    board.record_actions([(SET, None)])
    assert series(board, "rheostat_actuation_failures_total") == {(): 0.0}
    board.record_actions([(SET, "refused")])
    assert series(board, "rheostat_actuation_failures_total") == {(): 1.0}


def test_vanished_broker_has_no_series(board: StatusStore) -> None:
    seen(board, brokers=[broker_signal(1, leader=5 * MB), broker_signal(3, follower=5 * MB)])
    board.record_cycle(
        observation(live({SOURCE: 10 * MB}), [move_signal(*SOURCE)], [broker_signal(1, leader=5 * MB)]), Memory(), ()
    )
    for family in make_registry(board, QuotaStatusStore(board.cluster)).collect():
        assert [s for s in family.samples if s.labels.get("broker") == "3"] == [], family.name


def test_unmeasured_value_has_no_series(board: StatusStore) -> None:
    seen(
        board,
        signals=[move_signal(*TARGET, remaining=None, slope=None)],
        brokers=[broker_signal(1, p99=None)],
        memory=Memory(),
    )
    for name in (
        "rheostat_move_remaining_bytes",
        "rheostat_move_remaining_slope_bytes_per_second",
        "rheostat_steady_state_bytes_per_second",
        "rheostat_throttle_infeasible",
        "rheostat_produce_p99_seconds",
        "rheostat_throttled_bytes_per_second",
        "rheostat_move_stalled",
    ):
        assert series(board, name) == {}, name


def test_unreadable_cluster_exports_no_earlier_settings(board: StatusStore) -> None:
    seen(board, SET)
    board.record_cycle(Observation(NOW_MS, ClusterUnreadable("away")), MEMORY, ())
    assert series(board, "rheostat_throttle_rate_bytes_per_second") == {}
    assert series(board, "rheostat_reassigning_partitions") == {}
    assert series(board, "rheostat_tuner_ready") == {(): 0.0}


def test_metrics_before_first_cycle_say_not_ready(board: StatusStore) -> None:
    assert series(board, "rheostat_tuner_ready") == {(): 0.0}
    assert series(board, "rheostat_move_remaining_bytes") == {}


def test_setpoint_is_exported_while_its_ramp_runs(board: StatusStore) -> None:
    name = "rheostat_setpoint_bytes_per_second"
    seen(board, SET)
    seen(board, hold(), busy=[SOURCE])
    assert series(board, name) == {("1", "leader"): 5e7}
    seen(board, hold())
    assert series(board, name) == {}


EVERY = TopicThrottle(ThrottledReplicas(all_replicas=True), ThrottledReplicas(all_replicas=True))


@pytest.mark.parametrize(
    ("cluster", "keys"),
    [
        (live(), 0),  # Something moves.
        (live({}, moves=(), lists={}), 0),
        (live({SOURCE: 5 * MB, (2, F): 5 * MB}, moves=(), lists={}), 2),
        (live({}, moves=()), 2),  # Both lists of one topic.
        (live({SOURCE: 5 * MB}, moves=(), lists=OWN_LISTS | {"t": EVERY}), 5),
        (
            LiveCluster(frozenset({1}), rates={SOURCE: RateSetting(5 * MB, is_set_on_broker=False)}),
            1,
        ),  # For all brokers.
        (live({SOURCE: 5 * MB, (4, F): 5 * MB}, brokers=(1, 2, 3, 4)), 1),  # Broker 4 has no part in what moves.
    ],
)
def test_orphaned_throttle_settings_are_counted(board: StatusStore, cluster: LiveCluster, keys: int) -> None:
    board.record_cycle(observation(cluster), Memory(), ())
    assert series(board, "rheostat_orphaned_throttle_settings") == {(): float(keys)}


# -- ready, status, health ---------------------------------------------------------------------------------------------


def client(board: StatusStore, clock: Clock) -> TestClient:
    app = make_app(
        ApiState(Observers(board), QuotaStatusStore("lab")), make_registry(board, QuotaStatusStore("lab")), 5.0, clock
    )
    return TestClient(app, base_url="http://127.0.0.1")


def test_status_shows_operator_orders(board: StatusStore) -> None:
    order = Override(5 * MB, NOW_MS + 1, "kim@desk")
    given = Orders(NOW_MS, pause=Pause(NOW_MS, "kim@desk"), overrides={SOURCE: order})
    board.record_cycle(replace(observation(live()), orders=given), MEMORY, ())
    shown = board.snapshot().as_json()
    assert shown["paused"] == {"since_ms": NOW_MS, "by": "kim@desk", "released": False}
    assert shown["overrides"] == [
        {"broker": 1, "side": "leader", "bytes_per_s": 5 * MB, "until_ms": NOW_MS + 1, "by": "kim@desk"}
    ]


def test_standby_tuner_is_not_ready_and_exports_no_setpoint(board: StatusStore) -> None:
    seen(board, SET)
    board.become_standby()
    ready, why = board.ready()
    assert not ready
    assert why.startswith("standing by: another tuner of this cluster has the lease")
    assert series(board, "rheostat_setpoint_bytes_per_second") == {}
    assert board.cycled_at_s is None  # Else the silence of a standby would count as a hanging loop.
    board.become_active()
    assert board.ready() == (False, "the first cycle has not ended yet")


def test_readyz_names_the_missing_input(board: StatusStore, clock: Clock) -> None:
    http = client(board, clock)

    def answer() -> tuple[int, str]:
        found = http.get("/readyz")
        return found.status_code, found.text.strip()

    assert answer() == (503, "the first cycle has not ended yet")
    board.record_cycle(Observation(NOW_MS, ClusterUnreadable("no broker answers")), Memory(), ())
    assert answer() == (503, "the cluster cannot be read: no broker answers")
    seen(board, brokers=[])
    starting = "starting: no broker signal has arrived yet; the stream takes about 30 to 60 s to start, {} s so far"
    assert answer() == (503, starting.format(0))
    clock.now_s += 120
    assert answer() == (503, starting.format(120))
    clock.now_s += 1
    missing = "no broker signal has arrived yet, in 121 s: are the collector and the stream running?"
    assert answer() == (503, missing)
    clock.now_s -= 121
    seen(board, brokers=[broker_signal(1, age_s=2), broker_signal(3, age_s=90)])
    assert answer() == (200, "ready")
    clock.now_s += 14  # The newest is now 16 s old.
    late = "ready; the newest broker signal is 16 s old (limit 15 s): no rate is raised until a newer signal arrives"
    assert answer() == (200, late)
    clock.now_s += 15
    late = "the newest broker signal is 31 s old (limit 15 s): are the collector and the stream running?"
    assert answer() == (503, late)


@pytest.mark.parametrize(("silent_s", "status"), [(0, 200), (60, 200), (61, 503)])
def test_healthz_fails_after_a_minute_without_cycles(
    board: StatusStore, clock: Clock, silent_s: int, status: int
) -> None:
    seen(board)
    clock.now_s += silent_s
    assert client(board, clock).get("/healthz").status_code == status


def test_healthz_fails_on_endless_first_cycle_and_hung_standby(clock: Clock) -> None:
    board = StatusStore(CLUSTER, LIMITS, dry_run=False, wall_clock=clock)
    http = client(board, clock)

    def answer() -> tuple[int, str]:
        found = http.get("/healthz")
        return found.status_code, found.text.strip()

    clock.now_s += 3600
    assert answer() == (200, "ok"), "to wait for the cluster may take any time"
    board.become_active()
    clock.now_s += 300
    assert answer() == (200, "ok")
    clock.now_s += 1
    assert answer() == (503, "no cycle has ended for 301 s")
    seen(board)
    assert answer() == (200, "ok")
    for _ in range(12):
        board.become_standby()
        clock.now_s += 300
        assert answer() == (200, "ok"), "standby may last for any time"
    clock.now_s += 1
    assert answer() == (503, "this standby has not asked for the lease for 301 s")
    board.become_active()
    assert answer() == (200, "ok"), "time counts from the new term"


def test_readyz_for_rolling_updates_takes_a_standby(clock: Clock) -> None:
    board = StatusStore(CLUSTER, LIMITS, dry_run=False, wall_clock=clock)
    http = client(board, clock)

    def answer() -> tuple[int, int]:
        return http.get("/readyz").status_code, http.get("/readyz?standby=true").status_code

    assert answer() == (503, 503), "it has not asked for the lease"
    board.become_standby()
    assert answer() == (503, 200)
    board.become_standby("the cluster cannot be read")
    assert answer() == (503, 503), "it could not take over"
    board.become_active()
    assert answer() == (503, 503), "the first cycle has not ended"
    seen(board, brokers=[broker_signal(1, age_s=2)])
    assert answer() == (200, 200)


def test_tuner_is_ready_after_a_cycle_or_as_standby(clock: Clock) -> None:
    board = StatusStore(CLUSTER, LIMITS, dry_run=False, wall_clock=clock)
    health = TunerHealth(board, 5.0)
    assert (health.is_ready, health.fault()) == (False, None)
    board.become_standby("the cluster cannot be read")
    assert not health.is_ready
    board.become_active()
    assert not health.is_ready
    board.record_cycle(Observation(NOW_MS, ClusterUnreadable("no broker answers")), Memory(), ())
    assert health.is_ready, "it needs no signals, which another process makes"
    standby = StatusStore(CLUSTER, LIMITS, dry_run=False, wall_clock=clock)
    standby.become_standby()
    assert TunerHealth(standby, 5.0).is_ready


def test_decision_texts_of_last_cycle_only_are_remembered(board: StatusStore) -> None:
    def said(text: str) -> int:
        return sum(row["text"] == text for row in board.snapshot().recent_events)

    for number in range(200):
        gone = ClearLists(f"topic-{number}", (L,), Reason.MOVE_ENDED, f"clear {number}")
        board.record_cycle(observation(live()), MEMORY, (hold(), gone))
    assert len(board._texts) == 2
    assert said("clear 199") == 1
    assert said("well") == 0, "its line is 200 cycles old"


def test_status_shows_the_last_cycle(board: StatusStore, clock: Clock) -> None:
    seen(board, SET)
    status = client(board, clock).get("/status").json()
    assert (status["cluster"], status["ready"], status["reassigning_partitions"]) == (CLUSTER, True, 1)
    assert status["throttles"][0] == {
        "broker": 1,
        "side": "leader",
        "current_rate_bytes_per_s": 10_000_000,
        "setpoint_bytes_per_s": 50_000_000,
        "managed": True,
    }
    assert status["throttles"][1]["managed"] is False
    assert [m["remaining_bytes"] for m in status["moves"]] == [6e8, 6e8]
    assert status["stalled"] == [3]
    assert status["last_decisions"] == [
        {"at_ms": NOW_MS, "action": "set", "reason": "stalled_throttle_bound", "text": "raise it"}
    ]


def test_status_answers_before_the_first_cycle(board: StatusStore, clock: Clock) -> None:
    status = client(board, clock).get("/status").json()
    assert (status["reassigning_partitions"], status["throttles"], status["moves"]) == (None, [], [])


def test_repeated_decision_is_listed_once(board: StatusStore) -> None:
    for text in ("a", "a", "b", "b", "a"):
        seen(board, hold(text), ClearLists("t", (L,), Reason.MOVE_ENDED, "same"))
    listed = [d["text"] for d in board.snapshot().recent_events]
    assert listed == ["a", "same", "b", "a"]


def test_list_of_last_decisions_is_bounded(board: StatusStore) -> None:
    for i in range(RECENT_EVENTS_MAX + 10):
        seen(board, hold(f"text {i}"))
    listed = board.snapshot().recent_events
    assert len(listed) == RECENT_EVENTS_MAX
    assert listed[-1]["text"] == f"text {RECENT_EVENTS_MAX + 9}"


def test_metrics_page_is_prometheus_text(board: StatusStore, clock: Clock) -> None:
    seen(board, SET)
    answer = client(board, clock).get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'rheostat_move_remaining_bytes{cluster="lab",broker="3"} 600000000' in answer.text.splitlines()


# -- what is wrong today -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rheostat_move_remaining_bytes", "rheostat_throttle_infeasible"])
def test_ended_move_has_no_series(board: StatusStore, name: str) -> None:
    """The lists are gone too, so no newer signal comes: the last one dates from the move."""
    last = [move_signal(*SOURCE, steady_state=55 * MB, age_s=120), move_signal(*TARGET, age_s=120)]
    board.record_cycle(observation(live({}, moves=(), lists={}), last), Memory(), ())
    assert series(board, name) == {}


def test_scrape_iterates_decisions_under_the_lock(board: StatusStore) -> None:
    """Without the lock a new reason during the scrape raises: the dictionary changed size during iteration."""
    walks = []

    class Watched(Counter[tuple[str, str]]):
        def items(self) -> Any:
            walks.append(board._lock.locked())
            return super().items()

        def __iter__(self) -> Any:
            walks.append(board._lock.locked())
            return super().__iter__()

    seen(board, hold())
    board.decision_counts = Watched(board.decision_counts)
    walks.clear()
    assert series(board, "rheostat_decisions_total") == {("hold", "progressing"): 1.0}
    assert all(walks)


# -- mutation quotas ------------------------------------------------------------------------------------------------------


def held(number: int) -> TenantShare:
    return TenantShare(Tenant(f"user-{number:03}"), number, True, 2.0, 2.0, QuotaReason.FAIR_SHARE, None)


def test_busiest_throttled_tenants_are_named_and_all_counted() -> None:
    quotas = QuotaStatusStore("lab")
    rows = tuple(held(number) for number in range(TENANTS_NAMED_MAX + 30))
    quotas.publish(QuotaView(NOW_MS, {}), QuotaStep(MutationMemory(), (), rows), MutationMemory())
    found = {family.name: family.samples for family in QuotaCollector(quotas).collect()}
    named = {sample.labels["user"] for sample in found["rheostat_tenant_quota_exhausted"]}
    assert named == {f"user-{number:03}" for number in range(30, TENANTS_NAMED_MAX + 30)}
    assert found["rheostat_tenants_throttled"][0].value == TENANTS_NAMED_MAX + 30


def test_quota_failure_counter_continues_in_next_term() -> None:
    quotas = QuotaStatusStore("lab")
    decided = QuotaStep(MutationMemory(), (HoldQuota(None, QuotaReason.PAUSED, "paused"),), ())

    def told() -> float:
        quotas.publish(QuotaView(NOW_MS, {}), decided, MutationMemory())
        found = {family.name: family.samples for family in QuotaCollector(quotas).collect()}
        return found["rheostat_quota_failures"][0].value

    quotas.record_failures(2)
    assert told() == 2
    quotas.clear()
    assert told() == 2, "the counter survives the term"
    quotas.record_failures(1)
    assert told() == 3


def test_unthrottled_tenants_and_standby_have_no_quota_series() -> None:
    quotas = QuotaStatusStore("lab")
    quotas.publish(QuotaView(NOW_MS, {}), QuotaStep(MutationMemory(), (), (held(1),)), MutationMemory())
    quotas.publish(QuotaView(NOW_MS, {}), QuotaStep(MutationMemory(), (), ()), MutationMemory())
    found = {family.name: family.samples for family in QuotaCollector(quotas).collect()}
    assert found["rheostat_tenant_quota_exhausted"] == []
    quotas.clear()
    assert list(QuotaCollector(quotas).collect()) == []
    assert quotas.as_json() is None
