"""How each part of a plan stands: arrived, under way, ready for its next step, or waiting for somebody.

Intuition: the cluster knows best. A part is looked at as it stands now, against where it is going and what was last asked for,
and nothing else is remembered; so it makes no difference whether the tuner that asked is the one that looks.

    under way, as asked for          running; stuck, if a broker is down that it needs: one to copy from, and all that it would
                                     leave, as Kafka ends a step once these are in sync
    under way, otherwise             somebody else's; waited for
    not under way, asked for         reached; or not yet shown; or, after a while, stopped by somebody or never taken
    not under way, nothing asked     arrived, or ready
    of another topic of this name    after a while dropped, whatever is under way there

Invariant: nothing is asked for where a reassignment is under way, ours or another's, nor where it is not known how one ended.

What a broker tells of replicas may be older than what the controller tells of reassignments. So a step that is neither under
way nor reached has a while to show; and a partition that is not there has the same while to come back.
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

SHOWN_S_MAX = 20.0  # A broker hears of a change within a second or so, also in a storm.


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """What one life of a tuner knows; a new one does without."""

    accepted: frozenset[TopicPartition] = frozenset()  # Steps that Kafka has said to have taken.
    unconfirmed_since_ms: Mapping[TopicPartition, int] = field(
        default_factory=dict
    )  # Neither under way nor reached, or not there.
    all_refused: bool = False  # Of the steps that were asked for last none was taken.
    stuck_since_ms: Mapping[TopicPartition, int] = field(
        default_factory=dict
    )  # Steps under way that need a broker that is down.


class StuckStep(NamedTuple):
    since_ms: int
    down: frozenset[int]  # Brokers that the step needs.


@dataclass(slots=True)
class PartitionProgress:
    """The parts of one plan. Each is in one of these, those in ``reached`` and ``ready`` in both, and ``stuck`` run."""

    arrived: list[TopicPartition] = field(default_factory=list)
    running: dict[TopicPartition, ReassignmentStep] = field(default_factory=dict)
    stuck: dict[TopicPartition, StuckStep] = field(default_factory=dict)  # Of those, which need a broker that is down.
    ready: dict[TopicPartition, PartitionTransition] = field(default_factory=dict)
    reached: list[TopicPartition] = field(default_factory=list)  # Whose step has ended as asked.
    to_elect: list[TopicPartition] = field(default_factory=list)  # Reached, but for the leader.
    never_accepted: list[TopicPartition] = field(
        default_factory=list
    )  # Asked for by one that died before Kafka took it.
    rolled_back: list[TopicPartition] = field(default_factory=list)  # Whose step was stopped, as is wanted.
    unconfirmed: list[TopicPartition] = field(default_factory=list)
    externally_reassigned: list[TopicPartition] = field(default_factory=list)
    stopped_externally: dict[TopicPartition, str] = field(default_factory=dict)
    dropped: dict[TopicPartition, str] = field(default_factory=dict)


def classify_partitions(
    plan: Plan,
    look: ReassignmentSnapshot,
    recent: PlanMemory,
    now_ms: int,
    taken: Collection[TopicPartition] = frozenset(),
) -> PartitionProgress:
    """
    Args:
        taken: partitions that an older plan has.
    """
    found = PartitionProgress(stopped_externally=dict(plan.state.stopped_externally), dropped=dict(plan.state.dropped))
    for key, part in plan.partitions.items():
        if key in taken and key not in plan.requested:
            (found.arrived if plan.head.desired is DesiredPlanState.CANCELLING else found.externally_reassigned).append(
                key
            )
        elif key not in found.dropped:
            _classify(key, part, plan, look, recent, now_ms, found)
    return found


def _classify(
    key: TopicPartition,
    part: PlanPartition,
    plan: Plan,
    look: ReassignmentSnapshot,
    recent: PlanMemory,
    now_ms: int,
    found: PartitionProgress,
) -> None:
    now, asked = look.partitions.get(key), plan.requested.get(key)
    late = now_ms - recent.unconfirmed_since_ms.get(key, now_ms) > SHOWN_S_MAX * 1000
    if is_recreated(key, part, look):
        # A broker that is behind still tells of the topic before.
        if late:
            found.dropped[key] = "its topic was deleted and made anew: this is another of its name"
        else:
            found.unconfirmed.append(key)
        return
    if now is None:
        if late:
            found.dropped[key] = "it is not there any more: its topic was deleted, or made anew with fewer partitions"
        else:
            found.unconfirmed.append(key)
    elif now.is_reassigning:
        if asked is not None and now.target_replicas == frozenset(asked.replicas):
            found.running[key] = running_step(key, asked, now, plan.goal(part))
            if down := _required_brokers(asked, now, look) - look.online:
                found.stuck[key] = StuckStep(recent.stuck_since_ms.get(key, now_ms), frozenset(down))
        elif plan.head.no_rollback:
            found.arrived.append(key)
        else:
            found.externally_reassigned.append(key)
    elif asked is None or asked.replicas == now.replicas:
        # Of a plan that is put back nobody asks for an election, so none is waited for.
        cancelling = plan.head.desired is DesiredPlanState.CANCELLING
        if asked is not None and asked.needs_election and not cancelling and _can_elect_preferred(now, look):
            found.to_elect.append(key)
            return
        if asked is not None:
            found.reached.append(key)
        _classify_idle(key, part, now, plan, look, found)
    # Of a step that was stopped Kafka keeps what stood before it, not always in that order.
    elif not late and not (asked.cancel_requested and {*asked.replicas_before} == {*now.replicas}):
        found.unconfirmed.append(key)
    elif plan.head.desired is DesiredPlanState.CANCELLING:
        found.rolled_back.append(key)
        _classify_idle(key, part, now, plan, look, found)
    elif key in recent.accepted:
        found.stopped_externally[key] = "somebody stopped its step"
    else:
        found.never_accepted.append(key)
        _classify_idle(key, part, now, plan, look, found)


def _required_brokers(asked: RequestedStep, now: CurrentAssignment, look: ReassignmentSnapshot) -> set[int]:
    """Brokers without which the step does not end."""
    copied_from = {*now.isr} & look.online if now.leader in look.online else set()
    return {*asked.replicas} if copied_from else {*asked.replicas, *now.isr, *({now.leader} if now.leader >= 0 else ())}


def is_recreated(key: TopicPartition, part: PlanPartition, look: ReassignmentSnapshot) -> bool:
    """Whether a topic of the same name is there that is not the one of the plan."""
    there = look.topic_ids.get(key[0], "")
    return bool(part.topic.id and there) and there != part.topic.id


def _classify_idle(
    key: TopicPartition,
    part: PlanPartition,
    now: CurrentAssignment,
    plan: Plan,
    look: ReassignmentSnapshot,
    found: PartitionProgress,
) -> None:
    """Nothing is under way there, and how the last step ended is known."""
    goal = plan.goal(part)
    if plan.head.no_rollback:
        found.arrived.append(key)
        return
    # Who cancels a plan keeps what has been copied to the end.
    # What is on a broker of neither, somebody else has moved, or made anew: that is not ours to put back.
    cancelling = plan.head.desired is DesiredPlanState.CANCELLING
    others = not {*now.replicas} <= {*part.original_replicas, *part.target}
    # Nor is another number of replicas ours to take away: the check before the start was made for those that stood then.
    if others and not cancelling and len(now.replicas) not in (len(part.original_replicas), len(part.target)):
        found.dropped[key] = (
            f"it has {len(now.replicas)} replicas now, on other brokers: its topic was made anew, or it was given others"
        )
    elif (others and cancelling) or now.replicas in (goal, part.target if cancelling else goal):
        found.arrived.append(key)
    elif key not in found.stopped_externally:
        found.ready[key] = transition_of(key, goal, now, look)


def transition_of(
    key: TopicPartition, goal: tuple[int, ...], now: CurrentAssignment, look: ReassignmentSnapshot
) -> PartitionTransition:
    topic, number = key
    least = look.min_in_sync.get(topic, 1)
    # More than the partition is meant to have can't be asked of it.
    return PartitionTransition(topic, number, now.replicas, goal, now.leader, frozenset(now.isr), min(least, len(goal)))


def running_step(
    key: TopicPartition, asked: RequestedStep, now: CurrentAssignment, goal: tuple[int, ...]
) -> ReassignmentStep:
    """The step under way, as the cluster shows it."""
    topic, number = key
    return ReassignmentStep(
        topic,
        number,
        asked.replicas,
        now.adding,
        now.removing,
        StepReason.REPLICAS,
        moves_leader=asked.moves_leader,
        needs_election=asked.needs_election,
        is_last=asked.replicas == goal,
    )


def _can_elect_preferred(now: CurrentAssignment, look: ReassignmentSnapshot) -> bool:
    """A preferred leader that is down or not in sync is not waited for: Kafka elects it by itself once it is back."""
    first = now.replicas[0]
    return now.leader != first and first in now.isr and first in look.online


def update_memory(parts: PartitionProgress, recent: PlanMemory, now_ms: int) -> PlanMemory:
    """What this life knows after a look."""
    unclear = {key: recent.unconfirmed_since_ms.get(key, now_ms) for key in parts.unconfirmed}
    over = {*parts.reached, *parts.never_accepted, *parts.rolled_back, *parts.stopped_externally}
    stuck = {key: each.since_ms for key, each in parts.stuck.items()}
    return PlanMemory(recent.accepted - over, unclear, recent.all_refused, stuck)
