"""Limits how many requests are answered at once: in all, from the network, and of one address.

Answers to slow readers and events keep their connection. With fewer of them than the connection table has places, a new
connection always finds one, and a health check is answered while everything else is refused with 503. Scrapes have limits of
their own, so that other requests do not keep Prometheus out.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.shared.connection_limits import ConnectionSlots
from tuner.api.connection_table import ConnectionLimits, process_limits
from tuner.api.limits import HEALTH_PATHS, METRICS_PATHS, peer_address
from tuner.api.responses import error_response


class ConcurrentRequestLimiter:
    """Middleware: answers 503 while too many requests are under way. Probes are not counted: their answers are small."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits | None = None) -> None:
        """
        Args:
            limits: None: those of this process.
        """
        limits = limits or process_limits()
        self._app = app
        self._requests = ConnectionSlots(limits.requests)
        self._scrapes = ConnectionSlots(limits.scrapes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        under_way = self._scrapes if scope["path"] in METRICS_PATHS else self._requests
        address = peer_address(scope)
        if not under_way.acquire(address):
            await error_response(503, "too many requests at once: ask again when others are answered", retry_after_s=1)(
                scope, receive, send
            )
            return
        try:
            await self._app(scope, receive, send)
        finally:
            under_way.release(address)
