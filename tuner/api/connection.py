"""What one connection over HTTP may take: of all that is open so much and no more, whoever is at the other end.

The parser is C's: beside a tuner that needs the processor itself, one in Python takes half of a request's time.
"""

from __future__ import annotations

from typing import Any

from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_CONNECTIONS_MAX = 200
_SILENT_S_MAX = 10.0
_HEAD_BYTES_MAX = 64 * 1024  # Of a request, all but its body: its head, the lengths of its chunks, its trailers.


class Connection(HttpToolsProtocol):
    """Of open connections so many and no more: the tuner's own to Kafka need descriptors, too. Who says nothing is sent home."""

    _head_bytes = 0
    _body_bytes = 0  # Of what was received last.
    _in_head = True
    _ended_one = False  # With what was received last.
    _has_host = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > _CONNECTIONS_MAX:
            transport.abort()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(_SILENT_S_MAX, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._ended_one, self._body_bytes = False, 0
        super().data_received(data)
        if self._ended_one:
            self._head_bytes = 0  # What has come of the next one is no more than a read's worth.
            return
        # The parser keeps all it is given of a head, and of what follows a body; who sends one without an end is sent home.
        self._head_bytes += len(data) - self._body_bytes
        if self._head_bytes <= _HEAD_BYTES_MAX or self.transport.is_closing():
            return
        if self._in_head or not self.cycle.response_started:
            self.send_400_response("The head of the request is too large.")
        else:
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_host = False

    def on_header(self, name: bytes, value: bytes) -> None:
        # What follows a body is no part of the head (RFC 9110, 6.5.1): whoever looked at that must have seen all there is.
        if not self._in_head:
            return
        if name.lower() == b"host":
            if self._has_host:  # Two readers might take it for two hosts (RFC 9112, 3.2).
                raise HttpParserError("a second Host")
            self._has_host = True
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = self._ended_one = True
