"""Corrects the state after a clock was set back: no time in the state may be later than now.

Without the correction, a wait whose recorded beginning lies in the future would last too long. The times of signals come from
clocks of other nodes. These clocks may be ahead by up to ``hold_age_s``; only a larger difference is corrected.

Invariant: no remaining wait is longer than a wait that begins now.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.state import ControllerWindow, MutationMemory, TenantState, TotalRate


def clamp_to_now(memory: MutationMemory, now_ms: int, limits: MutationLimits) -> MutationMemory:
    """Returns the state with no event later than ``now_ms``. Parts that need no correction keep their identity."""
    latest_signal_ms = now_ms + round(limits.hold_age_s * 1000)
    latest_hold_end_ms = now_ms + round(limits.external_change_hold_s * 1000)
    corrected = {
        tenant: _clamp_tenant(state, now_ms)
        for tenant, state in memory.tenants.items()
        if max(state.sampled_at_ms, state.active_at_ms) > latest_signal_ms or state.written_at_ms > now_ms
    }
    return replace(
        memory,
        total=_clamp_total(memory.total, now_ms),
        window=_clamp_window(memory.window, now_ms, latest_signal_ms),
        tenants={**memory.tenants, **corrected} if corrected else memory.tenants,
        externally_owned_until_ms={
            entity: min(until_ms, latest_hold_end_ms) for entity, until_ms in memory.externally_owned_until_ms.items()
        },
        last_step_at_ms=min(memory.last_step_at_ms, now_ms),
        default_written_at_ms=min(memory.default_written_at_ms, now_ms),
    )


def _clamp_total(total: TotalRate | None, now_ms: int) -> TotalRate | None:
    if total is None or max(total.changed_at_ms, total.cut_at_ms, total.known_limit_at_ms) <= now_ms:
        return total
    return replace(
        total,
        changed_at_ms=min(total.changed_at_ms, now_ms),
        cut_at_ms=min(total.cut_at_ms, now_ms),
        known_limit_at_ms=min(total.known_limit_at_ms, now_ms),
    )


def _clamp_window(window: ControllerWindow | None, now_ms: int, latest_signal_ms: int) -> ControllerWindow | None:
    if window is None:
        return None
    probe = window.probe
    if probe is not None:
        probe = replace(probe, since_ms=min(probe.since_ms, now_ms), near_cut_at_ms=min(probe.near_cut_at_ms, now_ms))
    window = replace(window, no_headroom_at_ms=min(window.no_headroom_at_ms, now_ms), probe=probe)
    if max(window.sampled_at_ms, window.active_since_ms) <= latest_signal_ms:
        return window
    return replace(
        window,
        sampled_at_ms=min(window.sampled_at_ms, now_ms),
        active_since_ms=min(window.active_since_ms, now_ms),
    )


def _clamp_tenant(state: TenantState, now_ms: int) -> TenantState:
    return replace(
        state,
        active_at_ms=min(state.active_at_ms, now_ms),
        sampled_at_ms=min(state.sampled_at_ms, now_ms),
        written_at_ms=min(state.written_at_ms, now_ms),
        previous_write_at_ms=min(state.previous_write_at_ms, now_ms),
    )
