"""The kernel: it parses rheostat's own format as Spark's reader does, and its row layout has a version."""

from __future__ import annotations

import json
import random
import struct
import time
from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from stream_cases import OURS, T0, TOPICS, Logged, Stream, changed, newest, raw, scrape, signals_of

from streaming import kernel
from streaming.entities import entities
from streaming.formats.common import SCRAPE_TYPE
from streaming.formats.registry import KERNEL_PARSED_FORMATS
from streaming.pipeline import build
from streaming.shared.contract import (
    BrokerSignal,
    Metric,
    age_label,
    partition_labels,
    thread_labels,
    thread_partition_labels,
)
from streaming.signal_fields import BROKER_COUNTERS, BROKER_GAUGES, LAG_GAUGES

SAMPLES = {
    Metric.CLIENT_IN: 1234,
    Metric.HANDLER_IDLE: 0.25,
    (Metric.TOTAL_TIME_P99, "request=Produce"): 12.5,
    (Metric.NETWORK_IN, "listener=A,networkprocessor=0"): 10,
    (Metric.NETWORK_IN, "listener=B,networkprocessor=0"): 20,
    (Metric.MUTATION_TOKENS, "user=u"): -3,
    (Metric.FOLLOWED_SIZE, partition_labels("orders", 0)): 10,
    (Metric.FOLLOWED_LEADER_SIZE, partition_labels("orders", 0)): 30,
    (Metric.FOLLOWED_ADDING, partition_labels("orders", 0)): 1,
    "kafka_server_of_nobody": 1,
}
GOOD = scrape(0, SAMPLES).value()

# Of each several places and values are drawn.
WRONGS: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "as it is": lambda _, value: value,
    "a byte is another": lambda rng, value: _with(value, rng.randrange(len(value)), bytes([rng.randrange(256)])),
    "a byte is missing": lambda rng, value: _with(value, rng.randrange(len(value)), b""),
    "it ends early": lambda rng, value: value[: rng.randrange(len(value))],
    "something follows": lambda rng, value: value + rng.choice((b" ", b"\n", b"x", b"{}", b"\x00", b",", b"]")),
    "something comes before": lambda rng, value: rng.choice((b" ", b"\xef\xbb\xbf", b"\x00", b"[")) + value,
    "another encoding": lambda rng, value: value.decode().encode(rng.choice(("utf-16", "utf-16-le", "utf-32-be"))),
    "a field of another kind": lambda rng, value: _field(rng, value),
    "a sample of another kind": lambda rng, value: _sample(rng, value),
    "white space": lambda rng, value: json.dumps(json.loads(value), indent=rng.choice((1, 4))).encode(),
}
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2, 1.0, 1e400, 2**31, 2**63, 2**70, -0.0, "", "1", "broker", "Infinity", "NaN", "ü€😀", "\ud800", "a|b",
    [], [1], {}, {"n": "x"}, [[]], [{}],
)  # fmt: skip


def _with(value: bytes, at: int, one: bytes) -> bytes:
    return value[:at] + one + value[at + 1 :]


def _field(rng: random.Random, value: bytes) -> bytes:
    body = json.loads(value)
    body[rng.choice([*body, "unknown"])] = rng.choice(ODD)
    text = json.dumps(body)
    # A field named twice: the last one counts, or so.
    return (text[:-1] + ',"node":7}').encode() if rng.random() < 0.2 else text.encode()


def _sample(rng: random.Random, value: bytes) -> bytes:
    body = json.loads(value)
    sample = rng.choice(body["samples"])
    if rng.random() < 0.3:
        sample.pop(rng.choice(list(sample)))
    else:
        sample[rng.choice(["n", "l", "v", "more"])] = rng.choice(ODD)
    text = json.dumps(body)
    return text.replace('"v": 1234', '"v": 1, "v": 1234').encode() if rng.random() < 0.2 else text.encode()


def rows_of(spark: SparkSession, values: list[bytes]) -> list[tuple[Any, ...]]:
    logged = [Logged(value, T0, offset=i) for i, value in enumerate(values)]
    frame = entities(raw(spark, logged), "rheostat_json", OURS.source, 5000, kafka="k")
    # Seen, the first eight bytes, is when this is run.
    return sorted(
        (r.cluster, r.kind, r.node, r.part, r.time, bytes(r.row)[8:]) for r in frame.orderBy("part").collect()
    )


def test_kernel_and_spark_reader_give_equal_rows(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    values = [wrong(rng, GOOD) for wrong in WRONGS.values() for _ in range(120)]
    assert 300 < count_read_by_kernel(spark, values) < len(values) - 300, "this is to see both readers at work"
    both = rows_of(spark, values)
    monkeypatch.setattr("streaming.entities.KERNEL_PARSED_FORMATS", {})
    alone = rows_of(spark, values)
    assert len(both) == len(alone) > len(values)
    assert [a for a, b in zip(both, alone, strict=True) if a != b] == []


def test_kernel_reads_records_as_the_collector_writes_them(spark: SparkSession) -> None:
    """Otherwise Spark's reader would take over: equal results, but slow."""
    assert {"rheostat_json": kernel.entities_of_json} == KERNEL_PARSED_FORMATS
    values = [GOOD, json.dumps(json.loads(GOOD)).encode(), GOOD.replace(b'"c"', '"ü"'.encode())]
    found = raw(spark, values).select(kernel.entities_of_json(record_ms=F.lit(T0), every_ms=5000).alias("e")).collect()
    assert [len(row.e) for row in found] == [3, 3, 3]


def as_layout_3(row: bytes) -> dict[str, Any]:
    """Decodes a row in the layout of Row.java."""
    at = 0

    def take(format_: str) -> Any:
        nonlocal at
        (found,) = struct.unpack_from(f">{format_}", row, at)
        at += struct.calcsize(format_)
        return found

    def text() -> str:
        return take(f"{take('H')}s").decode()

    found: dict[str, Any] = {name: take("q") for name in ("seen", "own", "ts", "at", "every")}
    found["proven"] = take("?")
    found["counters"] = [take("q") for _ in range(take("h"))]
    found["gauges"] = [take("d") for _ in range(take("h"))]
    found["sums"] = [(take("h"), text(), take("q")) for _ in range(take("i"))]
    found["partitions"] = {text(): (*[take("d") for _ in range(5)], take("?")) for _ in range(take("i"))}
    found["lags"] = None
    if take("b"):
        gauges = [take("d") for _ in range(take("h"))]
        earlier = [(take("d"), take("d")) for _ in range(take("h"))]
        threads = [(take("i"), take("i"), *[take("d") for _ in range(6)]) for _ in range(take("h"))]
        found["lags"] = (
            gauges,
            earlier,
            threads,
            {text(): (take("i"), take("i"), *[take("d") for _ in range(3)]) for _ in range(take("h"))},
        )
    assert at == len(row)
    return found


def test_kernel_state_row_has_layout_3(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed layout needs a new number, so that an old checkpoint is refused and not misread."""
    assert kernel.LAYOUT == 3
    monkeypatch.setattr("streaming.entities.KERNEL_PARSED_FORMATS", {})
    monkeypatch.setattr("streaming.entities.WHOLE_SCRAPE_FORMATS", frozenset())
    labels = partition_labels("orders", 0)
    samples = {
        Metric.CLIENT_IN: 7, Metric.HANDLER_IDLE: 0.5, (Metric.NETWORK_IN, "listener=A"): 3, (Metric.LED_SIZE, labels): 9,
        (Metric.LED_REMAINING, labels): 4, Metric.LAG_SUM: 50, Metric.LAG_MAX: 40,
        (Metric.LAG_EARLIER_SUM, age_label(25.5)): 30,
        (Metric.LAG_THREAD_SUM, thread_labels(2, 1)): 50, (Metric.LAG_PARTITION, thread_partition_labels(2, 1, "orders", 0)): 40,
        (Metric.LAG_PARTITION_SIZE, labels): 9,
    }  # fmt: skip
    frame = entities(raw(spark, [Logged(scrape(0, samples).value(), T0 + 200)]), "rheostat_json", OURS.source, 5000)
    broker, move = (as_layout_3(bytes(row.row)) for row in frame.orderBy("kind").collect())

    times = {"own": T0, "ts": T0, "at": T0 + 200, "every": 5000}
    assert times.items() <= broker.items()
    assert times.items() <= move.items()
    unknown = -(1 << 63)
    assert broker["proven"]
    assert broker["counters"] == [7 if name == Metric.CLIENT_IN else unknown for name, _ in BROKER_COUNTERS.values()]
    gauges = [0.5 if name == Metric.HANDLER_IDLE else None for name, _ in BROKER_GAUGES.values()]
    assert [None if isnan(gauge) else gauge for gauge in broker["gauges"]] == gauges
    assert broker["sums"] == [(list(BROKER_COUNTERS).index("network_in_bytes_per_s"), "listener=A", 3)]
    assert (broker["partitions"], move["counters"], move["gauges"], move["sums"]) == ({}, [], [], [])
    leader, own, counted, remaining, move_lag, adding = move["partitions"][labels]
    assert (leader, counted, remaining, adding) == (9, 0, 4, True)
    assert isnan(own)
    assert isnan(move_lag)
    assert move["lags"] is None

    gauges, earlier, ((source, fetcher, *values),), partitions = broker["lags"]
    known = {name: value for name, value in zip(LAG_GAUGES, gauges, strict=True) if not isnan(value)}
    assert known == {"lag_sum_messages": 50, "lag_max_messages": 40}
    assert earlier == [(25.5, 30)]
    assert (source, fetcher, [None if isnan(v) else v for v in values]) == (2, 1, [None, 50, None, None, None, None])
    source, fetcher, partition_lag, end_offset, size = partitions[labels]
    assert (source, fetcher, partition_lag, size) == (2, 1, 40, 9)
    assert isnan(end_offset)


def test_kernel_signal_omits_unknown_numbers(spark: SparkSession) -> None:
    frame = build([(raw(spark, [scrape(0, {Metric.HANDLER_IDLE: 0.5})]), OURS)], TOPICS)
    (value,) = [json.loads(bytes(row.value)) for row in frame.collect()]
    assert value == {
        "v": 2, "kind": "broker", "cluster": "c", "window_end_ms": T0 + 5000, "sampled_at_ms": T0, "samples": 1,
        "completeness": 5 / 30, "broker": 1, "request_handler_idle_ratio": 0.5,
    }  # fmt: skip


def test_kernel_reads_names_with_json_escapes(spark: SparkSession) -> None:
    (signal,) = signals_of(spark, [scrape(0, {Metric.HANDLER_IDLE: 0.5}, cluster='a"b\\c\n\x01ü€😀')])
    assert signal.cluster == 'a"b\\c\n\x01ü€😀'


def test_kernel_call_with_wrong_arguments_is_reported(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="entities_of_json takes 4 arguments and was given 1"):
        spark.range(1).select(F.call_function("rheostat.entities_of_json", F.lit(b"x")))
    with pytest.raises(Exception, match="no function nothing in catalog rheostat"):
        spark.range(1).select(F.call_function("rheostat.nothing", F.lit(b"x")))


def test_kernel_accepts_null_in_any_scrape_field(spark: SparkSession) -> None:
    """A cast of an array to the common schema yields NULL for fields that do not fit."""
    type_ = f"array<{SCRAPE_TYPE}>"
    none = "null, 'c', 1, 'broker', 5L"
    cases = {
        f"cast(null as {type_})": 0,
        f"cast(array(null) as {type_})": 0,
        f"cast(array(struct({none}, null)) as {type_})": 1,
        f"cast(array(struct(null, null, 1, 'broker', 5L, array())) as {type_})": 1,
        f"cast(array(struct(null, 'c', null, 'broker', 5L, array())) as {type_})": 1,
        f"cast(array(struct({none}, array(null, struct(null, null, null)))) as {type_})": 1,
    }
    one = raw(spark, [Logged(b"x")])
    for scrapes, expected in cases.items():
        found = kernel.entities(
            F.expr(scrapes),
            record_ms=F.lit(T0),
            every_ms=5000,
            whole=True,
            kafka="",
            extra_delay_ms=0,
            reject_slots=None,
        )
        assert one.select(F.size(found).alias("n")).first().n == expected, scrapes


def reasons_of(spark: SparkSession, *values: bytes) -> list[str | None]:
    """Returns the reason of each refused record, and None for accepted ones."""
    frame = build([(raw(spark, list(values)), OURS)], TOPICS)
    refused = [json.loads(bytes(row.value)) for row in frame.collect() if row.topic == TOPICS.rejects]
    return [next((r["reason"] for r in refused if r["offset"] == offset), None) for offset in range(len(values))]


def count_read_by_kernel(spark: SparkSession, values: list[bytes]) -> int:
    """Returns how many of these records the kernel's own reader parses."""
    is_taken = kernel.entities_of_json(record_ms=F.lit(T0), every_ms=5000).isNotNull()
    found = raw(spark, [Logged(value, T0) for value in values]).select(F.count_if(is_taken).alias("taken")).first()
    assert found is not None
    return int(found.taken)


def test_kernel_refuses_too_long_names_and_skips_long_labels(spark: SparkSession) -> None:
    """Too long names would make signals that Kafka refuses as too large, again after every restart."""
    long, longest = (scrape(0, SAMPLES, cluster="c" * length).value() for length in (255, 256))
    why = "the name of the cluster is empty or longer than 255 characters"
    assert reasons_of(spark, long, longest) == [None, why]
    labels = ("user=" + "u" * 3000, "partition=0,topic=" + "t" * 3000)
    samples = {(Metric.MUTATION_TOKENS, labels[0]): 1, (Metric.LED_SIZE, labels[1]): 1, Metric.HANDLER_IDLE: 0.5}
    (signal,) = signals_of(spark, [scrape(0, samples)])
    assert isinstance(signal, BrokerSignal)


def test_kernel_leaves_long_field_names_to_spark(spark: SparkSession) -> None:
    """The kernel's reader caches field names for the life of the JVM, Spark's reader does not."""
    values = [json.dumps({**json.loads(GOOD), "x" * length: 1}).encode() for length in (200, 20_000)]
    assert [count_read_by_kernel(spark, [value]) for value in values] == [1, 0]
    assert reasons_of(spark, *values) == [None, None]


def test_kernel_treats_lone_surrogates_in_labels_like_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [{"n": Metric.MUTATION_TOKENS, "l": f"user={text}", "v": 1} for text in ("\ud800", "\udc01")]
    value = changed(scrape(0, {}), samples=samples)
    both = rows_of(spark, [value])
    monkeypatch.setattr("streaming.entities.KERNEL_PARSED_FORMATS", {})
    assert both == rows_of(spark, [value])


def test_kernel_sums_8000_labels_within_30_s(spark: SparkSession) -> None:
    def samples_at(at_s: int) -> dict[Any, float]:
        return {(Metric.NETWORK_OUT, f"listener={i}"): i + at_s for i in range(8_000)}

    values = [Logged(scrape(at_s, samples_at(at_s)).value(), T0 + at_s * 1000) for at_s in (0, 5, 10, 15, 20, 25)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streaming.entities.KERNEL_PARSED_FORMATS", {})
        patch.setattr("streaming.entities.WHOLE_SCRAPE_FORMATS", frozenset())
        began_s = time.monotonic()
        found = newest(signals_of(spark, values), BrokerSignal)
    assert found.network_out_bytes_per_s == pytest.approx(8_000)
    assert time.monotonic() - began_s < 30, "it took minutes while it was quadratic"


def test_kernel_sum_over_labels_ignores_unlabelled_sample(spark: SparkSession) -> None:
    def samples_at(at_s: float) -> dict[Any, float]:
        labelled = {(Metric.NETWORK_OUT, f"listener={name}"): rate * at_s for name, rate in (("A", 10), ("B", 20))}
        return {**labelled, Metric.NETWORK_OUT: 7777 * at_s}

    found = newest(signals_of(spark, [scrape(at_s, samples_at(at_s)) for at_s in (0, 5)]), BrokerSignal)
    assert found.network_out_bytes_per_s == 30


def test_kernel_conflicting_scrapes_of_one_time_resolve_independently_of_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    two = [Logged(scrape(0, {Metric.HANDLER_IDLE: idle}).value(), T0) for idle in (0.25, 0.75)]
    said = []
    for name, order in (("a", two), ("b", two[::-1])):
        (tmp_path / name).mkdir()
        stream = Stream(spark, tmp_path / name)
        stream.run(*[[one] for one in order])
        said.append(stream.final())
    assert said[0] == said[1]
    assert len(said[0]) == 1


# -- the newest step --------------------------------------------------------------------------------------------------


def rising_samples(at_s: float, *, listeners: str = "AB", per_s: float = 10.0, since: float = 0.0) -> dict[Any, float]:
    """Counters that rise evenly from ``since`` on; two listeners have half each."""
    counters: dict[Any, float] = dict.fromkeys(
        (Metric.REASSIGNMENT_OUT, Metric.REASSIGNMENT_IN, Metric.REPLICATION_IN), per_s * (at_s - since)
    )
    for name in listeners:
        counters |= {
            (way, f"listener={name}"): per_s * (at_s - since) for way in (Metric.NETWORK_OUT, Metric.NETWORK_IN)
        }
    return counters


@pytest.mark.parametrize(
    ("times", "step_s"),
    [
        ((0, 5, 10), 5.0),
        ((0, 5, 7.5), 2.5),  # A look as a move begins, and its second.
        ((0, 5, 6), 6.0),  # So soon after another: from the one before that.
        ((0, 5, 5), None),  # Delivered twice: the second is no scrape of its own. Its step is that of the first.
        ((0,), None),
        ((0, 61), None),
    ],
)
def test_kernel_newest_step_spans_the_last_two_scrapes(
    spark: SparkSession, times: tuple[float, ...], step_s: float | None
) -> None:
    found = newest(signals_of(spark, [scrape(at_s, rising_samples(at_s)) for at_s in times]), BrokerSignal)
    if times == (0, 5, 5):
        step_s = 5.0
    assert found.step_s == step_s
    told = (
        found.step_reassignment_out_bytes_per_s,
        found.step_network_out_bytes_per_s,
        found.step_network_in_bytes_per_s,
    )
    assert told == (pytest.approx((10, 20, 30)) if step_s is not None else (None, None, None))


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(rising_samples(10, listeners="A"), id="a listener is missing: its record may not have come yet"),
        pytest.param(rising_samples(10, listeners="ABC"), id="a listener is new"),
        pytest.param(
            {k: v for k, v in rising_samples(10).items() if k != Metric.REASSIGNMENT_OUT}, id="a counter is missing"
        ),
        pytest.param(rising_samples(10, since=8), id="the broker was started again"),
    ],
)
def test_kernel_incomplete_newest_scrape_yields_no_step(
    spark: SparkSession, last: dict[Any, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources that split a scrape into records may have delivered only a part of the newest scrape."""
    monkeypatch.setattr("streaming.entities.KERNEL_PARSED_FORMATS", {})
    monkeypatch.setattr("streaming.entities.WHOLE_SCRAPE_FORMATS", frozenset())
    found = newest(
        signals_of(spark, [scrape(0, rising_samples(0)), scrape(5, rising_samples(5)), scrape(10, last)]), BrokerSignal
    )
    assert found.step_s is None
    assert found.step_network_out_bytes_per_s is None
    assert found.network_out_bytes_per_s is not None  # The window's mean bears it.


def test_kernel_adjusted_sender_clock_yields_no_step(spark: SparkSession) -> None:
    """Between two scrapes 5 s pass by Kafka's clock and 8 s by the sender's."""
    values = [
        Logged(scrape(at_s, rising_samples(at_s)).value(), T0 + logged * 1000)
        for at_s, logged in ((0, 0), (5, 5), (13, 10))
    ]
    found = newest(signals_of(spark, values), BrokerSignal)
    assert (found.step_s, found.step_network_out_bytes_per_s) == (None, None)
    assert found.network_out_bytes_per_s is not None
