"""Sends requests to the API at a fixed rate over kept-alive connections, whether or not earlier ones were answered.

Prometheus scrapes meanwhile, three times as often as conf/ sets it. Its page has a bound of its own (metrics_page.py) and is not
part of the API figures.
"""

from __future__ import annotations

import http.client
import itertools
import json
import queue
import threading
import time

PATHS = (
    "/api/v1/status",
    "/api/v1/moves",
    "/api/v1/brokers?moving=true&limit=20",
    "/api/v1/brokers/7",
    "/api/v1/brokers/7/week",
    "/api/v1/brokers/7/history",
    "/api/v1/brokers/7/history?from_ms=0",
    "/api/v1/tenants",
    "/api/v1/mutations",
    "/api/v1/replication",
    "/api/v1/decisions?limit=20",
    "/api/v1/decisions/{id}",
    "/api/v1/plans",
    "/api/v1/plan-history",
    "/api/v1/plan-history/benchmark",
    "/api/v1/plan-history/benchmark/partitions?sort=size&limit=50",
    "/api/v1/reasons",
    "/api/v1/moves/partitions?limit=50",
    "/api/v1/history?broker=7&broker=9",
    "/page/now",
    "/page/moves",
    "/page/brokers",
    "/page/decisions",
    "/page/decision/{id}",
    "/page/broker/7",
    "/page/plan/benchmark",
    "/page/plan/benchmark/partitions?find=topic-1",
    "/readyz",
)
SCRAPED = "/metrics"
SCRAPES_EVERY_S = 5.0
_CONNECTIONS = 8
_NEWEST = "/api/v1/decisions?limit=1"


class Load:
    """Requests at a fixed rate; ``times_ms`` has the latency of each from its due time."""

    def __init__(self, port: int, per_s: float) -> None:
        self._port = port
        self._every_s = 1 / per_s
        self._due: queue.SimpleQueue[tuple[float, str] | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self.times_ms: list[tuple[str, float]] = []
        self.scrapes_ms: list[float] = []
        self.refused = 0
        self._decision = 0  # One that is there to be asked for.
        self._threads = [threading.Thread(target=self._ask) for _ in range(_CONNECTIONS)]
        self._pace = threading.Thread(target=self._paced)
        self._scraper = threading.Thread(target=self._scrape)

    def __enter__(self) -> Load:
        self._decision = _newest_decision(self._port)
        for thread in (*self._threads, self._pace, self._scraper):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pace.join()
        self._scraper.join()
        for _thread in self._threads:
            self._due.put(None)
        for thread in self._threads:
            thread.join()

    def _paced(self) -> None:
        due_s = time.perf_counter()
        for path in itertools.cycle(PATHS):
            due_s += self._every_s
            # Requests come at a rate, and not when the one before has been answered.
            time.sleep(max(0.0, due_s - time.perf_counter()))
            if self._stop.is_set():
                return
            self._due.put((due_s, path))

    def _scrape(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        while not self._stop.is_set():
            began_s = time.perf_counter()
            status, _ = asked(connection, SCRAPED)
            self.refused += status != 200
            self.scrapes_ms.append(1000 * (time.perf_counter() - began_s))
            self._stop.wait(SCRAPES_EVERY_S)
        connection.close()

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        while (next_one := self._due.get()) is not None:
            due_s, path = next_one
            status, _ = asked(connection, path.format(id=self._decision))
            self.refused += status not in (200, 503)
            self.times_ms.append((path, 1000 * (time.perf_counter() - due_s)))
        connection.close()


def asked(connection: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
    """Returns status and body; status 0: there was no response."""
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        connection.close()  # The next request opens it again.
        return 0, b""


def _newest_decision(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    status, body = asked(connection, _NEWEST)
    connection.close()
    rows = json.loads(body)["decisions"] if status == 200 else []
    assert rows, f"{_NEWEST} names no decision, so that none can be asked for: {status}"
    return int(rows[0]["id"])
