"""Status and moves of the last cycle for JSON and for the page. Every number has its unit in its name.

Invariants: a value that was not measured is None, never 0; all values come from one cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streaming.shared.contract import MoveSignal, Side
from tuner.api.latency_limits import latency_limit_json
from tuner.api.sentences import headline, next_steps, recovery_sentence
from tuner.api.status_snapshot import StatusSnapshot
from tuner.control.throttle.objective import Objective
from tuner.core.cluster import PartitionMove
from tuner.core.freshness import age_s
from tuner.core.operator_orders import Orders
from tuner.core.plan_progress import ExpectedEnd, Progress, expected_end, move_eta_s
from tuner.core.throttle_limits import StallLimits
from tuner.settings.schedule_periods import SettingsPeriod

_LARGEST_MAX = 5


def status_json(snapshot: StatusSnapshot, plans: Mapping[str, Progress] | None = None) -> dict[str, Any]:
    """Returns the status of the last cycle as JSON values.

    Args:
        plans: the progress of the active plans.
    """
    result, orders, observation = snapshot.cycle.result, snapshot.orders, snapshot.observation
    return {
        **_progress_json(snapshot, plans or {}),
        **_throttles_json(snapshot),
        **_latency_json(snapshot),
        "actuation_failures": result.failures,
        **orders_json(orders, observation.now_ms if observation is not None else 0),
        "orders_by": orders.by,
        "orders_acknowledged_at_ms": result.memory.orders_at_ms,
        "next": next_steps_json(snapshot, has_plans=bool(plans)),
    }


def _progress_json(snapshot: StatusSnapshot, plans: Mapping[str, Progress]) -> dict[str, Any]:
    live, observation = snapshot.cycle.result.live, snapshot.observation
    moving = len(live.moves) if live is not None else None
    by_broker = {b: s.remaining_bytes for b, s in snapshot.destinations.items() if s.remaining_bytes is not None}
    remaining_bytes = sum(by_broker.values()) if by_broker else None
    stalled = snapshot.cycle.result.stalled_brokers()
    eta_s = estimate_end(snapshot, plans).eta_s
    text = "The cluster cannot be read." if observation is not None else "No cycle has ended yet."
    if moving is not None:
        remaining_by_plan = [max(0.0, plan.total_bytes - plan.copied_bytes) for plan in plans.values()]
        plans_remaining_bytes = sum(remaining_by_plan) if plans else None
        text = headline(
            moving,
            _destinations(snapshot),
            remaining_bytes,
            eta_s,
            stalled,
            plans_remaining_bytes=plans_remaining_bytes,
        )
        if (recovery := recovery_sentence(snapshot.cycle.result.moves())) is not None:
            text = f"{text} {recovery}"
    return {
        "headline": text,
        "moving_partitions": moving,
        "remaining_bytes": remaining_bytes,
        "done_ratio": snapshot.peaks.all_done_ratio(by_broker),
        "eta_s": eta_s,
        "ends_at_ms": None if eta_s is None or observation is None else observation.now_ms + round(eta_s * 1000),
        "plans": len(plans),
        "stalled_brokers": stalled,
    }


def _throttles_json(snapshot: StatusSnapshot) -> dict[str, Any]:
    result, live = snapshot.cycle.result, snapshot.cycle.result.live
    return {
        "infeasible": [{"broker": broker, "side": side.value} for broker, side in snapshot.infeasible],
        "brokers_alive": len(live.brokers) if live is not None else None,
        "throttles": len(live.rates) if live is not None else None,
        "throttles_managed": len(result.memory.owned),
        "orphaned_throttle_settings": result.orphaned_settings() if live is not None else None,
        "rate_bytes_per_s_max": result.limits.rate_bytes_per_s_max,
        "rate_bytes_per_s_min": result.limits.rate_bytes_per_s_min,
    }


def _latency_json(snapshot: StatusSnapshot) -> dict[str, Any]:
    observation = snapshot.observation
    signals = observation.broker_signals if observation is not None else {}
    p99s = [(signal.produce_p99_ms, b) for b, signal in signals.items() if signal.produce_p99_ms is not None]
    p99_ms, broker = max(p99s, default=(None, None))
    ages_s = [age_s(signal, observation.now_ms) for signal in signals.values()] if observation is not None else []
    return {
        "produce_p99_ms_max": p99_ms,
        "produce_p99_ms_max_broker": broker,
        "latency_limit": latency_limit_json(snapshot.latency_limits.get(broker) if broker is not None else None),
        "objective": objective_json(snapshot.objective),
        "signals_age_s_min": min(ages_s, default=None),
    }


def estimate_end(snapshot: StatusSnapshot, plans: Mapping[str, Progress]) -> ExpectedEnd:
    """Returns the expected end of all moves and of each plan. All views call this, so that they show the same end."""
    result = snapshot.cycle.result
    return expected_end(
        result.signals_for_end(snapshot.destinations),
        stalled=bool(result.stalled_brokers()),
        plans=plans,
        eta_ratios=result.eta_ratios(),
    )


def _destinations(snapshot: StatusSnapshot) -> set[int]:
    """Returns the destination brokers of the reassignments that Kafka lists.

    ``snapshot.destinations`` has a broker only once its first move signal has arrived.
    """
    live = snapshot.cycle.result.live
    # Inlined ``move.destinations``, as there may be tens of thousands of moves.
    return {b for move in live.moves for b in move.adding if b != move.leader} if live is not None else set()


def objective_json(objective: Objective | None) -> dict[str, Any] | None:
    if objective is None:
        return None
    return {
        "latency_ms": objective.latency_ms,
        "tolerance": objective.tolerance if objective.latency_ms is None else None,
        "mode": objective.mode.value,
        "finish_at_ms": objective.finish_at_ms,
        "share_max": objective.share_max,
    }


def schedule_json(period: SettingsPeriod | None) -> dict[str, Any] | None:
    """Returns the rules of the schedule that apply, and the next change; None without a schedule."""
    if period is None:
        return None
    return {
        "rules": list(period.rules),
        "policy": period.settings.policy_text(),
        "until_ms": period.until_ms,
        "next_rules": list(period.next_rules),
        "highest_ceiling_bytes_per_s": period.settings.highest_ceiling_bytes_per_s,
    }


def orders_json(orders: Orders, now_ms: int) -> dict[str, Any]:
    """Returns the pause and the overrides that have not expired."""
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


def next_steps_json(snapshot: StatusSnapshot, *, has_plans: bool = False) -> list[str]:
    """Returns the tuner's next steps in sentences.

    Args:
        has_plans: whether there are active plans.
    """
    result = snapshot.cycle.result
    return next_steps(
        snapshot.observation,
        result.memory,
        snapshot.cycle.decisions,
        result.limits,
        StallLimits(),
        dry_run=snapshot.dry_run,
        has_plans=has_plans,
    )


def destinations_by_urgency(snapshot: StatusSnapshot) -> list[int]:
    """Returns the destination brokers, most urgent first.

    Stalled brokers come first, then brokers without an expected end (most remaining bytes first), then the other brokers (latest
    end first).
    """
    stalls = snapshot.cycle.result.memory.stalls

    def urgency(broker: int) -> tuple[bool, bool, float, int]:
        signal, state = snapshot.destinations[broker], stalls.get(broker)
        eta_s = _eta_s(snapshot, signal)
        stalled = state is not None and state.stalled
        # Two brokers are compared by the last value only if both have an expected end, or neither has.
        last_value = eta_s if eta_s is not None else signal.remaining_bytes or 0.0
        return not stalled, eta_s is not None, -last_value, broker

    return sorted(snapshot.destinations, key=urgency)


def _eta_s(snapshot: StatusSnapshot, signal: MoveSignal) -> float | None:
    return move_eta_s(signal, snapshot.cycle.result.eta_ratios().get((signal.broker, signal.side), 1.0))


def move_json(snapshot: StatusSnapshot, broker: int) -> dict[str, Any]:
    signal, decision = snapshot.destinations[broker], snapshot.last_decisions.get((broker, Side.FOLLOWER))
    # The highest number of remaining bytes since the move began. Progress is measured relative to this number.
    peak, state = snapshot.peaks.by_broker.get(broker), snapshot.cycle.result.memory.stalls.get(broker)
    return {
        "broker": broker,
        "moving_partitions": signal.moving_partitions,
        "remaining_bytes": signal.remaining_bytes,
        "done_ratio": snapshot.peaks.done_ratio(broker, signal.remaining_bytes),
        "since_ms": peak.since_ms if peak is not None else None,
        "remaining_slope_bytes_per_s": signal.remaining_slope_bytes_per_s,
        "eta_s": None if state is not None and state.stalled else _eta_s(snapshot, signal),
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
