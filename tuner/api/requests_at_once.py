"""Limits how many requests are answered at once: in all, from the network, and of one address.

Answers to slow readers and events keep their connection. With fewer of them than the connection table has places, a new
connection always finds one, and a health check is answered while everything else is refused with 503. Clients on this machine
have places that those on the network cannot take.
"""

from __future__ import annotations

from collections import Counter

from starlette.types import ASGIApp, Receive, Scope, Send

from tuner.api.addresses import counted_address, is_loopback
from tuner.api.answers import refusal
from tuner.api.connection_table import ConnectionLimits, limits_here
from tuner.api.limits import HEALTH_CHECKS, peer


class RequestsAtOnce:
    """Middleware: answers 503 while too many requests are under way. Health checks are not counted."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits | None = None) -> None:
        """
        Args:
            limits: None: those of this process.
        """
        self._app = app
        self._limits = limits or limits_here()
        self._under_way: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH_CHECKS:
            await self._app(scope, receive, send)
            return
        address = counted_address(peer(scope))
        if not self._has_room(address):
            await refusal(503, "too many requests at once: ask again when others are answered", retry_after_s=1)(
                scope, receive, send
            )
            return
        self._under_way[address] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way[address] -= 1
            if not self._under_way[address]:
                del self._under_way[address]

    def _has_room(self, address: str) -> bool:
        if (
            self._under_way[address] >= self._limits.requests_per_address
            or self._under_way.total() >= self._limits.requests
        ):
            return False
        from_network = sum(count for each, count in self._under_way.items() if not is_loopback(each))
        return is_loopback(address) or from_network < self._limits.requests_from_network
