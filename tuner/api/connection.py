"""One HTTP connection: limits the size of request heads, and reports its phase to the connection table, which limits time.

The class builds on uvicorn's protocol with the C parser httptools, as a parser in Python would take half of a request's time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from httptools import HttpParserError
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from tuner.api.connection_table import PHASE_S_MAX, OpenConnection, Phase
from tuner.api.responses import json_bytes

_HEAD_BYTES_MAX = 64 * 1024  # All of a request but its body: head, chunk lengths, trailers.
_CLOSE_S_MAX = 1.0  # Time to close a connection that has no response to send.
_TOO_SLOW = {
    phase: json_bytes({"detail": f"{phase.value} did not arrive within {PHASE_S_MAX[phase]:.0f} s: send it at once"})
    for phase in (Phase.HEAD, Phase.BODY)
}


class Connection(HttpToolsProtocol):
    """Reports its phase to the connection table, and refuses a head that is too large or too slow.

    The base class's ``self.cycle`` is the request whose head was completed last, with its response. It has nothing to do with the
    tuner's cycles.
    """

    _head_bytes = 0
    _body_bytes = 0  # The number of body bytes in the data received last.
    _in_head = True  # Whether the next bytes belong to a request head, or to no request.
    _head_has_begun = False
    _request_ended = False  # Whether a request ended in the data received last.
    _has_host = False  # Whether the current head has a Host header.

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        loop: asyncio.AbstractEventLoop,
        entry: OpenConnection,
        on_lost: Callable[[OpenConnection], None],
    ) -> None:
        """
        Args:
            entry: this connection's entry in the connection table.
            on_lost: called once, after the connection has been closed.
        """
        super().__init__(config, server_state, app_state, loop)
        self._entry = entry
        self._on_lost = on_lost

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._entry.abort = transport.abort
        self._entry.expire = self._expire
        self._enter(Phase.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._on_lost(self._entry)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._entry.phase is Phase.IDLE:
            self._enter(Phase.HEAD)
        self._request_ended, self._body_bytes = False, 0
        super().data_received(data)
        if self._request_ended:
            # The rest of the data begins the next request. It is not counted, as it is smaller than one read from the socket.
            self._head_bytes = 0
            return
        # The parser buffers heads and trailers without a limit, so an endless head or trailer is refused here.
        self._head_bytes += len(data) - self._body_bytes
        if self._head_bytes <= _HEAD_BYTES_MAX or self.transport.is_closing():
            return
        if self._in_head or not self.cycle.response_started:
            self.send_400_response("The head of the request is too large.")
        else:
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_has_begun = True
        self._has_host = False

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers are not part of the head (RFC 9110, 6.5.1), and have not passed the access checks.
        if not self._in_head:
            return
        if name.lower() == b"host":
            # With two Host headers, a proxy and this server could choose different hosts (RFC 9112, 3.2).
            if self._has_host:
                raise HttpParserError("the request has a second Host header")
            self._has_host = True
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = self._head_has_begun = False
        super().on_headers_complete()
        self._enter(Phase.BODY)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = self._request_ended = True
        # A route that does not read the body may have responded before the body ended.
        self._enter(self._next_phase() if self.cycle.response_complete else Phase.RESPONSE)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._enter(Phase.CLOSING)
        elif not self.cycle.response_complete:
            # The next request has arrived before this response was complete: ``self.cycle`` is already that request.
            self._enter(Phase.RESPONSE)
        elif self._in_head:
            self._enter(self._next_phase())
        # Otherwise the route has responded before the end of the body: the phase stays BODY until ``on_message_complete``.

    def pause_writing(self) -> None:
        super().pause_writing()
        self._entry.unread_since_s = time.monotonic()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._entry.unread_since_s = None

    def _next_phase(self) -> Phase:
        """Returns the phase after a response; the next head may already be arriving."""
        return Phase.HEAD if self._head_has_begun else Phase.IDLE

    def _enter(self, phase: Phase) -> None:
        self._entry.enter(phase, time.monotonic())

    def _expire(self) -> bool:
        """Closes the connection: first gracefully, and by a reset if that takes too long.

        Returns:
            Whether the client was too slow; an idle client is not.
        """
        phase, is_unread = self._entry.phase, self._entry.is_unread(time.monotonic())
        if self.transport.is_closing() or is_unread:
            self.transport.abort()
            return is_unread
        # A refusal is a response, so there must be a request that has begun and has no response yet.
        can_refuse = self._head_has_begun if phase is Phase.HEAD else not self.cycle.response_started
        if phase in _TOO_SLOW and can_refuse:
            self.transport.write(_request_timeout(_TOO_SLOW[phase]))
        # An idle client has kept its time limits, so it gets the time of CLOSING to read the rest of its last response.
        has_unsent_response = phase is Phase.IDLE and self.transport.get_write_buffer_size() > 0
        self.transport.close()
        self._enter(Phase.CLOSING)
        if not has_unsent_response:
            self._entry.deadline_s = time.monotonic() + _CLOSE_S_MAX
        return phase is Phase.BODY or (phase is Phase.HEAD and self._head_has_begun)


def _request_timeout(body: bytes) -> bytes:
    head = "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
