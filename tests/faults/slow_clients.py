"""Clients that connect to the tuner's HTTP server and send almost nothing, as long as a test runs."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from types import TracebackType

HOST = "127.0.0.1"
_ONE_ADDRESS, _ADDRESSES = 200, 120
_ROUND_S = 0.5
_HEAD = b"GET /api/v1/status HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: " + b"a" * 4096


class SlowClients:
    """Keeps 200 connections of one address, and one of each of 120 more; each sends a byte every half second."""

    def __init__(self, port: int, *, tls: bool) -> None:
        self._port = port
        self._tls = tls
        self._stop = threading.Event()
        self._open: dict[
            str, tuple[socket.socket, int, float]
        ] = {}  # Its socket, the bytes sent, and when it was made.
        self._thread = threading.Thread(target=self._run, name="slow clients", daemon=True)
        self.made = 0
        self.lived_s_max = 0.0
        self.failure: Exception | None = None

    def __enter__(self) -> SlowClients:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=30)
        for client, _, _ in self._open.values():
            client.close()

    def _run(self) -> None:
        sources = [(f"one {number}", HOST) for number in range(_ONE_ADDRESS)]
        sources += [(f"127.0.1.{1 + number}", f"127.0.1.{1 + number}") for number in range(_ADDRESSES)]
        try:
            while not self._stop.wait(_ROUND_S):
                for name, source in sources:
                    self._send_a_byte(name, source)
        except Exception as error:  # noqa: BLE001 - the row looks at it
            self.failure = error

    def _send_a_byte(self, name: str, source: str) -> None:
        now_s = time.monotonic()
        if name not in self._open:
            client = socket.create_connection((HOST, self._port), timeout=5, source_address=(source, 0))
            self._open[name] = client, 0, now_s
            self.made += 1
        client, sent, made_s = self._open[name]
        try:
            # Over TLS these bytes are the head of a long record.
            client.sendall((b"\x16\x03\x01\x40\x00" + b"\x01" * 4096 if self._tls else _HEAD)[sent : sent + 1])
            self._open[name] = client, sent + 1, made_s
        except OSError:
            self.lived_s_max = max(self.lived_s_max, now_s - made_s)
            client.close()
            del self._open[name]


def status_of(path: str, port: int, *, tls: bool) -> int:
    """Sends one request; returns the status, or raises OSError."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if tls:
        asked: http.client.HTTPConnection = http.client.HTTPSConnection(HOST, port, timeout=5, context=context)
    else:
        asked = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        asked.request("GET", path)
        return asked.getresponse().status
    finally:
        asked.close()
