"""Answers that every route gives alike: one sentence on what was wrong, and the headers that keep a browser on its guard."""

from __future__ import annotations

import json
import math

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Nothing inline and nothing from elsewhere: a topic's or a client's name that looks like a script stays a name.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_TLS_ONLY = {"strict-transport-security": "max-age=31536000"}


def refusal(status: int, detail: str, *, retry_after_s: float | None = None) -> Response:
    """
    Args:
        retry_after_s: told in whole seconds, rounded up, as HTTP asks.
    """
    headers = {} if retry_after_s is None else {"retry-after": str(max(1, math.ceil(retry_after_s)))}
    return json_answer({"detail": detail}, status, headers)


def json_answer(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return encoded(json_bytes(body), status, headers)


def json_bytes(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


def encoded(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")


class Guarded:
    """Puts the headers on every answer, also on those that no route gave."""

    def __init__(self, app: ASGIApp, *, tls: bool = False) -> None:
        self._app = app
        headers = {**HEADERS, **(_TLS_ONLY if tls else {})}
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message.setdefault("headers", [])
                named = {name.lower() for name, _ in given}
                given.extend((name, value) for name, value in self._headers if name not in named)
                # What stands here is of this second, and some of it is for this caller alone.
                if b"cache-control" not in named:
                    given.append((b"cache-control", b"no-store"))
            await send(message)

        await self._app(scope, receive, guarded)
