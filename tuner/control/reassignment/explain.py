"""What holds a plan up, and how many of it run at a time and why, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from streaming.shared.short_lists import join_names, shorten_lines
from tuner.control.reassignment.concurrency_model import ConcurrencyDecision
from tuner.control.reassignment.partition_progress import PartitionProgress, is_recreated
from tuner.control.reassignment.scheduler_model import HeldBy, Schedule
from tuner.core.cluster import BrokerSide, side_name
from tuner.core.reassignment_plan import DesiredPlanState, Plan, ReassignmentSnapshot, TopicPartition
from tuner.core.reassignment_steps import WaitReason

_NAMED = 5
_SIDES = 12


def find_blockers(
    plan: Plan, parts: PartitionProgress, filled: Schedule, paused: str | None, refused: Mapping[TopicPartition, str]
) -> tuple[str, ...]:
    """Nothing where it just goes on.

    Args:
        paused: why no plan goes on; None: plans go on.
        refused: why the last try of a part failed, of whatever plan.
    """
    said = []
    if paused is not None:
        said.append(f"nothing new is begun: {paused}")
    elif plan.head.desired is DesiredPlanState.PAUSED:
        said.append(
            f"paused by {plan.head.ordered_by or plan.head.submitted_by}: nothing new is begun, what is under way ends"
        )
    waits = [w for w in filled.waits if (w.topic, w.partition) in parts.ready]
    offline = [w for w in waits if w.reason is WaitReason.BROKERS_OFFLINE]
    # What is put back may wait for ever.
    way_out = (
        f"; `rheostat reassign cancel {plan.id} --no-rollback` ends the plan where it stands"
        if _rolls_back(plan)
        else ""
    )
    if offline:
        brokers = ", ".join(map(str, sorted({b for w in offline for b in w.brokers})))
        said.append(
            f"{name_partitions([(w.topic, w.partition) for w in offline])}: waiting for brokers that are down: {brokers}{way_out}"
        )
    if parts.stuck:
        down = ", ".join(map(str, sorted({b for each in parts.stuck.values() for b in each.down})))
        said.append(
            f"{name_partitions(list(parts.stuck))}: under way, and cannot end while brokers are down: {down}{way_out}"
        )
    leaderless = [(w.topic, w.partition) for w in waits if w.reason is WaitReason.NO_LEADER]
    if leaderless:
        said.append(f"{name_partitions(leaderless)}: waiting for a leader, as nobody is there to copy from")
    if paused is None and plan.head.desired is not DesiredPlanState.PAUSED:
        said += _refusal_texts(plan, parts, refused)
    if parts.externally_reassigned:
        said.append(f"{name_partitions(parts.externally_reassigned)}: somebody else is reassigning this; waited for")
    if parts.stopped_externally:
        said.append(
            f"{name_partitions(list(parts.stopped_externally))}: somebody stopped the step; left alone until "
            f"`rheostat reassign resume {plan.id}`"
        )
    if parts.dropped:
        said.append(f"{name_partitions(list(parts.dropped))}: not there any more, and no part of the plan from now on")
    said += [held.text for held in filled.impossible if (held.topic, held.partition) in parts.ready][:_NAMED]
    if filled.held.get(HeldBy.PARTITION_LIMIT):
        said.append(
            f"{filled.held[HeldBy.PARTITION_LIMIT]} steps wait for brokers that have as many partitions as they may (limits): "
            f"{', '.join(map(str, sorted(filled.full_brokers)))}{way_out}"
        )
    return tuple(said)


def _rolls_back(plan: Plan) -> bool:
    return plan.head.desired is DesiredPlanState.CANCELLING and not plan.head.no_rollback


def _refusal_texts(plan: Plan, parts: PartitionProgress, refused: Mapping[TopicPartition, str]) -> list[str]:
    """The causes, without numbers: they change with each try, and what has changed is said anew."""
    if not refused:
        return []
    tried = {
        *parts.ready,
        *parts.to_elect,
        *(parts.running if plan.head.desired is DesiredPlanState.CANCELLING else ()),
    }
    by_why: dict[str, list[TopicPartition]] = {}
    for key in sorted(refused.keys() & tried):
        by_why.setdefault(refused[key], []).append(key)
    return [
        f"{name_partitions(keys[:1])}{' and others' if len(keys) > 1 else ''}: not done: {why}; tried again"
        for why, keys in list(by_why.items())[:_NAMED]
    ]


def new_partitions_text(plan: Plan, look: ReassignmentSnapshot) -> tuple[str, ...]:
    """Topics that have got partitions since the plan was given, which nobody moves."""
    then = {
        topic: part.topic for (topic, _), part in plan.partitions.items() if not is_recreated((topic, 0), part, look)
    }
    now = Counter(topic for topic, _ in look.partitions if topic in then)
    more = {topic: now[topic] - known.partition_count for topic, known in then.items() if known.partition_count}
    return tuple(
        f"topic {topic} has {count} partition{'s' if count != 1 else ''} more than when the plan was given: no part of it"
        for topic, count in sorted(more.items())
        if count > 0
    )


def concurrency_text(paced: ConcurrencyDecision) -> tuple[str, ...]:
    """Of the sides that have least first; of many not all."""
    order: list[BrokerSide] = sorted(paced.explanations, key=lambda side: (paced.slots.get(side, 0), side))
    said = [f"{side_name(side).removesuffix(' throttle')}: {paced.explanations[side]}" for side in order]
    return tuple(shorten_lines(said, _SIDES))


def name_partitions(keys: Sequence[TopicPartition]) -> str:
    return join_names((f"{topic}-{number}" for topic, number in sorted(keys)), _NAMED)
