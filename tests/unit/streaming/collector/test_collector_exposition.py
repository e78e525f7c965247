"""Compares the parser with prometheus_client's: both return the same samples for the same text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from streaming.collector.exposition import FETCHED_BYTES, LAG, PREFIX, Reading, parse
from streaming.shared.contract import Sample, canonical_labels


def full_parse(text: str) -> list[Sample]:
    return [
        Sample(s.name, canonical_labels({k: v for k, v in s.labels.items() if v}), float(s.value))
        for family in text_string_to_metric_families(text)
        for s in family.samples
        if s.name.startswith(PREFIX) and math.isfinite(s.value)
    ]


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


word = st.from_regex(r"[a-z][a-z0-9_]{0,11}", fullmatch=True)
# A comma or brace in quotes, an escape at the end, a name that looks like a number: where a lean reader would slip.
content = st.text(st.sampled_from('abz09 ,={}"\\\nn.-_#é') | st.characters(exclude_categories=["C", "Z"]), max_size=12)
number = st.one_of(
    st.floats().map(repr),
    st.integers(-(10**15), 10**15).map(str),
    st.sampled_from(["NaN", "+Inf", "-Inf", "1.5E9", "0.0"]),
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from([PREFIX, "jvm_", "kafka", "process_"])) + draw(word)
    labels = draw(st.dictionaries(word, content, max_size=4))
    inside = ",".join(f'{key}="{escaped(value)}"' for key, value in labels.items())
    inside += draw(st.sampled_from(["", ","])) if labels else ""
    braces = "{" + inside + "}" if labels or draw(st.booleans()) else ""
    stamp = draw(st.sampled_from(["", " 1395066363000"]))
    return f"{name}{braces} {draw(number)}{stamp}"


@given(
    st.lists(
        lines() | st.builds("# HELP {} {}".format, word, word) | st.just("") | st.just("# TYPE kafka_x gauge"),
        max_size=12,
    )
)
def test_parse_equals_full_parser(some: list[str]) -> None:
    text = "\n".join([*some, "# TYPE kafka_end gauge", ""])
    assert sorted(map(repr, parse(text).samples)) == sorted(map(repr, full_parse(text)))


TEXT = """\
# TYPE kafka_server_leaderreplication_byte_rate gauge
kafka_server_leaderreplication_byte_rate 4500000.0
# TYPE kafka_network_requestmetrics_totaltimems_p99 gauge
kafka_network_requestmetrics_totaltimems_p99{request="Produce"} 12.5
kafka_network_requestmetrics_totaltimems_p99{request="FetchConsumer"} NaN
# TYPE kafka_server_brokertopicmetrics_bytesin counter
kafka_server_brokertopicmetrics_bytesin_total 1.234567890123E12
# TYPE jvm_threads_current gauge
jvm_threads_current 70.0
kafka_controller_kafkacontroller_x{broker=""} 1.0
"""


def test_parse_keeps_only_kafka_series() -> None:
    assert parse(TEXT) == Reading(
        [
            Sample("kafka_server_leaderreplication_byte_rate", "", 4_500_000),
            Sample("kafka_network_requestmetrics_totaltimems_p99", "request=Produce", 12.5),
            Sample("kafka_server_brokertopicmetrics_bytesin_total", "", 1_234_567_890_123),
            Sample("kafka_controller_kafkacontroller_x", "", 1.0),
        ],
        {},
    )


def lag(partition: int, value: str, topic: str = "a.b-c_d", fetcher: int = 0) -> str:
    return f'{LAG}{{clientid="ReplicaFetcherThread-{fetcher}-1",partition="{partition}",topic="{topic}"}} {value}\n'


def test_parse_returns_lags_separately_without_unknown_ones() -> None:
    found = parse(lag(0, "7.0") + lag(1, "-1.0") + lag(2, "0.0") + lag(3, "1.2345678E7") + TEXT)
    thread = "ReplicaFetcherThread-0-1"
    assert found.lags == {
        ("a.b-c_d", 0): (7, thread), ("a.b-c_d", 2): (0, thread), ("a.b-c_d", 3): (12_345_678, thread),
    }  # fmt: skip
    assert found.samples == parse(TEXT).samples


def test_parse_lag_under_two_fetchers_takes_the_larger() -> None:
    assert parse(lag(0, "7.0") + lag(0, "9.0", fetcher=1) + lag(0, "8.0", fetcher=2)).lags == {
        ("a.b-c_d", 0): (9, "ReplicaFetcherThread-1-1")
    }


def test_parse_lag_between_disks_of_one_broker_is_left_out() -> None:
    line = f'{LAG}{{clientid="ReplicaAlterLogDirsThread-0",partition="0",topic="a.b-c_d"}} 99.0\n'
    assert parse(line + lag(0, "7.0")).lags == {("a.b-c_d", 0): (7, "ReplicaFetcherThread-0-1")}


def test_parse_returns_bytes_of_fetcher_threads_separately() -> None:
    found = parse(TEXT + f'{FETCHED_BYTES}{{clientid="ReplicaFetcherThread-3-12"}} 1.5E9\n')
    assert found == Reading(parse(TEXT).samples, {}, {"ReplicaFetcherThread-3-12": 1.5e9})


@pytest.mark.parametrize(
    ("line", "client_id"),
    [
        (f'{LAG}{{topic="t",partition="4"}} 5.0', ""),
        (f'{LAG}{{clientid="x",partition="4",topic="t",extra="y"}} 5', "x"),
        (f'{LAG} {{partition="4",topic="t"}}  5e0 1395066363000', ""),
    ],
)
def test_parse_accepts_lags_in_another_form(line: str, client_id: str) -> None:
    lags = {("a.b-c_d", 1): (2, "ReplicaFetcherThread-0-1"), ("t", 4): (5, client_id)}
    assert parse(lag(1, "2.0") + line + "\n" + TEXT) == Reading(parse(TEXT).samples, lags)


@pytest.mark.parametrize(
    "text",
    [
        "<html><body>Sign in</body></html>",
        "",
        TEXT + "kafka_broken{a=} 1.0\n",
        TEXT + 'kafka_broken{a="x} 1.0\n',
        TEXT + "kafka_broken\n",
        TEXT + "kafka_broken one\n",
        TEXT + lag(0, "many"),
        TEXT + f'{LAG}{{clientid="x",partition="1"',
    ],
)
def test_parse_refuses_text_that_is_not_prometheus(text: str) -> None:
    with pytest.raises(ValueError, match=r"Prometheus text|could not convert"):
        parse(text)


def test_parse_without_kafka_series_returns_empty_reading() -> None:
    assert parse("# TYPE jvm_threads_current gauge\njvm_threads_current 70.0\n") == Reading([], {})
