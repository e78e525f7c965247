"""Limits the number of concurrent requests: in total, from the network, and per address.

The limit is below the size of the connection table, so that a new connection always finds a slot, and a health check is answered
while other requests are refused with 503. Scrapes of /metrics have limits of their own, so that other requests cannot block them.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.shared.connection_limits import ConnectionSlots
from tuner.api.connection_table import ConnectionLimits, process_limits
from tuner.api.limits import HEALTH_PATHS, METRICS_PATHS, peer_address
from tuner.api.responses import error_response


class ConcurrentRequestLimiter:
    """Middleware: answers 503 while too many requests are in progress. Health checks are not counted, as they are cheap."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits | None = None) -> None:
        """
        Args:
            limits: None means the limits of this process.
        """
        limits = limits or process_limits()
        self._app = app
        self._requests = ConnectionSlots(limits.requests)
        self._scrapes = ConnectionSlots(limits.scrapes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        in_progress = self._scrapes if scope["path"] in METRICS_PATHS else self._requests
        address = peer_address(scope)
        if not in_progress.acquire(address):
            await error_response(503, "too many requests at the same time: try again in a moment", retry_after_s=1)(
                scope, receive, send
            )
            return
        try:
            await self._app(scope, receive, send)
        finally:
            in_progress.release(address)
