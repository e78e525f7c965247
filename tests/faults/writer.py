"""Writes numbered records into the topic that moves, and counts those that Kafka has acknowledged.

Invariant: every acknowledged record (acks=all) can be read in the end. Other records may exist or not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import kafka.errors
from kafka import KafkaProducer
from reading import read

from streaming.shared.kafka import KafkaSettings

BULK_BYTES = 100_000
_RECORDS_PER_BATCH = 4
_RECORD_BYTES = 1_000
_EVERY_S = 0.02
_NUMBER = 8
_FILLED_S_MAX = 120.0


class Writer:
    """Writes ``megabytes`` at once, and then 50 kB/s until it is stopped."""

    def __init__(self, settings: KafkaSettings, topic: str, megabytes: float, bulk_bytes: int = BULK_BYTES) -> None:
        """
        Args:
            bulk_bytes: the size of the records that are written at once, four to a batch.
        """
        self._settings = settings
        self._topic = topic
        self._sent = 0
        self.acknowledged: set[int] = set()
        self._stop = threading.Event()
        self._producer = KafkaProducer(
            client_id="faults-writer", acks="all", compression_type=None, linger_ms=5,
            batch_size=_RECORDS_PER_BATCH * bulk_bytes,
            max_block_ms=60_000, delivery_timeout_ms=60_000, **settings.kafka_python_arguments(),
        )  # fmt: skip
        bulk = os.urandom(bulk_bytes - _NUMBER)
        for _ in range(round(megabytes * 1_000_000 / bulk_bytes)):
            self._send(bulk)
        self._producer.flush(timeout=_FILLED_S_MAX)
        assert len(self.acknowledged) == self._sent, "the topic could not be filled"
        self._thread = threading.Thread(target=self._go_on, name="writer", daemon=True)
        self._thread.start()

    def _send(self, body: bytes) -> None:
        number, self._sent = self._sent, self._sent + 1
        answer = self._producer.send(self._topic, value=number.to_bytes(_NUMBER, "big") + body)
        answer.add_callback(self._acknowledge(number))

    def _acknowledge(self, number: int) -> Callable[[object], None]:
        return lambda _: self.acknowledged.add(number)

    def _go_on(self) -> None:
        body = os.urandom(_RECORD_BYTES - _NUMBER)
        while not self._stop.wait(_EVERY_S):
            try:
                self._send(body)
            except kafka.errors.KafkaError:
                continue  # Not acknowledged, so not promised.

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=70)
        self._producer.close(timeout=20)

    def missing(self) -> set[int]:
        """Returns acknowledged records that cannot be read."""
        found = {int.from_bytes(record.value[:_NUMBER], "big") for record in read(self._settings, self._topic)}
        return self.acknowledged - found
