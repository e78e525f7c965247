"""Columns of values survive encoding and decoding bit for bit, in any number."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuner_cases import NOW_MS, SEEN, SOURCE, STALLED, TARGET, broker_signal, live, move_signal, owned, traced

from streaming.shared.contract import BrokerSignal, ControllerSignal, MoveSignal, Side, TenantSignal
from streaming.shared.contract.quotas import Default, QuotaEntity
from tuner.control.mutation_quota.entity import Tenant
from tuner.control.mutation_quota.state import (
    ControllerWindow,
    LearnedCost,
    MutationMemory,
    OwnedQuota,
    TenantState,
    TotalRate,
    UnconfirmedChange,
)
from tuner.control.throttle.objective import Capacity, ControlLimits, Objective
from tuner.control.throttle.quota_window.model import steady_window
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.control.throttle.steering.broker_estimate import BrokerEstimate, DirectionEstimate
from tuner.control.throttle.steering.headroom import DirectionLoad
from tuner.control.throttle.steering.latest_step import StepRates
from tuner.control.throttle.steering.present_latency import LineFit, PresentLatency
from tuner.control.throttle.steering.state import ControlState, SideControlState
from tuner.control.throttle.steering.target_rate import TargetRate
from tuner.core.cluster import LiveCluster
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.journal.column_packing import pack_column, unpack_column
from tuner.journal.type_codec import OMITTED_FIELDS, codec_of

COLUMNS = st.one_of(
    st.lists(st.floats(allow_nan=False)),
    st.lists(st.integers(-(2**70), 2**70)),
    st.lists(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()),
    st.tuples(st.integers(0, 300), st.none() | st.floats(allow_nan=False) | st.integers() | st.text()).map(
        lambda drawn: [drawn[1]] * drawn[0]
    ),
    st.lists(st.integers(0, 255), min_size=20),
    st.lists(st.sampled_from([0.0, -0.0]), min_size=20),
)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@given(COLUMNS)
def test_unpack_column_restores_types_and_signed_zeros(column: list[Any]) -> None:
    found = unpack_column(through_json(pack_column(column)))
    assert found == column
    assert list(map(type, found)) == list(map(type, column))
    assert [math.copysign(1, f) for f in found if isinstance(f, float)] == [
        math.copysign(1, f) for f in column if isinstance(f, float)
    ]


def test_pack_column_long_column_is_packed() -> None:
    assert pack_column([1.5, None]) == [1.5, None]
    assert pack_column([7] * 1000) == {"n": 1000, "same": 7}
    assert len(json.dumps(pack_column([i / 7 for i in range(1000)]))) < 10.8 * 1000


@pytest.mark.parametrize("body", [{}, {"code": "d"}, {"code": "?", "bytes": ""}, {"code": "d", "bytes": "AAA="}, 7])
def test_unpack_column_malformed_is_refused(body: Any) -> None:
    with pytest.raises(ValueError, match="not a column"):
        unpack_column(body)


SIGHT = BrokerEstimate(
    NOW_MS,
    5.0,
    {s: DirectionEstimate(StepRates((1.1, 2.2)), StepRates(), DirectionLoad(3.3, 0.1)) for s in Side},
    Capacity(7.0, 8.0),
    PresentLatency(6.6, 5.5, ((5.0, 7.0), (0.0, 5.5)), LineFit(1.5, 2.0), LineFit(1.6, 0.2), 3.0, 2.5, 0.7),
)
COURSE = SideControlState(
    NOW_MS, 9.9, TargetRate(1.1, at_ceiling=True), steady_window(NOW_MS, 5.5 * MB, 3.3), known_at_ms=None
)
ALICE = QuotaEntity("alice")
VALUES: list[tuple[Any, Any]] = [
    (Memory, Memory()),
    (
        Memory,
        Memory(
            stalls={3: STALLED},
            rescued=frozenset({3}),
            owned={TARGET: owned(None, 5 * MB), SOURCE: OwnedRate(1, 2, (None, 2))},
            externally_owned_until_ms={SOURCE: NOW_MS},
            moving_replicas=SEEN,
            preexisting_rates={SOURCE: 7},
            preexisting_lists=frozenset({"orders"}),
        ),
    ),
    (LiveCluster, live()),
    (LiveCluster, live(lists={}, unreadable=(2,))),
    (Orders, Orders(7, Pause(1, "me", released=True), 5, {SOURCE: Override(1, 2, "me")})),
    (ControlState, ControlState({1: SIGHT}, {SOURCE: COURSE, TARGET: COURSE})),
    (Objective, Objective(latency_ms=50.0)),
    (ControlLimits, ControlLimits()),
    (ThrottleLimits, ThrottleLimits(rate_bytes_per_s_max=1e9)),
    (QuotaEntity, QuotaEntity("<default>", Default.DEFAULT)),
    (QuotaEntity, QuotaEntity(client_id="")),
    (
        MutationMemory,
        MutationMemory(
            TotalRate(31.7, 5, 6),
            LearnedCost(0.9, 0.06, other_busy_ratio=0.1),
            ControllerWindow(1, NOW_MS, 7.0, None, 0.3, 1.1),
            {Tenant("alice"): TenantState(1.1, True, 2, 3, 4, 5), Tenant("bob", "app"): TenantState()},
            {QuotaEntity(Default.DEFAULT): OwnedQuota(None, 2.0, (None, 2.0, 1.5)), ALICE: OwnedQuota(7.0, 1.0, ())},
            {ALICE: UnconfirmedChange(None, 5)},
            {QuotaEntity("alice", Default.DEFAULT): 9},
            {"create_ms": 41.3},
        ),
    ),
]


@pytest.mark.parametrize(("kind", "value"), VALUES)
@pytest.mark.parametrize("count", [1, 3, 40])
def test_codec_round_trip_restores_values(kind: Any, value: Any, count: int) -> None:
    shape = codec_of(kind)
    assert shape.decode(through_json(shape.encode([value] * count))) == [value] * count
    assert shape.decode(through_json(shape.encode([]))) == []


def test_codec_mapping_keeps_its_order() -> None:
    shape = codec_of(Mapping[int, int])
    (found,) = shape.decode(through_json(shape.encode([{3: 1, 1: 2, 2: 3}])))
    assert list(found) == [3, 1, 2]


@pytest.mark.parametrize(
    ("kind", "signal"),
    [
        (BrokerSignal, broker_signal(1, leader=9.5 * MB / 7)),
        (MoveSignal, move_signal(*TARGET, steps=tuple(traced([1.0 / 3, 2.5])))),
        (ControllerSignal, ControllerSignal("c", 1, 2, 3, 6, 0.5, *[n / 7 for n in range(20)], True)),  # type: ignore[arg-type]
        (TenantSignal, TenantSignal("c", 1, 2, 3, 6, 0.5, "alice", "app", 1 / 3, -0.7, 5.0, True)),
    ],
)
def test_codec_signal_restores_fields_that_decisions_read(kind: type, signal: Any) -> None:
    (found,) = codec_of(kind).decode(through_json(codec_of(kind).encode([signal])))
    for name in signal.__slots__:
        assert getattr(found, name) == OMITTED_FIELDS[kind].get(name, getattr(signal, name)), name


def test_codec_missing_field_gets_its_default() -> None:
    body = codec_of(Memory).encode([Memory(moving_replicas=SEEN, throttled=True)])
    del body["throttled"], body["stalls"]
    assert codec_of(Memory).decode(body) == [Memory(moving_replicas=SEEN)]


def test_codec_missing_required_field_is_named() -> None:
    body = codec_of(OwnedRate).encode([owned(None, 5)])
    del body["setpoint_bytes_per_s"]
    with pytest.raises(ValueError, match=r"the record of Owned.* has no setpoint_bytes_per_s"):
        codec_of(OwnedRate).decode(body)


def test_codec_of_unsupported_type_is_refused() -> None:
    with pytest.raises(TypeError, match="no codec for values"):
        codec_of(complex)
