"""Slow clients on real sockets: each loses its connection in time, and none keeps a health check out."""

from __future__ import annotations

import contextlib
import http.client
import logging
import os
import resource
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from api_rig import OPERATE_TOKEN, READ_TOKEN, Rig, bearer
from tls_files import certificate_files

from tuner.api import acceptor, connection_table
from tuner.api.connection_table import CONNECTIONS_MAX, PHASE_S_MAX, Phase, limits_for_descriptors
from tuner.api.log_rate import LogRateFilter
from tuner.api.server import HttpServer

SLOW = 220
WAIT_S_MAX = 20.0
HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    """For both ends of the connections, which are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < 4096:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096 if hard < 0 else min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


plain_and_tls = pytest.mark.parametrize("server", ["plain", "tls"], indirect=True)
only_tls = pytest.mark.parametrize("server", ["tls"], indirect=True)


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HttpServer]:
    rig = Rig()
    rig.cycle()
    tls = certificate_files(tmp_path) if getattr(request, "param", "plain") == "tls" else None
    made = HttpServer(rig.app, HERE, 0, tls=tls, on_stop=rig.observers.hub.close)
    made.start()
    yield made
    made.stop()


class Client:
    """Opens connections to one server, and closes them all at the end."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._tls = server._certificate is not None
        self._context = ssl._create_unverified_context()
        self.open: list[socket.socket] = []

    def connect(self, source: str = HERE, *, handshake: bool = True) -> socket.socket:
        made = socket.create_connection((HERE, self._server.port), timeout=10, source_address=(source, 0))
        if self._tls and handshake:
            made = self._context.wrap_socket(made)
        self.open.append(made)
        return made

    def get(self, path: str, who: str | None = None, source: str = HERE) -> int:
        kind = http.client.HTTPSConnection if self._tls else http.client.HTTPConnection
        extra = {"context": self._context} if self._tls else {}
        asked = kind(HERE, self._server.port, timeout=10, source_address=(source, 0), **extra)  # type: ignore[arg-type]
        with contextlib.closing(asked):
            asked.request("GET", path, headers=bearer(who))
            return asked.getresponse().status

    def ended(self) -> int:
        """How many of the open connections the server has closed."""
        poll = select.poll()  # select(2) knows only the first 1,024 files of a process that runs all tests.
        for each in self.open:
            poll.register(each, select.POLLRDHUP | select.POLLHUP)
        return len(poll.poll(0))


@pytest.fixture
def client(server: HttpServer) -> Iterator[Client]:
    made = Client(server)
    yield made
    for each in made.open:
        each.close()


def until(condition: Callable[[], object], what: str, timeout_s: float = WAIT_S_MAX) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def health(client: Client, source: str = HERE) -> list[int]:
    return [client.get(path, source=source) for path in ("/healthz", "/metrics")]


@plain_and_tls
def test_health_checks_pass_while_one_address_sends_single_bytes(client: Client, server: HttpServer) -> None:
    for _ in range(SLOW):
        with contextlib.suppress(OSError):  # The server may have closed it for the next one already.
            client.connect().sendall(b"G")
    assert health(client) == [200, 200]
    assert health(client, ELSEWHERE) == [200, 200]
    assert client.get("/api/v1/status", READ_TOKEN, ELSEWHERE) == 200
    assert len(server._server._table) <= limits_for_descriptors(-1).connections_per_address + 4


def test_health_checks_pass_while_many_addresses_fill_the_server(client: Client, server: HttpServer) -> None:
    for number in range(SLOW):
        with contextlib.suppress(OSError):
            client.connect(f"127.0.1.{1 + number}").sendall(b"G")
    until(lambda: len(server._server._table) == CONNECTIONS_MAX, "it takes fewer than it could")
    assert health(client) == [200, 200]


@plain_and_tls
def test_head_that_trickles_in_is_cut_off(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PHASE_S_MAX, Phase.HEAD, 1.0)
    slow, answer = client.connect(), b""
    slow.settimeout(0.05)
    began_s = time.monotonic()
    for letter in b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: " + b"a" * 200:
        with contextlib.suppress(TimeoutError):
            answer = slow.recv(1000)
            break
        slow.sendall(bytes([letter]))
    assert time.monotonic() - began_s < 8.0
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_second_head_of_a_connection_is_cut_off_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PHASE_S_MAX, Phase.HEAD, 0.5)
    slow = client.connect()
    slow.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\nG")
    until(client.ended, "the second head has no deadline")
    assert b"408 Request Timeout" in received(slow)


def test_body_that_trickles_in_is_cut_off(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PHASE_S_MAX, Phase.BODY, 1.0)
    head = f"POST /api/v1/override HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {OPERATE_TOKEN}\r\n"
    slow = client.connect()
    slow.sendall(f"{head}content-type: application/json\r\ncontent-length: 500\r\n\r\n".encode())
    with contextlib.suppress(OSError):
        for _ in range(100):
            slow.sendall(b" ")
            time.sleep(0.05)
            if client.ended():
                break
    until(client.ended, "the body has no deadline", 1.0)


def test_body_that_no_route_reads_is_cut_off(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PHASE_S_MAX, Phase.BODY, 0.5)
    slow = client.connect()
    slow.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 500\r\n\r\n")
    until(client.ended, "the body has no deadline")
    assert received(slow).startswith(b"HTTP/1.1 200 ")


def test_connection_stays_open_between_requests_until_idle(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PHASE_S_MAX, Phase.HEAD, 0.2)
    monkeypatch.setitem(PHASE_S_MAX, Phase.IDLE, 1.8)
    kept = client.connect()
    for _ in range(2):
        kept.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        answer = http.client.HTTPResponse(kept)
        answer.begin()
        assert (answer.status, answer.read()) == (200, b"ok\n")
        time.sleep(0.9)  # Less than an idle connection may stay, and more than a head may take.
        assert not client.ended()
    until(client.ended, "an idle connection stays for ever")


def test_events_outlive_every_deadline(client: Client, server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for phase in (Phase.HEAD, Phase.BODY, Phase.IDLE):
        monkeypatch.setitem(PHASE_S_MAX, phase, 0.5)
    listening = client.connect()
    head = f"GET /api/v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {READ_TOKEN}\r\n\r\n"
    listening.sendall(head.encode())
    assert listening.recv(1000).startswith(b"HTTP/1.1 200 ")
    for _ in range(SLOW):
        with contextlib.suppress(OSError):
            client.connect(handshake=False)
    time.sleep(1.2)  # Longer than each deadline.
    (answered,) = [each for each in server._server._table._open if each.phase is Phase.RESPONSE]
    assert answered.address == HERE


def test_answers_that_no_client_reads_are_given_up(
    client: Client, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_table, "UNREAD_S_MAX", 0.5)
    deaf = client.connect()
    deaf.settimeout(0.5)
    request = f"GET /api/v1/openapi.json HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {READ_TOKEN}\r\n\r\n"
    with contextlib.suppress(OSError):  # Until the server reads no more of them.
        for _ in range(500):
            deaf.sendall(request.encode())
    until(lambda: len(server._server._table) == 0, "the answers are kept for ever")


def test_slow_clients_are_logged_once_a_period_without_idle_ones(
    client: Client, server: HttpServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PHASE_S_MAX, Phase.HEAD, 0.2)
    monkeypatch.setitem(PHASE_S_MAX, Phase.IDLE, 0.2)
    monkeypatch.setattr(acceptor, "_SUMMARY_S", 1.5)
    for _ in range(20):
        client.connect().sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    until(lambda: client.ended() == 20, "idle connections stay")
    time.sleep(1.6)  # A whole period.
    assert "closed early" not in capsys.readouterr().out
    for _ in range(20):
        client.connect().sendall(b"G")
    said = ""

    def told() -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return "closed early" in said

    until(told, "slow connections are not told")
    assert "most_from={'127.0.0.1': " in said


@only_tls
def test_handshakes_that_never_end_give_their_descriptors_back(
    client: Client, server: HttpServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_S_MAX", 1.0)
    assert health(client) == [200, 200]
    before = descriptors()
    for number in range(SLOW):
        client.connect(f"127.0.1.{1 + number}", handshake=False)
    assert health(client) == [200, 200]
    until(lambda: client.ended() == SLOW, "handshakes have no deadline")
    for each in client.open:
        each.close()
    until(lambda: descriptors() <= before + 2, "the server keeps descriptors")
    assert len(capfd.readouterr().err) < 5_000


def test_lack_of_descriptors_ends_with_few_log_lines(
    client: Client, server: HttpServer, capfd: pytest.CaptureFixture[str]
) -> None:
    assert health(client) == [200, 200]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    waiting = [socket.socket() for _ in range(10)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(each.fileno() for each in waiting) + 1, hard))
    try:
        for each in waiting:
            each.connect((HERE, server.port))
        time.sleep(2.0)  # In which asyncio's own server would have written thousands of lines.
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in waiting:
            each.close()
    until(lambda: health(client) == [200, 200], "it accepts no more")
    captured = capfd.readouterr()
    assert 0 < (captured.out + captured.err).count("could not be accepted") < 8


def test_logs_of_a_library_are_limited_by_place_and_period() -> None:
    now_s = 0.0
    limit = LogRateFilter(lines_max=2, period_s=60.0, monotonic=lambda: now_s)
    passed = []
    for number in range(10):
        record = logging.LogRecord("asyncio", logging.ERROR, "here.py", 7, "broken %d", (number,), None)
        if limit.filter(record):
            passed.append(record.getMessage())
    now_s = 61.0
    record = logging.LogRecord("asyncio", logging.ERROR, "here.py", 7, "broken %d", (99,), None)
    assert limit.filter(record)
    assert passed == ["broken 0", "broken 1"]
    assert record.getMessage() == "broken 99 (8 lines were dropped before this one)"


def received(connection: socket.socket) -> bytes:
    """All that the server has sent before it closed the connection."""
    parts = []
    with contextlib.suppress(OSError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
