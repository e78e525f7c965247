"""A client that measures acknowledgement latency with small records at a constant rate.

``python -m benchmarks.links.sampler BOOTSTRAP TOPIC FILE`` writes one line per record: its send time (monotonic clock, s), and the
milliseconds until all in-sync replicas have it. It uses the partitions in turn, so every pair of brokers is covered. A broker's own
p99 covers minutes and starts when the request has arrived; this latency starts at the client.

Each partition has a connection of its own: a broker answers the requests of a connection one after another. On a shared connection
a record would wait for the earlier ones of the sampler itself as soon as an acknowledgement takes longer than the interval.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

from kafka import KafkaProducer

EVERY_S = 0.02
_RECORD = bytes(1_000)


def sample(bootstrap_servers: str, topic: str, out: TextIO, stop: threading.Event) -> None:
    def connect() -> KafkaProducer:
        return KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", linger_ms=0, client_id="sampler")

    first = connect()
    partitions = sorted(first.partitions_for(topic))
    producers = [first, *(connect() for _ in partitions[1:])]
    due_s, count = time.monotonic(), 0
    while not stop.wait(max(0.0, due_s - time.monotonic())):
        began_s = time.monotonic()
        number = count % len(partitions)
        future = producers[number].send(topic, _RECORD, partition=partitions[number])
        future.add_callback(functools.partial(_note, out, began_s))
        # A record that was late is not made up for by a crowd.
        due_s, count = max(due_s + EVERY_S, time.monotonic()), count + 1


def _note(out: TextIO, began_s: float, _: object) -> None:
    out.write(f"{began_s:.4f} {1000 * (time.monotonic() - began_s):.3f}\n")


if __name__ == "__main__":
    bootstrap_servers, topic, file = sys.argv[1:]
    with Path(file).open("w", buffering=1) as out:
        sample(bootstrap_servers, topic, out, threading.Event())
