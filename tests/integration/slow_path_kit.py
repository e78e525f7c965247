"""A lab whose brokers replicate over a path with a round-trip time, as between data centres.

A fetcher thread sends its next request only after the answer to the last one. So the round-trip time and the size of an answer
bound what one thread copies, while the processor, the disks and the path itself are nearly idle.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import suppress

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.node import HOST, Node, free_ports
from streaming.shared.contract import NodeRole

_CHUNK_BYTES = 1 << 18
_START_S_MAX = 10.0
_LISTENER = "REPLICATION"


class SlowPathLab(Lab):
    """A lab whose brokers copy from each other through a ``DelayingProxy``. Clients reach the brokers directly."""

    def __init__(self, spec: LabSpec, *, round_trip_s: float) -> None:
        super().__init__(spec)
        self._proxy = DelayingProxy(round_trip_s)
        self._ports: dict[int, tuple[int, int]] = {}  # By broker: its own port, and the port of the proxy.

    def _start(self) -> None:
        brokers = range(1, self.spec.brokers + 1)
        ports = free_ports(2 * len(brokers))
        self._ports = {broker: (ports[2 * i], ports[2 * i + 1]) for i, broker in enumerate(brokers)}
        self._proxy.start({proxied: own for own, proxied in self._ports.values()})
        super()._start()

    def close(self) -> None:
        super().close()
        self._proxy.stop()

    def _settings(self, node: Node, voters: str) -> dict[str, str]:
        settings = super()._settings(node, voters)
        if node.role is NodeRole.BROKER:
            own, proxied = self._ports[node.node_id]
            settings["listeners"] += f",{_LISTENER}://{HOST}:{own}"
            settings["advertised.listeners"] += f",{_LISTENER}://{HOST}:{proxied}"
            settings["listener.security.protocol.map"] += f",{_LISTENER}:PLAINTEXT"
            settings["inter.broker.listener.name"] = _LISTENER
        return settings


class DelayingProxy:
    """Forwards connections, and delivers every byte half a round trip after it came; one thread serves all connections."""

    def __init__(self, round_trip_s: float) -> None:
        self._one_way_s = round_trip_s / 2
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="delaying-proxy", daemon=True)

    def start(self, targets: Mapping[int, int]) -> None:
        """Begins to listen.

        Args:
            targets: the port to forward to, by the port to listen on.
        """
        self._thread.start()
        for port, target in targets.items():
            asyncio.run_coroutine_threadsafe(self._listen(port, target), self._loop).result(_START_S_MAX)

    def stop(self) -> None:
        """Closes all connections and ends the thread."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result(_START_S_MAX)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_START_S_MAX)
        self._loop.close()

    async def _listen(self, port: int, target: int) -> None:
        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await self._forward(reader, writer, target)

        await asyncio.start_server(forward, HOST, port, limit=_CHUNK_BYTES)

    async def _cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, target, limit=_CHUNK_BYTES)
        except OSError:  # The broker does not listen yet, or has ended: its peer tries again.
            writer.close()
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(reader, far_writer))
                both.create_task(self._copy(far_reader, writer))
        except* OSError:
            pass  # One end has closed its connection, so the other one is closed too.
        finally:
            for end in (writer, far_writer):
                end.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copies one direction: reads at once, and writes each chunk when its time has come."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due_s, chunk = await under_way.get()
                await asyncio.sleep(due_s - self._loop.time())
                if not chunk:
                    return
                writer.write(chunk)
                await writer.drain()

        async with asyncio.TaskGroup() as group:
            group.create_task(deliver())
            while True:
                chunk = await reader.read(_CHUNK_BYTES)
                under_way.put_nowait((self._loop.time() + self._one_way_s, chunk))
                if not chunk:
                    break
        with suppress(OSError):
            writer.write_eof()
