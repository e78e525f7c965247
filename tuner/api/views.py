"""Status and moves of the last cycle for JSON and for the page. Every number has its unit in its name.

Invariants: a value that was not measured is None, never 0; all values are of one cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streaming.shared.contract import BrokerSignal, Side
from tuner.api.sentences import headline, next_steps
from tuner.api.status_snapshot import StatusSnapshot
from tuner.control.throttle.objective import Objective
from tuner.core.cluster import Observation, PartitionMove
from tuner.core.freshness import age_s
from tuner.core.operator_orders import Orders
from tuner.core.plan_progress import ExpectedEnd, Progress, expected_end, move_eta_s
from tuner.core.throttle_limits import StallLimits

_LARGEST_MAX = 5


def status_json(look: StatusSnapshot, plans: Mapping[str, Progress] | None = None) -> dict[str, Any]:
    """Returns the status of the last cycle as JSON values.

    Args:
        plans: the progress of the active plans.
    """
    snapshot, live, onto = look.cycle.result, look.cycle.result.live, look.destinations
    plans = plans or {}
    moving = len(live.moves) if live is not None else None
    lacks = {b: s.remaining_bytes for b, s in onto.items() if s.remaining_bytes is not None}
    remaining = sum(lacks.values()) if lacks else None
    stalled = snapshot.stalled_brokers()
    ends_s = snapshot_end(look, plans).eta_s
    planned = [max(0.0, plan.total_bytes - plan.copied_bytes) for plan in plans.values()]
    brokers = look.observation.brokers if look.observation is not None else {}
    p99s = [(s.produce_p99_ms, b) for b, s in brokers.items() if s.produce_p99_ms is not None]
    worst = max(p99s, default=None)
    orders = look.orders
    return {
        "headline": headline(
            moving,
            _destinations(look),
            remaining,
            ends_s,
            stalled,
            plans_remaining_bytes=sum(planned) if planned else None,
        )
        if moving is not None
        else "The cluster cannot be read.",
        "moving_partitions": moving,
        "remaining_bytes": remaining,
        "done_ratio": look.peaks.all_done_ratio(lacks),
        "eta_s": ends_s,
        "ends_at_ms": None
        if ends_s is None or look.observation is None
        else look.observation.now_ms + round(ends_s * 1000),
        "plans": len(plans),
        "stalled_brokers": stalled,
        "infeasible": [{"broker": broker, "side": side.value} for broker, side in look.infeasible],
        "brokers_alive": len(live.brokers) if live is not None else None,
        "throttles": len(live.rates) if live is not None else None,
        "throttles_managed": len(snapshot.memory.owned),
        "orphaned_throttle_settings": snapshot.orphaned_settings() if live is not None else None,
        "produce_p99_ms_max": worst[0] if worst is not None else None,
        "produce_p99_ms_max_broker": worst[1] if worst is not None else None,
        "objective": objective_json(look.objective),
        "rate_bytes_per_s_max": snapshot.limits.rate_bytes_per_s_max,
        "rate_bytes_per_s_min": snapshot.limits.rate_bytes_per_s_min,
        "signals_age_s_min": _youngest_age_s(brokers, look.observation),
        "actuation_failures": snapshot.failures,
        **orders_json(orders, look.observation.now_ms if look.observation is not None else 0),
        "orders_by": orders.by,
        "orders_acknowledged_at_ms": snapshot.memory.orders_at_ms,
        "next": next_steps_json(look, planned=bool(plans)),
    }


def snapshot_end(look: StatusSnapshot, plans: Mapping[str, Progress]) -> ExpectedEnd:
    """Returns the expected end of everything and of each plan, the same for all views."""
    return expected_end(look.destinations.values(), stalled=bool(look.cycle.result.stalled_brokers()), plans=plans)


def _destinations(look: StatusSnapshot) -> set[int]:
    """Returns the destinations that the controller lists; signals of a new move arrive later."""
    live = look.cycle.result.live
    # Inlined ``move.destinations``, as there may be tens of thousands of moves.
    return {b for move in live.moves for b in move.adding if b != move.leader} if live is not None else set()


def objective_json(objective: Objective | None) -> dict[str, Any] | None:
    if objective is None:
        return None
    return {
        "latency_ms": objective.latency_ms,
        "mode": objective.mode.value,
        "finish_at_ms": objective.finish_at_ms,
        "share_max": objective.share_max,
    }


def orders_json(orders: Orders, now_ms: int) -> dict[str, Any]:
    pause = orders.pause
    return {
        "orders_at_ms": orders.at_ms,
        "paused": None if pause is None else {"since_ms": pause.since_ms, "by": pause.by, "released": pause.released},
        "overrides": [
            {
                "broker": broker,
                "side": side.value,
                "rate_bytes_per_s": order.bytes_per_s,
                "until_ms": order.until_ms,
                "by": order.by,
            }
            for (broker, side), order in sorted(orders.overrides.items())
            if order.until_ms > now_ms
        ],
    }


def next_steps_json(look: StatusSnapshot, *, planned: bool = False) -> list[str]:
    """Returns the tuner's next steps in sentences.

    Args:
        planned: whether there are active plans.
    """
    snapshot = look.cycle.result
    return next_steps(
        look.observation,
        snapshot.memory,
        look.cycle.decisions,
        snapshot.limits,
        StallLimits(),
        dry_run=look.dry_run,
        planned=planned,
    )


def destinations_by_urgency(look: StatusSnapshot) -> list[int]:
    """Returns the destination brokers: stalled ones first, then those without an expected end, then the last to end."""
    stalls = look.cycle.result.memory.stalls

    def urgency(broker: int) -> tuple[bool, bool, float, int]:
        signal, state = look.destinations[broker], stalls.get(broker)
        ends_s = move_eta_s(signal)
        stalled = state is not None and state.stalled
        return not stalled, ends_s is not None, -(ends_s or signal.remaining_bytes or 0.0), broker

    return sorted(look.destinations, key=urgency)


def move_json(look: StatusSnapshot, broker: int) -> dict[str, Any]:
    signal, decision = look.destinations[broker], look.last_decisions.get((broker, Side.FOLLOWER))
    peak, state = look.peaks.by_broker.get(broker), look.cycle.result.memory.stalls.get(broker)
    return {
        "broker": broker,
        "moving_partitions": signal.moving_partitions,
        "remaining_bytes": signal.remaining_bytes,
        "done_ratio": look.peaks.done_ratio(broker, signal.remaining_bytes),
        "since_ms": peak.since_ms if peak is not None else None,
        "remaining_slope_bytes_per_s": signal.remaining_slope_bytes_per_s,
        "eta_s": None if state is not None and state.stalled else move_eta_s(signal),
        "lag_messages": signal.lag_messages,
        "write_bytes_per_s": signal.write_bytes_per_s,
        "progress_age_s": signal.progress_age_s,
        "stalled": state.stalled if state is not None else None,
        "stalled_since_ms": state.stalled_since_ms if state is not None else None,
        "progress_lost_s": state.lost_s if state is not None else None,
        "reason": decision.reason.value if decision is not None else None,
        "text": decision.text if decision is not None else None,
        "sampled_at_ms": signal.sampled_at_ms,
        "largest": [
            {"topic": p.topic, "partition": p.partition, "remaining_bytes": p.remaining_bytes}
            for p in signal.largest[:_LARGEST_MAX]
        ],
    }


def partition_json(move: PartitionMove) -> dict[str, Any]:
    return {
        "topic": move.topic,
        "partition": move.partition,
        "leader": move.leader,
        "replicas": list(move.replicas),
        "adding": list(move.adding),
        "removing": list(move.removing),
        "isr": list(move.isr),
    }


def _youngest_age_s(signals: Mapping[int, BrokerSignal], seen: Observation | None) -> float | None:
    if seen is None:
        return None
    return min((age_s(signal, seen.now_ms) for signal in signals.values()), default=None)
