"""Server-sent events: what has happened, told at once to whoever listens, and never waited for.

Intuition: the loop drops a word into every listener's box and goes on. A box has so many places; whoever does not empty it loses
the oldest word, and is told how many were lost. What was lost is no loss of state: every event only says that something is new,
and what it is can be asked for.

Invariant: telling costs the loop a few microseconds a listener, whatever the listener does or is.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tuner.api.responses import error_response

LISTENERS_MAX = 32
QUEUE_MAX = 64
HEARTBEAT_S = 15.0
UNREAD_S_MAX = 30.0  # So long a connection may take nothing; then it is let go.


class EventListener:
    """One box. Filled by any thread, emptied by the server's."""

    def __init__(self, places: int = QUEUE_MAX, wake: Callable[[], None] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._box: deque[bytes] = deque()
        self._places = places
        self._wake = wake
        self._lost = 0

    def put(self, event: bytes) -> None:
        with self._lock:
            if len(self._box) == self._places:
                self._box.popleft()
                self._lost += 1
            self._box.append(event)
        self._wake()

    def drain(self) -> bytes:
        """All that is there, after how many were lost before it; empty when nothing is."""
        with self._lock:
            events, lost = list(self._box), self._lost
            self._box.clear()
            self._lost = 0
        return b"".join([encode_event("dropped", {"events": lost})] * bool(lost) + events)


class EventHub:
    def __init__(self, listeners_max: int = LISTENERS_MAX) -> None:
        self._lock = threading.Lock()
        self._listeners: set[EventListener] = set()
        self._listeners_max = listeners_max
        self._number = 0
        self._closed = False

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    @property
    def closed(self) -> bool:
        return self._closed

    def publish(self, event: str, body: Mapping[str, Any]) -> None:
        """To be called by any thread; returns at once."""
        with self._lock:
            listeners = list(self._listeners)
            self._number += 1
            number = self._number
        if not listeners:
            return
        said = encode_event(event, body, number)
        for listener in listeners:
            listener.put(said)

    def subscribe(self, wake: Callable[[], None]) -> EventListener | None:
        """None: there are too many already."""
        with self._lock:
            if self._closed or len(self._listeners) >= self._listeners_max:
                return None
            listener = EventListener(wake=wake)
            self._listeners.add(listener)
            return listener

    def unsubscribe(self, listener: EventListener) -> None:
        with self._lock:
            self._listeners.discard(listener)

    def close(self) -> None:
        """Everybody goes home, so that a server can stop."""
        with self._lock:
            self._closed = True
        self.publish("end", {})


def encode_event(event: str, body: Mapping[str, Any], number: int | None = None) -> bytes:
    head = f"id: {number}\n" if number is not None else ""
    return f"{head}event: {event}\ndata: {json.dumps(body, separators=(',', ':'))}\n\n".encode()


class EventStream(Response):
    """One listener's connection. What the socket does not take in time ends it; nobody else notices."""

    media_type = "text/event-stream"

    def __init__(self, hub: EventHub, *, heartbeat_s: float = HEARTBEAT_S, stuck_s_max: float = UNREAD_S_MAX) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        # Its length is not known before its end.
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        self._hub = hub
        self._heartbeat_s = heartbeat_s
        self._stuck_s_max = stuck_s_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # The loop has ended where the server has: then nobody is left to be woken.
            if not loop.is_closed():
                loop.call_soon_threadsafe(news.set)

        listener = self._hub.subscribe(wake)
        if listener is None:
            await error_response(503, "too many listen already: close a page, or ask again later", retry_after_s=10)(
                scope, receive, send
            )
            return
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._say(send, b": listening\nretry: 3000\n\n")
            while not gone.done() and not self._hub.closed:
                news.clear()
                said = listener.drain()
                if not said:
                    waits = asyncio.ensure_future(news.wait())
                    done, _ = await asyncio.wait(
                        {waits, gone}, timeout=self._heartbeat_s, return_when=asyncio.FIRST_COMPLETED
                    )
                    waits.cancel()
                    if done:
                        continue
                    said = b": still here\n\n"
                await self._say(send, said)
            if said := listener.drain():
                await self._say(send, said)  # That it ends, for one.
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError):
            pass  # It takes nothing, or is not there: the same to us.
        finally:
            self._hub.unsubscribe(listener)
            gone.cancel()

    async def _say(self, send: Send, said: bytes) -> None:
        await asyncio.wait_for(send({"type": "http.response.body", "body": said, "more_body": True}), self._stuck_s_max)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
