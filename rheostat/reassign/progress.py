"""How far a plan is, from the plan on record and one look at the cluster. Pure; also the JSON for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streaming.shared.contract import MoveSignal
from tuner.control.reassignment.explain import new_partitions_text
from tuner.control.reassignment.measurements import PartitionMeasurements, update_measurements
from tuner.control.reassignment.partition_progress import PartitionProgress, PlanMemory, classify_partitions
from tuner.core.batch_limits import BatchLimits
from tuner.core.plan_progress import Progress, expected_end
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanEnding, ReassignmentSnapshot, TopicPartition
from tuner.core.reassignment_steps import UNLIMITED

Moved = tuple[
    TopicPartition, tuple[int, ...], tuple[int, ...]
]  # A partition, its replicas, and those that it shall have.


@dataclass(frozen=True, slots=True)
class PlanProgress:
    plan: Plan
    parts: PartitionProgress
    at_ms: int
    total_bytes: float  # That the plan copies in all.
    copied_bytes: float
    ongoing: tuple[Moved, ...] = ()  # Not arrived yet, and where they shall be in the end.
    batch: tuple[Moved, ...] = ()  # Under way, and what the step ends with.
    new_partitions: tuple[str, ...] = ()  # Topics with partitions that are no part of the plan, for people.
    moves: tuple[MoveSignal, ...] = ()  # What is measured now of the moves onto each broker.

    @property
    def counted(self) -> bool:
        """False: an older program saw it end, and did not say how many partitions it had."""
        return self.plan.is_active or self.plan.state.result is not None

    @property
    def partitions(self) -> int:
        tally = self.plan.state.result
        return len(self.plan.partitions) if tally is None else tally.partitions

    @property
    def arrived(self) -> int:
        """With those that were put back, as long as it has not ended; then those at their target."""
        tally = self.plan.state.result
        return len(self.parts.arrived) if tally is None else tally.at_target

    @property
    def remaining_bytes(self) -> float:
        return max(0.0, self.total_bytes - self.copied_bytes)

    @property
    def eta_s(self) -> float | None:
        """When it ends, as the status and the page have it; None: not known yet, or it does not go on."""
        return expected_end(self.moves, stalled=False, plans={self.plan.id: self.progress}).eta_s

    @property
    def progress(self) -> Progress:
        elapsed_s = (self.at_ms - self.plan.head.submitted_at_ms - self.plan.state.paused_total_ms) / 1000
        goes_on = self.plan.head.desired is DesiredPlanState.RUNNING and bool(self.parts.running)
        return Progress(self.total_bytes, self.copied_bytes, elapsed_s, goes_on)

    @property
    def well(self) -> bool:
        """Whether it goes on, or has ended as it was given."""
        if self.plan.state.ending is not None:
            return self.plan.state.ending is PlanEnding.DONE and not self.plan.state.dropped
        return not self.plan.state.blockers


def picture(plan: Plan, look: ReassignmentSnapshot, at_ms: int, moves: Sequence[MoveSignal] = ()) -> PlanProgress:
    """Returns how far the plan is.

    Args:
        at_ms: of the look; epoch.
        moves: what is measured now of the moves onto each broker; it tells no end before theirs.
    """
    if not plan.is_active:
        tally = plan.state.result
        total, copied = (0.0, 0.0) if tally is None else (tally.total_bytes, tally.copied_bytes)
        return PlanProgress(plan, PartitionProgress(dropped=dict(plan.state.dropped)), at_ms, total, copied)
    parts = classify_partitions(plan, look, PlanMemory(), at_ms)
    figures = update_measurements(PartitionMeasurements(), look, at_ms)
    total = copied = 0.0
    ongoing, batch = [], []
    arrived = set(parts.arrived)
    for key, part in plan.partitions.items():
        now = look.partitions.get(key)
        if now is None:
            continue
        size, goal = figures.size(key, part), plan.goal(part)
        added = [b for b in part.target if b not in part.original_replicas]
        total += size * len(added)
        there = [b for b in added if b in now.replicas and b not in now.adding]
        copied += size * len(there)
        if any(b in now.adding for b in added):
            copied += max(0.0, size * len(now.adding) - figures.remaining_bytes.get(key, size * len(now.adding)))
        if key not in arrived:
            ongoing.append((key, now.replicas, goal))
        if key in parts.running:
            batch.append((key, now.replicas, parts.running[key].replicas))
    return PlanProgress(
        plan, parts, at_ms, total, copied, tuple(ongoing), tuple(batch), new_partitions_text(plan, look), tuple(moves)
    )


def to_measure(plan: Plan, look_at: Iterable[TopicPartition] | None = None) -> frozenset[TopicPartition]:
    return (
        frozenset(plan.partitions if look_at is None else look_at) - plan.state.dropped.keys()
        if plan.is_active
        else frozenset()
    )


def as_record(shown: PlanProgress) -> dict[str, Any]:
    """One JSON object; ``Topics`` and ``CurrentBatch`` are KIP-435's extension of ListPartitionReassignments, in its words."""
    plan, parts = shown.plan, shown.parts
    state = plan.state
    return {
        "plan": plan.id,
        "submitted_by": plan.head.submitted_by,
        "submitted_at_ms": plan.head.submitted_at_ms,
        "desired": plan.head.desired.value,
        "acknowledged": state.acknowledged_at_ms >= plan.head.ordered_at_ms,
        "ending": None if state.ending is None else state.ending.value,
        "ended_at_ms": state.ended_at_ms or None,
        "partitions": shown.partitions if shown.counted else None,
        "arrived": shown.arrived if shown.counted else None,
        "under_way": len(parts.running),
        "waiting": len(parts.ready),
        "externally_owned": len(parts.externally_reassigned),
        "left": [f"{topic}-{number}: {why}" for (topic, number), why in state.stopped_externally.items()],
        "dropped": [f"{topic}-{number}: {why}" for (topic, number), why in state.dropped.items()],
        "total_bytes": shown.total_bytes if shown.counted else None,
        "copied_bytes": shown.copied_bytes if shown.counted else None,
        "eta_s": shown.eta_s,
        "limits": limits_record(plan.head.limits),
        "throttle": {
            "rate_bytes_per_s_max": plan.head.throttle.rate_bytes_per_s_max,
            "unthrottled": plan.head.throttle.unthrottled,
        },
        "blockers": list(state.blockers),
        "grown": list(shown.new_partitions),
        "concurrency": list(state.concurrency),
        "Topics": _topics(shown.ongoing),
        "CurrentBatch": _topics(shown.batch),
    }


def limits_record(limits: BatchLimits) -> dict[str, int | None]:
    named = {
        "reassignment.max.concurrent.leader.movements": limits.leader_movements_max,
        "reassignment.max.concurrent.partition.movements": limits.partition_movements_max,
        "reassignment.max.concurrent.replica.movements": limits.replica_movements_max,
    }
    return {name: None if value == UNLIMITED else value for name, value in named.items()}


def _topics(moved: Iterable[Moved]) -> list[dict[str, Any]]:
    by_topic: dict[str, list[Mapping[str, Any]]] = {}
    for (topic, number), current, target in sorted(moved):
        by_topic.setdefault(topic, []).append(
            {"PartitionId": number, "CurrentBrokers": list(current), "TargetBrokers": list(target)}
        )
    return [{"Name": topic, "Partitions": partitions} for topic, partitions in by_topic.items()]
