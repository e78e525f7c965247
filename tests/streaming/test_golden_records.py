"""Records that real collectors wrote about real brokers (golden/record.py) are read completely, and yield signals."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from stream_cases import TOPICS, Logged, decoded, newest, raw, records

from rheostat.doctor.record_formats import recognize
from streaming.formats import cruise_control, telegraf
from streaming.formats.common import Source, table
from streaming.formats.otlp_names import NAMES
from streaming.formats.registry import FORMATS
from streaming.pipeline import Input, build
from streaming.settings import FormatName
from streaming.shared.contract import BrokerSignal, ControllerSignal, Metric, ThrottledBy

GOLDEN = Path(__file__).parent / "golden"
BROKERS, CONTROLLER = (1, 2), 100
# A lab without link speeds, moves between log directories, refusals and quotas has no values of these.
NOT_MEASURED = {
    Metric.LINK_SPEED,
    Metric.LOG_DIR_COPIED,
    Metric.MUTATIONS_REJECTED,
    Metric.MUTATION_RATE,
    Metric.MUTATION_TOKENS,
    Metric.MUTATION_THROTTLE_TIME,
}
READ: dict[str, set[str]] = {
    "opentelemetry-collector.jsonl": set(NAMES.values()),
    "telegraf.jsonl": {name for fields in telegraf.FIELDS.values() for name in fields.values()},
    "cruise-control.jsonl": set(cruise_control.TYPES.values()),
}
FORMATS_READ = ["otlp_proto", "otlp_json", "telegraf_influx", "telegraf_json", "cruise_control"]


@dataclass(frozen=True, slots=True)
class Golden:
    """The records of one writer.

    Attributes:
        records: by format, each with Kafka's timestamp.
    """

    head: dict[str, Any]
    records: dict[FormatName, list[Logged]]

    @property
    def source(self) -> Source:
        return Source("elsewhere", self.head.get("hosts", {}))


def golden(file: str) -> Golden:
    head, *lines = map(json.loads, (GOLDEN / file).read_text().splitlines())
    by_format: dict[FormatName, list[Logged]] = {}
    for line in lines:
        logged = Logged(base64.b64decode(line["value"]), line["ms"], line["format"])
        by_format.setdefault(line["format"], []).append(logged)
    return Golden(head, by_format)


CASES = [(file, format_) for file in READ for format_ in golden(file).records]


def rows_of(spark: SparkSession, file: str, format_: FormatName) -> list[Row]:
    of_file = golden(file)
    rows: list[Row] = table(raw(spark, of_file.records[format_]), FORMATS[format_], of_file.source).collect()
    return rows


def test_golden_files_name_their_writer_and_its_version() -> None:
    assert {file.name for file in GOLDEN.glob("*.jsonl")} == set(READ)
    assert [format_ for _, format_ in CASES] == FORMATS_READ
    for file in READ:
        head = golden(file).head
        assert head["writer"]
        assert head["version"].count(".") >= 2


@pytest.mark.parametrize(("file", "format_"), CASES)
def test_golden_records_are_read_without_a_refusal(spark: SparkSession, file: str, format_: FormatName) -> None:
    rows = rows_of(spark, file, format_)
    assert [row.reason for row in rows if row.reason is not None] == []
    names = {sample.n for row in rows for sample in row.samples}
    assert READ[file] - NOT_MEASURED - names == set()
    assert {row.node for row in rows} >= set(BROKERS)


@pytest.mark.parametrize(("file", "format_"), [case for case in CASES if case[1] != "cruise_control"])
def test_golden_records_name_cluster_controller_and_throttled_bytes(
    spark: SparkSession, file: str, format_: FormatName
) -> None:
    rows = rows_of(spark, file, format_)
    assert {row.cluster for row in rows} == {"golden"}
    assert {row.node for row in rows} == {*BROKERS, CONTROLLER}
    for broker in BROKERS:
        measured = {sample.n for row in rows if row.node == broker for sample in row.samples if sample.v > 0}
        assert measured >= {Metric.LEADER_THROTTLED, Metric.FOLLOWER_THROTTLED, Metric.CLIENT_IN}


@pytest.mark.parametrize(("file", "format_"), CASES)
def test_golden_records_are_recognized_by_the_doctor(file: str, format_: FormatName) -> None:
    assert {recognize(logged.value).format for logged in golden(file).records[format_]} == {format_}


def test_golden_protobuf_and_json_of_a_scrape_are_equal(spark: SparkSession) -> None:
    def scrapes(format_: FormatName) -> list[tuple[Any, ...]]:
        rows = rows_of(spark, "opentelemetry-collector.jsonl", format_)
        return sorted((row.ts, row.node, sorted(map(tuple, row.samples))) for row in rows)

    assert len(scrapes("otlp_proto")) == 3 * (len(BROKERS) + 1)
    assert scrapes("otlp_proto") == scrapes("otlp_json")


@pytest.mark.parametrize(("file", "format_"), CASES)
def test_golden_records_yield_signals(spark: SparkSession, file: str, format_: FormatName) -> None:
    of_file = golden(file)
    frame = build([(raw(spark, of_file.records[format_]), Input(format_, of_file.source, every_ms=5000))], TOPICS)
    signals = decoded(records(frame, TOPICS.signals))
    for broker in BROKERS:
        signal = newest(signals, BrokerSignal, broker=broker)
        assert signal.client_in_bytes_per_s > 0
        assert signal.request_handler_idle_ratio > 0
        assert signal.leader_throttled_bytes_per_s is not None
        assert signal.throttled_by == (ThrottledBy.REPLICATION if format_ == "cruise_control" else ThrottledBy.QUOTA)
    controllers = [signal for signal in signals if isinstance(signal, ControllerSignal)]
    assert {signal.node for signal in controllers} == (set() if format_ == "cruise_control" else {CONTROLLER})
