"""Input and output of the pipeline as the tests write and read them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streaming.contract import Role, Sample, Scrape, Signal, Topics, decode_signal, signal_key
from streaming.pipeline import build

TOPICS = Topics.with_prefix("rheostat")
RAW = "value binary, topic string, partition int, offset long, timestamp timestamp"
T0 = 1_700_000_010_000  # On a boundary of windows: every HOP_S of epoch time.
MB = 1_000_000.0


def scrape(
    at_s: float, samples: dict[tuple[str, str] | str, float], *, node: int = 1, role: Role = Role.BROKER
) -> Scrape:
    """A scrape of cluster ``c`` that many seconds after T0; a bare name is a sample without labels."""
    named = [(name, "") if isinstance(name, str) else name for name in samples]
    values = zip(named, samples.values(), strict=True)
    return Scrape("c", node, role, T0 + int(at_s * 1000), tuple(Sample(n, labels, v) for (n, labels), v in values))


def changed(one: Scrape, **fields: Any) -> bytes:
    """The value of a scrape with fields of its JSON replaced; None leaves the field out."""
    body = json.loads(one.value()) | fields
    return json.dumps({name: value for name, value in body.items() if value is not None}).encode()


def raw(spark: SparkSession, values: list[bytes | None], logged_at_ms: int = T0) -> DataFrame:
    """Records of the metrics topic with these values, at offsets 0, 1, 2 …"""
    logged = datetime.fromtimestamp(logged_at_ms / 1000, UTC)
    rows = [(value, TOPICS.metrics, 0, offset, logged) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, RAW)


def records(frame: DataFrame, topic: str) -> dict[bytes, bytes]:
    """Key → value of the records for one topic, last wins."""
    return {bytes(row.key): bytes(row.value) for row in frame.collect() if row.topic == topic}


def signals_of(spark: SparkSession, scrapes: list[Scrape | bytes]) -> list[Signal]:
    """All signals that these scrapes yield; each is checked against the contract."""
    values: list[bytes | None] = [one.value() if isinstance(one, Scrape) else one for one in scrapes]
    found = records(build(raw(spark, values), TOPICS), TOPICS.signals)
    for key, value in found.items():
        assert signal_key(decode_signal(value)) == key
    return [decode_signal(value) for value in found.values()]


def newest(signals: list[Signal], kind: type[Signal] | Any, **fields: Any) -> Any:
    """The signal of that type and those fields with the latest window."""
    fitting = [s for s in signals if isinstance(s, kind) and all(getattr(s, k) == v for k, v in fields.items())]
    assert fitting, f"no {kind.__name__} with {fields} in {signals}"
    return max(fitting, key=lambda signal: signal.window_end_ms)


def write_records(folder: Path, name: str, values: list[bytes], logged_at_ms: int) -> None:
    """A file that the streaming test reads as a piece of the metrics topic; whole or not there."""
    lines = [
        json.dumps({"text": value.decode(), "offset": offset, "logged_ms": logged_at_ms})
        for offset, value in enumerate(values)
    ]
    hidden = folder / f".{name}"
    hidden.write_text("\n".join(lines))
    hidden.rename(folder / name)
