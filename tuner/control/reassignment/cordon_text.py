"""Writes sentences about the effect of cordons on a plan: steps that wait, and replicas that a drained broker still has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streaming.shared.contract import TopicPartition
from tuner.control.reassignment.explain import name_partitions
from tuner.control.reassignment.partition_progress import PartitionProgress
from tuner.core.cordon_state import CordonState
from tuner.core.reassignment_plan import DesiredPlanState, Plan, ReassignmentSnapshot


def partitions_by_cordoned_target(
    progress: PartitionProgress, cordoned: frozenset[int]
) -> dict[int, tuple[TopicPartition, ...]]:
    """Returns, by cordoned broker, the partitions whose steps wait or are stopped because they add a replica on this broker."""
    held_by_broker = {}
    for broker in sorted(cordoned):
        waiting = [key for key, t in progress.ready.items() if broker in t.target and broker not in t.replicas]
        stopped = [key for key, step in progress.running.items() if broker in step.adding]
        if waiting or stopped:
            held_by_broker[broker] = (*waiting, *stopped)
    return held_by_broker


def cordon_texts(
    plan: Plan, held_by_broker: Mapping[int, Sequence[TopicPartition]], cordons: CordonState, now_ms: int
) -> tuple[str, ...]:
    """Returns a sentence for each cordoned broker for which steps wait, and for a cordon that the plan orders but is not set yet.

    Args:
        held_by_broker: the result of ``partitions_by_cordoned_target``.
    """
    texts = []
    head = plan.head
    if head.desired is DesiredPlanState.RUNNING and head.may_start_steps(now_ms):
        waits = cordons.wait_text(head)
        texts += [waits] if waits is not None else []
    for broker, held in held_by_broker.items():
        advice = f"lift the cordon, or run `rheostat reassign cancel {plan.id}`"
        if head.desired is DesiredPlanState.CANCELLING:
            advice = f"lift the cordon, or run `rheostat reassign cancel {plan.id} --no-rollback`"
        texts.append(f"{name_partitions(held)}: broker {broker} is cordoned, so no step adds a replica there: {advice}")
    return tuple(texts)


def left_texts(plan: Plan, snapshot: ReassignmentSnapshot) -> tuple[str, ...]:
    """Returns a sentence for each broker that the plan has cordoned and that still has replicas.

    Args:
        snapshot: the assignments of all topics of the cluster.
    """
    texts = []
    for broker in plan.head.cordon:
        left = [key for key, current in snapshot.partitions.items() if broker in current.replicas]
        if left:
            texts.append(
                f"broker {broker} still has replicas that the plan did not move: {name_partitions(left)}. Generate another plan "
                f"with `rheostat plan generate --drain-broker {broker}`"
            )
    return tuple(texts)
