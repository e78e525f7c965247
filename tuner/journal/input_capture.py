"""Collects the inputs of one step as the state fields of ``codec.STATE_FIELDS``, and decides whether the step is recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from tuner.control.cruise_control.policy import MovementMemory, MovementView
from tuner.control.leadership.policy import LeadershipMemory, LeadershipView
from tuner.control.mutation_quota.decision import HoldQuota, QuotaDecision, TotalRateReport
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.decision import Decision, Hold
from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.state import Memory
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import BrokerSide, ClusterUnreadable, LiveCluster, Observation
from tuner.core.operator_orders import Orders
from tuner.journal.codec import StateValues


def capture_cycle(observation: Observation, before: Memory) -> StateValues:
    """Returns the inputs of a throttle cycle.

    Args:
        before: what the tuner remembers from the previous cycle.
    """
    live = observation.live
    return {
        "not_seen": None if isinstance(live, LiveCluster) else live.reason,
        **(prefix_fields("live", live) if isinstance(live, LiveCluster) else {}),
        "signals.brokers": observation.broker_signals,
        "signals.moves": observation.move_signals,
        "ramping": observation.ramping,
        "empty_windows": observation.empty_windows,
        "orders": observation.orders,
        "plan_moves": observation.plan_moves,
        "vetoes": observation.vetoes,
        "eta_ratios": observation.eta_ratios,
        "deadline_forecasts": observation.deadline_forecasts,
        "steered": frozenset(observation.setpoints),
        **prefix_fields("memory", before),
    }


def capture_steering_tick(
    view: ControlInput, held: frozenset[BrokerSide], quota_samples: int, before: ControlState
) -> StateValues:
    """Returns the inputs of a steering tick.

    Args:
        held: the sides whose rates the control law may not raise until the next cycle.
        quota_samples: Kafka's replication.quota.window.num.
        before: the control state after the previous tick.
    """
    return {
        # The three mappings of signals, and the baselines, are copied, because their owners change them in place.
        "signals.brokers": dict(view.brokers),
        "signals.moves": dict(view.moves),
        "steering.current_rates": dict(view.current_rates),
        "steering.held_sides": held,
        "steering.capacities": view.capacities,
        "steering.stalled": view.stalled_sides,
        "steering.recovering": view.recovering_sides,
        "steering.restore_rates": view.restore_rates,
        "steering.planned": view.planned_sides,
        "steering.max_rates": view.plan_max_rates,
        "steering.at_min_isr": view.at_min_isr_sides,
        "steering.baselines": dict(view.baselines),
        "steering.deadline_ratios": view.deadline_ratios,
        "steering.quota_samples": quota_samples,
        **prefix_fields("control", before),
    }


def capture_quota_cycle(view: QuotaView, before: MutationMemory, orders: Orders) -> StateValues:
    """Returns the inputs of a mutation quota cycle."""
    quotas = view.quotas
    return {
        "quotas.not_seen": quotas.reason if isinstance(quotas, ClusterUnreadable) else None,
        **({"quotas.current": quotas} if not isinstance(quotas, ClusterUnreadable) else {}),
        "quotas.cluster_wide": view.cluster_wide,
        "quotas.orders": orders,
        "signals.controllers": view.controllers,
        "signals.tenants": {(s.node, s.user, s.client_id): s for s in view.tenants},
        **prefix_fields("mutation", before),
    }


def capture_election(view: LeadershipView, before: LeadershipMemory) -> StateValues:
    """Returns the inputs of a decision about preferred leaders, with the signals of only the brokers that wait for leaders."""
    waiting = view.survey.displaced
    return {
        **prefix_fields("leaders", view.survey),
        "election.electing": None if view.electing is None else frozenset(view.electing),
        "election.brokers": view.brokers,
        "signals.brokers": {b: signal for b, signal in view.signals.items() if b in waiting},
        "election.baselines": {b: baseline for b, baseline in view.baselines.items() if b in waiting},
        "election.pause": view.pause,
        "vetoes": view.vetoes,
        **prefix_fields("elections", before),
    }


def capture_movements(view: MovementView, before: MovementMemory) -> StateValues:
    """Returns the inputs of a decision about the concurrency of Cruise Control."""
    return {
        "movement.execution": view.execution,
        "movement.rate_bytes_per_s": view.rate_bytes_per_s,
        "movement.pause": view.pause,
        "vetoes": view.vetoes,
        **prefix_fields("movements", before),
    }


def is_worth_recording(observation: Observation, before: Memory, decisions: Iterable[Decision]) -> bool:
    """Returns whether a partition moves, the tuner manages a setting, or a decision is about a single throttle."""
    live = observation.live
    moves = isinstance(live, LiveCluster) and bool(live.moves)
    about_one_throttle = (not isinstance(d, Hold) or d.broker is not None for d in decisions)
    return moves or bool(before.moving_replicas or before.owned) or any(about_one_throttle)


class QuotaChangeDetector:
    """Detects mutation quota cycles whose decisions differ from the decisions of the previous cycle."""

    def __init__(self) -> None:
        self._reasons: set[tuple[object, ...]] = set()

    def has_changed(self, decisions: Iterable[QuotaDecision], before: MutationMemory, after: MutationMemory) -> bool:
        """Returns whether this cycle writes a quota, or changes the total, a reason or the unconfirmed quotas.

        The caller passes every cycle, in order.
        """
        acts = False
        reasons: set[tuple[object, ...]] = set()
        for decision in decisions:
            if isinstance(decision, HoldQuota | TotalRateReport):
                reasons.add((getattr(decision, "entity", None), decision.reason))
            else:
                acts = True
        has_new_reasons = reasons != self._reasons
        self._reasons = reasons
        return acts or has_new_reasons or (before.total, before.unconfirmed) != (after.total, after.unconfirmed)


def prefix_fields(prefix: str, value: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass by state field name."""
    return {f"{prefix}.{f.name}": getattr(value, f.name) for f in fields(value)}


# The values of the state fields that the first step of a run does not have, such as the fields of a steering tick.
EMPTY_INPUTS = {
    **prefix_fields("live", LiveCluster(frozenset())),
    "steering.current_rates": {},
    "steering.held_sides": frozenset(),
    "steering.capacities": {},
    "steering.stalled": frozenset(),
    "steering.recovering": frozenset(),
    "steering.restore_rates": {},
    "steering.planned": frozenset(),
    "steering.max_rates": {},
    "steering.at_min_isr": frozenset(),
    "steering.baselines": {},
    "steering.deadline_ratios": {},
    "steering.quota_samples": ControlLimits().quota_samples,
}
EMPTY_QUOTA_INPUTS: StateValues = {"quotas.current": {}}
