"""Accepts the connections of the HTTP server, within the limits of the connection table, and makes their TLS handshakes.

asyncio's own server accepts without a limit, gives a handshake a minute, and writes thousands of lines a second once file
descriptors run out. This one gives each connection a place before anything is read from it.
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
_SUMMARY_S = 60.0
_TOLD_MIN = 10  # In a minute; fewer are a slow client or a load balancer that only connects.
_ADDRESSES_NAMED_MAX = 3
_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

MakeProtocol = Callable[[OpenConnection], asyncio.Protocol]


class Acceptor:
    """Runs in the event loop of the server; uvicorn closes it like one of asyncio's servers."""

    def __init__(
        self,
        listening: socket.socket,
        table: ConnectionTable,
        make_protocol: MakeProtocol,
        tls: Callable[[], ssl.SSLContext | None],
    ) -> None:
        """
        Args:
            make_protocol: makes what reads from a connection and answers it.
            tls: asked for each connection; None: the server speaks plain HTTP.
        """
        listening.setblocking(False)
        self._listening = listening
        self._table = table
        self._make_protocol = make_protocol
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._failed_handshakes = 0
        self._told_s = time.monotonic()
        self._accepting = self._loop.create_task(self._accept_all())

    def close(self) -> None:
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)

    def tick(self) -> None:
        """Closes what is late, and tells what was closed; to be called about ten times a second.

        Raises:
            Exception: connections are accepted no more.
        """
        if self._accepting.done():
            self._accepting.result()
        now_s = time.monotonic()
        self._table.expire_late(now_s)
        if now_s - self._told_s >= _SUMMARY_S:
            self._tell(now_s)

    async def _accept_all(self) -> None:
        while True:
            try:
                accepted, address = await self._loop.sock_accept(self._listening)
            except OSError as error:
                # As accept(2) advises, also where the fault is of the connection and not of this machine.
                if error.errno in _NO_RESOURCES:
                    self._table.give_up_one()
                    log.error("a connection could not be accepted; trying again", error=str(error), in_s=_RETRY_S)
                await asyncio.sleep(_RETRY_S)
                continue
            self._admit(accepted, str(address[0]))
            # Lets the new task begin before the next connection could take its place: a task that is cancelled before it has
            # begun would not close its socket.
            await asyncio.sleep(0)

    def _admit(self, accepted: socket.socket, address: str) -> None:
        place = self._table.admit(address, time.monotonic())
        if place is None:
            accepted.close()
            return
        task = self._loop.create_task(self._hand_over(accepted, place))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

        def abort() -> None:
            task.cancel()

        place.abort = abort

    async def _hand_over(self, accepted: socket.socket, place: OpenConnection) -> None:
        """Makes the TLS handshake, if any, and gives the connection to its protocol, which removes it from the table."""
        context = self._tls()
        handed_over = False
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(place),
                accepted,
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_S_MAX if context is not None else None,
                ssl_shutdown_timeout=PHASE_S_MAX[Phase.CLOSING] if context is not None else None,
            )
            handed_over = True
        except OSError:  # The client went away, spoke no TLS, or took too long.
            self._failed_handshakes += 1
        finally:
            if not handed_over:
                self._table.remove(place)

    def _tell(self, now_s: float) -> None:
        closed, failed = self._table.take_closed_early(), self._failed_handshakes
        self._failed_handshakes, self._told_s = 0, now_s
        if closed.total() + failed < _TOLD_MIN:
            return
        most = dict(closed.most_common(_ADDRESSES_NAMED_MAX))
        log.warning(
            "connections over HTTP were closed early: their clients were too slow, or there were too many of them",
            closed=closed.total(),
            failed_handshakes=failed,
            most_from=most,
            open=len(self._table),
        )
