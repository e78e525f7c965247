"""Answers of this cycle, given again before any route is asked: nine tenths of a request's cost are the way to an answer
that is there already.

Invariant: an answer is given again only while the route would make the same one, and only to who may have it: the door is asked
each time. Whoever the door would refuse goes on to the route, which says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tuner.api.access_guard import AccessGuard
from tuner.api.auth import ApiRole

_SLOT = "rheostat.lane"
_KEPT_MAX = 128
_QUERY_BYTES_MAX = 512  # Nobody who looks in earnest asks more; so what is kept is bounded.

Stamp = Callable[[], object]


def no_stamp() -> None:
    """The stamp of what nothing else changes."""


class CachedResponse(Response):
    """An answer that holds as long as its stamp stays the same."""

    def __init__(self, body: bytes, media_type: str, stamped: object, stamp: Stamp) -> None:
        """
        Args:
            stamped: what the stamp was before the body was made.
        """
        super().__init__(body, media_type=media_type)
        self.stamped = stamped
        self.stamp = stamp

    @property
    def holds(self) -> bool:
        return self.stamp() == self.stamped

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (slot := scope.get(_SLOT)) is not None:
            slot.answer = self
        await super().__call__(scope, receive, send)


@dataclass(slots=True)
class _Slot:
    """Where a route's answer is left for the next who asks; goes down to the route in the scope."""

    answer: CachedResponse | None = None


class ResponseCache:
    def __init__(self, app: ASGIApp, guard: AccessGuard) -> None:
        self._app = app
        self._guard = guard
        self._kept: dict[tuple[str, bytes, ApiRole], CachedResponse] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or len(scope["query_string"]) > _QUERY_BYTES_MAX:
            await self._app(scope, receive, send)
            return
        caller = self._guard.reader(scope)
        if caller is None:
            await self._app(scope, receive, send)
            return
        key = (scope["path"], scope["query_string"], caller.role)
        kept = self._kept.get(key)
        if kept is not None and kept.holds:
            await kept(scope, receive, send)
            return
        slot = _Slot()
        await self._app({**scope, _SLOT: slot}, receive, send)
        if slot.answer is not None:
            self._keep(key, slot.answer)

    def _keep(self, key: tuple[str, bytes, ApiRole], answer: CachedResponse) -> None:
        if key not in self._kept and len(self._kept) >= _KEPT_MAX:
            self._kept = {known: each for known, each in self._kept.items() if each.holds}
            if len(self._kept) >= _KEPT_MAX:
                self._kept = {}
        self._kept[key] = answer
