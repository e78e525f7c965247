"""Classifies each partition of a plan by comparing the cluster with the plan: arrived, running, ready, or waiting.

The journal stores only the plan and its requested steps, so a new tuner continues where the last one stopped.

    the cluster shows                     class
    the requested step is under way       running; also stuck, if an offline broker prevents its end
    another reassignment is under way     externally_reassigned
    no reassignment, a step requested     reached; or unconfirmed for a while, then stopped_externally or never_accepted
    no reassignment, nothing requested    arrived, or ready for its next step
    another topic of the same name        unconfirmed for a while, then dropped

A step can end only when the leader, the source replicas and the step's resulting replicas are online, because Kafka waits until
these are in sync. A broker's metadata may lag behind the controller's list of reassignments. So two cases are unconfirmed for
``CONFIRM_S_MAX``: a requested step is neither under way nor reached, or a partition is missing.

Invariant: no step is requested while a reassignment of the partition is under way, or while its end is unconfirmed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tuner.core.reassignment_plan import (
    CurrentAssignment,
    DesiredPlanState,
    Plan,
    PlanPartition,
    ReassignmentSnapshot,
    RequestedStep,
    TopicPartition,
)
from tuner.core.reassignment_steps import PartitionTransition, ReassignmentStep, StepReason

CONFIRM_S_MAX = 20.0  # Every broker learns of a change within about a second, also under load.


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """The state of a plan that only one leadership term knows. It is not stored: the next term begins with an empty memory.

    Attributes:
        accepted: partitions whose step Kafka has accepted.
        unconfirmed_since_ms: time from which a partition has been unconfirmed.
        all_refused: Kafka accepted none of the steps of the last request.
        stuck_since_ms: time from which a step has needed an offline broker.
    """

    accepted: frozenset[TopicPartition] = frozenset()
    unconfirmed_since_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    all_refused: bool = False
    stuck_since_ms: Mapping[TopicPartition, int] = field(default_factory=dict)


class StuckStep(NamedTuple):
    """The time from which a step has been stuck, and the offline brokers that it needs."""

    since_ms: int
    down: frozenset[int]


@dataclass(slots=True)
class PartitionProgress:
    """The partitions of one plan by class.

    Partitions in ``stuck`` are also in ``running``. A partition in ``reached`` is also in the class that follows: ``ready`` or
    ``arrived``.

    Attributes:
        reached: the requested step has ended as requested.
        to_elect: reached, but the preferred leader is not elected yet.
        never_accepted: requested by a tuner that stopped before Kafka accepted the step.
        rolled_back: the step was stopped because the plan was cancelled, or because its target was cordoned.
        dropped: no longer part of the plan; the value is the reason.
    """

    arrived: list[TopicPartition] = field(default_factory=list)
    running: dict[TopicPartition, ReassignmentStep] = field(default_factory=dict)
    stuck: dict[TopicPartition, StuckStep] = field(default_factory=dict)
    ready: dict[TopicPartition, PartitionTransition] = field(default_factory=dict)
    reached: list[TopicPartition] = field(default_factory=list)
    to_elect: list[TopicPartition] = field(default_factory=list)
    never_accepted: list[TopicPartition] = field(default_factory=list)
    rolled_back: list[TopicPartition] = field(default_factory=list)
    unconfirmed: list[TopicPartition] = field(default_factory=list)
    externally_reassigned: list[TopicPartition] = field(default_factory=list)
    stopped_externally: dict[TopicPartition, str] = field(default_factory=dict)
    dropped: dict[TopicPartition, str] = field(default_factory=dict)


def classify_partitions(
    plan: Plan,
    snapshot: ReassignmentSnapshot,
    memory: PlanMemory,
    now_ms: int,
    taken: Collection[TopicPartition] = frozenset(),
) -> PartitionProgress:
    """Returns the class of each partition of the plan.

    Args:
        taken: partitions that belong to an older plan.
    """
    progress = PartitionProgress(
        stopped_externally=dict(plan.state.stopped_externally), dropped=dict(plan.state.dropped)
    )
    for key, partition in plan.partitions.items():
        if key in taken and key not in plan.requested:
            # The older plan counts as another tool. A cancelled plan does not wait for the older one.
            if plan.head.desired is DesiredPlanState.CANCELLING:
                progress.arrived.append(key)
            else:
                progress.externally_reassigned.append(key)
        elif key not in progress.dropped:
            _classify(key, partition, plan, snapshot, memory, now_ms, progress)
    return progress


def _classify(
    key: TopicPartition,
    partition: PlanPartition,
    plan: Plan,
    snapshot: ReassignmentSnapshot,
    memory: PlanMemory,
    now_ms: int,
    progress: PartitionProgress,
) -> None:
    current, requested = snapshot.partitions.get(key), plan.requested.get(key)
    overdue = now_ms - memory.unconfirmed_since_ms.get(key, now_ms) > CONFIRM_S_MAX * 1000
    recreated = is_recreated(key, partition, snapshot)
    if recreated or current is None:
        if not overdue:  # A broker that lags behind may still show the former topic, or may not show the partition yet.
            progress.unconfirmed.append(key)
        elif recreated:
            progress.dropped[key] = "its topic was deleted and created again under the same name"
        else:
            progress.dropped[key] = "it is gone: its topic was deleted, or created again with fewer partitions"
    elif current.is_reassigning:
        _classify_under_way(key, partition, current, plan, snapshot, memory, now_ms, progress)
    elif requested is None or requested.replicas == current.replicas:
        # A cancelled plan requests no elections, so it does not wait for one.
        cancelling = plan.head.desired is DesiredPlanState.CANCELLING
        needs_election = requested is not None and requested.needs_election and not cancelling
        if needs_election and _can_elect_preferred(current, snapshot):
            progress.to_elect.append(key)
            return
        if requested is not None:
            progress.reached.append(key)
        _classify_idle(key, partition, current, plan, snapshot, progress)
    elif not overdue and not _is_back(requested, current):
        progress.unconfirmed.append(key)
    elif plan.head.desired is DesiredPlanState.CANCELLING or requested.cancel_requested:
        progress.rolled_back.append(key)
        _classify_idle(key, partition, current, plan, snapshot, progress)
    elif key in memory.accepted:
        progress.stopped_externally[key] = "another tool stopped its step"
    else:
        progress.never_accepted.append(key)
        _classify_idle(key, partition, current, plan, snapshot, progress)


def _is_back(requested: RequestedStep, current: CurrentAssignment) -> bool:
    """Returns whether a cancel has restored the earlier replicas. Kafka sometimes restores them in another order."""
    return requested.cancel_requested and {*requested.replicas_before} == {*current.replicas}


def _classify_under_way(
    key: TopicPartition,
    partition: PlanPartition,
    current: CurrentAssignment,
    plan: Plan,
    snapshot: ReassignmentSnapshot,
    memory: PlanMemory,
    now_ms: int,
    progress: PartitionProgress,
) -> None:
    """Classifies a partition that is being reassigned."""
    requested = plan.requested.get(key)
    if requested is not None and current.target_replicas == frozenset(requested.replicas):
        progress.running[key] = running_step(key, requested, current, plan.goal(partition))
        if down := _required_brokers(requested, current, snapshot) - snapshot.online:
            progress.stuck[key] = StuckStep(memory.stuck_since_ms.get(key, now_ms), frozenset(down))
    elif plan.head.no_rollback:
        # The cancelled plan leaves every partition where it is, and does not wait for the other tool.
        progress.arrived.append(key)
    else:
        progress.externally_reassigned.append(key)


def _required_brokers(requested: RequestedStep, current: CurrentAssignment, snapshot: ReassignmentSnapshot) -> set[int]:
    """Returns the brokers without which the step cannot end.

    The leader and the ISR are among them only if the leader is offline or no replica of the ISR is online.
    """
    has_source = current.leader in snapshot.online and not snapshot.online.isdisjoint(current.isr)
    if has_source:
        return {*requested.replicas}
    return {*requested.replicas, *current.isr, *({current.leader} if current.leader >= 0 else ())}


def is_recreated(key: TopicPartition, partition: PlanPartition, snapshot: ReassignmentSnapshot) -> bool:
    """Returns whether the topic was deleted and another one of the same name exists."""
    topic_id = snapshot.topic_ids.get(key[0], "")
    return bool(partition.topic.id and topic_id) and topic_id != partition.topic.id


def _classify_idle(
    key: TopicPartition,
    partition: PlanPartition,
    current: CurrentAssignment,
    plan: Plan,
    snapshot: ReassignmentSnapshot,
    progress: PartitionProgress,
) -> None:
    """Classifies a partition without a reassignment under way, once the end of the last step is known."""
    goal = plan.goal(partition)
    if plan.head.no_rollback:
        progress.arrived.append(key)
        return
    cancelling = plan.head.desired is DesiredPlanState.CANCELLING
    # A replica on a broker that is in neither the original nor the target replicas shows that another tool moved the partition. A
    # cancel does not undo this move.
    moved_externally = not {*current.replicas} <= {*partition.original_replicas, *partition.target}
    # A cancelled plan keeps partitions that have reached their target.
    is_at_end = current.replicas == goal or (cancelling and current.replicas == partition.target)
    # The plan was checked for the replication factor at its submission, so it must not change a partition with another factor.
    known_factors = (len(partition.original_replicas), len(partition.target))
    if moved_externally and not cancelling and len(current.replicas) not in known_factors:
        progress.dropped[key] = (
            f"it has {len(current.replicas)} replicas now, on other brokers: "
            "its topic was created again, or another tool changed it"
        )
    elif is_at_end or (moved_externally and cancelling):
        progress.arrived.append(key)
    elif key not in progress.stopped_externally:
        progress.ready[key] = transition_of(key, goal, current, snapshot)


def transition_of(
    key: TopicPartition, goal: tuple[int, ...], current: CurrentAssignment, snapshot: ReassignmentSnapshot
) -> PartitionTransition:
    """Returns the transition of a partition from its current replicas to ``goal``."""
    topic, number = key
    # After the transition the partition cannot have more replicas in sync than ``goal`` has replicas.
    min_in_sync = min(snapshot.min_in_sync.get(topic, 1), len(goal))
    return PartitionTransition(
        topic, number, current.replicas, goal, current.leader, frozenset(current.isr), min_in_sync
    )


def running_step(
    key: TopicPartition, requested: RequestedStep, current: CurrentAssignment, goal: tuple[int, ...]
) -> ReassignmentStep:
    """Returns the step under way as the cluster shows it."""
    topic, number = key
    return ReassignmentStep(
        topic,
        number,
        requested.replicas,
        adding=current.adding,
        dropping=current.removing,
        reason=StepReason.REPLICAS,  # The original reason is not recorded.
        moves_leader=requested.moves_leader,
        needs_election=requested.needs_election,
        is_last=requested.replicas == goal,
    )


def _can_elect_preferred(current: CurrentAssignment, snapshot: ReassignmentSnapshot) -> bool:
    """Returns whether an election of the preferred leader would succeed now.

    If the preferred leader is down or not in sync, no election is needed: Kafka itself elects it once it is back.
    """
    preferred = current.replicas[0]
    return current.leader != preferred and preferred in current.isr and preferred in snapshot.online


def update_memory(progress: PartitionProgress, memory: PlanMemory, now_ms: int) -> PlanMemory:
    """Returns the memory after a snapshot."""
    unconfirmed = {key: memory.unconfirmed_since_ms.get(key, now_ms) for key in progress.unconfirmed}
    ended = {
        *progress.reached,
        *progress.never_accepted,
        *progress.rolled_back,
        *progress.stopped_externally,
    }
    stuck = {key: step.since_ms for key, step in progress.stuck.items()}
    return PlanMemory(memory.accepted - ended, unconfirmed, memory.all_refused, stuck)
