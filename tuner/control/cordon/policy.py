"""Decides about the cordons that plans order: a plan that drains a broker cordons it first (``cordoned.log.dirs``, KIP-1066).

A broker gets a decision if a plan orders its cordon, or if rheostat manages one there. The first case that applies decides:

    unreadable      The broker is down, or its settings cannot be read. Nothing changes.
    removed         Another tool has removed the entries that rheostat added. rheostat stops managing them, and the plan does not
                    add them again. If the tool has removed some of them, rheostat manages the others.
    pause           An operator ordered it. Nothing changes.
    release         An operator ordered it. The cordon is lifted. If the plan is done and the broker is gone, rheostat stops
                    managing the cordon.
    cancelled       The plan is cancelled: the cordon is lifted, so that replicas can return.
    in place        The entries are there. They stay after the end of the plan, so that the broker stays empty.
    already         The broker is cordoned by another tool. rheostat adds nothing, and lifts nothing later.
    unconfirmed     A write got no answer, and its plan does not order the cordon any more. For ``LATE_WRITE_S_MAX`` the write stays
                    on record: if it takes effect late, rheostat lifts it.
    else            The log directories that are not cordoned yet are added to the setting.

Invariant: rheostat removes only entries that it has added. Entries of other tools stay in the setting, also while it lifts its own.
A write has added its entries either all or not at all. So a write without an answer counts as done once all of them are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from streaming.shared.cordons import BrokerCordon, CordonSource, cordoned_brokers
from streaming.shared.kafka_names import ALL_LOG_DIRS, CORDONED_LOG_DIRS
from tuner.control.cordon.decision import (
    CordonDecision,
    CordonReason,
    HoldCordon,
    LiftCordon,
    RelinquishCordon,
    SetCordon,
)
from tuner.control.cordon.model import CordonMemory, CordonStep, CordonView, OwnedCordon
from tuner.core.cluster import ClusterUnreadable
from tuner.core.cordon_state import CordonState
from tuner.core.operator_orders import Orders
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanEnding

# Brokers forward a request for up to 60 s to the controller, after its sender has given up.
LATE_WRITE_S_MAX = 120.0
_SETTLED = frozenset({CordonReason.IN_PLACE, CordonReason.CORDONED_ALREADY, CordonReason.LIFTED_EXTERNALLY})


def decide_cordons(view: CordonView, memory: CordonMemory) -> CordonStep:
    """Returns the decision about each broker that a plan or rheostat's memory names."""
    wanted = _wanted(view)
    plans = {plan.id: plan for plan in view.plans}
    is_released = view.orders.pause is not None and view.orders.pause.released
    decisions: list[CordonDecision] = []
    owned = dict(memory.owned)
    for broker in sorted({*wanted, *owned}):
        found = view.brokers.get(broker)
        if found is None and is_released and _is_drained(owned.get(broker), plans):
            text = (
                f"broker {broker}: drained and not alive, so its cordon cannot be lifted; if it returns, remove "
                f"{CORDONED_LOG_DIRS} from its settings"
            )
            decisions.append(RelinquishCordon(broker, owned[broker].directories, CordonReason.RELEASED, text))
            owned = _with(owned, broker, None)
            continue
        found = found or ClusterUnreadable(f"broker {broker} is not alive")
        if isinstance(found, ClusterUnreadable):
            decisions.append(HoldCordon(broker, CordonReason.CORDON_UNREADABLE, f"broker {broker}: {found.reason}"))
            continue
        known, decision = _decide(broker, found, owned.get(broker), wanted.get(broker), plans, view)
        owned = _with(owned, broker, known)
        if decision is not None:
            decisions.append(decision)
    readable = {b: cordon for b, cordon in view.brokers.items() if isinstance(cordon, BrokerCordon)}
    memory = CordonMemory(owned)
    return CordonStep(tuple(decisions), memory, _state(view, decisions, memory, readable), readable)


def _wanted(view: CordonView) -> dict[int, Plan]:
    """Returns the oldest running plan that orders the cordon of each broker."""
    wanted: dict[int, Plan] = {}
    for plan in view.plans:
        if plan.is_active and plan.head.desired is DesiredPlanState.RUNNING and plan.head.may_start_steps(view.now_ms):
            wanted |= {broker: plan for broker in plan.head.cordon if broker not in wanted}
    return wanted


def _decide(
    broker: int,
    found: BrokerCordon,
    owned: OwnedCordon | None,
    wanted: Plan | None,
    plans: Mapping[str, Plan],
    view: CordonView,
) -> tuple[OwnedCordon | None, CordonDecision | None]:
    """Returns what rheostat manages on the broker from now on, and the decision; None: there is nothing to decide.

    Args:
        wanted: the running plan that orders the cordon.
    """
    name, pause = f"broker {broker}", view.orders.pause
    unwritten: OwnedCordon | None = None  # The last write has failed, or takes effect late.
    if owned is not None and owned.directories:
        # rheostat writes the broker's own setting. Equal entries of the broker's file or of a default are not rheostat's.
        own = found.entries if found.source is CordonSource.BROKER else ()
        left = tuple(directory for directory in owned.directories if directory in own)
        if left if owned.is_written else left == owned.directories:
            # What another tool has removed is no longer rheostat's, even if that tool cordons it again later.
            owned = replace(owned, directories=left, is_written=True)
        else:
            is_lifted = _is_cancelled(plans.get(owned.plan)) or (pause is not None and pause.released)
            # The tuner has lifted the cordon, but was stopped before it recorded this.
            if owned.is_written and is_lifted:
                return None, None
            if owned.is_written:
                return _relinquish(broker, found, owned, plans.get(owned.plan))
            unwritten, owned = owned, None
    if pause is not None and not pause.released:
        return owned or unwritten, HoldCordon(broker, CordonReason.PAUSED, f"{name}: paused by {pause.by}")
    if pause is not None:
        if owned is None or not owned.directories:
            return _await_late_write(broker, unwritten, view.now_ms)
        return owned, _lift(broker, found, owned, CordonReason.RELEASED, f"released by {pause.by}")
    if owned is not None:
        plan = plans.get(owned.plan)
        if owned.directories:
            if _is_cancelled(plan):
                return owned, _lift(
                    broker, found, owned, CordonReason.PLAN_CANCELLED, f"plan {owned.plan} is cancelled"
                )
            part = "" if found.is_broker_cordoned else "; another tool has lifted the cordon of some log directories"
            return owned, HoldCordon(broker, CordonReason.IN_PLACE, f"{name}: cordoned for plan {owned.plan}{part}")
        if _is_active(plan) and not _is_cancelled(plan):
            text = (
                f"{name}: another tool has lifted the cordon of plan {owned.plan}, and rheostat does not set it again"
            )
            return owned, HoldCordon(broker, CordonReason.LIFTED_EXTERNALLY, text)
    if wanted is None:
        return _await_late_write(broker, unwritten, view.now_ms)
    if found.is_broker_cordoned:
        awaited, _ = _await_late_write(broker, unwritten, view.now_ms)
        return awaited, HoldCordon(
            broker, CordonReason.CORDONED_ALREADY, f"{name}: another tool has cordoned it already"
        )
    return unwritten, _set(broker, found, wanted)


def _await_late_write(
    broker: int, unwritten: OwnedCordon | None, now_ms: int
) -> tuple[OwnedCordon | None, HoldCordon | None]:
    """Returns what stays on record of a write without an answer. The time counts from the broker's first answer after it."""
    if unwritten is None:
        return None, None
    since_ms = unwritten.missing_since_ms or now_ms
    if abs(now_ms - since_ms) > LATE_WRITE_S_MAX * 1000:
        return None, None
    text = (
        f"broker {broker}: the request to cordon it for plan {unwritten.plan} got no answer; if it takes effect within "
        f"{LATE_WRITE_S_MAX:.0f} s, the cordon is lifted"
    )
    return replace(unwritten, missing_since_ms=since_ms), HoldCordon(broker, CordonReason.WRITE_UNCONFIRMED, text)


def _relinquish(
    broker: int, found: BrokerCordon, owned: OwnedCordon, plan: Plan | None
) -> tuple[OwnedCordon | None, RelinquishCordon]:
    """Returns what stays on record after another tool has removed all entries that rheostat added."""
    if found.is_broker_cordoned:
        text = f"broker {broker}: another tool has replaced the cordon of plan {owned.plan} by a cordon of its own"
        return None, RelinquishCordon(broker, owned.directories, CordonReason.CORDONED_ALREADY, text)
    text = f"broker {broker}: another tool has lifted the cordon of plan {owned.plan}"
    remembered = replace(owned, directories=()) if _is_active(plan) else None
    return remembered, RelinquishCordon(broker, owned.directories, CordonReason.LIFTED_EXTERNALLY, text)


def _set(broker: int, found: BrokerCordon, plan: Plan) -> SetCordon:
    added = tuple(directory for directory in found.directories if directory not in found.entries)
    entries = (*found.entries, *added)
    if not found.directories:
        added = entries = (ALL_LOG_DIRS,)
    return SetCordon(
        broker,
        plan.id,
        found=found.entries,
        was_set=found.source is CordonSource.BROKER,
        directories=added,
        entries=entries,
        reason=CordonReason.PLAN_STARTS,
        text=f"broker {broker}: cordons {', '.join(added)} for plan {plan.id}",
    )


def _lift(broker: int, found: BrokerCordon, owned: OwnedCordon, reason: CordonReason, why: str) -> LiftCordon:
    remaining = tuple(entry for entry in found.entries if entry not in owned.directories)
    if ALL_LOG_DIRS in owned.directories:  # It has replaced the entries that were there before.
        remaining = tuple(dict.fromkeys((*owned.found, *remaining)))
    entries: tuple[str, ...] | None = remaining
    # Without the setting, the broker has its earlier entries again: those of its file or of a default.
    if not owned.was_set and {*remaining} == {*owned.found}:
        entries = None
    return LiftCordon(broker, found.entries, entries, reason, f"broker {broker}: lifts its cordon: {why}")


def has_open_cordons(memory: CordonMemory, plans: Iterable[Plan], orders: Orders) -> bool:
    """Returns whether a cordon on record may have to change soon. One that stays after its plan is done does not."""
    if not memory.owned:
        return False
    known = {plan.id: plan for plan in plans}
    is_released = orders.pause is not None and orders.pause.released
    return is_released or not all(owned.is_written and _is_drained(owned, known) for owned in memory.owned.values())


def note_cordon_intent(memory: CordonMemory, change: SetCordon | LiftCordon) -> CordonMemory:
    """Returns the memory before a write: the entries may be in the setting from now on."""
    if isinstance(change, LiftCordon):
        return memory
    owned = OwnedCordon(change.plan, change.directories, change.found, change.was_set)
    return CordonMemory({**memory.owned, change.broker: owned})


def note_cordon_outcome(memory: CordonMemory, change: SetCordon | LiftCordon) -> CordonMemory:
    """Returns the memory after a confirmed write."""
    owned = memory.owned.get(change.broker)
    if isinstance(change, LiftCordon) or owned is None:
        return CordonMemory(_with(dict(memory.owned), change.broker, None))
    return CordonMemory({**memory.owned, change.broker: replace(owned, is_written=True)})


def note_cordon_refusal(memory: CordonMemory, change: SetCordon) -> CordonMemory:
    """Returns the memory after a write that was not sent, while no earlier write can still take effect."""
    return CordonMemory(_with(dict(memory.owned), change.broker, None))


def _state(
    view: CordonView, decisions: list[CordonDecision], memory: CordonMemory, readable: Mapping[int, BrokerCordon]
) -> CordonState:
    settled = {d.broker for d in decisions if isinstance(d, HoldCordon) and d.reason in _SETTLED}
    # Once another tool has removed the entries, the plan continues without the cordon.
    settled |= {d.broker for d in decisions if isinstance(d, RelinquishCordon)}
    # Kafka keeps the setting of a broker that is down, so the plan continues to drain a broker that fails meanwhile.
    settled |= {b for b, owned in memory.owned.items() if b not in readable and owned.directories and owned.is_written}
    return CordonState(
        cordoned=cordoned_brokers(readable),
        settled=frozenset(plan.id for plan in view.plans if plan.head.cordon and settled.issuperset(plan.head.cordon)),
        waits={d.broker: d.text for d in decisions if isinstance(d, HoldCordon) and d.broker not in settled},
    )


def _is_drained(owned: OwnedCordon | None, plans: Mapping[str, Plan]) -> bool:
    """Returns whether rheostat manages the cordon of a plan that is done. The oldest ended plans are no longer on record."""
    if owned is None:
        return False
    plan = plans.get(owned.plan)
    return plan is None or plan.state.ending is PlanEnding.DONE


def _is_active(plan: Plan | None) -> bool:
    return plan is not None and plan.is_active


def _is_cancelled(plan: Plan | None) -> bool:
    if plan is None:
        return False
    return plan.state.ending is PlanEnding.CANCELLED or (
        plan.is_active and plan.head.desired is DesiredPlanState.CANCELLING
    )


def _with(owned: dict[int, OwnedCordon], broker: int, known: OwnedCordon | None) -> dict[int, OwnedCordon]:
    others = {key: value for key, value in owned.items() if key != broker}
    return others if known is None else {**others, broker: known}
