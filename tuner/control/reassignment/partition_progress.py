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
    DesiredPlanState,
    Key,
    PartitionNow,
    Plan,
    PlanPartition,
    ReassignmentSnapshot,
    RequestedStep,
)
from tuner.core.reassignment_steps import PartitionTransition, ReassignmentStep, StepReason

SHOWN_S_MAX = 20.0  # A broker hears of a change within a second or so, also in a storm.


@dataclass(frozen=True, slots=True)
class Recent:
    """What one life of a tuner knows; a new one does without."""

    taken: frozenset[Key] = frozenset()  # Steps that Kafka has said to have taken.
    unclear_since_ms: Mapping[Key, int] = field(default_factory=dict)  # Neither under way nor reached, or not there.
    refused: bool = False  # Of the steps that were asked for last none was taken.
    stuck_since_ms: Mapping[Key, int] = field(default_factory=dict)  # Steps under way that need a broker that is down.


class Stuck(NamedTuple):
    since_ms: int
    down: frozenset[int]  # Brokers that the step needs.


@dataclass(slots=True)
class PartitionProgress:
    """The parts of one plan. Each is in one of these, those in ``reached`` and ``ready`` in both, and ``stuck`` run."""

    arrived: list[Key] = field(default_factory=list)
    running: dict[Key, ReassignmentStep] = field(default_factory=dict)
    stuck: dict[Key, Stuck] = field(default_factory=dict)  # Of those, which need a broker that is down.
    ready: dict[Key, PartitionTransition] = field(default_factory=dict)
    reached: list[Key] = field(default_factory=list)  # Whose step has ended as asked.
    to_elect: list[Key] = field(default_factory=list)  # Reached, but for the leader.
    never_taken: list[Key] = field(default_factory=list)  # Asked for by one that died before Kafka took it.
    put_back: list[Key] = field(default_factory=list)  # Whose step was stopped, as is wanted.
    unclear: list[Key] = field(default_factory=list)
    foreign: list[Key] = field(default_factory=list)
    left: dict[Key, str] = field(default_factory=dict)
    dropped: dict[Key, str] = field(default_factory=dict)


def stand(
    plan: Plan, look: ReassignmentSnapshot, recent: Recent, now_ms: int, taken: Collection[Key] = frozenset()
) -> PartitionProgress:
    """
    Args:
        taken: partitions that an older plan has.
    """
    found = PartitionProgress(left=dict(plan.state.left), dropped=dict(plan.state.dropped))
    for key, part in plan.parts.items():
        if key in taken and key not in plan.asked:
            (found.arrived if plan.head.wanted is DesiredPlanState.CANCELLING else found.foreign).append(key)
        elif key not in found.dropped:
            _stand(key, part, plan, look, recent, now_ms, found)
    return found


def _stand(
    key: Key,
    part: PlanPartition,
    plan: Plan,
    look: ReassignmentSnapshot,
    recent: Recent,
    now_ms: int,
    found: PartitionProgress,
) -> None:
    now, asked = look.partitions.get(key), plan.asked.get(key)
    late = now_ms - recent.unclear_since_ms.get(key, now_ms) > SHOWN_S_MAX * 1000
    if is_another(key, part, look):
        # A broker that is behind still tells of the topic before.
        if late:
            found.dropped[key] = "its topic was deleted and made anew: this is another of its name"
        else:
            found.unclear.append(key)
        return
    if now is None:
        if late:
            found.dropped[key] = "it is not there any more: its topic was deleted, or made anew with fewer partitions"
        else:
            found.unclear.append(key)
    elif now.under_way:
        if asked is not None and now.aimed_at == frozenset(asked.replicas):
            found.running[key] = running_step(key, asked, now, plan.goal(part))
            if down := _needed(asked, now, look) - look.online:
                found.stuck[key] = Stuck(recent.stuck_since_ms.get(key, now_ms), frozenset(down))
        elif plan.head.leaves:
            found.arrived.append(key)
        else:
            found.foreign.append(key)
    elif asked is None or asked.replicas == now.replicas:
        # Of a plan that is put back nobody asks for an election, so none is waited for.
        cancelling = plan.head.wanted is DesiredPlanState.CANCELLING
        if asked is not None and asked.elect and not cancelling and _may_be_elected(now, look):
            found.to_elect.append(key)
            return
        if asked is not None:
            found.reached.append(key)
        _settled(key, part, now, plan, look, found)
    # Of a step that was stopped Kafka keeps what stood before it, not always in that order.
    elif not late and not (asked.cancels and {*asked.since} == {*now.replicas}):
        found.unclear.append(key)
    elif plan.head.wanted is DesiredPlanState.CANCELLING:
        found.put_back.append(key)
        _settled(key, part, now, plan, look, found)
    elif key in recent.taken:
        found.left[key] = "somebody stopped its step"
    else:
        found.never_taken.append(key)
        _settled(key, part, now, plan, look, found)


def _needed(asked: RequestedStep, now: PartitionNow, look: ReassignmentSnapshot) -> set[int]:
    """Brokers without which the step does not end."""
    copied_from = {*now.isr} & look.online if now.leader in look.online else set()
    return {*asked.replicas} if copied_from else {*asked.replicas, *now.isr, *({now.leader} if now.leader >= 0 else ())}


def is_another(key: Key, part: PlanPartition, look: ReassignmentSnapshot) -> bool:
    """Whether a topic of the same name is there that is not the one of the plan."""
    there = look.topic_ids.get(key[0], "")
    return bool(part.topic.id and there) and there != part.topic.id


def _settled(
    key: Key, part: PlanPartition, now: PartitionNow, plan: Plan, look: ReassignmentSnapshot, found: PartitionProgress
) -> None:
    """Nothing is under way there, and how the last step ended is known."""
    goal = plan.goal(part)
    if plan.head.leaves:
        found.arrived.append(key)
        return
    # Who cancels a plan keeps what has been copied to the end.
    # What is on a broker of neither, somebody else has moved, or made anew: that is not ours to put back.
    cancelling = plan.head.wanted is DesiredPlanState.CANCELLING
    others = not {*now.replicas} <= {*part.before, *part.target}
    # Nor is another number of replicas ours to take away: the check before the start was made for those that stood then.
    if others and not cancelling and len(now.replicas) not in (len(part.before), len(part.target)):
        found.dropped[key] = (
            f"it has {len(now.replicas)} replicas now, on other brokers: its topic was made anew, or it was given others"
        )
    elif (others and cancelling) or now.replicas in (goal, part.target if cancelling else goal):
        found.arrived.append(key)
    elif key not in found.left:
        found.ready[key] = way_of(key, goal, now, look)


def way_of(key: Key, goal: tuple[int, ...], now: PartitionNow, look: ReassignmentSnapshot) -> PartitionTransition:
    topic, number = key
    least = look.min_in_sync.get(topic, 1)
    # More than the partition is meant to have can't be asked of it.
    return PartitionTransition(topic, number, now.replicas, goal, now.leader, frozenset(now.isr), min(least, len(goal)))


def running_step(key: Key, asked: RequestedStep, now: PartitionNow, goal: tuple[int, ...]) -> ReassignmentStep:
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
        elect=asked.elect,
        last=asked.replicas == goal,
    )


def _may_be_elected(now: PartitionNow, look: ReassignmentSnapshot) -> bool:
    """A preferred leader that is down or not in sync is not waited for: Kafka elects it by itself once it is back."""
    first = now.replicas[0]
    return now.leader != first and first in now.isr and first in look.online


def remembered(parts: PartitionProgress, recent: Recent, now_ms: int) -> Recent:
    """What this life knows after a look."""
    unclear = {key: recent.unclear_since_ms.get(key, now_ms) for key in parts.unclear}
    over = {*parts.reached, *parts.never_taken, *parts.put_back, *parts.left}
    stuck = {key: each.since_ms for key, each in parts.stuck.items()}
    return Recent(recent.taken - over, unclear, recent.refused, stuck)
