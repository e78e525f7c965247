"""Limits how many requests are answered at once: in all, from the network, and of one address.

Answers to slow readers and events keep their connection. With fewer of them than the connection table has places, a new
connection always finds one, and a health check is answered while everything else is refused with 503. Scrapes have limits of
their own, so that other requests do not keep Prometheus out. Clients on this machine have places that those on the network
cannot take.
"""

from __future__ import annotations

from collections import Counter

from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.addresses import counted_address, is_loopback
from tuner.api.answers import refusal
from tuner.api.connection_table import ConnectionLimits, RequestLimits, limits_here
from tuner.api.limits import PROBES, SCRAPES, peer


class RequestsAtOnce:
    """Middleware: answers 503 while too many requests are under way. Probes are not counted: their answers are small."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits | None = None) -> None:
        """
        Args:
            limits: None: those of this process.
        """
        limits = limits or limits_here()
        self._app = app
        self._requests = _UnderWay(limits.requests)
        self._scrapes = _UnderWay(limits.scrapes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        under_way = self._scrapes if scope["path"] in SCRAPES else self._requests
        address = counted_address(peer(scope))
        if not under_way.begin(address):
            await refusal(503, "too many requests at once: ask again when others are answered", retry_after_s=1)(
                scope, receive, send
            )
            return
        try:
            await self._app(scope, receive, send)
        finally:
            under_way.end(address)


class _UnderWay:
    """The requests of one kind that are being answered, by address."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._counts: Counter[str] = Counter()

    def begin(self, address: str) -> bool:
        """Counts one more request; False: it is refused, and not counted."""
        if self._counts[address] >= self._limits.per_address or self._counts.total() >= self._limits.in_all:
            return False
        from_network = sum(count for each, count in self._counts.items() if not is_loopback(each))
        if not is_loopback(address) and from_network >= self._limits.from_network:
            return False
        self._counts[address] += 1
        return True

    def end(self, address: str) -> None:
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]
