"""Writes input records for the pipeline and reads its output records."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from streaming.batch_values import batch_values
from streaming.formats.common import RAW, Source
from streaming.pipeline import DEFAULT_SHAPE, Input, build
from streaming.shared.contract import NodeRole, Sample, Scrape, Signal, Topics, decode_signal, signal_key
from streaming.signals import WindowShape

TOPICS = Topics.with_prefix("rheostat")
OURS = Input("rheostat_json", Source("c"))
T0 = 1_700_000_010_000  # On a boundary of windows: every HOP_S of epoch time.
MB = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Logged:
    """A record as Kafka holds it."""

    value: bytes | None
    at_ms: int = T0  # When Kafka took it.
    topic: str = TOPICS.metrics
    partition: int = 0
    offset: int | None = None  # By default, as many as stand before it.


Record = Logged | Scrape | bytes | None


def scrape(
    at_s: float,
    samples: Mapping[Any, float],
    *,
    node: int = 1,
    role: NodeRole = NodeRole.BROKER,
    cluster: str = "c",
) -> Scrape:
    """A scrape of cluster ``c`` that many seconds after T0; a bare name is a sample without labels."""
    named = [(name, "") if isinstance(name, str) else name for name in samples]
    values = zip(named, samples.values(), strict=True)
    return Scrape(
        cluster, node, role, T0 + round(at_s * 1000), tuple(Sample(n, labels, v) for (n, labels), v in values)
    )


def changed(one: Scrape, **fields: Any) -> bytes:
    """The value of a scrape with fields of its JSON replaced; None leaves the field out."""
    body = json.loads(one.value()) | fields
    return json.dumps({name: value for name, value in body.items() if value is not None}).encode()


def at(at_s: float, *values: Record, topic: str = TOPICS.metrics) -> list[Logged]:
    """Returns records with Kafka's timestamp ``at_s`` after T0, independent of their own time."""
    return [Logged(_logged(one).value, T0 + round(at_s * 1000), topic) for one in values]


def _logged(one: Record) -> Logged:
    """A scrape is logged at its own time, a bare value at T0."""
    if isinstance(one, Logged):
        return one
    return Logged(one.value(), one.ts_ms) if isinstance(one, Scrape) else Logged(one)


def numbered(records: Iterable[Record], *, first: int = 0) -> list[Logged]:
    found = enumerate(map(_logged, records), first)
    return [replace(one, offset=offset) if one.offset is None else one for offset, one in found]


def raw(spark: SparkSession, records: Iterable[Record]) -> DataFrame:
    """Records of the metrics topic, at offsets 0, 1, 2 …"""
    rows = [(r.value, r.topic, r.partition, r.offset, _time(r.at_ms)) for r in numbered(records)]
    return spark.createDataFrame(rows, RAW)


def _time(ms: int) -> datetime:
    seconds, rest = divmod(ms, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=1000 * rest)


def records(frame: DataFrame, topic: str) -> dict[bytes, bytes]:
    """Key → value of the records for one topic, last wins."""
    return {bytes(row.key): bytes(row.value) for row in frame.collect() if row.topic == topic}


def signals_of(spark: SparkSession, scrapes: Sequence[Record]) -> list[Signal]:
    """All signals that these scrapes yield; each is checked against the contract."""
    return decoded(records(build([(raw(spark, scrapes), OURS)], TOPICS), TOPICS.signals))


def decoded(found: Mapping[bytes, bytes]) -> list[Signal]:
    for key, value in found.items():
        assert signal_key(decode_signal(value)) == key
    return [decode_signal(value) for value in found.values()]


def newest(signals: Iterable[Signal], kind: type[Signal] | Any, **fields: Any) -> Any:
    """The signal of that type and those fields with the latest window."""
    fitting = [s for s in signals if isinstance(s, kind) and all(getattr(s, k) == v for k, v in fields.items())]
    assert fitting, f"no {kind.__name__} with {fields} in {signals}"
    return max(fitting, key=lambda signal: signal.window_end_ms)


class Stream:
    """The pipeline on the streaming engine, over folders of files; each file is a micro-batch's share of one topic.

    Attributes:
        batches: what each batch wrote, in order: topic → key → value.
        late: rows that were dropped because they came behind the watermark.
    """

    def __init__(
        self,
        spark: SparkSession,
        home: Path,
        inputs: Mapping[str, Input] | None = None,
        shape: WindowShape = DEFAULT_SHAPE,
    ) -> None:
        self._spark = spark
        self._home = home
        self._inputs = dict(inputs or {TOPICS.metrics: OURS})
        self._shape = shape
        self._files = 0
        self._offsets = dict.fromkeys(self._inputs, 0)
        for topic in self._inputs:
            (home / "topics" / topic).mkdir(parents=True)
        self.batches: list[dict[str, dict[bytes, bytes]]] = []
        self.late = 0

    def feed(self, *values: Record) -> None:
        """Adds one batch; a running query reads it at once, otherwise the next query does."""
        self._files += 1
        for topic in self._inputs:
            mine = numbered((r for r in map(_logged, values) if r.topic == topic), first=self._offsets[topic])
            self._offsets[topic] += len(mine)
            _write(self._home / "topics" / topic, self._files, mine)

    def run(self, *batches: Iterable[Record]) -> None:
        """Runs all batches one after another in one query."""
        for batch in batches:
            self.feed(*batch)
        with self.running() as query:
            query.processAllAvailable()

    @contextmanager
    def running(self) -> Iterator[StreamingQuery]:
        inputs = [(self._read(topic), one) for topic, one in self._inputs.items()]
        writer = build(inputs, TOPICS, self._shape).writeStream.outputMode("update").foreachBatch(self._collect)
        query = writer.option("checkpointLocation", str(self._home / "checkpoint")).start()
        try:
            yield query
        finally:
            self.late += sum(batch_values(one)["late_rows_dropped"] for one in query.recentProgress)
            query.stop()

    def _read(self, topic: str) -> DataFrame:
        lines = (
            self._spark.readStream.schema("value string, partition int, offset long, at_ms long")
            .option("maxFilesPerTrigger", 1)
            .json(str(self._home / "topics" / topic))
        )
        return lines.select(
            F.unbase64("value").alias("value"),
            F.lit(topic).alias("topic"),
            "partition",
            "offset",
            F.timestamp_millis("at_ms").alias("timestamp"),
        )

    def _collect(self, batch: DataFrame, _: int) -> None:
        found: dict[str, dict[bytes, bytes]] = {TOPICS.signals: {}, TOPICS.rejects: {}}
        for row in batch.collect():
            found[row.topic][bytes(row.key)] = bytes(row.value)
        self.batches.append(found)

    @property
    def signals(self) -> list[Signal]:
        """The signals of the last batch."""
        return decoded(self.batches[-1][TOPICS.signals])

    @property
    def rejects(self) -> list[bytes]:
        """The rejects of the last batch."""
        return list(self.batches[-1][TOPICS.rejects].values())

    def final(self, topic: str = TOPICS.signals) -> dict[bytes, bytes]:
        """Returns the final content of a compacted topic."""
        return {key: value for batch in self.batches for key, value in batch[topic].items()}

    @property
    def all_signals(self) -> list[Signal]:
        return decoded(self.final())


def _write(folder: Path, number: int, records: Sequence[Logged]) -> None:
    """Writes a file atomically. Spark orders files by modification time, so each is a second after the last."""
    lines = [
        json.dumps(
            {
                "value": None if r.value is None else base64.b64encode(r.value).decode(),
                "partition": r.partition,
                "offset": r.offset,
                "at_ms": r.at_ms,
            }
        )
        for r in records
    ]
    hidden = folder / f".{number:04}.json"
    hidden.write_text("\n".join(lines))
    changed_s = T0 // 1000 + number
    os.utime(hidden, (changed_s, changed_s))
    hidden.rename(folder / f"{number:04}.json")
