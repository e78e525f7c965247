"""Writes sentences about the causes that block a plan, and about the number of partitions that are copied at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from streaming.shared.short_lists import join_names, shorten_lines
from tuner.control.reassignment.concurrency_model import ConcurrencyDecision
from tuner.control.reassignment.partition_progress import PartitionProgress, is_recreated
from tuner.control.reassignment.scheduler_model import HeldBy, Schedule
from tuner.core.cluster import BrokerSide, side_name
from tuner.core.reassignment_plan import DesiredPlanState, Plan, ReassignmentSnapshot, TopicPartition
from tuner.core.reassignment_steps import WaitReason
from tuner.core.vetoes import Veto, vetoes_text

_NAMES_MAX = 5
_SIDES_MAX = 12


def find_blockers(
    plan: Plan,
    progress: PartitionProgress,
    schedule: Schedule,
    pause_reason: str | None,
    refusals: Mapping[TopicPartition, str],
    vetoes: Sequence[Veto] = (),
) -> tuple[str, ...]:
    """Returns a sentence for each cause that blocks partitions of the plan; empty if nothing blocks it.

    Args:
        pause_reason: why no plan starts steps; None: plans continue.
        refusals: why the last request for a partition failed, for partitions of all plans.
        vetoes: external checks that veto now.
    """
    texts = []
    if pause_reason is not None:
        texts.append(f"no new step starts: {pause_reason}")
    elif plan.head.desired is DesiredPlanState.PAUSED:
        texts.append(
            f"paused by {plan.head.ordered_by or plan.head.submitted_by}: no new step starts, but steps in progress continue to "
            "their end"
        )
    elif vetoes and any(not transition.is_below_min_in_sync for transition in progress.ready.values()):
        texts.append(f"no new step starts, except for partitions below min.insync.replicas: {vetoes_text(vetoes)}")
    texts += _offline_texts(plan, progress, schedule)
    if pause_reason is None and plan.head.desired is not DesiredPlanState.PAUSED:
        texts += _refusal_texts(plan, progress, refusals)
    if progress.externally_reassigned:
        names = name_partitions(progress.externally_reassigned)
        texts.append(f"{names}: another tool's reassignment is in progress; the plan waits until it has ended")
    if progress.stopped_externally:
        names = name_partitions(list(progress.stopped_externally))
        texts.append(
            f"{names}: another tool stopped the step; the plan does not start it again until `rheostat reassign resume {plan.id}`"
        )
    if progress.dropped:
        texts.append(
            f"{name_partitions(list(progress.dropped))}: no longer part of the plan, because the partition no longer exists"
        )
    texts += [held.text for held in schedule.impossible if (held.topic, held.partition) in progress.ready][:_NAMES_MAX]
    if schedule.held.get(HeldBy.PARTITION_LIMIT):
        brokers = _name_brokers(schedule.full_brokers)
        count = schedule.held[HeldBy.PARTITION_LIMIT]
        texts.append(
            f"{count} steps wait for brokers that are at their partition limit: {brokers}{_no_rollback_advice(plan)}"
        )
    return tuple(texts)


def _offline_texts(plan: Plan, progress: PartitionProgress, schedule: Schedule) -> list[str]:
    texts = []
    waits = [wait for wait in schedule.waits if (wait.topic, wait.partition) in progress.ready]
    offline = [wait for wait in waits if wait.reason is WaitReason.BROKERS_OFFLINE]
    if offline:
        down = set[int]().union(*(wait.brokers for wait in offline))
        names = name_partitions([(wait.topic, wait.partition) for wait in offline])
        texts.append(f"{names}: waiting for brokers that are down: {_name_brokers(down)}{_no_rollback_advice(plan)}")
    if progress.stuck:
        down = set[int]().union(*(stuck.down for stuck in progress.stuck.values()))
        names = name_partitions(list(progress.stuck))
        advice = _no_rollback_advice(plan)
        texts.append(f"{names}: in progress, and cannot end while brokers are down: {_name_brokers(down)}{advice}")
    leaderless = [(wait.topic, wait.partition) for wait in waits if wait.reason is WaitReason.NO_LEADER]
    if leaderless:
        texts.append(f"{name_partitions(leaderless)}: waiting for a leader to copy from")
    return texts


def _no_rollback_advice(plan: Plan) -> str:
    """Returns advice for a plan that is being rolled back, because its original brokers may never return; else an empty text."""
    if plan.head.desired is not DesiredPlanState.CANCELLING or plan.head.no_rollback:
        return ""
    return f"; `rheostat reassign cancel {plan.id} --no-rollback` ends the plan without a rollback"


def _refusal_texts(plan: Plan, progress: PartitionProgress, refusals: Mapping[TopicPartition, str]) -> list[str]:
    """Returns a sentence for each cause of refused requests.

    The sentences contain no counts: a count changes with every attempt, and each new sentence would be logged.
    """
    if not refusals:
        return []
    stopping = progress.running if plan.head.desired is DesiredPlanState.CANCELLING else ()
    tried = {*progress.ready, *progress.to_elect, *stopping}
    by_cause: dict[str, list[TopicPartition]] = {}
    for key in sorted(refusals.keys() & tried):
        by_cause.setdefault(refusals[key], []).append(key)
    return [
        f"{name_partitions(keys[:1])}{' and others' if len(keys) > 1 else ''}: the last request failed: {cause}; "
        "the tuner tries again"
        for cause, keys in list(by_cause.items())[:_NAMES_MAX]
    ]


def new_partitions_text(plan: Plan, snapshot: ReassignmentSnapshot) -> tuple[str, ...]:
    """Returns a sentence for each topic that has got partitions since the plan was submitted; no plan moves them."""
    # A topic that was created again is another topic, so its partitions are not compared.
    originals = {
        topic: partition.topic
        for (topic, _), partition in plan.partitions.items()
        if not is_recreated((topic, 0), partition, snapshot)
    }
    counts = Counter(topic for topic, _ in snapshot.partitions if topic in originals)
    added = {
        topic: counts[topic] - original.partition_count
        for topic, original in originals.items()
        if original.partition_count
    }
    return tuple(
        f"topic {topic} has {count} more partition{'s' if count != 1 else ''} than when the plan was submitted; "
        "the plan does not move them"
        for topic, count in sorted(added.items())
        if count > 0
    )


def concurrency_text(concurrency: ConcurrencyDecision) -> tuple[str, ...]:
    """Returns a sentence for each side, fewest slots first; shortened if there are many sides."""
    order: list[BrokerSide] = sorted(concurrency.explanations, key=lambda side: (concurrency.slots.get(side, 0), side))
    texts = [f"{side_name(side).removesuffix(' throttle')}: {concurrency.explanations[side]}" for side in order]
    return tuple(shorten_lines(texts, _SIDES_MAX))


def _name_brokers(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))


def name_partitions(keys: Sequence[TopicPartition]) -> str:
    return join_names((f"{topic}-{number}" for topic, number in sorted(keys)), _NAMES_MAX)
