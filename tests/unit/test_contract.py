"""Signals and records survive the way through a topic; what is not a signal is refused by name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.contract import (
    BrokerSignal,
    ContractError,
    MoveSignal,
    MoveStep,
    Role,
    Sample,
    Scrape,
    Side,
    canonical_labels,
    decode_signal,
    encode_signal,
    signal_key,
)

NUMBER = st.none() | st.floats(0, 1e15)
STEP = st.builds(MoveStep, st.integers(0, 2**42), *[st.floats(0, 1e12)] * 4)
BROKER = st.builds(
    BrokerSignal, st.just("c"), st.integers(0, 9999), st.integers(0, 2**42), st.integers(0, 2**42), st.integers(0, 99),
    st.floats(0, 9), leader_throttled_bytes_per_s=NUMBER, produce_p99_ms=NUMBER,
)  # fmt: skip
MOVE = st.builds(
    MoveSignal, st.just("c"), st.integers(0, 9999), st.sampled_from(Side), st.integers(0, 2**42), st.integers(0, 2**42),
    st.integers(0, 99), st.floats(0, 9), st.integers(0, 99), st.integers(0, 99), remaining_bytes=NUMBER,
    steps=st.lists(STEP, max_size=7).map(tuple),
)  # fmt: skip


@given(BROKER | MOVE)
def test_a_signal_comes_back_as_it_was(signal: BrokerSignal | MoveSignal) -> None:
    assert decode_signal(encode_signal(signal)) == signal


def test_keys_tell_entities_and_windows_apart() -> None:
    broker = BrokerSignal("c", 3, 5000, 4000, 6, 1.0)
    leader = MoveSignal("c", 3, Side.LEADER, 5000, 4000, 6, 1.0, 1, 1)
    follower = MoveSignal("c", 3, Side.FOLLOWER, 5000, 4000, 6, 1.0, 1, 1)
    assert [signal_key(s) for s in (broker, leader, follower)] == [
        b"c|broker|3|5000",
        b"c|move|3|leader|5000",
        b"c|move|3|follower|5000",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"v": 2}, "schema version 2, this program reads 1"),
        ({"kind": "moon"}, "unknown kind 'moon'"),
        ({"broker": None}, "without broker"),
        ({"side": "middle"}, "middle"),
        ({"steps": [{"at_ms": 1}]}, "move signal"),
        ({"steps": 7}, "move signal"),
    ],
)
def test_what_is_not_a_signal_is_refused_by_name(change: dict[str, object], said: str) -> None:
    body = json.loads(encode_signal(MoveSignal("c", 3, Side.LEADER, 5000, 4000, 6, 1.0, 1, 1)))
    with pytest.raises(ContractError, match=said):
        decode_signal(json.dumps({**body, **change}).encode())


@pytest.mark.parametrize("value", [b"", b"[]", b"\xff", b"null", b"{"])
def test_what_is_not_json_is_refused(value: bytes) -> None:
    with pytest.raises(ContractError):
        decode_signal(value)


def test_an_unknown_field_is_passed_over() -> None:
    signal = BrokerSignal("c", 3, 5000, 4000, 6, 1.0)
    body = json.loads(encode_signal(signal))
    assert decode_signal(json.dumps({**body, "invented_later": 1}).encode()) == signal


def test_a_scrape_as_a_record() -> None:
    scrape = Scrape("c", 3, Role.BROKER, 1000, (Sample("m", canonical_labels({"topic": "t", "partition": "0"}), 1.5),))
    assert scrape.key() == b"c|3"
    assert json.loads(scrape.value()) == {
        "v": 1, "cluster": "c", "node": 3, "role": "broker", "ts": 1000,
        "samples": [{"n": "m", "l": "partition=0,topic=t", "v": 1.5}],
    }  # fmt: skip
