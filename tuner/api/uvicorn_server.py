"""uvicorn's server with an acceptor of ours: asyncio's accepts connections without a limit."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from tuner.api.acceptor import Acceptor
from tuner.api.certificate import Certificate
from tuner.api.connection import Connection
from tuner.api.connection_table import ConnectionTable, OpenConnection, process_limits

_GOODBYE_S = 2  # For answers under way when the server stops.
_NEVER_S = 86_400  # The connection table ends idle connections.
_TICKS_PER_SWEEP, _TICKS_PER_LOOK = 5, 20  # uvicorn's, of a tenth of a second each.


class LimitedServer(uvicorn.Server):
    def __init__(self, app: ASGIApp, listening: socket.socket, certificate: Certificate | None) -> None:
        """
        Args:
            certificate: None: it speaks plain HTTP.
        """
        super().__init__(_config(app))
        self._listening = listening
        self._certificate = certificate
        limits = process_limits()
        self._table = ConnectionTable(limits.connections, limits.connections_per_address)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - it has its own
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()

        def protocol(place: OpenConnection) -> Connection:
            return Connection(self.config, self.server_state, self.lifespan.state, loop, place, self._table.remove)

        tls = self._certificate.context if self._certificate is not None else lambda: None
        self._acceptor = Acceptor(self._listening, self._table, protocol, tls)
        self.servers = [cast(asyncio.Server, self._acceptor)]  # For their end, which is all that uvicorn asks of them.
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_PER_SWEEP == 0:
            self._acceptor.tick()
        if self._certificate is not None and counter % _TICKS_PER_LOOK == 0:
            self._certificate.look()
        return await super().on_tick(counter)


def _config(app: ASGIApp) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=False,
        timeout_keep_alive=_NEVER_S,
        timeout_graceful_shutdown=_GOODBYE_S,
        proxy_headers=False,
        http=Connection,
        ws="none",
    )
    config.load()
    return config
