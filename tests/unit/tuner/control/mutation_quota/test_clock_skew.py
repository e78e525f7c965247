"""A clock that is set back by an hour delays nothing."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from mutation_rig import START_MS, Rig, controller, reasons, tenant

from tuner.control.mutation_quota.clock_skew import clamp_to_now
from tuner.control.mutation_quota.decision import QuotaReason
from tuner.control.mutation_quota.entity import QuotaEntity, Tenant
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy
from tuner.control.mutation_quota.ownership import relinquish_changed
from tuner.control.mutation_quota.state import (
    ControllerWindow,
    MutationMemory,
    OwnedQuota,
    ProbeTrend,
    TenantState,
    TotalRate,
    UnconfirmedChange,
)
from tuner.core.controller import ControllerObjective

LIMITS = MutationLimits()
NOW = START_MS
HOUR = 3_600_000
ALICE, A = Tenant("alice"), QuotaEntity("alice")
PLAIN = MutationPolicy(default_entity=None, objective=ControllerObjective(burst_ms_max=1e6))


def remembered(at_ms: int) -> MutationMemory:
    return MutationMemory(
        total=TotalRate(100.0, at_ms, at_ms, 120.0, at_ms),
        window=ControllerWindow(1, at_ms, no_headroom_at_ms=at_ms, active_since_ms=at_ms),
        tenants={
            ALICE: TenantState(5.0, True, at_ms, at_ms, at_ms, at_ms),
            Tenant("bob"): TenantState(active_at_ms=at_ms),  # Not heard of yet.
        },
        externally_owned_until_ms={A: at_ms + HOUR},
        last_step_at_ms=at_ms,
        default_written_at_ms=at_ms,
    )


def test_future_timestamp_is_clipped_to_now() -> None:
    assert clamp_to_now(remembered(NOW + HOUR), NOW, LIMITS) == remembered(NOW)


def test_future_probe_timestamp_is_clipped_to_now() -> None:
    felt = ProbeTrend(0.8, since_ms=NOW + HOUR, near_cut_at_ms=NOW + HOUR)
    memory = MutationMemory(window=ControllerWindow(1, NOW, no_headroom_at_ms=NOW + HOUR, probe=felt))
    felt = ProbeTrend(0.8, since_ms=NOW, near_cut_at_ms=NOW)
    assert clamp_to_now(memory, NOW, LIMITS) == MutationMemory(
        window=ControllerWindow(1, NOW, no_headroom_at_ms=NOW, probe=felt)
    )


@given(since_ms=st.integers(0, 2 * HOUR))
def test_past_timestamp_is_kept(since_ms: int) -> None:
    memory = remembered(NOW - since_ms)
    assert clamp_to_now(memory, NOW, LIMITS) == memory


def test_signal_from_fast_clock_is_judged_once() -> None:
    memory = replace(
        remembered(NOW),
        window=ControllerWindow(1, NOW + 15_000),
        tenants={ALICE: TenantState(sampled_at_ms=NOW + 15_000)},
    )
    assert clamp_to_now(memory, NOW, LIMITS) == memory


def test_pressure_is_relieved_when_last_cut_is_in_the_future() -> None:
    rig = Rig(PLAIN)
    for _ in range(10):
        rig.cycle([tenant(rig.now_ms, 20.0, -1.0, user="alice")], [controller(rig.now_ms, queue=900.0)])
    rig.now_ms -= HOUR
    assert rig.memory.total is not None
    before = rig.memory.total.rate_per_s
    found = []
    for _ in range(10):
        made = rig.cycle([tenant(rig.now_ms, 20.0, -1.0, user="alice")], [controller(rig.now_ms, queue=900.0)])
        found += reasons(made)
    assert QuotaReason.OVER_OBJECTIVE in found
    assert rig.quotas[A] < before


def test_unconfirmed_change_with_future_timestamp_still_expires() -> None:
    memory = MutationMemory(
        owned={A: OwnedQuota(None, 5.0, (5.0,))}, unconfirmed={A: UnconfirmedChange(7.0, NOW + HOUR)}
    )
    memory, gone = relinquish_changed({A: 7.0}, memory, NOW, LIMITS)
    assert (len(gone), memory.unconfirmed) == (0, {A: UnconfirmedChange(7.0, NOW)})
    memory, gone = relinquish_changed({A: 7.0}, memory, NOW + 20_000, LIMITS)
    assert (len(gone), memory.unconfirmed) == (1, {})
