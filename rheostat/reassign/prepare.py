"""Prepares a plan: reads the cluster, checks the plan, and forecasts its start and end. Changes nothing.

`rheostat reassign start` and the status page both use this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from rheostat.config.settings import Settings
from rheostat.plan.generate.report import cordon_text
from rheostat.reassign import plan_store
from rheostat.reassign.checks import CheckResult, check_plan, list_planned
from rheostat.reassign.constraints import PlanConstraints, describe_rate, read_constraints
from rheostat.reassign.plan_input import PlanChanges, PlanClusterState, find_changes, open_client, read_cluster_state
from rheostat.reassign.planned_start import PlannedStart, read_planned_start
from rheostat.start_times import RequestedStart
from streaming.shared.short_lists import join_names
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import PlanThrottle, TopicPartition
from tuner.planning.plan_file import PlanFile


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The operator's options for a plan.

    Attributes:
        measure_s: how long the logs are watched to measure write rates; 0 means that the rates come from the signals.
        standalone: whether the command starts a tuner if no tuner is active.
    """

    limits: BatchLimits = field(default_factory=BatchLimits)
    throttle: PlanThrottle = field(default_factory=PlanThrottle)
    may_change_factor: bool = False
    measure_s: float = 0.0
    standalone: bool = False


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan with all facts that an operator needs to decide about it.

    Attributes:
        conflicts: sentences on active plans that already move a partition of this plan.
    """

    changes: PlanChanges
    cluster: PlanClusterState
    constraints: PlanConstraints
    result: CheckResult
    conflicts: list[str]
    start: PlannedStart


class NothingToMove(Exception):
    """All partitions of the plan already have their target replicas. The text says so."""


def prepare_plan(
    settings: Settings,
    plan: PlanFile,
    requested_start: RequestedStart | None,
    notify: Callable[[str], None],
    options: PlanOptions,
) -> PreparedPlan:
    """Returns the checked plan with its forecast.

    Args:
        requested_start: the requested start; None means at once, without a forecast.
        notify: shows a line to the operator.

    Raises:
        NothingToMove: the plan changes nothing.
        BadInputError: the plan does not fit the cluster, or no start is the best.
        CommandError, UnreachableError: the cluster cannot be read.
    """
    with open_client(settings) as client:
        topics = {target.topic for target in plan.targets}
        cluster = read_cluster_state(client, settings, topics, options.measure_s, notify)
    changes = find_changes(plan, cluster)
    if not changes.partitions:
        raise NothingToMove(
            f"Nothing to move: all {len(changes.targets)} partitions of the plan already have their target replicas."
            f"{' So the plan cordons no broker.' if changes.cordon else ''}"
        )
    stored = plan_store.read_plans(settings)
    constraints = read_constraints(
        settings,
        options.throttle,
        lease_has_members=cluster.tuners != 0,  # If the number is not known (None), a tuner may run.
        standalone=options.standalone,
    )
    result = check_plan(
        changes,
        cluster,
        rate_bytes_per_s_max=constraints.rate_bytes_per_s,
        limits=settings.limits.limits(),
        may_change_factor=options.may_change_factor,
        batch_limits=options.limits,
        active_plans=stored.active,
        effective_leader_ratio=constraints.effective_leader_ratio,
        has_objective=constraints.objective is not None,
    )
    conflicts = find_conflicts(changes.partitions.keys(), stored)
    start = read_planned_start(settings, requested_start, list_planned(changes, cluster), constraints, result)
    return PreparedPlan(changes, cluster, constraints, result, conflicts, start)


def describe_changes(changes: PlanChanges, result: CheckResult, constraints: PlanConstraints) -> list[str]:
    """Returns sentences on the partitions that the plan moves, its highest rate and its estimated duration."""
    partitions = changes.partitions
    added = sorted({b for p in partitions.values() for b in p.target if b not in p.original_replicas})
    to_brokers = f" to broker{'s' if len(added) != 1 else ''} {', '.join(map(str, added))}" if added else ""
    topics = {topic for topic, _ in partitions}
    moves = f"{count_text(len(partitions), 'partition')} of {count_text(len(topics), 'topic')}"
    cordons = [cordon_text(changes.cordon)] if changes.cordon else []
    return [f"The plan moves {moves}{to_brokers}.", *cordons, *describe_rate(constraints), *result.duration]


def find_conflicts(keys: Collection[TopicPartition], stored: plan_store.StoredPlans) -> list[str]:
    """Returns a sentence for each active plan that already moves one of the partitions ``keys``."""
    texts = []
    for plan in stored.active:
        shared = sorted(key for key in plan.partitions if key in keys)
        if shared:
            names = join_names((f"{topic}-{number}" for topic, number in shared), 1)
            texts.append(
                f"plan {plan.id}, submitted by {plan.head.submitted_by}, already has {names}: wait until it ends, or run "
                f"`rheostat reassign cancel {plan.id}`"
            )
    return texts


def count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"
