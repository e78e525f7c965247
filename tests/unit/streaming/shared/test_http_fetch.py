"""A fetch ends in time, wherever the server is slow: in the TLS handshake, in the headers, or in the body."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from streaming.shared.http_fetch import fetch

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"


@contextmanager
def server(first: bytes, repeated: bytes) -> Iterator[str]:
    """Yields the address of a server that sends ``first``, and after it ``repeated`` again and again."""
    stopped = threading.Event()

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(first)
                while repeated and not stopped.wait(0.02):
                    connection.sendall(repeated)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stopped.set()


@pytest.mark.parametrize(
    ("scheme", "first", "repeated"),
    [
        ("http", b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
        ("http", HEAD[:-2], b"X-Slow: x\r\n"),
        ("http", HEAD.replace(b"4", b"400000"), b"x"),
        ("http", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
        # The head of a TLS record with a handshake message of 16 KB.
        ("https", b"\x16\x03\x03\x40\x00\x02\x00\x3f\xf0", b"\x00"),
    ],
    ids=["header", "headers", "body", "chunk", "handshake"],
)
def test_slow_server_is_cut_off(scheme: str, first: bytes, repeated: bytes) -> None:
    began_s = time.monotonic()
    with server(first, repeated) as address, pytest.raises(TimeoutError):
        fetch(f"{scheme}://{address}/", ssl.create_default_context(), 0.3)
    assert time.monotonic() - began_s < 5


def test_answer_in_time_is_returned() -> None:
    with server(HEAD + b"body", b"") as address:
        assert fetch(f"http://{address}/", ssl.create_default_context(), 5.0) == b"body"


def test_server_of_this_machine_is_not_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with server(HEAD + b"body", b"") as address, server(HEAD + b"evil", b"") as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy}")
        assert fetch(f"http://{address}/", ssl.create_default_context(), 5.0) == b"body"
        assert fetch("http://rheostat.example/", ssl.create_default_context(), 5.0) == b"evil"
