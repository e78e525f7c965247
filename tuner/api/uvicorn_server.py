"""uvicorn's server with the tuner's own acceptor, because asyncio's acceptor has no connection limit."""

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

_SHUTDOWN_S = 2  # Time for requests in progress when the server stops.
_NEVER_S = 86_400  # Disables uvicorn's own limit: the connection table closes idle connections.
_TICKS_PER_EXPIRY_CHECK, _TICKS_PER_CERTIFICATE_CHECK = 5, 20  # A tick of uvicorn is 0.1 s.


class LimitedServer(uvicorn.Server):
    """A uvicorn server that accepts connections within the limits of the connection table."""

    def __init__(self, app: ASGIApp, listening: socket.socket, certificate: Certificate | None) -> None:
        """
        Args:
            certificate: None means plain HTTP.
        """
        super().__init__(_config(app))
        self._listening = listening
        self._certificate = certificate
        limits = process_limits()
        self._table = ConnectionTable(limits.connections, limits.connections_per_address)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - the constructor received the socket
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()

        def make_protocol(connection: OpenConnection) -> Connection:
            return Connection(self.config, self.server_state, self.lifespan.state, loop, connection, self._table.remove)

        tls = self._certificate.context if self._certificate is not None else lambda: None
        self._acceptor = Acceptor(self._listening, self._table, make_protocol, tls)
        self.servers = [cast(asyncio.Server, self._acceptor)]  # uvicorn only closes them.
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_PER_EXPIRY_CHECK == 0:
            self._acceptor.tick()
        if self._certificate is not None and counter % _TICKS_PER_CERTIFICATE_CHECK == 0:
            self._certificate.reload_if_changed()
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
        timeout_graceful_shutdown=_SHUTDOWN_S,
        proxy_headers=False,
        http=Connection,
        ws="none",
    )
    config.load()
    return config
