"""What asks the API beside a tuner that works: over kept-alive connections, on time whether or not the one before was answered."""

from __future__ import annotations

import http.client
import itertools
import queue
import threading
import time

PATHS = (
    "/api/v1/status", "/api/v1/moves", "/api/v1/brokers?moving=true&limit=20", "/api/v1/brokers/7", "/api/v1/tenants",
    "/api/v1/decisions?limit=20", "/api/v1/moves/partitions?limit=50", "/api/v1/history?broker=7&broker=9", "/page/now",
    "/page/moves", "/page/brokers", "/page/decisions", "/readyz",
)  # fmt: skip
_CONNECTIONS = 8


class Load:
    """Requests at a fixed pace; ``times_ms`` is how long each took from when it was due."""

    def __init__(self, port: int, per_s: float) -> None:
        self._port = port
        self._every_s = 1 / per_s
        self._due: queue.SimpleQueue[tuple[float, str] | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self.times_ms: list[tuple[str, float]] = []
        self.refused = 0
        self._threads = [threading.Thread(target=self._ask) for _ in range(_CONNECTIONS)]
        self._pace = threading.Thread(target=self._paced)

    def __enter__(self) -> Load:
        for thread in (*self._threads, self._pace):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pace.join()
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

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        while (next_one := self._due.get()) is not None:
            due_s, path = next_one
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                self.refused += answer.status not in (200, 503)
            except (OSError, http.client.HTTPException):
                connection.close()  # The next request opens it anew.
                self.refused += 1
            self.times_ms.append((path, 1000 * (time.perf_counter() - due_s)))
        connection.close()
