"""Middleware that reuses responses within a cycle. Reuse skips the route, which causes nine tenths of the cost of a request.

Invariants: a response is reused only while the route would build the same response, and only after an access check. A request that
fails the check is passed to the route, which answers with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tuner.api.access_guard import AccessGuard
from tuner.api.auth import ApiRole

_SLOT = "rheostat.response_slot"
_RESPONSES_MAX, _BYTES_MAX = 128, 16_000_000  # A cache that is full of valid responses is emptied.
_QUERY_BYTES_MAX = 512  # Longer queries are not cached, which bounds the memory of the cache.

# Returns the current stamp: a value that changes whenever a cached response becomes invalid.
StampSource = Callable[[], object]


def no_stamp() -> None:
    """The stamp source of a response that depends only on the cycle."""


class CachedResponse(Response):
    """A response that stays valid as long as its stamp is unchanged."""

    def __init__(self, body: bytes, media_type: str, build_stamp: object, current_stamp: StampSource) -> None:
        """
        Args:
            build_stamp: the stamp before the body was built.
            current_stamp: returns the current stamp.
        """
        super().__init__(body, media_type=media_type)
        self._build_stamp = build_stamp
        self._current_stamp = current_stamp

    @property
    def is_valid(self) -> bool:
        return self._current_stamp() == self._build_stamp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (slot := scope.get(_SLOT)) is not None:
            slot.response = self
        await super().__call__(scope, receive, send)


@dataclass(slots=True)
class _Slot:
    """Receives the route's response for the cache; it is passed to the route in the ASGI scope."""

    response: CachedResponse | None = None


class ResponseCache:
    """Caches GET responses by path, query and role."""

    def __init__(self, app: ASGIApp, guard: AccessGuard) -> None:
        self._app = app
        self._guard = guard
        self._responses: dict[tuple[str, bytes, ApiRole], CachedResponse] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or len(scope["query_string"]) > _QUERY_BYTES_MAX:
            await self._app(scope, receive, send)
            return
        caller = self._guard.find_reader(scope)
        if caller is None:
            await self._app(scope, receive, send)
            return
        key = (scope["path"], scope["query_string"], caller.role)
        cached = self._responses.get(key)
        if cached is not None and cached.is_valid:
            await cached(scope, receive, send)
            return
        slot = _Slot()
        await self._app({**scope, _SLOT: slot}, receive, send)
        if slot.response is not None:
            self._store(key, slot.response)

    def _store(self, key: tuple[str, bytes, ApiRole], response: CachedResponse) -> None:
        if not self._has_room(key, response):
            self._responses = {known: cached for known, cached in self._responses.items() if cached.is_valid}
            if not self._has_room(key, response):
                self._responses = {}
        if len(response.body) <= _BYTES_MAX:
            self._responses[key] = response

    def _has_room(self, key: tuple[str, bytes, ApiRole], response: CachedResponse) -> bool:
        others = [cached for known, cached in self._responses.items() if known != key]
        size_bytes = len(response.body) + sum(len(cached.body) for cached in others)
        return len(others) < _RESPONSES_MAX and size_bytes <= _BYTES_MAX
