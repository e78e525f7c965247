"""Which quota does every tenant get, so that the controller keeps its objective and nobody pays for another's storm? KIP-599.

Intuition: the lane to a bridge that carries so many carts an hour. How many, is found by watching the bridge; who goes, is dealt
out at the gate. Whoever brings few carts is never kept waiting; among those who bring more than the bridge carries each has the
same, by weight. Whoever has none today leaves the place to others, but the gate still opens at once for a few: a tenant that
begins has its standing share in its bucket, and its full share as soon as it is seen to be held back.

This is one cycle: what is known, how much that allows in all, and then mutation_dealing.py deals it out.

Invariant: nothing is raised for want of news. A total that was found stays until there is news of the controller that is active.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from streaming.shared.contract import ControllerSignal, TenantSignal
from tuner.control.mutation_quota.allocation import allocate
from tuner.control.mutation_quota.clock_skew import clamp_to_now
from tuner.control.mutation_quota.decision import HoldQuota, QuotaDecision, QuotaReason, TenantShare
from tuner.control.mutation_quota.entity import Tenant, find_quota_in_force
from tuner.control.mutation_quota.foreign_quotas import track_external_changes
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, QuotaView
from tuner.control.mutation_quota.probe_window import WINDOW_S as FELT_WINDOW_S
from tuner.control.mutation_quota.state import ControllerWindow, MutationMemory, TenantState
from tuner.control.mutation_quota.tenant_rules import update_tenant_state
from tuner.control.mutation_quota.tenant_status import Quotas, assess_tenants, find_absent_tenants
from tuner.control.mutation_quota.total_rate import decay_total, find_size_limit, size_brake_ratio
from tuner.control.mutation_quota.total_update import ControllerUpdate, update_total
from tuner.core.cluster import NotSeen
from tuner.core.controller_pressure import pressure, rested, unmeasured


@dataclass(frozen=True, slots=True)
class QuotaStep:
    memory: MutationMemory
    decisions: tuple[QuotaDecision, ...]
    shares: tuple[TenantShare, ...] = ()


def step(view: QuotaView, memory: MutationMemory, policy: MutationPolicy) -> QuotaStep:
    """The memory after this cycle, what is to be said and written, and how every tenant stands."""
    limits, quotas = policy.limits, view.quotas
    if isinstance(quotas, NotSeen):
        return _held(memory, view, QuotaReason.QUOTAS_UNREADABLE, f"the quotas could not be read: {quotas.reason}")
    memory, gone = track_external_changes(quotas, clamp_to_now(memory, view.now_ms, limits), view.now_ms, limits)
    signal = _active(view)
    seen_at_ms = signal.sampled_at_ms if signal is not None else memory.window.sampled_at_ms if memory.window else None
    # Never heard of, or of nobody who is active: a fail-over, or no metrics at all.
    if seen_at_ms is None:
        text = "no active controller is heard of: quotas stay as they are"
        return _held(memory, view, QuotaReason.CONTROLLER_UNKNOWN, text, gone)
    # What seems to come from the future is no younger for it: somebody's clock was set.
    age_s = abs(view.now_ms - seen_at_ms) / 1000
    if age_s > limits.hold_age_s:
        return _blind(view, quotas, memory, policy, age_s, gone)
    if signal is None:
        text = "the controller heard of last is active no more, and no other is yet: quotas stay as they are"
        return _held(memory, view, QuotaReason.CONTROLLER_UNKNOWN, text, gone)
    signal = replace(signal, idle_ratio=_evened_idle_ratio(signal, memory.window, limits))
    # Whoever asked while there was no controller waited for the next one, and for nothing that a quota could help; and whoever
    # waited at a broker comes at once.
    if view.now_ms - _took_over_ms(signal, memory.window) <= 1000 * FELT_WINDOW_S:
        view = replace(
            view, cluster_wide=replace(view.cluster_wide, create_probe_p90_ms=None, forwarding_busy_ratio=None)
        )
    if memory.window is None or signal.sampled_at_ms > memory.window.sampled_at_ms:
        memory = replace(memory, idle_baselines_ms=rested(view.cluster_wide, memory.idle_baselines_ms))
    pressed = pressure(signal, view.cluster_wide, policy.objective, memory.idle_baselines_ms)
    left = size_brake_ratio(signal.partitions, policy, view.cluster_wide.replicas)
    if pressed is None or (left is None and memory.total is None):
        what = "how hard it is pressed" if pressed is None else "how many partitions there are"
        text = f"controller {signal.node}: {what} is not measured: quotas stay as they are"
        return _held(memory, view, QuotaReason.PRESSURE_NOT_MEASURED, text, gone)

    memory = replace(memory, tenants=_states(view, quotas, memory, signal.node, limits))
    found, alone = assess_tenants(quotas, memory, policy, find_absent_tenants(memory, view.now_ms, limits))
    silent = unmeasured(signal, view.cluster_wide, policy.objective)
    news = ControllerUpdate(
        signal, pressed, _took_over_ms(signal, memory.window), _books_per_s(view, signal.node, limits)
    )
    memory, said = update_total(view, news, memory, found, policy, brakes=left != 1 or bool(silent))
    assert memory.total is not None
    whole = memory.total.rate_per_s * (1.0 if left is None else left)
    decisions: list[QuotaDecision] = [*gone, said, *alone]
    if silent:
        text = f"{', '.join(silent)} of controller {signal.node} and its brokers: asked for and not measured, so nothing is raised"
        decisions.append(HoldQuota(None, QuotaReason.PRESSURE_NOT_MEASURED, text))
    # How far it is braked nobody knows; that it is pressed is known, and is answered all the same.
    if left is None:
        text = f"controller {signal.node}: how many partitions there are is not measured: no quota is raised"
        decisions.append(HoldQuota(None, QuotaReason.PRESSURE_NOT_MEASURED, text))
    elif left < 1:
        decisions.append(_near_limit(view, signal, left, whole, policy))
    memory, written, shares = allocate(view, quotas, memory, found, whole, policy, lowers_only=left is None)
    return QuotaStep(replace(memory, last_step_at_ms=view.now_ms), (*decisions, *written), shares)


# -- what is known --------------------------------------------------------------------------------------------------------


def _active(view: QuotaView) -> ControllerSignal | None:
    """After a fail-over two may say so for a moment: the newer one is right."""
    active = [s for s in view.controllers.values() if s.active is not None and s.active >= 0.5 and not s.backlog]
    return max(active, key=lambda s: (s.sampled_at_ms, s.node), default=None)


def _evened_idle_ratio(
    signal: ControllerSignal, before: ControllerWindow | None, limits: MutationLimits
) -> float | None:
    idle = signal.idle_ratio
    if idle is None or before is None or before.idle_ratio is None or before.node != signal.node:
        return idle
    since_s = max(0.0, (signal.sampled_at_ms - before.sampled_at_ms) / 1000)
    return before.idle_ratio + (1 - math.exp(-since_s / limits.idle_smoothing_s)) * (idle - before.idle_ratio)


def _took_over_ms(signal: ControllerSignal, before: ControllerWindow | None) -> int:
    """0: it was active when we came."""
    if before is None:
        return 0
    return before.active_since_ms if before.node == signal.node else signal.sampled_at_ms


def _held(
    memory: MutationMemory, view: QuotaView, reason: QuotaReason, text: str, said: Sequence[QuotaDecision] = ()
) -> QuotaStep:
    return QuotaStep(replace(memory, last_step_at_ms=view.now_ms), (*said, HoldQuota(None, reason, text)))


def _blind(
    view: QuotaView,
    quotas: Quotas,
    memory: MutationMemory,
    policy: MutationPolicy,
    age_s: float,
    said: Sequence[QuotaDecision],
) -> QuotaStep:
    """Perhaps only late: hold. Too long: with no eyes on it the controller gets less and less to do."""
    limits = policy.limits
    text = f"nothing new of the controller for {age_s:.0f} s: nothing is raised"
    if memory.total is None or age_s <= limits.decay_age_s:
        return _held(memory, view, QuotaReason.CONTROLLER_STALE, text, said)
    since_s = min(age_s - limits.decay_age_s, (view.now_ms - memory.last_step_at_ms) / 1000)
    total = decay_total(memory.total, max(0.0, since_s), limits)
    memory = replace(memory, total=total)
    found, alone = assess_tenants(quotas, memory, policy)
    memory, written, shares = allocate(view, quotas, memory, found, total.rate_per_s, policy, lowers_only=True)
    hold = HoldQuota(
        None, QuotaReason.CONTROLLER_STALE, f"{text}, and all quotas sink: {total.rate_per_s:.1f}/s in all"
    )
    return QuotaStep(replace(memory, last_step_at_ms=view.now_ms), (*said, hold, *alone, *written), shares)


def _states(
    view: QuotaView, quotas: Quotas, memory: MutationMemory, node: int, limits: MutationLimits
) -> dict[Tenant, TenantState]:
    """By the books of the active controller: those of one that was are old."""
    states = dict(memory.tenants)
    for tenant, signal in _books(view, node, limits):
        found = find_quota_in_force(quotas, tenant)
        state = states.get(tenant, TenantState())
        states[tenant] = update_tenant_state(state, signal, found[1] if found is not None else None, limits)
    # Kafka has no books of who does nothing: after a fail-over a storm that is over leaves no word of its end.
    silent_ms = view.now_ms - limits.decay_age_s * 1000
    quiet = {t: replace(s, backlogged=False, rate_per_s=0.0) for t, s in states.items() if s.sampled_at_ms < silent_ms}
    return dict(sorted((states | quiet).items(), key=lambda item: item[0].key))


def _books(view: QuotaView, node: int, limits: MutationLimits) -> list[tuple[Tenant, TenantSignal]]:
    """Those of this controller, the newest of a tenant last."""
    # What came from far ahead came from a clock that was wrong, and must not keep out all that comes after.
    ahead_ms = view.now_ms + limits.hold_age_s * 1000
    return [
        (Tenant(signal.user, signal.client_id), signal)
        for signal in sorted(view.tenants, key=lambda s: s.sampled_at_ms)
        # Without a user and a client-id it is the books as a whole; history is not for control.
        if signal.node == node and not signal.backlog and not (signal.user is None and signal.client_id is None)
        if signal.sampled_at_ms <= ahead_ms
    ]


def _books_per_s(view: QuotaView, node: int, limits: MutationLimits) -> float:
    newest = dict(_books(view, node, limits))
    oldest_ms = view.now_ms - limits.decay_age_s * 1000
    return math.fsum(s.mutation_rate_per_s or 0.0 for s in newest.values() if s.sampled_at_ms >= oldest_ms)


def _near_limit(
    view: QuotaView, signal: ControllerSignal, left: float, whole: float, policy: MutationPolicy
) -> HoldQuota:
    there, most = find_size_limit(signal.partitions, view.cluster_wide.replicas, policy)
    what = "partitions" if policy.partitions_max is not None else "replicas"
    text = (
        f"{there:.0f} {what} of {most} allowed: quotas shrink to {100 * left:.0f} % of what the controller bears, {whole:.1f}/s in "
        "all, but not below what was promised. Deleting is held back as well, but for who is exempt"
    )
    return HoldQuota(None, QuotaReason.PARTITIONS_NEAR_LIMIT, text)
