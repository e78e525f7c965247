"""Measures the progress of a plan from its record and a snapshot of the cluster, and converts the progress to JSON. Does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streaming.shared.contract import MoveSignal
from tuner.control.reassignment.explain import new_partitions_text
from tuner.control.reassignment.measurements import PartitionMeasurements, update_measurements
from tuner.control.reassignment.partition_progress import PartitionProgress, PlanMemory, classify_partitions
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import BrokerSide
from tuner.core.plan_progress import Progress, expected_end
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanEnding, ReassignmentSnapshot, TopicPartition
from tuner.core.reassignment_steps import UNLIMITED

# A partition, its current replicas, and its replicas afterwards.
ReplicaChange = tuple[TopicPartition, tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class CurrentMoves:
    """The fresh signals of all sides with moves, and ``Observation.eta_ratios`` of these sides."""

    signals: tuple[MoveSignal, ...] = ()
    eta_ratios: Mapping[BrokerSide, float] = field(default_factory=dict)


NO_MOVES = CurrentMoves()


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """The progress of a plan at one moment."""

    plan: Plan
    by_class: PartitionProgress  # The partitions of the plan by class.
    at_ms: int  # Epoch time of the snapshot.
    total_bytes: float  # Bytes that the whole plan copies.
    copied_bytes: float
    remaining: tuple[ReplicaChange, ...] = ()  # Partitions that have not arrived, with their final replicas.
    batch: tuple[ReplicaChange, ...] = ()  # Partitions with a running step, with the replicas that the step ends with.
    new_partitions: tuple[str, ...] = ()  # Sentences on topics with partitions that the plan does not move.
    moves: CurrentMoves = NO_MOVES

    @property
    def has_counts(self) -> bool:
        """Whether the numbers of partitions and bytes are known; an older version did not record them when a plan ended."""
        return self.plan.is_active or self.plan.state.result is not None

    @property
    def partitions(self) -> int:
        result = self.plan.state.result
        return len(self.plan.partitions) if result is None else result.partitions

    @property
    def arrived(self) -> int:
        """Partitions at their target, or at their original replicas during a rollback."""
        result = self.plan.state.result
        return len(self.by_class.arrived) if result is None else result.at_target

    @property
    def remaining_bytes(self) -> float:
        return max(0.0, self.total_bytes - self.copied_bytes)

    @property
    def eta_s(self) -> float | None:
        """Seconds until the plan ends, as in `rheostat status`; None if not known yet, or the plan does not advance."""
        plans, moves = {self.plan.id: self.progress}, self.moves
        return expected_end(moves.signals, stalled=False, plans=plans, eta_ratios=moves.eta_ratios).eta_s

    @property
    def progress(self) -> Progress:
        elapsed_s = (self.at_ms - self.plan.head.started_at_ms - self.plan.state.paused_total_ms) / 1000
        is_advancing = self.plan.head.desired is DesiredPlanState.RUNNING and bool(self.by_class.running)
        return Progress(self.total_bytes, self.copied_bytes, elapsed_s, is_advancing)

    @property
    def is_well(self) -> bool:
        """Whether nothing blocks the plan, or it has ended with all partitions at their target."""
        if self.plan.state.ending is not None:
            # The blockers of a plan that has drained brokers name the replicas that are left there.
            state = self.plan.state
            return (
                state.ending is PlanEnding.DONE and not state.dropped and not (self.plan.head.cordon and state.blockers)
            )
        return not self.plan.state.blockers


def measure_progress(
    plan: Plan, snapshot: ReassignmentSnapshot, at_ms: int, moves: CurrentMoves = NO_MOVES
) -> PlanProgress:
    """Returns the progress of the plan.

    Args:
        at_ms: epoch time of the snapshot.
        moves: the current moves. They determine the time left, because the plan does not end before them.
    """
    if not plan.is_active:
        result = plan.state.result
        total, copied = (0.0, 0.0) if result is None else (result.total_bytes, result.copied_bytes)
        by_class = PartitionProgress(dropped=dict(plan.state.dropped))
        return PlanProgress(plan, by_class, at_ms, total_bytes=total, copied_bytes=copied)
    by_class = classify_partitions(plan, snapshot, PlanMemory(), at_ms)
    measurements = update_measurements(PartitionMeasurements(), snapshot, at_ms)
    total = copied = 0.0
    remaining, batch = [], []
    arrived = set(by_class.arrived)
    for key, partition in plan.partitions.items():
        current = snapshot.partitions.get(key)
        if current is None:  # The partition no longer exists.
            continue
        size = measurements.size(key, partition)
        added = [b for b in partition.target if b not in partition.original_replicas]
        total += size * len(added)
        complete = [b for b in added if b in current.replicas and b not in current.adding]
        copied += size * len(complete)
        if any(b in current.adding for b in added):
            adding_bytes = size * len(current.adding)
            remaining_bytes = measurements.remaining_bytes.get(key, adding_bytes)
            copied += max(0.0, adding_bytes - remaining_bytes)
        if key not in arrived:
            remaining.append((key, current.replicas, plan.goal(partition)))
        if key in by_class.running:
            batch.append((key, current.replicas, by_class.running[key].replicas))
    return PlanProgress(
        plan,
        by_class,
        at_ms,
        total_bytes=total,
        copied_bytes=copied,
        remaining=tuple(remaining),
        batch=tuple(batch),
        new_partitions=new_partitions_text(plan, snapshot),
        moves=moves,
    )


def partitions_to_measure(plan: Plan) -> frozenset[TopicPartition]:
    """Returns the partitions whose log sizes ``measure_progress`` needs."""
    if not plan.is_active:
        return frozenset()
    return frozenset(plan.partitions) - plan.state.dropped.keys()


def as_record(progress: PlanProgress) -> dict[str, Any]:
    """Returns the JSON object of a plan.

    ``Topics`` and ``CurrentBatch`` have the names that KIP-435 gives them in ListPartitionReassignments.
    """
    plan, by_class = progress.plan, progress.by_class
    state = plan.state
    has_counts = progress.has_counts
    return {
        "plan": plan.id,
        "submitted_by": plan.head.submitted_by,
        "submitted_at_ms": plan.head.submitted_at_ms,
        "not_before_ms": plan.head.not_before_ms if plan.head.waits_for_start(progress.at_ms) else None,
        "desired": plan.head.desired.value,
        "acknowledged": state.acknowledged_at_ms >= plan.head.ordered_at_ms,
        "ending": None if state.ending is None else state.ending.value,
        "ended_at_ms": state.ended_at_ms or None,
        "partitions": progress.partitions if has_counts else None,
        "arrived": progress.arrived if has_counts else None,
        "moving": len(by_class.running),
        "waiting": len(by_class.ready),
        "externally_owned": len(by_class.externally_reassigned),
        "stopped_externally": [f"{topic}-{n}: {why}" for (topic, n), why in state.stopped_externally.items()],
        "dropped": [f"{topic}-{number}: {why}" for (topic, number), why in state.dropped.items()],
        "total_bytes": progress.total_bytes if has_counts else None,
        "copied_bytes": progress.copied_bytes if has_counts else None,
        "eta_s": progress.eta_s,
        "limits": limits_record(plan.head.limits),
        "throttle": {
            "rate_bytes_per_s_max": plan.head.throttle.rate_bytes_per_s_max,
            "unthrottled": plan.head.throttle.unthrottled,
        },
        "cordon": list(plan.head.cordon),
        "blockers": list(state.blockers),
        "new_partitions": list(progress.new_partitions),
        "concurrency": list(state.concurrency),
        "Topics": _changes_by_topic(progress.remaining),
        "CurrentBatch": _changes_by_topic(progress.batch),
    }


def limits_record(limits: BatchLimits) -> dict[str, int | None]:
    """Returns the limits by their KIP-435 names; None means unlimited."""
    by_name = {
        "reassignment.max.concurrent.leader.movements": limits.leader_movements_max,
        "reassignment.max.concurrent.partition.movements": limits.partition_movements_max,
        "reassignment.max.concurrent.replica.movements": limits.replica_movements_max,
    }
    return {name: None if value == UNLIMITED else value for name, value in by_name.items()}


def _changes_by_topic(changes: Iterable[ReplicaChange]) -> list[dict[str, Any]]:
    by_topic: dict[str, list[Mapping[str, Any]]] = {}
    for (topic, number), current, target in sorted(changes):
        by_topic.setdefault(topic, []).append(
            {"PartitionId": number, "CurrentBrokers": list(current), "TargetBrokers": list(target)}
        )
    return [{"Name": topic, "Partitions": partitions} for topic, partitions in by_topic.items()]
