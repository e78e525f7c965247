"""What one cycle, one second of the law, and one cycle of the mutation quotas is given to decide on, member by member as
members.py names them; and whether it is worth a record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from tuner.control.mutation_quota.decision import HoldQuota, QuotaDecision, TotalRateReport
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.decision import Decision, Hold
from tuner.control.throttle.objective import LawLimits
from tuner.control.throttle.state import Memory
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import BrokerSide, LiveCluster, NotSeen, Observation
from tuner.core.operator_orders import Orders
from tuner.journal.codec import Known


def of_cycle(observation: Observation, before: Memory) -> Known:
    live = observation.live
    return {
        "not_seen": None if isinstance(live, LiveCluster) else live.reason,
        **(by_field("live", live) if isinstance(live, LiveCluster) else {}),
        "signals.brokers": observation.brokers,
        "signals.moves": observation.moves,
        "busy": observation.busy,
        "empty": observation.empty,
        "orders": observation.orders,
        "plan_moves": observation.plan_moves,
        "steered": frozenset(observation.courses),
        **by_field("memory", before),
    }


def of_second(view: ControlInput, held: frozenset[BrokerSide], quota_samples: int, before: ControlState) -> Known:
    return {
        # These three go on being changed by those who gave them.
        "signals.brokers": dict(view.brokers),
        "signals.moves": dict(view.moves),
        "second.stands": dict(view.current_rates),
        "second.held": held,
        "second.capacities": view.capacities,
        "second.stalled": view.stalled_sides,
        "second.recovering": view.recovering_sides,
        "second.ours": view.restore_rates,
        "second.planned": view.planned_sides,
        "second.most": view.max_rates,
        "second.quota_samples": quota_samples,
        **by_field("law", before),
    }


def of_quotas(view: QuotaView, before: MutationMemory, orders: Orders) -> Known:
    quotas = view.quotas
    return {
        "quotas.not_seen": quotas.reason if isinstance(quotas, NotSeen) else None,
        **({"quotas.stand": quotas} if not isinstance(quotas, NotSeen) else {}),
        "quotas.beside": view.cluster_wide,
        "quotas.orders": orders,
        "signals.controllers": view.controllers,
        "signals.tenants": {(s.node, s.user, s.client_id): s for s in view.tenants},
        **by_field("mutation", before),
    }


def worth_it(observation: Observation, before: Memory, decisions: Iterable[Decision]) -> bool:
    """While something moves, or is ours, or is decided about one throttle."""
    live = observation.live
    moves = isinstance(live, LiveCluster) and bool(live.moves)
    about_one = (d for d in decisions if not (isinstance(d, Hold) and d.broker is None))
    return moves or bool(before.seen or before.owned) or any(True for _ in about_one)


class Eventful:
    """Whether anything is decided in a cycle of the quotas that was not decided in the one before."""

    def __init__(self) -> None:
        self._said: set[tuple[object, ...]] = set()

    def sees(self, decisions: Iterable[QuotaDecision], before: MutationMemory, after: MutationMemory) -> bool:
        """Told of every cycle: a quota is written, put back or let go of, or comes into doubt; another total; another reason."""
        said, acts = set[tuple[object, ...]](), False
        for decision in decisions:
            if isinstance(decision, HoldQuota | TotalRateReport):
                said.add((getattr(decision, "entity", None), decision.reason))
            else:
                acts = True
        new, self._said = said != self._said, said
        return acts or new or (before.total, before.unconfirmed) != (after.total, after.unconfirmed)


def by_field(prefix: str, value: Any) -> dict[str, Any]:
    return {f"{prefix}.{f.name}": getattr(value, f.name) for f in fields(value)}


# What a run begins with where the first step is not given it.
NOTHINGS = {
    **by_field("live", LiveCluster(frozenset())),
    "second.stands": {},
    "second.held": frozenset(),
    "second.capacities": {},
    "second.stalled": frozenset(),
    "second.recovering": frozenset(),
    "second.ours": {},
    "second.planned": frozenset(),
    "second.most": {},
    "second.quota_samples": LawLimits().quota_samples,
}
NO_QUOTAS: Known = {"quotas.stand": {}}
