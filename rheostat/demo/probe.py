"""Measures produce latency with small records that all replicas acknowledge, twenty per second.

Kafka's ProducerPerformance prints only averages over 5 s, but a 99th percentile for each phase needs every single latency.
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
    """Sends records while it is entered as a context manager, and keeps their latencies."""

    def __init__(self, settings: KafkaSettings, topic: str, partitions: int) -> None:
        config = settings.kafka_python_arguments()
        self._producer = KafkaProducer(client_id="latency-probe", acks="all", linger_ms=0, **config)
        self._topic = topic
        self._partitions = partitions
        self._measured: list[tuple[float, float]] = []  # (time.monotonic when sent, latency), in seconds.
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

    def latencies_s(self) -> list[tuple[float, float]]:
        """Returns (``time.monotonic`` when sent, latency) of each acknowledged record, in seconds."""
        return list(self._measured)

    def p99_ms(self, from_s: float, to_s: float) -> float | None:
        """Returns the p99 of the records sent between two times (``time.monotonic``); None with fewer than twenty latencies."""
        latencies_s = sorted(latency_s for sent_s, latency_s in list(self._measured) if from_s <= sent_s < to_s)
        if len(latencies_s) < 20:
            return None
        p99_s = latencies_s[int(0.99 * (len(latencies_s) - 1))]
        return round(1000 * p99_s, 1)

    def _run(self) -> None:
        count = 0
        while not self._stop.wait(_EVERY_S):
            sent_s = time.monotonic()
            try:
                future = self._producer.send(self._topic, _RECORD, partition=count % self._partitions)
            except kafka.errors.KafkaError:
                continue  # A record that was not sent has no latency. With too few latencies, p99_ms returns None.
            future.add_callback(lambda _, at_s=sent_s: self._measured.append((at_s, time.monotonic() - at_s)))
            count += 1
