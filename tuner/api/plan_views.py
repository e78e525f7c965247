"""Plans as values for JSON and for the page: what runs, how far each is, when it ends, how much at a time, and what holds it up.

Invariant: what is not known is None, never 0.
"""

from __future__ import annotations

from typing import Any

from tuner.api.plan_board import ShownPlans, copies_bytes, states
from tuner.decide.reassign_figures import Figures
from tuner.decide.reassign_turn import PlanTurn
from tuner.model.reassigning import Wanted
from tuner.plan.batches import BatchLimits
from tuner.plan.reassignment_steps import UNLIMITED, Step

BATCH_MAX = 20  # Steps under way that are named, of each plan.


def plan_row(shown: ShownPlans, turn: PlanTurn) -> dict[str, Any]:
    plan, parts, head = turn.plan, turn.parts, turn.plan.head
    counts = states(parts, len(turn.begins))
    total, copied = shown.total_bytes[plan.id], copied_bytes(turn, shown.figures)
    # Who takes a plan back copies nothing more; how far that is the counts say.
    forth = head.wanted is not Wanted.CANCELLING
    steps = [*parts.running.values(), *turn.begins]
    return {
        "plan": plan.id,
        "by": head.by,
        "word_by": head.word_by or head.by,
        "given_at_ms": head.given_at_ms,
        "wanted": head.wanted.value,
        "partitions": len(plan.parts),
        **counts,
        "total_bytes": total,
        "copied_bytes": copied if forth else None,
        "done_ratio": _done_ratio(total, copied, counts["arrived"], len(plan.parts)) if forth else None,
        "eta_s": _eta_s(turn, total, copied, shown.at_ms),
        "batch": [_step(step) for step in steps[:BATCH_MAX]],
        "limits": limits_row(head.limits),
        "said": list(plan.state.said),
        "pace": list(plan.state.pace),
    }


def limits_row(limits: BatchLimits) -> dict[str, int | None]:
    """KIP-435's three; None: no limit."""
    named = {
        "leader_movements_max": limits.leader_movements_max,
        "partition_movements_max": limits.partition_movements_max,
        "replica_movements_max": limits.replica_movements_max,
    }
    return {name: None if value == UNLIMITED else value for name, value in named.items()}


def copied_bytes(turn: PlanTurn, figures: Figures) -> float:
    plan = turn.plan
    done = sum(copies_bytes(plan.parts[key]) for key in turn.parts.arrived)
    for key, step in turn.parts.running.items():
        remaining = figures.remaining_bytes.get(key)
        if remaining is not None:
            done += max(0.0, figures.size(key, plan.parts[key]) * len(step.adding) - remaining)
    return done


def _done_ratio(total: float, copied: float, arrived: int, partitions: int) -> float:
    # Of partitions where nothing is to be copied.
    return min(1.0, copied / total) if total > 0 else arrived / max(1, partitions)


def _eta_s(turn: PlanTurn, total: float, copied: float, at_ms: int) -> float | None:
    """At the mean pace since it was given, but for pauses of its own; None: nothing is copied yet, or it does not go on."""
    head = turn.plan.head
    elapsed_s = (at_ms - head.given_at_ms - turn.plan.state.rested_ms) / 1000
    goes_on = turn.parts.running or turn.begins
    if head.wanted is not Wanted.RUNNING or not goes_on or copied <= 0 or elapsed_s <= 0:
        return None
    return max(0.0, total - copied) * elapsed_s / copied


def _step(step: Step) -> dict[str, Any]:
    return {
        "topic": step.topic,
        "partition": step.partition,
        "replicas": list(step.replicas),
        "adding": list(step.adding),
        "dropping": list(step.dropping),
    }
