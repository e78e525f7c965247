"""Measures a flood of refused records: all of them are reported, and the state is bounded."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.streaming.bench import Bench
from benchmarks.streaming.throughput import Session, signals_in
from streaming.shared.kafka import producer

PER_S, SECONDS = 5000, 60
# As a sender writes whose records were cut off: about as long as a scrape of ten samples.
_RECORD = b'{"v":1,"cluster":"bench","node":1,"role":"broker","ts":' + b" " * 700


def flood(bench: Bench, session: Session) -> dict[str, Any]:
    """Processes a minute of refused records, in batches of the default ``stream.max_records_per_trigger``."""
    topic = "flood"
    bench.create(topic, 2, retention_ms="-1", message_timestamp_type="CreateTime")
    for kind in ("signals", "rejects"):
        bench.create(f"{topic}-out.{kind}")
    begin_ms = int(time.time() * 1000) - 1000 * SECONDS
    records = PER_S * SECONDS
    sender = producer(bench.kafka, "bench-flood", linger_ms=50, batch_size=1 << 20)
    for i in range(records):
        sender.send(topic, value=_RECORD, partition=i % 2, timestamp_ms=begin_ms + 1000 * i // PER_S)
    sender.flush()
    sender.close()
    found = session.whole(topic, records, 5000)
    return {
        "records": records,
        "records_per_s": round(found["records_per_s"]),
        "told": signals_in(bench, f"{topic}-out.rejects"),
        "state_rows": found["state_rows"],
        "state_mb": round(found["state_mb"], 1),
        "late_rows": found["late_rows"],
    }
