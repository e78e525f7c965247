"""Compares the two encodings of OpenTelemetry: the same batches, as a Collector wrote them, in protobuf and in JSON."""

from __future__ import annotations

import base64
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.streaming.bench import Bench
from benchmarks.streaming.throughput import Session
from streaming.settings import FormatName
from streaming.shared.kafka import producer

_RECORDED = Path(__file__).parents[2] / "tests" / "streaming" / "golden" / "opentelemetry-collector.jsonl"
_FORMATS: tuple[FormatName, ...] = ("otlp_proto", "otlp_json")
_COPIES = 400


def otlp(bench: Bench, session: Session, *, rounds: int) -> dict[str, Any]:
    """Returns the records that are read and folded in a second, by encoding, and the ratio of the two."""
    values: dict[FormatName, list[bytes]] = {name: [] for name in _FORMATS}
    for line in _RECORDED.read_text().splitlines()[1:]:
        record = json.loads(line)
        values[record["format"]].append(base64.b64decode(record["value"]))
    sender = producer(bench.kafka, "bench-otlp", linger_ms=50, batch_size=1 << 20)
    for name in _FORMATS:
        bench.create(name, 2)
        for value in values[name] * _COPIES:
            sender.send(name, value=value)
    sender.flush()
    sender.close()
    per_s: dict[FormatName, list[float]] = {name: [] for name in _FORMATS}
    for _ in range(rounds + 1):  # In turns; the first round warms up.
        for name in _FORMATS:
            count = len(values[name]) * _COPIES
            per_s[name].append(session.fold_only(name, count, count // 8, format_=name))
    ratios = [proto / text for proto, text in zip(*(per_s[name][1:] for name in _FORMATS), strict=True)]
    return {
        "records_per_s": {name: round(statistics.median(per_s[name][1:])) for name in _FORMATS},
        "bytes_per_record": {name: round(statistics.mean(map(len, values[name]))) for name in _FORMATS},
        "ratio_proto_to_json": round(statistics.median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
    }
