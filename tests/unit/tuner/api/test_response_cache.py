"""Responses are reused within a cycle and a second, without the route, and for authorized callers only."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import pytest
from api_rig import OPERATE_TOKEN, READ_TOKEN, WELL, Rig, entry
from fastapi.testclient import TestClient

from tuner.api import response_cache, views
from tuner.api.auth import ApiCaller, ApiRole
from tuner.api.response_cache import CachedResponse, ResponseCache
from tuner.api.responses import SECURITY_HEADERS, SharedBody


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.cycle()
    return made


def record_computed_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the brokers whose rows are computed."""
    found: list[int] = []
    row = views.move_json

    def counted(look: Any, broker: int) -> dict[str, Any]:
        found.append(broker)
        return row(look, broker)

    monkeypatch.setattr(views, "move_json", counted)
    return found


def test_equal_requests_share_one_response_per_cycle(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    made = record_computed_rows(monkeypatch)
    first, again = rig.get("/api/v1/moves"), rig.get("/api/v1/moves")
    assert (first.status_code, first.content) == (again.status_code, again.content)
    assert sorted(first.headers.multi_items()) == sorted(again.headers.multi_items())
    assert SECURITY_HEADERS.items() <= dict(again.headers).items()
    assert made == [3]
    rig.get("/api/v1/moves?limit=1")
    rig.cycle()
    rig.get("/api/v1/moves")
    assert made == [3, 3, 3]


def test_unknown_parameter_is_refused_and_caches_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    made = record_computed_rows(monkeypatch)
    for number in range(5):
        refused = rig.get(f"/api/v1/moves?limit=3&x{number}=1")
        assert (refused.status_code, refused.json()["detail"]) == (422, "a key that was sent is unknown")
    assert made == []
    assert rig.get("/api/v1/decisions?brokr=1").json() == {"detail": "brokr is unknown"}
    assert rig.get("/page/brokers?fnd=1").status_code == 422
    assert rig.post("/api/v1/pause?for_s=60").json() == {"detail": "for_s is unknown"}


def test_cached_response_expires_after_a_second(rig: Rig) -> None:
    first = rig.get("/api/v1/status").json()["now_ms"]
    rig.clock.now_s += 0.1
    assert rig.get("/api/v1/status").json()["now_ms"] == first
    rig.clock.now_s += 1.0
    assert rig.get("/api/v1/status").json()["now_ms"] == first + 1100


def test_recorded_decision_is_shown_before_cycle_ends(rig: Rig) -> None:
    assert rig.get("/api/v1/decisions").json()["decisions"] == []
    rig.observers.decisions.add([entry("decision", WELL)])
    assert len(rig.get("/api/v1/decisions").json()["decisions"]) == 1


def test_cached_response_needs_authorization(rig: Rig) -> None:
    for path in ("/api/v1/status", "/page/now"):
        assert rig.get(path).status_code == 200
        assert rig.get(path, None).status_code == 401
        assert rig.get(path, "wrong-0123456789abcdef").status_code == 401
    assert rig.get("/api/v1/status").json()["role"] == "read"
    assert rig.get("/api/v1/status", OPERATE_TOKEN).json()["role"] == "operate"
    basic = rig.http.get("/api/v1/status", headers={"Authorization": f"Basic {READ_TOKEN}"})
    assert basic.status_code == 401


def test_cached_response_is_refused_to_foreign_host_name() -> None:
    rig = Rig(tokens=False)
    rig.cycle()
    assert rig.get("/api/v1/moves", None).status_code == 200
    rebound = TestClient(rig.app, base_url="http://evil.example", client=("127.0.0.1", 50000))
    assert rebound.get("/api/v1/moves").status_code == 403


def test_cache_is_bounded_and_drops_expired_responses_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    caller = ApiCaller("kim", ApiRole.READ)

    async def route(scope: Any, receive: Any, send: Any) -> None:
        stamped = now[0]
        await CachedResponse(b"x", "text/plain", stamped, lambda: now[0])(scope, receive, send)

    class Guard:
        def find_reader(self, scope: Any) -> ApiCaller:  # noqa: ARG002 - the guard's signature
            return caller

    async def nothing(*_: Any) -> None: ...

    cache = ResponseCache(route, Guard())  # type: ignore[arg-type]

    def get(query: bytes) -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": query}
        asyncio.run(cache(scope, nothing, nothing))

    for number in range(100):
        get(b"%d" % number)
    assert len(cache._responses) == 100
    now[0] += 1
    for number in range(100, 140):
        get(b"%d" % number)
    assert len(cache._responses) == 40
    for number in range(140, 400):
        get(b"%d" % number)
    assert len(cache._responses) <= 128
    get(b"x" * 513)
    assert max(len(query) for _, query, _ in cache._responses) <= 512
    monkeypatch.setattr(response_cache, "_BYTES_MAX", 10)  # Each response has one byte.
    for number in range(100):
        get(b"%d" % number)
        assert len(cache._responses) <= 10


def test_shared_body_is_made_once_a_second() -> None:
    now, made = [0], []

    def make() -> bytes:
        made.append(now[0])
        return b"%d" % now[0]

    shared = SharedBody(make, lambda: now[0])
    assert [shared.body(), shared.body()] == [b"0", b"0"]
    now[0] += 1
    assert shared.body() == b"1"
    assert made == [0, 1]


def test_metrics_change_as_soon_as_a_cycle_ends(rig: Rig) -> None:
    def counted() -> str:
        lines = rig.get("/metrics").text.splitlines()
        return next(line for line in lines if line.startswith("rheostat_decisions_total") and "progressing" in line)

    first = counted()
    assert counted() == first
    rig.cycle()
    assert counted() != first


class CountingLock:
    """A lock that counts the threads that wait for it."""

    def __init__(self) -> None:
        self.came = threading.Semaphore(0)
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self.came.release()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_waiting_scrapes_share_one_more_slow_body() -> None:
    lock, may_end, made, seconds = CountingLock(), threading.Semaphore(0), list[int](), itertools.count()

    def make() -> bytes:
        made.append(len(made))
        assert may_end.acquire(timeout=10)
        return b"made"

    shared = SharedBody(make, lambda: next(seconds))  # Each reading of the clock is a second later.
    shared._lock = lock  # type: ignore[assignment]
    who_ask = [threading.Thread(target=shared.body, daemon=True) for _ in range(8)]
    for one in who_ask:
        one.start()
    assert all(lock.came.acquire(timeout=10) for _ in who_ask)
    for _ in who_ask:
        may_end.release()
    for one in who_ask:
        one.join(timeout=10)
    assert not any(one.is_alive() for one in who_ask)
    assert len(made) <= 2


def test_cleared_tenants_are_not_served_from_cache(rig: Rig) -> None:
    kept = rig.get("/api/v1/tenants")
    made = []
    rig.quotas.as_json = lambda: made.append(1)  # type: ignore[method-assign,assignment,func-returns-value]
    assert rig.get("/api/v1/tenants").content == kept.content
    assert not made
    rig.quotas.clear()  # No cycle has ended since.
    rig.get("/api/v1/tenants")
    assert made
