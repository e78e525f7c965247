"""Extreme values: every route answers without an error of its own."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any
from urllib.parse import quote

import pytest
from api_rig import OPERATE_TOKEN, READ_TOKEN, Clock, Rig, bearer, entry
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from metrics_rig import replication_signal
from tuner_cases import NOW_MS, SOURCE, TARGET, broker_signal, live, move_signal

from streaming.shared.contract import decode_signal, encode_signal
from streaming.shared.contract.bounds import (
    COMPLETENESS_MAX,
    COMPLETENESS_MIN,
    COUNT_MAX,
    NUMBER_MAX,
    TIMESTAMP_MS_MAX,
)
from tuner.api.limits import RequestRate, TokenBuckets
from tuner.api.server import HttpServer
from tuner.core.cluster import Setpoint
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.journal.entries import STEPS, Entry

NUMBERS = (None, 0.0, -0.0, 5e-324, 1e-300, 1.0, 1e15, NUMBER_MAX, -NUMBER_MAX)
TIMES_MS = (0, 1, NOW_MS, TIMESTAMP_MS_MAX)
ORDERED_MS = (*TIMES_MS, -1, 2**53, 10**18)
COUNTS = (0, 1, 2**31 - 1, COUNT_MAX)
RATES = (1, 2**31, 2**63 - 1)
PATHS = (
    "/metrics", "/healthz", "/readyz", "/status", "/api/v1/status", "/api/v1/moves", "/api/v1/moves/partitions",
    "/api/v1/brokers", "/api/v1/brokers/1", "/api/v1/history?broker=1&broker=3", "/api/v1/replication", "/api/v1/tenants", "/api/v1/mutations",
    "/api/v1/plans",
    "/api/v1/decisions", "/page/now", "/page/moves", "/page/plans", "/page/brokers", "/page/replication", "/page/decisions", "/page/controller",
    "/page/tenants",
)  # fmt: skip
OVERRIDE = {"broker": 3, "rate_bytes_per_s": 5_000_000, "for_s": 60}
AS_JSON = {**bearer(OPERATE_TOKEN), "content-type": "application/json"}
TEXTS = (
    "", "-1", "-0", "0", "1", "1e299", "NaN", "inf", "0x10", "9" * 20, "9" * 5_000, str(2**53), str(2**53 + 1), str(2**63), "true",
    "null", "[]", "{}", "a" * 300, "\x00", "\x1b[31m", "१२", "\U0001f4a5", "../../etc/passwd", "%", "1&1", "<script>",
)  # fmt: skip
JSON_VALUES = (
    "0", "-1", "1", "0.5", "5e-324", "1e299", "-1e299", "1e400", "NaN", "Infinity", "-Infinity", "9" * 20, "9" * 5_000,
    str(2**53 + 1), "2592000", "2592000.1", "true", "null", "[]", "{}", '""', '"3"', '"\\ud800"', '"\\u0000"', "[" * 3_000 + "]" * 3_000,
)  # fmt: skip
GENERATED = settings(
    max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),
)  # fmt: skip


def extreme(signal: Any, draw: Any) -> Any:
    """The signal with each number at an end of what the decoder lets through."""
    changes: dict[str, Any] = {}
    for field in fields(signal):
        pool: tuple[Any, ...] = ()
        if field.name.endswith("_at_ms") or field.name == "window_end_ms":
            pool = TIMES_MS
        elif str(field.type).startswith("Number"):
            pool = NUMBERS
        elif str(field.type).startswith("Count"):
            pool = COUNTS
        elif field.name == "completeness":
            pool = (COMPLETENESS_MIN, 1.0, COMPLETENESS_MAX)
        if pool:
            changes[field.name] = draw(st.sampled_from(pool))
    return decode_signal(encode_signal(replace(signal, **changes)))


@st.composite
def worlds(draw: Any) -> dict[str, Any]:
    def orders() -> Orders:
        by_ms = st.sampled_from(ORDERED_MS)
        override = Override(draw(st.sampled_from(RATES)), draw(by_ms), "kim")
        pause = draw(st.sampled_from([None, Pause(draw(by_ms), "kim"), Pause(draw(by_ms), "kim", released=True)]))
        return Orders(draw(by_ms), pause, draw(by_ms), {SOURCE: override, TARGET: override}, "kim")

    rates = {side: draw(st.sampled_from(RATES)) for side in (SOURCE, TARGET)}
    return {
        "signals": [extreme(move_signal(*SOURCE), draw), extreme(move_signal(*TARGET), draw)],
        "brokers": [extreme(broker_signal(broker, leader=1.0, follower=1.0), draw) for broker in (1, 3)],
        "replication": [extreme(replication_signal(3, NOW_MS), draw)],
        "cluster": live(rates),
        "orders": orders(),
        "courses": {SOURCE: Setpoint(draw(st.sampled_from([1.0, 1e24])))},
    }


RIG = Rig(reads=TokenBuckets(RequestRate(1e9, 1e9), Clock()), orders=TokenBuckets(RequestRate(1e9, 1e9), Clock()))


@given(worlds())
@GENERATED
def test_every_route_answers_for_extreme_values(world: dict[str, Any]) -> None:
    RIG.cycle(**world)
    RIG.observers.decisions.add([entry("intent"), entry("outcome", failure="refused")])
    for path in PATHS:
        assert RIG.get(path).status_code in (200, 503), path


PARAMETERS = [
    (path, parameter["name"])
    for path, methods in RIG.app.openapi()["paths"].items()
    for parameter in methods.get("get", {}).get("parameters", [])
    if parameter["in"] == "query"
]


def begin_plan() -> None:
    """Adds plan p1 to the journal, so that its routes have an answer."""
    row = ["orders", 0, [1, 2], [2, 3], "advance"]
    decision = {"plan": "p1", "steps": [row]}
    RIG.journal.add(Entry(NOW_MS, STEPS, "reassign", "advance", "plan p1: start", decision), 0)


@pytest.mark.parametrize(("path", "name"), PARAMETERS)
def test_extreme_query_parameter_is_answered_or_refused(path: str, name: str) -> None:
    RIG.cycle()
    begin_plan()
    for value in TEXTS:
        needed = {} if name == "broker" or not path.endswith("/history") else {"broker": "1"}
        answer = RIG.http.get(
            path.format(broker=1, plan="p1"), params={**needed, name: value}, headers=bearer(READ_TOKEN)
        )
        assert answer.status_code in (200, 422), (value[:20], answer.text)
        assert answer.status_code == 200 or isinstance(answer.json()["detail"], str)


@pytest.mark.parametrize("path", ["/api/v1/brokers/", "/api/v1/decisions/", "/page/", "/static/", "/"])
def test_extreme_path_is_answered_below_500(path: str) -> None:
    RIG.cycle()
    for value in TEXTS[1:]:
        answer = RIG.http.get(path + quote(value, safe=""), headers=bearer(READ_TOKEN))
        assert answer.status_code in (200, 404, 422), (value[:20], answer.text)


@pytest.mark.parametrize("key", ["broker", "side", "rate_bytes_per_s", "for_s", "unknown"])
def test_extreme_order_value_is_accepted_or_refused(key: str) -> None:
    RIG.cycle()
    for value in JSON_VALUES:
        rest = {name: json.dumps(given) for name, given in OVERRIDE.items() if name != key}
        body = "{" + ", ".join(f'"{name}": {given}' for name, given in {**rest, key: value}.items()) + "}"
        answer = RIG.http.post("/api/v1/override", content=body, headers=AS_JSON)
        assert answer.status_code in (202, 400, 404, 422), (value[:20], answer.text)
        assert answer.status_code == 202 or isinstance(answer.json()["detail"], str)
        assert RIG.get("/api/v1/status").status_code == 200
    RIG.cycle()
    for path in PATHS:
        assert RIG.get(path).status_code == 200, path


@pytest.mark.parametrize("path", ["pause", "resume", "release", "override"])
def test_malformed_order_body_is_refused(path: str) -> None:
    RIG.cycle()
    for body in (*JSON_VALUES, "", "{", '{"a": 1, "a": 2}', "[" * 8_000, '{"a":' * 2_000):
        answer = RIG.http.post(f"/api/v1/{path}", content=body, headers=AS_JSON)
        may = (202, 400, 422) if path != "override" else (400, 422)
        assert answer.status_code in may, (body[:20], answer.text)


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /healthz?" + b"a" * 30_000, b"GET /%ff%00", b"GET /\xff\xfe", b"GET http://elsewhere/healthz", b"GET *", b"GET //",
        b"BREW /healthz", b"CONNECT 127.0.0.1:1", b"TRACE /healthz", b"OPTIONS *", b"HEAD /metrics", b"PUT /api/v1/pause",
        b"GET /api/v1/status?%zz=%", b"PRI *",
    ],
    ids=lambda line: line[:24].decode("latin-1"),
)  # fmt: skip
def test_extreme_request_line_is_answered_below_500(request_line: bytes, real_server: HttpServer) -> None:
    with socket.create_connection(("127.0.0.1", real_server.port), timeout=10) as asked:
        asked.sendall(request_line + b" HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        first = asked.makefile("rb").readline()
    assert 200 <= int(first.split()[1]) < 500, first


@pytest.fixture(scope="module")
def real_server() -> Iterator[HttpServer]:
    made = HttpServer(RIG.app, "127.0.0.1", 0)
    made.start()
    yield made
    made.stop()
