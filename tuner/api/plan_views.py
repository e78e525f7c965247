"""Reassignment plans for JSON and for the page: progress, expected end, concurrency, and blockers.

Invariant: an unknown value is None, never 0.
"""

from __future__ import annotations

from typing import Any

from tuner.api.plan_status_store import PlanSnapshot, bytes_to_copy, partition_counts
from tuner.control.reassignment.measurements import PartitionMeasurements
from tuner.control.reassignment.policy import PlanDecision
from tuner.core.batch_limits import BatchLimits
from tuner.core.plan_progress import Progress
from tuner.core.reassignment_plan import DesiredPlanState
from tuner.core.reassignment_steps import UNLIMITED, ReassignmentStep

BATCH_MAX = 20  # Steps in progress that are listed, per plan.


def plan_progress(snapshot: PlanSnapshot) -> dict[str, Progress]:
    """Returns the progress of each plan. A plan whose state is unknown does not count as progressing."""
    return {decision.plan.id: _progress(snapshot, decision) for decision in snapshot.plans}


def _progress(snapshot: PlanSnapshot, decision: PlanDecision) -> Progress:
    head = decision.plan.head
    is_progressing = (
        snapshot.unknown_reason is None
        and head.desired is DesiredPlanState.RUNNING
        and bool(decision.progress.running or decision.likely_starts)
    )
    elapsed_s = (snapshot.at_ms - head.started_at_ms - decision.plan.state.paused_total_ms) / 1000
    total_bytes, copied = snapshot.total_bytes[decision.plan.id], copied_bytes(decision, snapshot.measurements)
    return Progress(total_bytes, copied, elapsed_s, is_progressing)


def plan_json(snapshot: PlanSnapshot, decision: PlanDecision, eta_s: float | None) -> dict[str, Any]:
    """Returns one plan as JSON values.

    Args:
        eta_s: seconds until the expected end of the plan; None if unknown.
    """
    plan, progress, head = decision.plan, decision.progress, decision.plan.head
    counts = partition_counts(progress, len(decision.likely_starts))
    total, copied = snapshot.total_bytes[plan.id], copied_bytes(decision, snapshot.measurements)
    # A plan that is being cancelled copies nothing; the counts show its progress.
    copies = head.desired is not DesiredPlanState.CANCELLING
    steps = [*progress.running.values(), *decision.likely_starts]
    return {
        "plan": plan.id,
        "submitted_by": head.submitted_by,
        "ordered_by": head.ordered_by or head.submitted_by,
        "submitted_at_ms": head.submitted_at_ms,
        "not_before_ms": head.not_before_ms if head.waits_for_start(snapshot.at_ms) else None,
        "desired": head.desired.value,
        "partitions": len(plan.partitions),
        **counts,
        "total_bytes": total,
        "copied_bytes": copied if copies else None,
        "done_ratio": _done_ratio(total, copied, counts["arrived"], len(plan.partitions)) if copies else None,
        "eta_s": eta_s,
        "batch": [_step(step) for step in steps[:BATCH_MAX]],
        "limits": limits_json(head.limits),
        "blockers": list(plan.state.blockers),
        "concurrency": list(plan.state.concurrency),
    }


def limits_json(limits: BatchLimits) -> dict[str, int | None]:
    """Returns the three limits of KIP-435; None means no limit."""
    values = {
        "leader_movements_max": limits.leader_movements_max,
        "partition_movements_max": limits.partition_movements_max,
        "replica_movements_max": limits.replica_movements_max,
    }
    return {name: None if value == UNLIMITED else value for name, value in values.items()}


def copied_bytes(decision: PlanDecision, measurements: PartitionMeasurements) -> float:
    """Returns the bytes that the plan has copied: all bytes of finished partitions, and the copied part of running steps.

    A running step whose remaining bytes are not measured counts as not begun.
    """
    plan = decision.plan
    copied = sum(bytes_to_copy(plan.partitions[key]) for key in decision.progress.arrived)
    for key, step in decision.progress.running.items():
        remaining = measurements.remaining_bytes.get(key)
        if remaining is not None:
            copied += max(0.0, measurements.size(key, plan.partitions[key]) * len(step.adding) - remaining)
    return copied


def _done_ratio(total: float, copied: float, arrived: int, partitions: int) -> float:
    # If the plan copies nothing, its progress is the share of partitions that are at their target.
    return min(1.0, copied / total) if total > 0 else arrived / max(1, partitions)


def _step(step: ReassignmentStep) -> dict[str, Any]:
    return {
        "topic": step.topic,
        "partition": step.partition,
        "replicas": list(step.replicas),
        "adding": list(step.adding),
        "removing": list(step.dropping),
    }
