"""Signals and records survive encoding and decoding; an invalid signal is refused with its reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.shared.contract import (
    BrokerSignal,
    ContractError,
    ControllerSignal,
    FetcherThreadLag,
    LaggingPartition,
    LagTrend,
    MoveSignal,
    MoveStep,
    NodeRole,
    ReplicationSignal,
    Sample,
    Scrape,
    Side,
    TenantSignal,
    canonical_labels,
    decode_signal,
    encode_signal,
    signal_key,
    signal_kind,
)
from streaming.shared.contract.bounds import NODE_ID_MAX, NUMBER_MAX, RECORD_BYTES_MAX, TIMESTAMP_MS_MAX

NUMBER = st.none() | st.floats(0, 1e15)
STEP = st.builds(MoveStep, st.integers(0, 2**42), *[st.floats(0, 1e12)] * 4)
BROKER = st.builds(
    BrokerSignal, st.just("c"), st.integers(0, 9999), st.integers(0, 2**42), st.integers(0, 2**42), st.integers(0, 99),
    st.floats(0.01, 9), leader_throttled_bytes_per_s=NUMBER, produce_p99_ms=NUMBER,
)  # fmt: skip
MOVE = st.builds(
    MoveSignal, st.just("c"), st.integers(0, 9999), st.sampled_from(Side), st.integers(0, 2**42), st.integers(0, 2**42),
    st.integers(0, 99), st.floats(0.01, 9), st.integers(0, 99), st.integers(0, 99), remaining_bytes=NUMBER,
    steps=st.lists(STEP, max_size=7).map(tuple),
)  # fmt: skip


@given(BROKER | MOVE)
def test_signal_survives_encoding(signal: BrokerSignal | MoveSignal) -> None:
    assert decode_signal(encode_signal(signal)) == signal


@pytest.mark.parametrize("kind", [[], {}, None, 1, "lorry"])
def test_decode_refuses_record_without_kind(kind: object) -> None:
    body = json.loads(encode_signal(BrokerSignal("c", 3, 5000, 4000, 6, 1.0))) | {"kind": kind}
    with pytest.raises(ContractError, match="kind"):
        decode_signal(json.dumps(body).encode())


def test_signal_keys_differ_by_entity_and_window() -> None:
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
        ({"v": 1}, "schema version 1, this program reads 2"),
        ({"kind": "moon"}, "unknown kind 'moon'"),
        ({"broker": None}, r"got `null` - at `\$.broker`"),
        ({"side": "middle"}, "middle"),
        ({"steps": [{"at_ms": 1}]}, "move signal"),
        ({"steps": 7}, "move signal"),
    ],
)
def test_decode_refuses_invalid_signal_with_reason(change: dict[str, object], said: str) -> None:
    body = json.loads(encode_signal(MoveSignal("c", 3, Side.LEADER, 5000, 4000, 6, 1.0, 1, 1)))
    with pytest.raises(ContractError, match=said):
        decode_signal(json.dumps({**body, **change}).encode())


@pytest.mark.parametrize("value", [b"", b"[]", b"\xff", b"null", b"{"])
def test_decode_refuses_text_that_is_not_json(value: bytes) -> None:
    with pytest.raises(ContractError):
        decode_signal(value)


def test_decode_ignores_unknown_field() -> None:
    signal = BrokerSignal("c", 3, 5000, 4000, 6, 1.0)
    body = json.loads(encode_signal(signal))
    assert decode_signal(json.dumps({**body, "invented_later": 1}).encode()) == signal


def test_scrape_encodes_as_record() -> None:
    scrape = Scrape(
        "c", 3, NodeRole.BROKER, 1000, (Sample("m", canonical_labels({"topic": "t", "partition": "0"}), 1.5),)
    )
    assert scrape.key() == b"c|3"
    assert json.loads(scrape.value()) == {
        "v": 1, "cluster": "c", "node": 3, "role": "broker", "ts": 1000,
        "samples": [{"n": "m", "l": "partition=0,topic=t", "v": 1.5}],
    }  # fmt: skip


LAG = ReplicationSignal(
    "c", 3, 5000, 4000, 6, 1.0,
    lag_sum_messages=7.0, trend=LagTrend(1.5, 25.0, 6, 0.9),
    threads=(FetcherThreadLag(1, 0, 4.0, 7.0, 7.0, trend=LagTrend(1.5, 25.0, 2)),), worst=(LaggingPartition("t", 0, 7.0, 1, 0),),
)  # fmt: skip
OTHERS = (
    ControllerSignal("c", 100, 5000, 4000, 6, 1.0, active=1.0, queue_depth_mean=0.5),
    TenantSignal("c", 100, 5000, 4000, 6, 1.0, user="a=b,c|d é", client_id="x~y*z", tokens=-3.0),
)


@pytest.mark.parametrize("signal", OTHERS, ids=signal_kind)
def test_controller_and_tenant_signals_survive_encoding(signal: ControllerSignal | TenantSignal) -> None:
    assert decode_signal(encode_signal(signal)) == signal


def test_replication_signal_survives_encoding_with_nested_values() -> None:
    assert decode_signal(encode_signal(LAG)) == LAG
    assert signal_key(LAG) == b"c|replication|3|5000"


def test_tenant_labels_are_escaped_in_keys() -> None:
    key = signal_key(OTHERS[1]).decode()
    assert key == "c|tenant|100|client_id=x%7Ey%2Az,user=a%3Db%2Cc%7Cd%20%C3%A9|5000"
    assert key.count("|") == 4


OUT_OF_BOUNDS: list[tuple[str, dict[str, object]]] = [
    ("broker", {"sampled_at_ms": 10**400}),
    ("broker", {"sampled_at_ms": TIMESTAMP_MS_MAX + 1}),
    ("broker", {"sampled_at_ms": -1}),
    ("broker", {"samples": 2**53 + 1}),
    ("broker", {"completeness": 0}),
    ("broker", {"completeness": 5e-324}),
    ("broker", {"completeness": -0.5}),
    ("broker", {"completeness": 1e300}),
    ("broker", {"broker": NODE_ID_MAX + 1}),
    ("broker", {"client_in_bytes_per_s": 1e299}),
    ("broker", {"client_in_bytes_per_s": -10 * NUMBER_MAX}),
    ("broker", {"client_in_bytes_per_s": 10**30}),
    ("broker", {"cluster": "c" * 5_000}),
    ("broker", {"cluster": "\ud800"}),
    ("move", {"moving_partitions": -1}),
    ("move", {"steps": [[]] * 10_001}),
    ("tenant", {"user": "u" * 5_000}),
    ("replication", {"lag_sum_messages": 1e25}),
    ("replication", {"worst": [[]] * 10_001}),
    ("replication", {"trend": {"slope_messages_per_s": 1e25, "span_s": 1, "points": 2}}),
    ("controller", {"queue_depth_mean": 1e25}),
]


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("broker", {"sampled_at_ms": "x"}, r"Expected `int`, got `str` - at `\$.sampled_at_ms`"),
        ("broker", {"samples": True}, r"got `bool` - at `\$.samples`"),
        ("broker", {"client_in_bytes_per_s": "1"}, r"got `str` - at `\$.client_in_bytes_per_s`"),
        ("broker", {"throttled_by": 3}, r"\$.throttled_by"),
        ("controller", {"node": 1.5}, r"\$.node"),
        ("tenant", {"user": 7}, r"\$.user"),
        (
            "move",
            {"steps": [{"at_ms": "x", "dt_s": 1, "gained_bytes": 1, "written_bytes": 1, "remaining_bytes": 1}]},
            "at_ms",
        ),
        ("move", {"steps": [{"at": 1}]}, "move signal"),
        ("move", {"largest": [{"topic": 1, "partition": 0}]}, r"\$.largest\[0\]\.topic"),
        *((kind, change, "signal: ") for kind, change in OUT_OF_BOUNDS),
    ],
)
def test_decode_refuses_wrong_type_or_range_with_reason(kind: str, change: dict[str, object], said: str) -> None:
    whole = {
        "broker": BrokerSignal("c", 3, 5000, 4000, 6, 1.0),
        "move": MoveSignal("c", 3, Side.LEADER, 5000, 4000, 6, 1.0, 1, 1),
        "replication": LAG,
        "controller": OTHERS[0],
        "tenant": OTHERS[1],
    }
    body = json.loads(encode_signal(whole[kind])) | change
    with pytest.raises(ContractError, match=said):
        decode_signal(json.dumps(body).encode())


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "value",
    [DEEP, b'{"v":2,"kind":' + DEEP, b'{"v":2,"kind":"broker","later":' + DEEP, b" " * (RECORD_BYTES_MAX + 1)],
    ids=["nested", "kind", "unknown-field", "long"],
)
def test_decode_deep_or_long_record_raises_contract_error(value: bytes) -> None:
    with pytest.raises(ContractError):
        decode_signal(value)


def test_decode_error_has_no_control_characters() -> None:
    move = encode_signal(MoveSignal("c", 3, Side.LEADER, 5000, 4000, 6, 1.0, 1, 1))
    with pytest.raises(ContractError) as refused:
        decode_signal(move.replace(b'"leader"', b'"\\u001b[31m\\n' + b"x" * 5_000 + b'"'))
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300
