"""What one cycle, and one second of the law, is given to decide on, member by member as members.py names them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from tuner.decide.course import LawMemory, LawView
from tuner.journal.members import Known
from tuner.model.cluster import BrokerSide, LiveCluster, Observation
from tuner.model.decision import Decision, Hold
from tuner.model.memory import Memory
from tuner.model.objectives import LawLimits


def of_cycle(observation: Observation, before: Memory) -> Known:
    live = observation.live
    return {
        "not_seen": None if isinstance(live, LiveCluster) else live.reason,
        **(by_field("live", live) if isinstance(live, LiveCluster) else {}),
        "signals.brokers": observation.brokers,
        "signals.moves": observation.moves,
        "busy": observation.busy,
        "orders": observation.orders,
        "steered": frozenset(observation.courses),
        **by_field("memory", before),
    }


def of_second(view: LawView, held: frozenset[BrokerSide], quota_samples: int, before: LawMemory) -> Known:
    return {
        # These three go on being changed by those who gave them.
        "signals.brokers": dict(view.brokers),
        "signals.moves": dict(view.moves),
        "second.stands": dict(view.rates),
        "second.held": held,
        "second.capacities": view.capacities,
        "second.stalled": view.stalled,
        "second.recovering": view.recovering,
        "second.quota_samples": quota_samples,
        **by_field("law", before),
    }


def worth_it(observation: Observation, before: Memory, decisions: Iterable[Decision]) -> bool:
    """While something moves, or is ours, or is decided about one throttle."""
    live = observation.live
    moves = isinstance(live, LiveCluster) and bool(live.moves)
    about_one = (d for d in decisions if not (isinstance(d, Hold) and d.broker is None))
    return moves or bool(before.seen or before.owned) or any(True for _ in about_one)


def by_field(prefix: str, value: Any) -> dict[str, Any]:
    return {f"{prefix}.{f.name}": getattr(value, f.name) for f in fields(value)}


# What a run begins with where the first step is not given it.
NOTHINGS = {
    **by_field("live", LiveCluster(frozenset())),
    "second.stands": {}, "second.held": frozenset(), "second.capacities": {}, "second.stalled": frozenset(),
    "second.recovering": frozenset(), "second.quota_samples": LawLimits().quota_samples,
}  # fmt: skip
