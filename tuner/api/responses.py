"""Responses that all routes share: JSON, errors as one sentence, and security headers for browsers."""

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

# No inline scripts and no foreign sources: a topic or client name that looks like a script is never executed.
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
    """Returns an error as ``{"detail": "…"}``.

    Args:
        retry_after_s: sent as Retry-After, rounded up to whole seconds.
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
    """A response body that is expensive to build. It is built once per stamp; concurrent requests wait for the same build."""

    def __init__(self, build: Callable[[], bytes], stamp: Callable[[], object]) -> None:
        self._build = build
        self._stamp = stamp
        self._lock = threading.Lock()
        self._build_count = 0
        self._body_stamp: object = None
        self._body = b""

    def body(self) -> bytes:
        builds_at_request = self._build_count
        with self._lock:
            stamp = self._stamp()
            # A body whose build started after this request is new enough, even if its stamp has expired meanwhile. If the body were
            # built again, the waiting requests would each build it, one after the other.
            if stamp != self._body_stamp and self._build_count <= builds_at_request:
                self._build_count += 1
                self._body, self._body_stamp = self._build(), stamp
            return self._body


class SecurityHeaders:
    """Adds the security headers to every response, including errors, and answers an unexpected exception with status 500."""

    def __init__(self, app: ASGIApp, *, tls: bool = False) -> None:
        self._app = app
        # Browsers and proxies must not cache responses: a response describes this second, and may be for this caller only.
        headers = {**SECURITY_HEADERS, **(_TLS_ONLY if tls else {}), "cache-control": "no-store"}
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        has_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                headers = message.get("headers", [])
                names = {name.lower() for name, _ in headers}
                # A new list: a cached response uses its own list again, so that list must not change.
                message["headers"] = [*headers, *(header for header in self._headers if header[0] not in names)]
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            if has_started:
                raise  # The response has been sent in part; the server closes the connection.
            # Formatted here, as some loggers add the values of variables, which may be tokens.
            trace = "".join(traceback.format_exception(error))
            log.error(
                "a request over HTTP failed with an unexpected error, and was answered with status 500",
                method=scope["method"],
                path=scope["path"],
                traceback=trace,
            )
            await error_response(500, "the tuner failed to answer this request: see the tuner's log")(
                scope, receive, send_with_headers
            )
