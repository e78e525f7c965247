"""rheostat's own format: reasons for refused records among good ones, and the choice between the sender's and Kafka's clock."""

from __future__ import annotations

import base64
import json

from pyspark.sql import SparkSession
from stream_cases import OURS, T0, TOPICS, Logged, at, changed, newest, raw, records, scrape, signals_of

from streaming.pipeline import build
from streaming.shared.contract import (
    BrokerSignal,
    Metric,
    MoveSignal,
    NodeRole,
    TenantSignal,
    partition_labels,
)

GOOD = scrape(0, {Metric.HANDLER_IDLE: 0.9, Metric.CLIENT_IN: 5.0})
TEXT = GOOD.value()
NOT_JSON = "not JSON: one object and nothing else is expected"

REFUSED: dict[str, tuple[bytes | None, str]] = {
    "tombstone": (None, "empty record"),
    "empty": (b"", "empty record"),
    "blank": (b"   ", NOT_JSON),
    "text": (b"hello", NOT_JSON),
    "number": (b"5", NOT_JSON),
    "null": (b"null", NOT_JSON),
    "array": (b"[" + TEXT + b"]", NOT_JSON),
    "truncated": (TEXT[:-5], NOT_JSON),
    "trailing garbage": (TEXT + b" x", NOT_JSON),
    "trailing brace": (TEXT + b"}", NOT_JSON),
    "two objects": (TEXT + TEXT, NOT_JSON),
    "two lines": (TEXT + b"\n" + TEXT, NOT_JSON),
    "two with comma": (TEXT + b"," + TEXT, NOT_JSON),
    "comment": (b"/* x */" + TEXT, NOT_JSON),
    "single quotes": (TEXT.replace(b'"', b"'"), NOT_JSON),
    "byte order mark": (b"\xef\xbb\xbf" + TEXT, NOT_JSON),
    "UTF-16": (TEXT.decode().encode("utf-16"), "invalid UTF-8"),
    "invalid UTF-8": (TEXT.replace(b'"c"', b'"\xff\xfe"'), "invalid UTF-8"),
    "2,000 levels": (TEXT[:-1] + b',"z":' + b"[" * 2000 + b"]" * 2000 + b"}", NOT_JSON),
    "2,000 digits": (TEXT.replace(b"0.9", b"1" * 2000), NOT_JSON),
    "no version": (changed(GOOD, v=None), "no schema version"),
    "version 7": (changed(GOOD, v=7), "schema version 7, this program reads 1"),
    "version in words": (changed(GOOD, v="one"), "no schema version"),
    "no cluster": (changed(GOOD, cluster=None), "no cluster"),
    "empty cluster": (changed(GOOD, cluster=""), "no cluster"),
    "no node": (changed(GOOD, node=None), "no node, or not a whole number"),
    "node as text": (changed(GOOD, node="1"), "no node, or not a whole number"),
    "node out of range": (changed(GOOD, node=2**40), "no node, or not a whole number"),
    "negative node": (changed(GOOD, node=-1), "node is negative"),
    "no role": (changed(GOOD, role=None), "no role"),
    "unknown role": (changed(GOOD, role="zookeeper"), "unknown role zookeeper"),
    "no ts": (changed(GOOD, ts=None), "no ts, or not a whole number"),
    "ts as text": (changed(GOOD, ts="now"), "no ts, or not a whole number"),
    "ts as fraction": (changed(GOOD, ts=1.5), "no ts, or not a whole number"),
    "no samples": (changed(GOOD, samples=None), "no samples, or not a list of objects"),
    "samples as object": (changed(GOOD, samples={"a": 1}), "no samples, or not a list of objects"),
    "samples of numbers": (changed(GOOD, samples=[3]), "no samples, or not a list of objects"),
    "number as text": (TEXT.replace(b"0.9", b'"0.9"'), "a sample has a field of the wrong type"),
}


def test_malformed_records_are_refused_with_reason_and_others_pass(spark: SparkSession) -> None:
    values = [value for value, _ in REFUSED.values()]
    frame = build([(raw(spark, [TEXT, *values, scrape(5, {Metric.CLIENT_IN: 15.0})]), OURS)], TOPICS).cache()

    rejects = {json.loads(value)["offset"]: json.loads(value) for value in records(frame, TOPICS.rejects).values()}
    reasons = {name: rejects.get(offset, {}).get("reason") for offset, name in enumerate(REFUSED, start=1)}
    assert reasons == {name: reason for name, (_, reason) in REFUSED.items()}
    assert len(rejects) == len(REFUSED)
    assert len(records(frame, TOPICS.signals)) == 2


def test_reject_has_offset_reason_and_head_of_value(spark: SparkSession) -> None:
    value = b"\xff" + b"x" * 300
    ((key, body),) = records(build([(raw(spark, [value]), OURS)], TOPICS), TOPICS.rejects).items()
    assert key == b"rheostat.metrics-0-0"
    assert json.loads(body) == {
        "v": 1,
        "topic": "rheostat.metrics",
        "partition": 0,
        "offset": 0,
        "reason": "invalid UTF-8",
        "head": base64.b64encode(value[:256]).decode(),
    }


# Where Unicode draws the line: alone, overlong, cut short, a surrogate, beyond the last code point; and what only looks odd.
ODD_BYTES = (
    b"\x80", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80", b"\xff", "\ufffd".encode(), "é".encode(), "€".encode(), "😀".encode(), "\U0010ffff".encode(),
    b"\x7f", b"%s %d %",
)  # fmt: skip


def test_text_other_than_utf8_is_refused(spark: SparkSession) -> None:
    values = [changed(GOOD, colour="@").replace(b"@", odd) for odd in ODD_BYTES]
    rejects = records(build([(raw(spark, values), OURS)], TOPICS), TOPICS.rejects).values()
    refused = {json.loads(value)["offset"]: json.loads(value)["reason"] for value in rejects}
    assert refused == dict.fromkeys(range(9), "invalid UTF-8")


NO_NUMBERS = (b"NaN", b'"NaN"', b"Infinity", b"-Infinity", b"1e400", b"1e300", b"-1e300", b"null")


def test_sample_without_a_number_is_left_out_alone(spark: SparkSession) -> None:
    labels = partition_labels("orders", 0)
    odd = dict.fromkeys(
        (
            Metric.HANDLER_IDLE,
            Metric.REPLICATION_IN,
            (Metric.NETWORK_IN, "listener=A"),
            (Metric.LED_SIZE, labels),
            (Metric.LED_REMAINING, labels),
            (Metric.MUTATION_TOKENS, "user=u"),
            (Metric.TOTAL_TIME_P99, "request=Produce"),
        ),
        0.9,
    )
    kept = {(Metric.LED_COUNTED, labels): 2.0, (Metric.MUTATION_RATE, "user=u"): 7.0}
    values = [
        Logged(
            scrape(t, {**odd, **kept, Metric.CLIENT_IN: 10 * t}, node=node).value().replace(b"0.9", number),
            T0 + 1000 * t,
        )
        for node, number in enumerate(NO_NUMBERS)
        for t in (0, 5)
    ]
    signals = signals_of(spark, values)
    for node in range(len(NO_NUMBERS)):
        broker = newest(signals, BrokerSignal, broker=node)
        assert broker == BrokerSignal("c", node, T0 + 10_000, T0 + 5_000, 2, 2 / 6, client_in_bytes_per_s=10.0)
        move = newest(signals, MoveSignal, broker=node)
        assert (move.listed_partitions, move.steady_state_bytes_per_s, move.steps) == (1, None, ())
        tenant = newest(signals, TenantSignal, node=node)
        assert (tenant.mutation_rate_per_s, tenant.tokens) == (7.0, None)


def test_unknown_fields_and_nameless_samples_are_ignored(spark: SparkSession) -> None:
    idle, count = Metric.HANDLER_IDLE, Metric.LEADER_COUNT
    samples = [
        {"n": None, "l": "", "v": 1},
        {"l": "", "v": 1},
        {"n": idle, "v": 1},
        None,
        {"n": count, "l": "", "v": 2, "colour": 1},
    ]
    signal = newest(signals_of(spark, [changed(GOOD, samples=samples, colour="blue")]), BrokerSignal)
    assert (signal.request_handler_idle_ratio, signal.leaders) == (None, 2.0)


def test_sampled_at_is_sender_time_only_within_30_s(spark: SparkSession) -> None:
    counts = {
        T0 - 30_000: T0 - 30_000,
        T0 + 30_000: T0 + 30_000,
        T0 - 30_001: T0,
        T0 + 30_001: T0,
        T0 + 300_000: T0,
        T0 - 300_000: T0,
        0: T0,
        2**63 - 1: T0,
        -(2**63): T0,
    }
    signals = signals_of(spark, at(0, *[changed(GOOD, ts=own, node=node) for node, own in enumerate(counts)]))
    found = {node: newest(signals, BrokerSignal, broker=node).sampled_at_ms for node in range(len(counts))}
    assert found == dict(enumerate(counts.values()))


def test_controller_yields_no_broker_signal(spark: SparkSession) -> None:
    assert signals_of(spark, [scrape(0, {Metric.CLIENT_IN: 1.0}, role=NodeRole.CONTROLLER)]) == []
