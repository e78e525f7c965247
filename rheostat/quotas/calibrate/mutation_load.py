"""Sends mutations at a set rate, from several connections through all brokers.

Each request is due at a fixed time, which does not depend on earlier requests. So a slow controller makes requests late instead of
silently lowering the rate, and the achieved rate shows how far the controller fell behind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from streaming.shared.kafka.settings import KafkaSettings
from streaming.shared.kafka.topic_mutations import TopicMutationClient
from streaming.shared.kafka.values import ClusterError

_CONNECTIONS_MAX = 8
_CHECK_EVERY_S = 0.2

# Sends one request through a broker. Returns the error; None for success.
Mutation = Callable[[TopicMutationClient, int], ClusterError | None]


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """The result of one phase.

    Attributes:
        done: the indexes of the mutations that succeeded.
        duration_s: the time from the first due time to the last answer; at least the planned time of the mutations that were sent.
        error: the first error; None if there was none.
    """

    done: tuple[int, ...]
    duration_s: float
    error: ClusterError | None


class MutationLoad:
    """A pool of connections. ``close`` ends it."""

    def __init__(self, kafka: KafkaSettings, client_id: str, brokers: Sequence[int]) -> None:
        count = min(_CONNECTIONS_MAX, max(4, 2 * len(brokers)))
        self._connections = [
            (TopicMutationClient(kafka, client_id), brokers[number % len(brokers)]) for number in range(count)
        ]
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="calibration-load")

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for client, _ in self._connections:
            client.close()

    def run_phase(
        self, mutations: Sequence[Mutation], mutations_per_s: float, is_stopped: Callable[[], bool]
    ) -> PhaseResult:
        """Sends the mutations at this rate, and returns when all answers have arrived.

        Args:
            is_stopped: called several times a second; once it returns True, no further mutation is sent.
        """
        phase = _Phase(mutations, mutations_per_s)
        futures: list[Future[None]] = [
            self._pool.submit(phase.work, client, broker) for client, broker in self._connections
        ]
        try:
            while wait(futures, timeout=_CHECK_EVERY_S).not_done:
                if is_stopped():
                    phase.stop.set()
        finally:
            phase.stop.set()  # Also after Ctrl-C.
            wait(futures)
        for future in futures:
            future.result()
        return phase.result()


class _Phase:
    def __init__(self, mutations: Sequence[Mutation], mutations_per_s: float) -> None:
        self.stop = threading.Event()
        self._mutations = mutations
        self._interval_s = 1 / mutations_per_s
        self._began_s = time.monotonic()
        self._lock = threading.Lock()
        self._sent = 0
        self._done: list[int] = []
        self._ended_s = self._began_s
        self._error: ClusterError | None = None

    def work(self, client: TopicMutationClient, broker: int) -> None:
        while not self.stop.is_set():
            with self._lock:
                number = self._sent
                if number >= len(self._mutations):
                    return
                self._sent += 1
            due_s = self._began_s + number * self._interval_s
            if self.stop.wait(max(0.0, due_s - time.monotonic())):
                return
            error = self._mutations[number](client, broker)
            with self._lock:
                self._ended_s = max(self._ended_s, time.monotonic())
                if error is None:
                    self._done.append(number)
                else:
                    self._error = self._error or error
                    self.stop.set()

    def result(self) -> PhaseResult:
        planned_s = (len(self._done) or 1) * self._interval_s
        return PhaseResult(tuple(sorted(self._done)), max(planned_s, self._ended_s - self._began_s), self._error)
