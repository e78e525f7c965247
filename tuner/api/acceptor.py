"""Accepts the connections of the HTTP server within the limits of the connection table, and performs their TLS handshakes.

asyncio's own server has no connection limit, allows a minute for a handshake, and logs thousands of lines a second once file
descriptors run out. This acceptor registers each connection in the connection table before it reads anything from it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Callable

import structlog

from tuner.api.connection_table import PHASE_S_MAX, ConnectionTable, OpenConnection, Phase

log = structlog.get_logger("tuner")

HANDSHAKE_S_MAX = 5.0
_RETRY_S = 0.5
_SUMMARY_S = 60.0  # Interval between two summaries in the log.
_LOGGED_MIN = 10  # Per minute. Fewer are normal: a slow client, or a load balancer that only connects.
_ADDRESSES_NAMED_MAX = 3
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

MakeProtocol = Callable[[OpenConnection], asyncio.Protocol]


class Acceptor:
    """Accepts connections in the server's event loop; uvicorn closes it like an asyncio server."""

    def __init__(
        self,
        listening: socket.socket,
        table: ConnectionTable,
        make_protocol: MakeProtocol,
        tls: Callable[[], ssl.SSLContext | None],
    ) -> None:
        """
        Args:
            make_protocol: creates the protocol object that reads requests from a connection and answers them.
            tls: returns the TLS context for the next connection; None means plain HTTP.
        """
        listening.setblocking(False)
        self._listening = listening
        self._table = table
        self._make_protocol = make_protocol
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._failed_handshakes = 0
        self._summary_at_s = time.monotonic()
        self._accepting = self._loop.create_task(self._accept_all())

    def close(self) -> None:
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)

    def tick(self) -> None:
        """Closes late connections, and logs a summary of closed connections. The server calls it several times a second.

        Raises:
            Exception: the accepting task has failed; no more connections are accepted.
        """
        if self._accepting.done():
            self._accepting.result()
        now_s = time.monotonic()
        self._table.expire_late(now_s)
        if now_s - self._summary_at_s >= _SUMMARY_S:
            self._log_summary(now_s)

    async def _accept_all(self) -> None:
        while True:
            try:
                accepted, address = await self._loop.sock_accept(self._listening)
            except OSError as error:
                # The manual page accept(2) advises a retry, because the connection may have caused the error and not this machine.
                if error.errno in _OUT_OF_RESOURCES:
                    self._table.evict_one()
                    log.error(
                        "an HTTP connection could not be accepted, because this process or machine lacks file descriptors or "
                        "memory; trying again",
                        error=str(error),
                        in_s=_RETRY_S,
                    )
                await asyncio.sleep(_RETRY_S)
                continue
            self._admit(accepted, str(address[0]))
            # Lets the new task start before the next connection can evict it: a task that is cancelled before its start would not
            # close its socket.
            await asyncio.sleep(0)

    def _admit(self, accepted: socket.socket, address: str) -> None:
        connection = self._table.admit(address, time.monotonic())
        if connection is None:
            accepted.close()
            return
        task = self._loop.create_task(self._hand_over(accepted, connection))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

        def abort() -> None:
            task.cancel()

        connection.abort = abort

    async def _hand_over(self, accepted: socket.socket, connection: OpenConnection) -> None:
        """Performs the TLS handshake, if any, and hands the connection to its protocol, which later removes it from the table."""
        context = self._tls()
        handed_over = False
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(connection),
                accepted,
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_S_MAX if context is not None else None,
                ssl_shutdown_timeout=PHASE_S_MAX[Phase.CLOSING] if context is not None else None,
            )
            handed_over = True
        except OSError:  # The client closed the connection, spoke no TLS, or took too long.
            self._failed_handshakes += 1
        finally:
            if not handed_over:
                self._table.remove(connection)

    def _log_summary(self, now_s: float) -> None:
        closed, failed = self._table.take_closed_early(), self._failed_handshakes
        self._failed_handshakes, self._summary_at_s = 0, now_s
        if closed.total() + failed < _LOGGED_MIN:
            return
        addresses = dict(closed.most_common(_ADDRESSES_NAMED_MAX))
        log.warning(
            "HTTP connections were closed early, because their clients were too slow or opened too many connections: look at the "
            "addresses in most_from",
            closed=closed.total(),
            failed_handshakes=failed,
            most_from=addresses,
            open=len(self._table),
        )
