"""Answers that every route gives alike: one sentence on what was wrong, and the headers that keep a browser on its guard."""

from __future__ import annotations

import json
import math
import threading
import traceback
from collections.abc import Callable

import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = structlog.get_logger("tuner")

# Nothing inline and nothing from elsewhere: a topic's or a client's name that looks like a script stays a name.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_TLS_ONLY = {"strict-transport-security": "max-age=31536000"}


def error_response(status: int, detail: str, *, retry_after_s: float | None = None) -> Response:
    """
    Args:
        retry_after_s: told in whole seconds, rounded up, as HTTP asks.
    """
    headers = {} if retry_after_s is None else {"retry-after": str(max(1, math.ceil(retry_after_s)))}
    return json_response({"detail": detail}, status, headers)


def json_response(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return json_bytes_response(json_bytes(body), status, headers)


def json_bytes(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


def json_bytes_response(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")


class SharedBody:
    """A body that takes long to make, made once for all who ask while its stamp stays the same; they wait for the first of them."""

    def __init__(self, make: Callable[[], bytes], stamp: Callable[[], object]) -> None:
        self._make = make
        self._stamp = stamp
        self._lock = threading.Lock()
        self._begun = 0
        self._stamped: object = None
        self._body = b""

    def body(self) -> bytes:
        asked = self._begun
        with self._lock:
            stamped = self._stamp()
            # What was begun after this one asked is new enough, also where it took longer than its stamp was good for: else each
            # of those who wait would make it again, one after the other.
            if stamped != self._stamped and self._begun <= asked:
                self._begun += 1
                self._body, self._stamped = self._make(), stamped
            return self._body


class SecurityHeaders:
    """Puts the headers on every answer, also on those that no route gave, and on that to a request which broke something."""

    def __init__(self, app: ASGIApp, *, tls: bool = False) -> None:
        self._app = app
        # What stands in an answer is of this second, and some of it is for this caller alone.
        headers = {**SECURITY_HEADERS, **(_TLS_ONLY if tls else {}), "cache-control": "no-store"}
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                given = message.get("headers", [])
                named = {name.lower() for name, _ in given}
                # An answer that is given again keeps its own list of them.
                message["headers"] = [*given, *(header for header in self._headers if header[0] not in named)]
            await send(message)

        try:
            await self._app(scope, receive, guarded)
        except Exception as error:
            if begun:
                raise  # Half an answer cannot be made a whole one: the server ends the connection.
            # As text: values of variables, which some loggers add, may be tokens.
            where = "".join(traceback.format_exception(error))
            log.error("a request over HTTP failed", method=scope["method"], path=scope["path"], traceback=where)
            await error_response(500, "the tuner could not answer this: its log says why")(scope, receive, guarded)
