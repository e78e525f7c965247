"""The doctor names the format of a record, or what an unreadable record is and what to change."""

from __future__ import annotations

import gzip
import json
import struct
import time

import pytest

from rheostat.doctor.findings import FindingVerdict
from rheostat.doctor.record_formats import recognize
from rheostat.doctor.source_records import judge
from streaming.shared.envelopes import envelope_text


def nested(field: int, body: bytes) -> bytes:
    return bytes([field << 3 | 2, len(body)]) + body


OTLP = nested(1, nested(1, b"") + nested(2, nested(1, b"") + nested(2, nested(1, b"kafka.max.lag"))))
READ = {
    "otlp_proto": OTLP,
    "otlp_json": b'{"resourceMetrics": []}',
    "rheostat_json": b'{"v": 1, "cluster": "c", "node": 1, "role": "broker", "ts": 1, "samples": []}',
    "telegraf_json": b'{"fields": {}, "name": "kafka_topics", "tags": {}, "timestamp": 1}',
    "telegraf_influx": b"kafka_topics,host=h,broker_id=1 BytesInPerSec.Count=5 1700000000000000000\n",
    "prometheus_json": b'{"timestamp": "2026-11-21T13:00:00Z", "value": "42", "name": "up", "labels": {}}',
    "cruise_control": struct.pack(">BBBqid", 0, 0, 1, 1_700_000_000_000, 7, 5.0),
}
MORE = {
    "telegraf_json": b'{"metrics": []}',
    "prometheus_json": b'{"name": "up", "tags": {}, "kind": "absolute", "gauge": {"value": 1}}',
    "cruise_control": struct.pack(">BBBqii4sid", 2, 0, 4, 1_700_000_000_000, 7, 4, b"a-b!", 3, 5.0),
    "telegraf_influx": b"topics value=1i",
}
UNREAD = {
    b"": "empty records",
    gzip.compress(OTLP, mtime=0): "gzip data",
    b"\x28\xb5\x2f\xfd....": "zstd data",
    b"\0\0\0\0\x07\x02abc": "Avro or Protobuf with a schema registry's prefix (magic byte 0, schema id 7)",
    b"\0\0\0\0\x07\0" + OTLP: "Protobuf with a schema registry's prefix (magic byte 0, schema id 7)",
    b'\0\0\0\0\x07{"a": 1}': "JSON with a schema registry's prefix (magic byte 0, schema id 7)",
    b"Obj\x01\x04\x14": "an Avro file",
    b"\x03\x00" + b"u" * 16 + b"x": "a record of AWS Glue's schema registry",
    b"# HELP up Whether it is up\nup 1\n": "Prometheus' text format",
    b'up{instance="h:1"} 1 1700000000\n': "Prometheus' text format",
    b"hello, world": "text that begins with 'hello, world'",
    b"5": "JSON, but not an object",
    b'{"schema": {}, "payload": {}}': "JSON in an envelope of Kafka Connect",
    b'{"b": 1, "a": 2}': "JSON objects with the keys 'a', 'b'",
    b"{}": "empty JSON objects",
    b"\xff\xfe\x00": "binary data that begins with the bytes ff fe 00",
    b"[" * 100_000: "text that begins with '" + "[" * 40 + "'",
    b"\0" * 5: "text that begins with '" + r"\x00" * 5 + "'",
    OTLP[:-3]: "text that begins with",
}


@pytest.mark.parametrize(("format_", "value"), [*READ.items(), *MORE.items()])
def test_recognize_known_format_gives_its_name(format_: str, value: bytes) -> None:
    assert recognize(value).format == format_


@pytest.mark.parametrize("value", UNREAD, ids=lambda value: repr(value[:12]))
def test_recognize_unknown_format_tells_what_it_is(value: bytes) -> None:
    kind = recognize(value)
    assert kind.format is None
    assert kind.text.startswith(UNREAD[value])
    assert len(kind.text) < 200


@pytest.mark.parametrize("repeated", ["a,b=c", ",b=c", "=", " a=b", "{", "1", "[1,"])
def test_recognize_takes_linear_time(repeated: str) -> None:
    began_s = time.process_time()
    assert len(recognize(f"a,b=c{repeated * 20_000}\t".encode()).text) < 200
    assert time.process_time() - began_s < 2.0


def test_recognize_tombstone_is_an_empty_record() -> None:
    assert recognize(None).text == "empty records"


@pytest.mark.parametrize("value", [*READ.values(), *MORE.values()], ids=lambda value: repr(value[:12]))
def test_envelope_text_of_known_format_is_none(value: bytes) -> None:
    assert envelope_text(value) is None or recognize(value).format == "cruise_control"


def test_judge_other_known_format_names_the_setting() -> None:
    finding = judge("format of t", "otlp_json", [OTLP, OTLP])
    assert finding.verdict is FindingVerdict.FAILED
    assert finding.found == "the settings say otlp_json, but the newest records are otlp_proto"
    assert finding.do == "set format: otlp_proto for this topic in stream.sources"


def test_judge_wrapped_records_name_the_change() -> None:
    finding = judge("format of t", "telegraf_json", [b"\0\0\0\0\x07\x02abc", b"hello"])
    assert finding.verdict is FindingVerdict.FAILED
    assert finding.found.endswith("schema id 7); text that begins with 'hello'")
    assert finding.do == "let the writer send JSON or OTLP without a schema registry"


def test_judge_unknown_records_name_the_formats_page() -> None:
    assert "docs/how-to/metrics-kafka-topic.md" in judge("format of t", "telegraf_json", [b"hello"]).do


def test_judge_one_record_in_the_expected_format_is_enough() -> None:
    finding = judge("format of t", "otlp_proto", [b"hello", json.dumps(1).encode(), OTLP])
    assert finding.verdict is FindingVerdict.OK
    assert finding.found == "the newest records are in the format otlp_proto"
