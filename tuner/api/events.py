"""Server-sent events: publishes events to all subscribed listeners without waiting for any of them.

Each listener has a bounded queue. A listener that reads too slowly loses its oldest events, and a ``dropped`` event tells how many.
No state is lost: an event only says that something has changed, and the API returns the new state.

Invariant: publishing costs the loop a few microseconds per listener, however slow a listener is.
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
UNREAD_S_MAX = 30.0  # A connection that accepts no data for this long is closed.


class EventListener:
    """The bounded event queue of one listener. Any thread adds events; the server's thread drains them."""

    def __init__(self, capacity: int = QUEUE_MAX, wake: Callable[[], None] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._events: deque[bytes] = deque()
        self._capacity = capacity
        self._wake = wake
        self._dropped = 0

    def put(self, event: bytes) -> None:
        with self._lock:
            if len(self._events) == self._capacity:
                self._events.popleft()
                self._dropped += 1
            self._events.append(event)
        self._wake()

    def drain(self) -> bytes:
        """Returns and removes all queued events, preceded by a ``dropped`` event if any were lost; empty if there are none."""
        with self._lock:
            events, dropped = list(self._events), self._dropped
            self._events.clear()
            self._dropped = 0
        if dropped:
            events.insert(0, encode_event("dropped", {"events": dropped}))
        return b"".join(events)


class EventHub:
    """Publishes events to all listeners. Thread-safe."""

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
        """Queues an event for every listener, and returns at once; any thread may call it."""
        with self._lock:
            listeners = list(self._listeners)
            self._number += 1
            number = self._number
        if not listeners:
            return
        encoded = encode_event(event, body, number)
        for listener in listeners:
            listener.put(encoded)

    def subscribe(self, wake: Callable[[], None]) -> EventListener | None:
        """Adds a listener; returns None if there are too many, or the hub is closed.

        Args:
            wake: called after each event for this listener.
        """
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
        """Publishes ``end`` and refuses new listeners, so that the server can stop."""
        with self._lock:
            self._closed = True
        self.publish("end", {})


def encode_event(event: str, body: Mapping[str, Any], number: int | None = None) -> bytes:
    head = f"id: {number}\n" if number is not None else ""
    return f"{head}event: {event}\ndata: {json.dumps(body, separators=(',', ':'))}\n\n".encode()


class EventStream(Response):
    """Streams events to one listener. A connection that accepts no data in time is closed; other listeners are not affected."""

    media_type = "text/event-stream"

    def __init__(self, hub: EventHub, *, heartbeat_s: float = HEARTBEAT_S, unread_s_max: float = UNREAD_S_MAX) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        # The length of the stream is unknown.
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        self._hub = hub
        self._heartbeat_s = heartbeat_s
        self._unread_s_max = unread_s_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop, has_events = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # After the server has stopped, its loop is closed, and there is nothing to wake.
            if not loop.is_closed():
                loop.call_soon_threadsafe(has_events.set)

        listener = self._hub.subscribe(wake)
        if listener is None:
            await error_response(
                503, "too many event streams are open: close a page, or try again later", retry_after_s=10
            )(scope, receive, send)
            return
        disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._write(send, b": listening\nretry: 3000\n\n")
            while not disconnected.done() and not self._hub.closed:
                has_events.clear()
                events = listener.drain()
                if not events:
                    waiting = asyncio.ensure_future(has_events.wait())
                    done, _ = await asyncio.wait(
                        {waiting, disconnected}, timeout=self._heartbeat_s, return_when=asyncio.FIRST_COMPLETED
                    )
                    waiting.cancel()
                    if done:
                        continue
                    events = b": still here\n\n"
                await self._write(send, events)
            if events := listener.drain():
                await self._write(send, events)  # The ``end`` event, for example.
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError):
            pass  # The client reads nothing, or has closed the connection.
        finally:
            self._hub.unsubscribe(listener)
            disconnected.cancel()

    async def _write(self, send: Send, data: bytes) -> None:
        await asyncio.wait_for(
            send({"type": "http.response.body", "body": data, "more_body": True}), self._unread_s_max
        )


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
