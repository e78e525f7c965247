"""Server-sent events arrive at once, and a slow client delays nothing."""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from collections.abc import Iterator

import pytest
from api_rig import RAISE, READ_TOKEN, WELL, Rig, bearer, entry, many_brokers

from tuner.api.events import QUEUE_MAX, EventHub, EventListener, encode_event
from tuner.api.server import HttpServer


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.cycle()
    return made


@pytest.fixture
def server(rig: Rig) -> Iterator[HttpServer]:
    made = HttpServer(rig.app, "127.0.0.1", 0, on_stop=rig.observers.hub.close)
    made.start()
    yield made
    made.stop()


def listening(port: int, *, receive_bytes: int | None = None) -> socket.socket:
    made = socket.socket()
    if receive_bytes is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    made.settimeout(10)
    made.connect(("127.0.0.1", port))
    made.sendall(
        f"GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer(READ_TOKEN)['Authorization']}\r\n\r\n".encode()
    )
    return made


def until(made: socket.socket, word: bytes) -> bytes:
    came = b""
    while word not in came:
        part = made.recv(65536)
        assert part, came
        came += part
    return came


def wait_for(what: object, limit_s: float = 10.0) -> None:
    assert callable(what)
    deadline_s = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_full_event_queue_drops_oldest_and_reports_count() -> None:
    box = EventListener(capacity=3)
    for number in range(5):
        box.put(encode_event("cycle", {"n": number}))
    said = box.drain()
    assert said.startswith(b'event: dropped\ndata: {"events":2}\n\nevent: cycle\ndata: {"n":2}\n\n')
    assert said.count(b"event: cycle") == 3
    assert box.drain() == b""


def test_number_of_event_listeners_is_limited() -> None:
    hub = EventHub(listeners_max=2)
    first = hub.subscribe(lambda: None)
    assert first is not None
    assert hub.subscribe(lambda: None) is not None
    assert hub.subscribe(lambda: None) is None
    hub.unsubscribe(first)
    assert hub.subscribe(lambda: None) is not None


def test_listener_receives_cycle_event(rig: Rig, server: HttpServer) -> None:
    with listening(server.port) as reader:
        head = until(reader, b": listening")
        assert b"text/event-stream" in head
        assert b"content-security-policy" in head
        rig.cycle()
        event = until(reader, b"\n\n")
        assert b"event: cycle" in event
        line = next(part for part in event.splitlines() if part.startswith(b"data: "))
        assert json.loads(line.removeprefix(b"data: "))["moving_partitions"] == 1
    wait_for(lambda: rig.observers.hub.listeners == 0)


def test_events_need_a_token(rig: Rig, server: HttpServer) -> None:
    with listening(server.port) as ready:  # The server is up.
        until(ready, b": listening")
    asked = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    asked.request("GET", "/api/v1/events")
    assert asked.getresponse().status == 401
    asked.close()


def test_stalled_listener_delays_neither_publisher_nor_other_listeners(rig: Rig, server: HttpServer) -> None:
    with listening(server.port, receive_bytes=2048), listening(server.port) as alive:
        until(alive, b": listening")
        wait_for(lambda: rig.observers.hub.listeners == 2)
        said = {"filler": "x" * 20_000}
        told_s = []

        def lost() -> list[int]:
            return sorted(listener._dropped for listener in rig.observers.hub._listeners)

        # Both ends of a socket hold some MB before anything is lost.
        for burst in range(500):
            for _ in range(8):
                began_s = time.thread_time()
                rig.observers.hub.publish("acted", said)
                told_s.append(time.thread_time() - began_s)
            rig.observers.hub.publish(f"burst-{burst}", {})
            until(alive, f"event: burst-{burst}\n".encode())
            if any(lost()):
                break
        assert lost()[0] == 0, "the one that reads has lost nothing"
        assert lost()[1] > 0, "the one that does not has, and would be told"
        assert max(len(listener._events) for listener in rig.observers.hub._listeners) <= QUEUE_MAX
        told_s.sort()
        assert told_s[len(told_s) // 2] < 0.001


def test_stalled_listeners_do_not_slow_cycles(rig: Rig, server: HttpServer) -> None:
    cluster, seen = many_brokers(200)

    def cycles_cpu_s() -> float:
        began_s = time.thread_time()
        for _ in range(15):
            rig.cycle(cluster=cluster, **seen)
        return time.thread_time() - began_s

    cycles_cpu_s()
    alone_s = min(cycles_cpu_s() for _ in range(3))
    readers = [listening(server.port, receive_bytes=2048) for _ in range(8)]
    try:
        wait_for(lambda: rig.observers.hub.listeners == 8)
        watched_s = min(cycles_cpu_s() for _ in range(3))
    finally:
        for reader in readers:
            reader.close()
    assert watched_s < 1.5 * alone_s + 0.01


def test_sent_event_kinds_are_exactly_the_documented_ones(rig: Rig) -> None:
    """Each source of events is triggered, and one queue overflows."""
    boxes = [rig.observers.hub.subscribe(lambda: None), rig.observers.hub.subscribe(lambda: None)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    rig.cycle()
    rig.observers.record_actions([(RAISE, None)])
    rig.observers.load_history([entry("decision", WELL)])
    assert rig.post("/api/v1/pause").status_code == 202
    for _ in range(QUEUE_MAX):
        boxes[1].put(encode_event("cycle", {}))
    rig.observers.hub.close()
    said = b"".join(box.drain() for box in boxes if box is not None).decode()
    sent = set(re.findall(r"^event: (\w+)$", said, re.MULTILINE))
    described = rig.app.openapi()["paths"]["/api/v1/events"]["get"]["description"]
    assert sent == set(re.findall(r"`(\w+)`", described))


def test_closed_hub_sends_end_event(rig: Rig, server: HttpServer) -> None:
    with listening(server.port) as reader:
        until(reader, b": listening")
        rig.observers.hub.close()
        assert b"event: end" in until(reader, b"event: end")


def test_server_stops_despite_open_listener(rig: Rig, server: HttpServer) -> None:
    with listening(server.port) as reader:
        until(reader, b": listening")
        began_s = time.monotonic()
        server.stop()
        assert time.monotonic() - began_s < 8
        assert rig.observers.hub.listeners == 0
