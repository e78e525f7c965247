"""A client that writes numbered records to all topics except the largest, and stores the latency of each.

It runs in its own process, so that the benchmark's other work does not delay it. Latency is from ``send`` to the acknowledgement.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection

from kafka import KafkaProducer
from kafka.errors import KafkaError

from benchmarks.apart import Apart

NUMBER_BYTES = 8
_EVERY_S = 0.02
_ANSWERS_S_MAX = 30.0
_FLUSH_S_MAX = 20.0


class Writer:
    """The writing client. Times are seconds of the machine's monotonic clock."""

    def __init__(self, bootstrap_servers: str, topics: Sequence[str], partitions_each: int) -> None:
        self._part = Apart(_write, bootstrap_servers, list(topics), partitions_each, ends_s_max=2 * _FLUSH_S_MAX + 5.0)

    def latencies_ms(self, from_s: float, to_s: float) -> list[float]:
        """Returns the latencies of the acknowledged records that were sent in this interval."""
        return list(self._acknowledged(from_s, to_s).values())

    def promised(self) -> set[int]:
        """Returns the numbers of the acknowledged records."""
        return set(self._acknowledged(float("-inf"), float("inf")))

    def stop(self) -> None:
        self._part.end()

    def _acknowledged(self, from_s: float, to_s: float) -> dict[int, float]:
        """Returns the latency in milliseconds of each acknowledged record, by number."""
        self._part.tell((from_s, to_s))
        found: dict[int, float] = self._part.answer(_ANSWERS_S_MAX)
        return found


class _Writing:
    def __init__(self, bootstrap_servers: str, topics: Sequence[str], partitions_each: int) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", linger_ms=0, client_id="writer")
        self._topics, self._partitions_each = topics, partitions_each
        self.acknowledged: dict[int, tuple[float, float]] = {}  # By number: when sent, and ms.

    def until(self, stop: threading.Event) -> None:
        number, body = 0, bytes(1_000 - NUMBER_BYTES)
        while not stop.wait(_EVERY_S):
            # From broker to broker: of several in a row on one connection all would wait for whatever the first waits for.
            topic = self._topics[number // self._partitions_each % len(self._topics)]
            place = number % self._partitions_each
            # What fails is not acknowledged, so not promised.
            with suppress(KafkaError):
                sent_s = time.monotonic()
                future = self._producer.send(topic, number.to_bytes(NUMBER_BYTES, "big") + body, partition=place)
                future.add_callback(partial(self._acknowledge, number, sent_s))
            number += 1

    def _acknowledge(self, number: int, sent_s: float, _: object) -> None:
        self.acknowledged[number] = (sent_s, 1000 * (time.monotonic() - sent_s))

    def close(self) -> None:
        self._producer.close(timeout=_FLUSH_S_MAX)


def _write(line: Connection, bootstrap_servers: str, topics: Sequence[str], partitions_each: int) -> None:
    writing, stop = _Writing(bootstrap_servers, topics, partitions_each), threading.Event()
    thread = threading.Thread(target=writing.until, args=(stop,), name="writer", daemon=True)
    thread.start()
    with suppress(EOFError):
        while True:
            from_s, to_s = line.recv()
            known = list(writing.acknowledged.items())
            line.send({number: ms for number, (sent_s, ms) in known if from_s <= sent_s < to_s})
    stop.set()
    thread.join(timeout=_FLUSH_S_MAX)
    writing.close()
