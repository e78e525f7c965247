"""The read routes: their contents, the rights of callers, and the texts of refusals."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from api_rig import MEMORY, OPERATE_TOKEN, Rig, many_brokers
from tuner_cases import NOW_MS, SOURCE, TARGET, live, move, move_signal

from tuner.api.responses import SECURITY_HEADERS
from tuner.control.mutation_quota.decision import QuotaReason, TenantShare, TotalRateReport
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.policy import QuotaStep
from tuner.control.mutation_quota.state import MutationMemory, TotalRate
from tuner.control.throttle.state import Memory, StallState
from tuner.core.cluster import ClusterUnreadable, Observation, Setpoint
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.throttle_limits import MB

READS = [
    "status",
    "moves",
    "moves/partitions",
    "plans",
    "brokers",
    "brokers/1",
    "brokers/1/week",
    "brokers/1/history",
    "plan-history",
    "replication",
    "tenants",
    "mutations",
    "decisions",
    "reasons",
    "openapi.json",
]


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.cycle()
    return made


# -- who may -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", READS)
def test_read_route_needs_a_token_of_any_role(rig: Rig, path: str) -> None:
    assert rig.get(f"/api/v1/{path}").status_code == 200
    assert rig.get(f"/api/v1/{path}", OPERATE_TOKEN).status_code == 200
    without = rig.get(f"/api/v1/{path}", None)
    assert (without.status_code, without.headers["www-authenticate"]) == (401, "Bearer")
    assert rig.get(f"/api/v1/{path}", "wrong-0123456789abcdef").json() == {
        "detail": "this token is unknown to the tuner"
    }


def test_wrong_tokens_are_limited_and_right_one_still_passes(rig: Rig) -> None:
    answers = [rig.get("/api/v1/status", f"wrong-0123456789abc-{n}").status_code for n in range(12)]
    assert answers == [401] * 10 + [429] * 2
    assert rig.get("/api/v1/status").status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/-/healthy", "/readyz", "/-/ready"])
def test_probes_need_no_token(rig: Rig, path: str) -> None:
    assert rig.get(path, None).status_code == 200


@pytest.mark.parametrize("path", ["/metrics", "/status"])
def test_remote_metrics_and_status_need_a_token(rig: Rig, path: str) -> None:
    assert rig.get(path, None).status_code == 401
    assert rig.get(path).status_code == 200


def test_local_metrics_need_no_token() -> None:
    from fastapi.testclient import TestClient

    rig = Rig()
    rig.cycle()
    here = TestClient(rig.app, base_url="http://127.0.0.1", client=("127.0.0.1", 50000))
    assert here.get("/metrics").status_code == 200
    assert here.get("/status").status_code == 401


def test_api_without_tokens_allows_reads_and_refuses_orders() -> None:
    rig = Rig(tokens=False)
    rig.cycle()
    assert rig.get("/api/v1/status", None).json()["role"] == "read"
    answer = rig.post("/api/v1/pause", who=None)
    assert answer.status_code == 403
    assert "tuner.http.operate_token" in answer.json()["detail"]
    assert rig.order_service.orders == Orders()


def test_every_response_has_security_headers(rig: Rig) -> None:
    for path in ("/api/v1/status", "/nowhere", "/metrics", "/healthz", "/"):
        headers = rig.get(path).headers
        assert {name: headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS, path
        assert "cache-control" in headers
    assert "unsafe" not in SECURITY_HEADERS["content-security-policy"]


def test_wrong_token_is_logged_but_not_shown(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    rig.get("/api/v1/status", "wrong-0123456789abcdef")
    said = capsys.readouterr()
    assert "an HTTP request with a wrong token was refused" in said.out + said.err
    assert "0123456789abcdef" not in said.out + said.err


# -- what they say -----------------------------------------------------------------------------------------------------


def test_status_shows_moves_objective_throttles_and_next_steps(rig: Rig) -> None:
    found = rig.get("/api/v1/status").json()
    assert found["headline"] == (
        "1 partition is moving onto broker 3; 600 MB remain. The move onto broker 3 has stalled."
    )
    assert (found["cluster"], found["ready"], found["role"], found["active"]) == ("lab", True, "read", True)
    assert (found["remaining_bytes"], found["eta_s"], found["stalled_brokers"]) == (600 * MB, None, [3])
    assert (found["produce_p99_ms_max"], found["objective"]["latency_ms"]) == (9.0, 30.0)
    assert (found["rate_bytes_per_s_max"], found["throttles"], found["throttles_managed"]) == (50 * MB, 2, 1)
    assert found["orders_acknowledged_at_ms"] == 7
    assert found["next"][0].startswith("In progress: broker 1 leader throttle 10.0 MB/s → 50.0 MB/s")


def test_status_of_unreadable_cluster_says_so(rig: Rig) -> None:
    rig.observers.record_cycle(Observation(NOW_MS, ClusterUnreadable("away")), Memory(), ())
    found = rig.get("/api/v1/status").json()
    assert (found["headline"], found["moving_partitions"], found["ready"]) == (
        "The cluster cannot be read.",
        None,
        False,
    )
    assert found["next"] == ["The tuner waits until the cluster can be read, and changes nothing until then."]


def test_headline_names_a_move_without_measurements(rig: Rig) -> None:
    rig.cycle(memory=Memory(), signals=[], brokers=[])
    assert rig.get("/api/v1/status").json()["headline"] == "1 partition is moving onto broker 3."


def test_late_measurement_of_ended_move_is_not_shown(rig: Rig) -> None:
    """Signals arrive seconds after the snapshot that shows the end of the move."""
    rig.cycle(cluster=live(moves=()), memory=Memory(), signals=[move_signal(*TARGET)])
    found = rig.get("/api/v1/status").json()
    assert (found["headline"], found["remaining_bytes"], found["eta_s"]) == ("Nothing is moving.", None, None)
    assert rig.get("/api/v1/moves").json()["moves"] == []


def test_move_state_on_page_follows_its_slope(rig: Rig) -> None:
    for slope, said in ((-2.0 * MB, "progressing"), (0.3 * MB, "falls behind"), (None, "progressing")):
        rig.cycle(memory=Memory(), signals=[move_signal(*TARGET, slope=slope)])
        assert f'<td class="state">{said}</td>' in rig.get("/page/moves").text


def test_standby_tuner_shows_no_moves(rig: Rig) -> None:
    rig.board.become_standby()
    found = rig.get("/api/v1/status").json()
    assert (found["active"], found["moving_partitions"], found["last_cycle_at_ms"]) == (False, None, None)
    assert rig.get("/api/v1/moves").json()["moves"] == []


def test_move_has_done_ratio_and_end_unless_stalled(rig: Rig) -> None:
    rig.cycle(signals=[move_signal(*SOURCE), move_signal(*TARGET, remaining=150 * MB)])
    only = rig.get("/api/v1/moves").json()["moves"][0]
    assert (only["broker"], only["remaining_bytes"], only["done_ratio"], only["eta_s"]) == (3, 150 * MB, 0.75, None)
    assert (only["stalled"], only["progress_lost_s"], only["since_ms"]) == (True, 20.0, NOW_MS)
    assert only["reason"] == "progressing"
    rig.cycle(memory=Memory(), signals=[move_signal(*SOURCE), move_signal(*TARGET, remaining=150 * MB)])
    assert rig.get("/api/v1/moves").json()["moves"][0]["eta_s"] == 75.0


def test_forecast_changes_the_expected_end_everywhere(rig: Rig) -> None:
    """The destination needs 75 s at its current rate. The leader's forecast matters only where it ends later."""
    signals = [move_signal(*SOURCE, remaining=150 * MB), move_signal(*TARGET, remaining=150 * MB)]
    for ratios, move_s, all_s in (
        ({TARGET: 2.0}, 150.0, 150.0),
        ({SOURCE: 3.0}, 75.0, 225.0),
        ({SOURCE: 0.5}, 75.0, 75.0),
    ):
        rig.cycle(memory=Memory(), signals=signals, eta_ratios=ratios)
        assert rig.get("/api/v1/moves").json()["moves"][0]["eta_s"] == move_s
        assert rig.get("/api/v1/status").json()["eta_s"] == all_s
        assert rig.get("/status").json()["ends_at_ms"] == NOW_MS + 1000 * all_s


def test_move_with_growing_remainder_has_no_end(rig: Rig) -> None:
    rig.cycle(memory=Memory(), signals=[move_signal(*TARGET, remaining=0.0, slope=0.0)])
    assert rig.get("/api/v1/moves").json()["moves"][0]["eta_s"] == 0.0
    rig.cycle(memory=Memory(), signals=[move_signal(*TARGET, slope=1 * MB)])
    assert rig.get("/api/v1/moves").json()["moves"][0]["eta_s"] is None
    assert (
        rig.get("/api/v1/status").json()["headline"].endswith("600 MB remain, and the expected end is not known yet.")
    )


def test_moving_partitions_are_paged_and_filtered_by_topic(rig: Rig) -> None:
    rig.cycle(cluster=live(moves=(*(move(partition=p) for p in range(5)), move("other"))))
    found = rig.get("/api/v1/moves/partitions?limit=2&offset=2").json()
    assert [row["partition"] for row in found["partitions"]] == [2, 3]
    assert (found["total"], found["next_offset"]) == (6, 4)
    assert rig.get("/api/v1/moves/partitions?topic=other").json()["total"] == 1
    assert rig.get("/api/v1/moves/partitions?offset=4").json()["next_offset"] is None


def test_broker_shows_current_measured_and_minimum_rates(rig: Rig) -> None:
    found = rig.get("/api/v1/brokers/1").json()
    leader = found["sides"][0]
    assert (leader["side"], leader["current_rate_bytes_per_s"], leader["setpoint_bytes_per_s"]) == (
        "leader",
        10 * MB,
        50 * MB,
    )
    assert (leader["throttled_bytes_per_s"], leader["steady_state_bytes_per_s"], leader["min_rate_bytes_per_s"]) == (
        9.5 * MB,
        6 * MB,
        7.2 * MB,
    )
    assert (leader["managed"], leader["infeasible"], leader["reason"]) == (True, False, "stalled_throttle_bound")
    assert found["sides"][1]["current_rate_bytes_per_s"] is None
    assert (found["produce_p99_ms"], found["alive"]) == (9.0, True)


@pytest.mark.parametrize(("meant", "floor"), [(50 * MB, 7.2 * MB), (6.5 * MB, 6.5 * MB)])
def test_minimum_rate_lowered_by_setpoint_is_shown(rig: Rig, meant: float, floor: float) -> None:
    rig.cycle(courses={SOURCE: Setpoint(meant)})
    assert rig.get("/api/v1/brokers/1").json()["sides"][0]["min_rate_bytes_per_s"] == floor


def test_missing_broker_is_404_with_live_brokers(rig: Rig) -> None:
    answer = rig.get("/api/v1/brokers/7")
    assert (answer.status_code, answer.json()) == (404, {"detail": "broker 7 is not alive; alive are 1, 2, 3"})


def test_brokers_with_moves_come_first(rig: Rig) -> None:
    assert [row["broker"] for row in rig.get("/api/v1/brokers").json()["brokers"]] == [3, 1, 2]
    assert [row["broker"] for row in rig.get("/api/v1/brokers?moving=true").json()["brokers"]] == [3, 1]


def test_orders_are_shown_until_they_expire(rig: Rig) -> None:
    over, holds = Override(5 * MB, NOW_MS, "kim"), Override(6 * MB, NOW_MS + 60_000, "kim")
    rig.cycle(orders=Orders(9, Pause(NOW_MS, "li"), overrides={SOURCE: holds, TARGET: over}))
    found = rig.get("/api/v1/status").json()
    assert found["paused"] == {"since_ms": NOW_MS, "by": "li", "released": False}
    assert found["overrides"] == [
        {"broker": 1, "side": "leader", "rate_bytes_per_s": 6 * MB, "until_ms": NOW_MS + 60_000, "by": "kim"}
    ]
    sides = rig.get("/api/v1/brokers/1").json()["sides"]
    assert sides[0]["overridden_until_ms"] == NOW_MS + 60_000


def test_paused_status_shows_the_step_after_resume(rig: Rig) -> None:
    stalled = Memory(
        stalls={3: StallState(lost_s=20, stalled=True, stalled_since_ms=1, judged_until_ms=NOW_MS, observed_s=60)}
    )
    rig.cycle(memory=stalled, orders=Orders(9, Pause(NOW_MS, "li")))
    said = rig.get("/api/v1/status").json()["next"]
    assert said[0] == "The tuner changes nothing, and waits for an operator to resume."
    assert any(text.startswith("After that: broker 1 leader throttle 10.0 MB/s →") for text in said)


def test_status_announces_cleanup_after_the_moves(rig: Rig) -> None:
    seen = {("orders", 0): frozenset({1, 2, 3})}
    rig.cycle(memory=replace(MEMORY, throttled=True, moving_replicas=seen, preexisting_lists=frozenset()))
    assert rig.get("/api/v1/status").json()["next"][-1] == (
        "When the moves have ended: 2 throttles removed, the throttled-replica lists of 1 topic cleared."
    )


def test_response_is_reused_within_a_cycle(rig: Rig) -> None:
    first = rig.get("/api/v1/brokers").content
    rig.board._observation = None  # A change without a notification does not show before the next cycle.
    assert rig.get("/api/v1/brokers").content == first
    rig.cycle(cluster=live({SOURCE: 20 * MB}))
    assert rig.get("/api/v1/brokers").content != first


def test_history_has_gaps_for_missing_measurements(rig: Rig) -> None:
    rig.cycle(brokers=[])
    found = rig.get("/api/v1/history?broker=1&broker=9").json()
    assert list(found["brokers"]) == ["1"]
    assert found["brokers"]["1"]["leader_throttled_bytes_per_s"] == [9.5 * MB, None]
    assert found["brokers"]["1"]["leader_current_rate_bytes_per_s"] == [10 * MB, 10 * MB]
    assert found["rate_bytes_per_s_max"] == 50 * MB
    assert rig.get(f"/api/v1/history?broker=1&since_ms={NOW_MS}").json()["times_ms"] == []


def test_throttled_tenants_come_first(rig: Rig) -> None:
    assert rig.get("/api/v1/tenants").json()["enabled"] is False
    rows = tuple(
        TenantShare(Tenant(name), rate, backlogged, 2.0, 2.0, QuotaReason.FAIR_SHARE, None)
        for name, rate, backlogged in (("ann", 9.0, False), ("bob", 1.0, True), ("cy", 5.0, False))
    )
    said = TotalRateReport(10.0, 0.8, QuotaReason.AT_CAP, "at the cap")
    rig.quotas.publish(
        QuotaView(NOW_MS, {}), QuotaStep(MutationMemory(), (said,), rows), MutationMemory(TotalRate(10.0))
    )
    rig.cycle()
    found = rig.get("/api/v1/tenants?limit=2").json()
    assert [row["user"] for row in found["tenants"]] == ["bob", "ann"]
    assert (found["enabled"], found["total"], found["next_offset"], found["total_text"]) == (True, 3, 2, "at the cap")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("brokers/x", "broker: input should be a valid integer"),
        ("brokers?limit=0", "limit: input should be greater than or equal to 1"),
        ("history", "broker is missing"),
        ("decisions?side=up", "side: input should be 'leader' or 'follower'"),
    ],
)
def test_invalid_parameter_is_refused_with_its_name(rig: Rig, path: str, said: str) -> None:
    answer = rig.get(f"/api/v1/{path}")
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(said)


def test_thousand_brokers_are_paged_with_small_pages(rig: Rig) -> None:
    cluster, seen = many_brokers(1000)
    rig.cycle(cluster=cluster, **seen)
    found = rig.get("/api/v1/brokers")
    assert (found.json()["total"], found.json()["next_offset"]) == (1000, 100)
    assert len(found.content) <= 105_000
    assert len(rig.get("/api/v1/status").content) <= 100_000
    assert len(rig.get("/api/v1/moves").content) <= 100_000
    assert json.loads(rig.get("/api/v1/brokers?limit=1000").content)["next_offset"] is None
