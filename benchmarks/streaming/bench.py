"""Shared by the parts of ``benchmarks.pipeline``: a broker, topics, and a history of records."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import NewTopic

from benchmarks.metrics_load import Shape, history
from streaming.shared.kafka import KafkaSettings, admin_client, producer

_LARGE = "16777216"


@dataclass(frozen=True, slots=True)
class Bench:
    kafka: KafkaSettings
    home: Path
    quick: bool

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        with contextlib.closing(admin_client(self.kafka, "bench")) as admin:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs={"max.message.bytes": _LARGE, **dotted})])


def fill(bench: Bench, topic: str, shape: Shape, scrapes: int) -> int:
    """Fills a topic with a history, with the timestamps of that history; returns the number of records."""
    # CreateTime and no retention: the past must be where it says it is.
    bench.create(topic, 2, retention_ms="-1", message_timestamp_type="CreateTime")
    count = 0
    sender = producer(bench.kafka, "bench-fill", linger_ms=50, batch_size=1 << 20)
    for key, value, ts_ms in history(shape, scrapes, int(time.time() * 1000)):
        sender.send(topic, key=key, value=value, timestamp_ms=ts_ms)
        count += 1
    sender.flush()
    sender.close()
    return count
