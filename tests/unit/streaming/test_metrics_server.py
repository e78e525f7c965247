"""The metrics endpoints of collector and stream: access, and the limits on connections."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge
from structlog.testing import capture_logs

from rheostat.config.settings import Settings, parse_settings
from rheostat.errors import BadInputError
from streaming import metrics_server
from streaming.metrics_server import (
    CONNECTIONS,
    MetricsServer,
    _guarded,
    _with_health,
    serve,
)
from streaming.shared.connection_limits import ConnectionSlots
from streaming.shared.heartbeat import Heartbeat

TOKEN = "f" * 24


def settings_of(http: str, environ: dict[str, str] | None = None) -> Settings:
    text = (
        "cluster: lab\nkafka: {bootstrap_servers: 'x:1'}\nstream: {checkpoint_dir: /x, http: " + http + "}\n"
        "collector: {http: " + http + "}\ntuner: {rate_bytes_per_s_max: 50000000}\n"
    )
    return parse_settings(text, "f.yaml", environ or {})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "kafka-1.example.org"])
def test_metrics_host_of_the_network_needs_a_token(host: str) -> None:
    with pytest.raises(BadInputError, match=r"can be reached from other machines, and no token is set") as refused:
        settings_of(f"{{host: '{host}', port: 9465}}")
    assert "RHEOSTAT_COLLECTOR__HTTP__READ_TOKEN" in str(refused.value)
    given = {f"RHEOSTAT_{part}__HTTP__READ_TOKEN": TOKEN for part in ("COLLECTOR", "STREAM")}
    assert settings_of(f"{{host: '{host}', port: 9465}}", given).stream.http.token == TOKEN


@pytest.mark.parametrize(
    "http",
    [
        "{port: 9465}",
        "{host: localhost, port: 9465}",
        "{host: '::1', port: 1}",
        "{host: '::ffff:127.0.0.1', port: 1}",
        "{host: 0.0.0.0}",
    ],
)
def test_metrics_host_of_this_machine_needs_no_token(http: str) -> None:
    assert settings_of(http).collector.http.token is None


def test_short_metrics_token_is_refused_and_not_shown() -> None:
    with pytest.raises(BadInputError, match="fewer than 16 characters") as refused:
        settings_of("{host: 0.0.0.0, port: 9465, read_token: secret}")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "header", "status"),
    [
        ("192.0.2.1", None, "401 Unauthorized"),
        ("192.0.2.1", "Bearer wrong", "401 Unauthorized"),
        ("192.0.2.1", f"Basic {TOKEN}", "401 Unauthorized"),
        ("::ffff:192.0.2.1", None, "401 Unauthorized"),
        ("192.0.2.1", f"Bearer {TOKEN}", "200 OK"),
        ("127.0.0.1", None, "200 OK"),
        ("::ffff:127.0.0.1", None, "200 OK"),
        ("::1", None, "200 OK"),
    ],
)
def test_metrics_are_for_this_machine_or_a_token(address: str, header: str | None, status: str) -> None:
    said: list[str] = []

    def page(_: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"page"]

    environ = {"REMOTE_ADDR": address, **({} if header is None else {"HTTP_AUTHORIZATION": header})}
    body = list(_guarded(page, TOKEN)(environ, lambda line, *_: said.append(line)))  # type: ignore[arg-type]  # no write()
    assert said == [status]
    assert (body == [b"page"]) == (status == "200 OK")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetricsServer]:
    monkeypatch.setattr(metrics_server, "CONNECTION_S_MAX", 3.0)
    registry = CollectorRegistry()
    Gauge("x", "y", registry=registry).set(7)
    running = serve(registry, "127.0.0.1", 0, TOKEN)
    yield running
    running.close()


def page(port: int) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


def test_metrics_silent_connections_lose_their_slots(server: MetricsServer) -> None:
    assert "x 7.0" in (page(server.port) or "")
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS.per_address_max):
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=5))
            silent.sendall(b"G")
        assert page(server.port) is None  # No place is free, and the connection is closed at once.
        deadline = time.monotonic() + 20
        while page(server.port) is None:
            assert time.monotonic() < deadline, "the places are never free again"


def taken(places: ConnectionSlots, addresses: list[str]) -> int:
    return sum(places.acquire(address) for address in addresses)


@pytest.mark.parametrize(
    "same", [["192.0.2.1"] * 40, [f"2001:db8::{n:x}" for n in range(40)], ["::ffff:192.0.2.1", "192.0.2.1"] * 20]
)
def test_metrics_slots_of_one_address_are_limited(same: list[str]) -> None:
    places = ConnectionSlots(CONNECTIONS)
    assert taken(places, same) == CONNECTIONS.per_address_max
    assert places.acquire("192.0.2.9"), "another address has places of its own"
    places.release(same[0])
    assert taken(places, same) == 1


def test_metrics_slots_are_reserved_for_this_machine() -> None:
    places = ConnectionSlots(CONNECTIONS)
    assert taken(places, [f"192.0.2.{n}" for n in range(100)]) == CONNECTIONS.network_max
    assert taken(places, ["127.0.0.1", "::1"] * 40) == CONNECTIONS.total_max - CONNECTIONS.network_max
    assert not places.acquire("127.0.0.2"), "all places are taken"


@pytest.mark.parametrize("fails", ["Thread", "Timer"])
def test_metrics_are_served_again_after_threads_could_not_start(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """A failed thread or timer must not occupy the slot of its connection."""
    started = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        is_timer = isinstance(thread, threading.Timer)
        if is_timer if fails == "Timer" else "process_request_thread" in thread.name:
            raise RuntimeError("can't start new thread")
        started(thread)

    with monkeypatch.context() as patched, capture_logs() as said:
        patched.setattr(threading.Thread, "start", start)
        for _ in range(CONNECTIONS.total_max + 8):
            assert page(server.port) is None
    assert "x 7.0" in (page(server.port) or "")
    assert [(line["log_level"], line["client"], line["error"]) for line in said] == [
        ("error", "127.0.0.1", "RuntimeError: can't start new thread")
    ]


def status_of(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status), str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return int(error.code), str(error.read().decode())


def test_health_follows_the_heartbeat() -> None:
    now_s = [100.0]
    heartbeat = Heartbeat(lambda: now_s[0])
    running = serve(CollectorRegistry(), "127.0.0.1", 0, TOKEN, heartbeat)
    try:
        assert status_of(running.port, "/healthz") == (200, "ok\n")
        assert status_of(running.port, "/readyz") == (503, "starting\n")
        heartbeat.beat(10.0, "measures", ready=True)
        assert status_of(running.port, "/readyz") == (200, "ready\n")
        now_s[0] += 11.0
        hung = (503, "no step of the work has ended for 11 s, and 10 s are allowed\n")
        assert [status_of(running.port, path) for path in ("/healthz", "/readyz")] == [hung, hung]
        assert status_of(running.port, "/metrics")[0] == 200
    finally:
        running.close()


def test_health_needs_no_token_and_names_no_host() -> None:
    said: list[str] = []
    heartbeat = Heartbeat()
    heartbeat.beat(10.0, "waits for the cluster: kafka-1.example.org:9092 does not answer")
    page = _with_health(_guarded(lambda *_: [b"page"], TOKEN), heartbeat)
    for path, status in (
        ("/healthz", "200 OK"),
        ("/readyz", "503 Service Unavailable"),
        ("/metrics", "401 Unauthorized"),
    ):
        environ = {"REMOTE_ADDR": "192.0.2.1", "PATH_INFO": path}
        body = b"".join(page(environ, lambda line, *_: said.append(line)))  # type: ignore[arg-type]  # no write()
        assert said.pop() == status
        assert b"kafka-1" not in body
