"""What one connection over HTTP may take: of all that is open so much and no more, whoever is at the other end.

The parser is C's: beside a tuner that needs the processor itself, one in Python takes half of a request's time.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_CONNECTIONS_MAX = 200
_SILENT_S_MAX = 10.0
_HEAD_BYTES_MAX = 64 * 1024  # Of a request that has not come to the end of its head.


class Connection(HttpToolsProtocol):
    """Of open connections so many and no more: the tuner's own to Kafka need descriptors, too. Who says nothing is sent home."""

    _head_bytes = 0
    _in_head = True
    _ended_one = False  # With what was received last.

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > _CONNECTIONS_MAX:
            transport.abort()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(_SILENT_S_MAX, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._ended_one = False
        super().data_received(data)
        if self._ended_one:
            self._head_bytes = 0  # What has come of the next one is no more than a read's worth.
        elif self._in_head:
            # The parser keeps all it is given of a head; who sends one without an end is sent home.
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES_MAX and not self.transport.is_closing():
                self.send_400_response("The head of the request is too large.")

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = self._ended_one = True
