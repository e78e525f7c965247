"""Orders over HTTP: rights, refusals and their texts, and the record of an order."""

from __future__ import annotations

from typing import Any

import pytest
from api_rig import MEMORY, OPERATE_TOKEN, READ_TOKEN, Rig
from tuner_cases import NOW_MS, SOURCE, TARGET, F, L

from tuner.api.orders_api import end_override_change, override_change, pause_change, release_change, resume_change
from tuner.api.status_store import STANDBY_REASON
from tuner.core.cluster import ClusterUnreadable, Observation
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.throttle_limits import MB
from tuner.journal.order_records import decode_orders, encode_orders

ORDERS = [
    ("pause", {}),
    ("resume", {}),
    ("release", {}),
    ("override", {"broker": 1, "rate_bytes_per_s": 5 * MB, "for_s": 60}),
]
BY_KIM = "kim over HTTP from testclient, 2023-11-14 22:13:20 UTC"


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.cycle()
    return made


@pytest.mark.parametrize(("name", "body"), ORDERS)
def test_order_requires_operate_role(rig: Rig, name: str, body: dict[str, Any]) -> None:
    for who, status in ((None, 401), ("wrong-0123456789abcdef", 401), (READ_TOKEN, 403)):
        answer = rig.post(f"/api/v1/{name}", body, who)
        assert answer.status_code == status, answer.text
    assert answer.json() == {"detail": "the token of grafana may only read: an order needs the role operate"}
    assert rig.order_service.orders == Orders()
    assert rig.post(f"/api/v1/{name}", body).status_code == 202
    assert rig.order_service.orders.at_ms == NOW_MS


def test_pause_is_recorded_with_caller_until_resume(rig: Rig) -> None:
    answer = rig.post("/api/v1/pause")
    assert rig.order_service.orders.pause == Pause(NOW_MS, BY_KIM)
    assert answer.json() == {
        "by": "kim over HTTP from testclient",
        "orders_at_ms": NOW_MS,
        "paused": {"since_ms": NOW_MS, "by": BY_KIM, "released": False},
        "overrides": [],
    }
    assert rig.post("/api/v1/resume").json()["paused"] is None
    assert rig.order_service.orders == Orders(NOW_MS + 1, resumed_at_ms=NOW_MS + 1, by=BY_KIM)


def test_override_covers_one_or_both_sides_until_deleted(rig: Rig) -> None:
    body = {"broker": 3, "rate_bytes_per_s": 5 * MB, "for_s": 1800}
    assert rig.post("/api/v1/override", body).status_code == 202
    said = f"{BY_KIM}, until 2023-11-14 22:43:20 UTC"
    order = Override(5 * MB, NOW_MS + 1_800_000, said)
    assert rig.order_service.orders.overrides == {(3, L): order, (3, F): order}
    rig.post("/api/v1/override", {**body, "broker": 1, "side": "leader"})
    assert rig.order_service.orders.overrides.keys() == {(1, L), (3, L), (3, F)}
    assert rig.delete("/api/v1/override/3").status_code == 202
    assert rig.order_service.orders.overrides.keys() == {(1, L)}


def test_release_ends_overrides(rig: Rig) -> None:
    rig.post("/api/v1/override", ORDERS[3][1])
    rig.post("/api/v1/release")
    assert rig.order_service.orders.overrides == {}
    assert rig.order_service.orders.pause is not None
    assert rig.order_service.orders.pause.released


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"for_s": None}, 422, "for_s: input should be a valid number"),
        ({"for_s": 0}, 422, "for_s: input should be greater than 0"),
        ({"for_s": 1e9}, 422, "for_s: input should be less than or equal to 2592000"),
        (
            {"rate_bytes_per_s": 51 * MB},
            422,
            "rate_bytes_per_s 51000000 is outside the bounds: 1 to 50000000 (50.0 MB/s, tuner.rate_bytes_per_s_max",
        ),
        ({"rate_bytes_per_s": 0}, 422, "rate_bytes_per_s 0 is outside the bounds: 1 to 50000000"),
        ({"rate_bytes_per_s": -5}, 422, "rate_bytes_per_s -5 is outside the bounds: 1 to 50000000"),
        (
            {"rate_bytes_per_s": 2**53 + 1},
            422,
            "rate_bytes_per_s of 16 digits is outside the bounds: 1 to 50000000 (50.0 MB/s, tuner.rate_bytes_per_s_max",
        ),
        ({"rate_bytes_per_s": -(10**300)}, 422, "rate_bytes_per_s of 301 digits is outside the bounds: 1 to 50000000"),
        ({"rate_bytes_per_s": "50MB"}, 422, "rate_bytes_per_s: input should be a valid integer"),
        ({"broker": 7}, 404, "broker 7 is not alive; alive are 1, 2, 3"),
        ({"side": "both"}, 422, "side: input should be 'leader' or 'follower'"),
        ({"for": "30m"}, 422, "for is unknown"),
    ],
)
def test_invalid_override_is_refused_and_not_recorded(
    rig: Rig, changes: dict[str, Any], status: int, said: str
) -> None:
    answer = rig.post("/api/v1/override", {**ORDERS[3][1], **changes})
    assert (answer.status_code, answer.json()["detail"][: len(said)]) == (status, said)
    assert rig.order_service.orders == Orders()


def test_override_without_duration_is_refused(rig: Rig) -> None:
    answer = rig.post("/api/v1/override", {"broker": 1, "rate_bytes_per_s": 5 * MB})
    assert (answer.status_code, answer.json()) == (422, {"detail": "for_s is missing"})


def test_override_of_missing_broker_can_be_deleted(rig: Rig) -> None:
    order = Override(5 * MB, NOW_MS + 60_000, "kim")
    rig.order_service.orders = Orders(5, overrides={(9, L): order, (1, L): order})
    rig.cycle()
    assert rig.delete("/api/v1/override/9").status_code == 202
    assert rig.order_service.orders.overrides.keys() == {(1, L)}
    assert rig.delete("/api/v1/override/8").status_code == 404


def test_standby_tuner_refuses_orders(rig: Rig) -> None:
    rig.board.become_standby()
    answer = rig.post("/api/v1/pause")
    assert answer.status_code == 409
    assert answer.json()["detail"].startswith(
        f"{STANDBY_REASON}: give the order to the tuner that acts, or use `rheostat pause`"
    )
    assert rig.order_service.orders == Orders()


def test_unrecorded_order_is_refused_with_its_reason(rig: Rig) -> None:
    rig.order_service.away = True
    assert rig.post("/api/v1/pause").status_code == 503
    rig.order_service.away = False
    rig.clock.now_s += 50
    assert rig.post("/api/v1/pause").json() == {
        "detail": "no cycle has ended for 50 s, so an order would not be acknowledged"
    }
    rig.observers.record_cycle(Observation(NOW_MS, ClusterUnreadable("away")), MEMORY, ())
    answer = rig.post("/api/v1/override", ORDERS[3][1])
    assert answer.json() == {"detail": "it is unknown which brokers are alive: the cluster cannot be read: away"}
    assert rig.order_service.orders == Orders()


def test_order_limit_of_caller_does_not_limit_reads(rig: Rig) -> None:
    answers = [rig.post("/api/v1/pause").status_code for _ in range(12)]
    assert answers == [202] * 10 + [429] * 2
    assert rig.get("/api/v1/status", OPERATE_TOKEN).status_code == 200
    rig.clock.now_s += 2
    assert rig.post("/api/v1/resume").status_code == 202


def test_order_is_logged_with_caller_and_without_token(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    rig.post("/api/v1/pause")
    said = capsys.readouterr()
    assert "kim over HTTP" in said.out + said.err
    assert OPERATE_TOKEN not in said.out + said.err


def test_order_change_keeps_active_orders_and_drops_expired_ones() -> None:
    holds, over = Override(1, NOW_MS + 1, "li"), Override(1, NOW_MS, "li")
    known = Orders(5, Pause(4, "li"), 3, {SOURCE: holds, TARGET: over})
    changed = override_change({(2, L): 7}, 10.0, "kim")(known, NOW_MS)
    assert changed.overrides.keys() == {SOURCE, (2, L)}
    assert (changed.pause, changed.resumed_at_ms) == (known.pause, 3)
    assert end_override_change(1, "kim")(known, NOW_MS).overrides == {}
    assert pause_change("kim")(known, NOW_MS).overrides == known.overrides
    assert resume_change("kim")(known, NOW_MS).resumed_at_ms == NOW_MS
    assert release_change("kim")(known, NOW_MS).overrides == {}
    assert decode_orders(encode_orders(changed)) == changed
