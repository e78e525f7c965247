"""Tests cycles with hostile signals and orders: no cycle fails, and no rate leaves the range from 1 B/s to the ceiling."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import isfinite

import pytest
from hostile import records
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_rig import Rig
from mutation_rig import Rig as QuotaRig
from mutation_rig import controller, tenant, written
from reassign_rig import Rig as PlanRig
from reassign_rig import still
from tuner_cases import NOW_MS, SOURCE, STALLED, TARGET, broker_signal

from streaming.shared.contract import (
    BrokerSignal,
    ContractError,
    ControllerSignal,
    MoveStep,
    MovingPartition,
    Signal,
    TenantSignal,
    decode_signal,
    encode_signal,
)
from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.metric_page import render_page
from tuner.api.history import RateHistoryStore
from tuner.api.metrics import make_registry
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.status_store import StatusStore
from tuner.control.mutation_quota.entity import DEFAULT
from tuner.control.mutation_quota.state import LearnedCost, MutationMemory, TotalRate
from tuner.control.throttle.objective import Objective
from tuner.control.throttle.state import Memory
from tuner.core.controller import ClusterWideMeasures
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.throttle_limits import MB
from tuner.journal.order_records import decode_orders, encode_orders
from tuner.journal.quota_records import decode_state, encode_state
from tuner.runtime.observe.signals_reader import SignalCache

EXAMPLES = 12
SECONDS = 12


class Heard(SignalCache):
    """Signals as the tuner keeps them, from records."""

    def poll(self) -> int:
        return 0

    def hear(self, value: bytes) -> None:
        with suppress(ContractError):
            self.add(decode_signal(value))


def whole(rig: Rig, now_ms: int) -> list[bytes]:
    """The rig's signals as records, with all that a stream sends."""
    steps = tuple(MoveStep(now_ms - 5_000 * back, 5.0, 5e6, 1e6, 6e8) for back in range(5, 0, -1))
    moves = [
        replace(
            m,
            sampled_at_ms=now_ms - 500,
            window_end_ms=now_ms,
            steps=steps,
            largest=(MovingPartition("orders", 0, 5.0, 1.0),),
        )
        for m in rig.signals.moves.values()
    ]
    brokers = [
        replace(
            b, sampled_at_ms=now_ms - 500, window_end_ms=now_ms, network_in_bytes_per_s=50e6, network_out_bytes_per_s=50e6,
            reassignment_in_bytes_per_s=4e6, reassignment_out_bytes_per_s=4e6, step_s=5.0, step_network_in_bytes_per_s=5e7,
            step_network_out_bytes_per_s=5e7, step_reassignment_in_bytes_per_s=4e6, step_reassignment_out_bytes_per_s=4e6,
            produce_mean_ms=3.0, fetch_p99_ms=9.0, request_handler_idle_ratio=0.8, metadata_lag_ms=100.0, isr_shrinks_per_s=0.0,
            under_min_isr_partitions=0.0, partitions=100.0, link_speed_bytes_per_s=125e6,
        )
        for b in rig.signals.brokers.values()
    ]  # fmt: skip
    return [encode_signal(signal) for signal in (*moves, *brokers)]


ORDERS = encode_orders(
    Orders(
        NOW_MS, Pause(NOW_MS, "kim"), 5, {SOURCE: Override(5 * MB, NOW_MS + 60_000, "kim"), TARGET: Override(5, 9, "")}
    )
)


def fed(rig: Rig, data: st.DataObject, seconds: int) -> None:
    """Seconds of a tuner's life: every five a cycle, every second a tick, and each record that comes is hostile or whole."""
    signals = Heard()
    records_of = whole(rig, rig.now_ms)
    for value in records_of:
        signals.hear(value)
    rig.signals = signals  # type: ignore[assignment]
    rig.loop = rig._make_loop(rig.loop.memory)
    board = StatusStore("c", rig.limits, dry_run=False, wall_clock=lambda: rig.now_ms / 1000)
    registry, history = make_registry(board, QuotaStatusStore("c", None)), RateHistoryStore()
    ceiling = round(rig.limits.rate_bytes_per_s_max)
    hostile = st.sampled_from(whole(rig, rig.now_ms)).flatmap(lambda value: st.just(value) | records(st.just(value)))
    for second in range(seconds):
        rig.now_s += 1.0
        rig.now_ms += 1_000
        if second % 4 == 0:
            for value in data.draw(st.lists(hostile, min_size=1, max_size=4)):
                signals.hear(value)
        if second % 5 == 1 and data.draw(st.integers(0, 3)) == 0:
            with suppress(ValueError):
                rig.orders.latest = decode_orders(data.draw(records(st.just(ORDERS))))
        if second % 5 == 2:
            decisions = rig.loop.cycle()
            observation = rig.observer.cycles[-1][0]
            history.record_cycle(observation, rig.limits)
            board.record_cycle(observation, rig.loop.memory, decisions)
            board.become_active()
            assert board.ready()
            assert render_page(registry)
            assert board.snapshot().as_json()
        rig.loop.tick()
        for rate in rig.throttles.rates.values():
            assert 1 <= rate <= ceiling


@given(st.data())
@settings(max_examples=EXAMPLES, deadline=None)
@pytest.mark.parametrize("mode", ["rescues", "steers", "throttles"])
def test_hostile_signals_fail_no_cycle_and_rates_stay_in_range(mode: str, data: st.DataObject) -> None:
    rig = Rig(
        Memory(stalls={3: STALLED}),
        objective=None if mode == "rescues" else Objective(50.0),
        throttles_moves=mode == "throttles",
    )
    if mode == "throttles":
        rig.throttles.rates.clear()
        rig.throttles.lists.clear()
    fed(rig, data, SECONDS)


# -- mutation quotas and plans ----------------------------------------------------------------------------------------------


def heard(data: st.DataObject, *signals: Signal) -> list[Signal]:
    """The signals as a decoder lets them through: each is hostile or whole."""
    found = []
    for signal in signals:
        value = encode_signal(signal)
        with suppress(ContractError):
            found.append(decode_signal(data.draw(st.just(value) | records(st.just(value)))))
    return found


QUOTAS = st.dictionaries(
    st.builds(QuotaEntity, user=st.sampled_from(["kim", DEFAULT]), client_id=st.none()),
    st.sampled_from([0.0, 1e-9, 5.0, 1e15, 1.7e308]) | st.floats(0, 1e9),
    max_size=2,
)
LEARNED = encode_state(
    MutationMemory(TotalRate(5.0, 5, 5, 5.0, 5), LearnedCost(1.0, 1.0, 2.0, 0.1, 3), idle_baselines_ms={"idle": 1.0})
)


@given(st.data())
@settings(max_examples=2 * EXAMPLES, deadline=None)
def test_hostile_signals_fail_no_quota_cycle(data: st.DataObject) -> None:
    rig = QuotaRig(quotas=data.draw(QUOTAS))
    with suppress(ValueError):
        rig.memory = decode_state(data.draw(st.just(LEARNED) | records(st.just(LEARNED))))
    for _ in range(4):
        tenants = [tenant(rig.now_ms, 50.0, -5.0, user=user) for user in ("kim", "lee")]
        signals = heard(data, *tenants, controller(rig.now_ms, queue=500.0, idle=0.1))
        made = rig.cycle(
            [s for s in signals if isinstance(s, TenantSignal)],
            [s for s in signals if isinstance(s, ControllerSignal)],
            beside=data.draw(
                st.builds(ClusterWideMeasures, st.none() | st.floats(0, 1e24), st.none() | st.floats(0, 1e24))
            ),
        )
        assert all(isfinite(rate) and rate > 0 for rate in written(made).values())


@given(st.data())
@settings(max_examples=EXAMPLES, deadline=None)
def test_hostile_signals_fail_no_plan_cycle(data: st.DataObject) -> None:
    keys = [("t", number) for number in range(4)]
    rig = PlanRig(dict.fromkeys(keys, still(1, 2)), online={1, 2, 3, 4})
    rig.give(dict.fromkeys(keys, (3, 4)))
    for _ in range(40):
        now_ms = round(rig.now_s * 1000)
        brokers = [replace(broker_signal(b), sampled_at_ms=now_ms, client_in_bytes_per_s=5e6) for b in (1, 3)]
        for signal in heard(data, *brokers, controller(now_ms)) if rig.loop.recorder.active_plans else ():
            if isinstance(signal, BrokerSignal):
                rig.signals.brokers[signal.broker] = signal
            elif isinstance(signal, ControllerSignal):
                rig.signals.controllers[signal.node] = signal
        rig.cycle()
    assert not rig.loop.recorder.active_plans
