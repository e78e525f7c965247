"""What a producer feels: small records, acknowledged by all replicas, twenty a second, each one timed.

ProducerPerformance prints averages of 5 s; a 99th percentile by phase needs the single latencies.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

import kafka.errors
from kafka import KafkaProducer

from streaming.shared.kafka import KafkaSettings

_EVERY_S = 0.05
_RECORD = b"x" * 100


class LatencyProbe:
    def __init__(self, settings: KafkaSettings, topic: str, partitions: int) -> None:
        config = settings.for_python()
        self._producer = KafkaProducer(client_id="latency-probe", acks="all", linger_ms=0, **config)
        self._topic = topic
        self._partitions = partitions
        self._measured: list[tuple[float, float]] = []  # (sent at, took), seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latency-probe", daemon=True)

    def __enter__(self) -> LatencyProbe:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=5)
        self._producer.close(timeout=1)

    def p99_ms(self, from_s: float, to_s: float) -> float | None:
        """Of the records sent between two times of ``time.monotonic``; None when fewer than twenty came back."""
        took = sorted(took for sent, took in list(self._measured) if from_s <= sent < to_s)
        return round(took[int(0.99 * (len(took) - 1))] * 1000, 1) if len(took) >= 20 else None

    def _run(self) -> None:
        n = 0
        while not self._stop.wait(_EVERY_S):
            sent = time.monotonic()
            try:
                future = self._producer.send(self._topic, _RECORD, partition=n % self._partitions)
            except kafka.errors.KafkaError:
                continue  # A record that could not be sent has no latency; too few of them and p99_ms says None.
            future.add_callback(lambda _, at=sent: self._measured.append((at, time.monotonic() - at)))
            n += 1
