"""A clock that was set back: what is remembered of later than now.

Intuition: who wakes up an hour before he fell asleep would rest for an hour more, if he went by the clock. Whatever happened, it
happened before now.

Invariant: nothing waits for longer than it would if it had begun now. What another node's clock says may be ahead of ours by
as much as its news may be old; only beyond that is it a clock that was wrong.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.state import ControllerWindow, MutationMemory, TenantState, TotalRate


def clamp_to_now(memory: MutationMemory, now_ms: int, limits: MutationLimits) -> MutationMemory:
    """The same memory, with nothing in it that is later than now; the same value where nothing was."""
    ahead_ms = now_ms + round(limits.hold_age_s * 1000)
    until_ms = now_ms + round(limits.external_change_hold_s * 1000)
    later = {
        t: _tenant(s, now_ms)
        for t, s in memory.tenants.items()
        if max(s.sampled_at_ms, s.active_at_ms) > ahead_ms or s.written_at_ms > now_ms
    }
    return replace(
        memory,
        total=_total(memory.total, now_ms),
        window=_window(memory.window, now_ms, ahead_ms),
        tenants={**memory.tenants, **later} if later else memory.tenants,
        externally_owned_until_ms={
            entity: min(until, until_ms) for entity, until in memory.externally_owned_until_ms.items()
        },
        last_step_at_ms=min(memory.last_step_at_ms, now_ms),
        default_written_at_ms=min(memory.default_written_at_ms, now_ms),
    )


def _total(total: TotalRate | None, now_ms: int) -> TotalRate | None:
    if total is None or max(total.raised_at_ms, total.cut_at_ms, total.known_limit_at_ms) <= now_ms:
        return total
    return replace(
        total,
        raised_at_ms=min(total.raised_at_ms, now_ms),
        cut_at_ms=min(total.cut_at_ms, now_ms),
        known_limit_at_ms=min(total.known_limit_at_ms, now_ms),
    )


def _window(window: ControllerWindow | None, now_ms: int, ahead_ms: int) -> ControllerWindow | None:
    if window is None:
        return None
    felt = window.felt
    if felt is not None:
        felt = replace(felt, since_ms=min(felt.since_ms, now_ms), near_cut_at_ms=min(felt.near_cut_at_ms, now_ms))
    window = replace(window, no_headroom_at_ms=min(window.no_headroom_at_ms, now_ms), felt=felt)
    if max(window.sampled_at_ms, window.active_since_ms) <= ahead_ms:
        return window
    return replace(
        window,
        sampled_at_ms=min(window.sampled_at_ms, now_ms),
        active_since_ms=min(window.active_since_ms, now_ms),
    )


def _tenant(state: TenantState, now_ms: int) -> TenantState:
    return replace(
        state,
        active_at_ms=min(state.active_at_ms, now_ms),
        sampled_at_ms=min(state.sampled_at_ms, now_ms),
        written_at_ms=min(state.written_at_ms, now_ms),
        previous_write_at_ms=min(state.previous_write_at_ms, now_ms),
    )
