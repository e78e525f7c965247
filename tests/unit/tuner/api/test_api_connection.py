"""Limits of request heads on real connections."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest
from api_rig import Rig

from tuner.api.server import HttpServer

ASKED = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"


@pytest.fixture
def server() -> Iterator[HttpServer]:
    rig = Rig(tokens=False)
    rig.cycle()
    made = HttpServer(rig.app, "127.0.0.1", 0)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def asker(server: HttpServer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as made:
        yield made


def answer(asker: socket.socket) -> tuple[int, bytes]:
    """Status and body of the next one."""
    response = http.client.HTTPResponse(asker)
    response.begin()
    return response.status, response.read()


def test_connection_sends_responses_without_delay(server: HttpServer, asker: socket.socket) -> None:
    asker.sendall(ASKED + b"\r\n")
    assert answer(asker) == (200, b"ok\n")
    (connection,) = server._server.server_state.connections
    taken = connection.transport.get_extra_info("socket")
    assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_endless_request_head_is_refused(asker: socket.socket) -> None:
    asker.sendall(ASKED + b"x-more: " + b"a" * 70_000)
    assert answer(asker) == (400, b"The head of the request is too large.")


def test_head_limit_applies_to_each_request(asker: socket.socket) -> None:
    for _ in range(3):
        asker.sendall(ASKED + b"x-more: ")
        asker.sendall(b"a" * 40_000)
        asker.sendall(b"\r\n\r\n")
        assert answer(asker) == (200, b"ok\n")


def test_large_body_does_not_count_as_head(asker: socket.socket) -> None:
    asker.sendall(
        b"POST /api/v1/pause HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n"
    )
    assert answer(asker)[0] == 413


@pytest.mark.parametrize("trailer", [b"x: " + b"y" * 1_000_000, b"x: y\r\n" * 20_000], ids=["one", "many"])
def test_endless_trailers_close_the_connection(asker: socket.socket, trailer: bytes) -> None:
    asker.sendall(ASKED + b"transfer-encoding: chunked\r\n\r\n0\r\n")
    with pytest.raises((ConnectionError, TimeoutError)) as told:  # noqa: PT012 - whichever send it is that finds it closed
        for _ in range(50):
            asker.sendall(trailer)
    assert not isinstance(told.value, TimeoutError), "still read"


def test_trailers_are_not_added_to_request_headers(server: HttpServer, asker: socket.socket) -> None:
    """A token there would get past a proxy that looks at heads."""
    asker.sendall(ASKED + b"\r\n")
    assert answer(asker) == (200, b"ok\n")
    (connection,) = server._server.server_state.connections
    body = b"2\r\n{}\r\n0\r\nauthorization: Bearer x\r\n\r\n"
    asker.sendall(b"POST /api/v1/pause HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n" + body)
    assert answer(asker)[0] >= 400
    assert [name for name, _ in connection.cycle.scope["headers"]] == [b"host", b"transfer-encoding"]


def test_second_host_header_is_refused(asker: socket.socket) -> None:
    asker.sendall(ASKED + b"host: elsewhere\r\n\r\n")
    assert answer(asker)[0] == 400


def test_non_http_bytes_are_refused(asker: socket.socket) -> None:
    asker.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
    assert answer(asker)[0] == 400
