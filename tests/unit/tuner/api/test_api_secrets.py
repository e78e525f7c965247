"""No response, event or log line holds a token, for any caller, route and malformed request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from api_rig import MEMORY, OPERATE_TOKEN, READ_TOKEN, Rig, bearer, entry
from tuner_cases import live, observation

from tuner.api.status_store import THROTTLES
from tuner.core.cluster import ClusterUnreadable
from tuner.core.operator_orders import Orders
from tuner.core.throttle_limits import MB

WRONG_TOKEN = "wrong-0123456789abcdef"
SECRETS = (READ_TOKEN, OPERATE_TOKEN, WRONG_TOKEN)
READS = [
    "/", "/status", "/metrics", "/healthz", "/readyz", "/nowhere", "/static/page.js", "/static/nothing.js",
    *(f"/api/v1/{path}" for path in (
        "status", "moves", "moves/partitions", "plans", "brokers", "brokers/1", "brokers/77", "brokers/x", "replication", "tenants", "mutations",
        "decisions",
        "decisions/1", "decisions/x", "reasons", "openapi.json", "history?broker=1", "history", "moves?limit=0",
    )),
    *(f"/page/{part}" for part in (
        "now", "moves", "plans", "brokers", "replication", "decisions", "controller", "tenants", "brokers?find=x", "decisions?broker=x",
    )),
]  # fmt: skip
OVERRIDE = {"broker": 1, "rate_bytes_per_s": 5 * MB, "for_s": 60}
ORDERS: list[tuple[str, str, Any]] = [
    ("POST", "pause", None), ("POST", "resume", {}), ("POST", "release", {}), ("POST", "override", OVERRIDE),
    ("DELETE", "override/1", None), ("DELETE", "override/77", None), ("DELETE", "override/x", None),
    ("POST", "override", OVERRIDE | {"rate_bytes_per_s": 99_999 * MB}), ("POST", "override", OVERRIDE | {"broker": 77}),
    ("POST", "override", {}), ("POST", "pause", {"x": 1}), ("GET", "pause", None), ("POST", "status", {}),
]  # fmt: skip


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.observers.decisions.add([entry("intent")])
    return made


def asked(rig: Rig, method: str, path: str, who: str | None, **more: Any) -> Any:
    """In its own time, so that it is looked at and not refused for what was asked before."""
    rig.clock.now_s += 10
    rig.cycle()
    return rig.http.request(method, path, headers=bearer(who), **more)


def holds_none(answer: Any, what: object) -> int:
    for secret in SECRETS:
        assert secret not in answer.text, what
        assert secret not in str(answer.headers), what
    return int(answer.status_code)


def all_callers() -> Iterator[str | None]:
    yield from (*SECRETS, None)


@pytest.mark.parametrize("what", ["it waits", "the cluster is away", "a cycle fails", "a controller rests"])
def test_readyz_names_hosts_and_errors_only_with_a_token(rig: Rig, what: str) -> None:
    why = "NoBrokersAvailable: broker-1.internal:9092 does not answer"
    rig.cycle()
    if what == "it waits":
        rig.board.become_standby(why)
    elif what == "the cluster is away":
        rig.observers.record_cycle(replace(observation(live()), live=ClusterUnreadable(why)), MEMORY, ())
    elif what == "a cycle fails":
        rig.board.cycle_failed(THROTTLES, why, 0.0)
    else:
        rig.board.suspended_controllers["plans"] = why
    for path in ("/readyz", "/-/ready"):
        open_to_all, shown = rig.get(path, None), rig.get(path, READ_TOKEN)
        assert open_to_all.status_code == shown.status_code
        assert "broker-1" not in open_to_all.text
        assert "broker-1" not in rig.get(path, WRONG_TOKEN).text
        assert why in shown.text


def test_readyz_ignores_tokens_after_ten_wrong_ones(rig: Rig) -> None:
    rig.board.become_standby("the journal has no producer")
    for _ in range(10):
        assert rig.get("/readyz", WRONG_TOKEN).text == "the tuner cannot act yet\n"
    assert rig.get("/readyz", READ_TOKEN).text == "the tuner cannot act yet\n", (
        "after ten wrong ones no token is looked at"
    )
    rig.clock.now_s += 60
    assert rig.get("/readyz", READ_TOKEN).text == "the journal has no producer\n"


def test_no_read_response_holds_a_token(rig: Rig) -> None:
    came = set()
    for who in all_callers():
        for path in READS:
            came.add(holds_none(asked(rig, "GET", path, who), (path, who)))
        came.add(holds_none(asked(rig, "GET", "/api/v1/events", who), who) if who in (WRONG_TOKEN, None) else 200)
    assert came == {200, 401, 404, 422, 503}  # The signals of the rig do not grow younger.


def test_no_order_response_event_or_log_holds_a_token(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    box = rig.observers.hub.subscribe(lambda: None)
    assert box is not None
    came, told = set(), b""
    for who in all_callers():
        for method, path, body in ORDERS:
            came.add(holds_none(asked(rig, method, f"/api/v1/{path}", who, json=body), (method, path, who)))
            told += box.drain()
        came.add(holds_none(asked(rig, "POST", "/api/v1/pause", who, content=b"x" * 20_000), who))
    # Too often, on stand-by, and where it does not come on record.
    for _ in range(20):
        came.add(holds_none(rig.post("/api/v1/pause"), "many"))
    rig.clock.now_s += 20
    rig.cycle()
    rig.order_service.away = True
    came.add(holds_none(rig.post("/api/v1/pause"), "away"))
    rig.board.become_standby()
    came.add(holds_none(rig.post("/api/v1/pause"), "standing by"))
    assert came == {202, 401, 403, 404, 405, 409, 413, 422, 429, 503}
    assert b"event: ordered" in told
    assert not any(secret.encode() in told for secret in SECRETS)
    # The orders are told to all who read, with who gave them.
    rig.order_service.away = False
    rig.board.become_active()
    rig.cycle()
    for path in ("/api/v1/status", "/page/now", "/page/brokers", "/status"):
        holds_none(asked(rig, "GET", path, READ_TOKEN), path)
    said = capsys.readouterr()
    assert "order was recorded over HTTP" in said.out + said.err
    assert not any(secret in said.out + said.err for secret in SECRETS)


@pytest.mark.parametrize("secret", SECRETS)
def test_misplaced_token_is_not_repeated_in_responses(rig: Rig, secret: str) -> None:
    bodies: list[Any] = [
        {"token": secret}, {secret: 1}, OVERRIDE | {"broker": secret}, OVERRIDE | {"side": secret}, OVERRIDE | {"for_s": secret},
        OVERRIDE | {secret: secret}, [secret], secret,
    ]  # fmt: skip
    for body in bodies:
        for path in ("pause", "override"):
            answer = asked(rig, "POST", f"/api/v1/{path}", OPERATE_TOKEN, json=body)
            assert holds_none(answer, (path, body)) == 422
    assert holds_none(asked(rig, "POST", "/api/v1/override", OPERATE_TOKEN, content=secret.encode()), "no JSON") == 422
    for path in (
        f"/api/v1/brokers/{secret}", f"/api/v1/decisions/{secret}", f"/api/v1/decisions?side={secret}", f"/page/brokers?find={secret}",
        f"/api/v1/decisions?reason={secret}", f"/api/v1/moves/partitions?topic={secret}", f"/page/decisions?reason={secret}",
        f"/static/{secret}", f"/{secret}", f"/api/v1/moves?token={secret}", f"/api/v1/moves?{secret}=1",
    ):  # fmt: skip
        assert holds_none(asked(rig, "GET", path, READ_TOKEN), path) in (200, 404, 422)
    assert holds_none(asked(rig, "DELETE", f"/api/v1/override/{secret}", OPERATE_TOKEN), "path") == 422
    assert rig.order_service.orders == Orders(), "nothing of it was taken"
