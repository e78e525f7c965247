"""Limits of request heads on real connections."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest
from api_rig import Rig

from tuner.api.server import HttpServer

REQUEST = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"


@pytest.fixture
def server() -> Iterator[HttpServer]:
    rig = Rig(tokens=False)
    rig.cycle()
    made = HttpServer(rig.app, "127.0.0.1", 0)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def client(server: HttpServer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as made:
        yield made


def answer(client: socket.socket) -> tuple[int, bytes]:
    """Status and body of the next response."""
    response = http.client.HTTPResponse(client)
    response.begin()
    return response.status, response.read()


def test_connection_sends_responses_without_delay(server: HttpServer, client: socket.socket) -> None:
    client.sendall(REQUEST + b"\r\n")
    assert answer(client) == (200, b"ok\n")
    (connection,) = server._server.server_state.connections
    taken = connection.transport.get_extra_info("socket")
    assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


LARGE_BODY = b"content-type: application/json\r\ncontent-length: 100000\r\n\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(
            b"POST /api/v1/pause HTTP/1.1\r\nhost: 127.0.0.1\r\n" + LARGE_BODY, 413, id="large body is no large head"
        ),
        pytest.param(REQUEST + b"host: elsewhere\r\n\r\n", 400, id="second host"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, id="not HTTP"),
    ],
)
def test_malformed_request_is_refused(client: socket.socket, request_bytes: bytes, status: int) -> None:
    client.sendall(request_bytes)
    assert answer(client)[0] == status


def test_endless_request_head_is_refused(client: socket.socket) -> None:
    client.sendall(REQUEST + b"x-more: " + b"a" * 70_000)
    assert answer(client) == (400, b"The head of the request is too large.")


def test_head_limit_applies_to_each_request(client: socket.socket) -> None:
    for _ in range(3):
        client.sendall(REQUEST + b"x-more: ")
        client.sendall(b"a" * 40_000)
        client.sendall(b"\r\n\r\n")
        assert answer(client) == (200, b"ok\n")


@pytest.mark.parametrize("trailer", [b"x: " + b"y" * 1_000_000, b"x: y\r\n" * 20_000], ids=["one", "many"])
def test_endless_trailers_close_the_connection(client: socket.socket, trailer: bytes) -> None:
    client.sendall(REQUEST + b"transfer-encoding: chunked\r\n\r\n0\r\n")
    with pytest.raises((ConnectionError, TimeoutError)) as caught:  # noqa: PT012 - any of the sends may find it closed
        for _ in range(50):
            client.sendall(trailer)
    assert not isinstance(caught.value, TimeoutError), "still read"


def test_trailers_are_not_added_to_request_headers(server: HttpServer, client: socket.socket) -> None:
    """A proxy checks heads only: a token in a trailer would pass it."""
    client.sendall(REQUEST + b"\r\n")
    assert answer(client) == (200, b"ok\n")
    (connection,) = server._server.server_state.connections
    body = b"2\r\n{}\r\n0\r\nauthorization: Bearer x\r\n\r\n"
    client.sendall(b"POST /api/v1/pause HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n" + body)
    assert answer(client)[0] >= 400
    assert [name for name, _ in connection.cycle.scope["headers"]] == [b"host", b"transfer-encoding"]
