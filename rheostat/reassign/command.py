"""Runs `rheostat reassign start PLAN.json`: checks the plan, submits it, and watches it until it has ended."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rheostat.config.settings import Settings, load_settings
from rheostat.console.confirm import check_can_confirm, confirm
from rheostat.console.interrupt import DeferredCtrlC
from rheostat.console.output import out
from rheostat.errors import EXIT_DONE, EXIT_NOT_ACKNOWLEDGED, EXIT_NOT_WELL, BadInputError, CommandError
from rheostat.orders.send import wrong_cluster_name
from rheostat.plan.generate.report import cordon_text
from rheostat.reassign import plan_store
from rheostat.reassign.checks import CheckResult, check_plan, list_planned, list_transitions
from rheostat.reassign.constraints import PlanConstraints, describe_rate, read_constraints
from rheostat.reassign.embedded_service import EmbeddedService
from rheostat.reassign.interrupted import handle_interrupt, leave_running
from rheostat.reassign.plan_input import (
    PlanChanges,
    PlanClusterState,
    find_changes,
    open_client,
    read_cluster_state,
    read_plan_file,
)
from rheostat.reassign.planned_start import PlannedStart, parse_planned_start, read_planned_start
from rheostat.reassign.progress import PlanProgress, as_record
from rheostat.reassign.step_preview import describe_steps, steps_as_records
from rheostat.reassign.text import state_text
from rheostat.reassign.view import PlanView, print_line, stderr_console
from rheostat.reassign.watch import watch_plan
from streaming.shared.move_order import order_text
from streaming.shared.short_lists import join_names
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import DesiredPlanState, PlanThrottle, TopicPartition
from tuner.runtime.gc_tuning import tune_gc

_RETRY_AFTER_S = 5.0
# An error with an unchanged text is shown again only if watching worked for this long meanwhile.
_REPEAT_ERROR_AFTER_S = 60.0
_TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class ReassignRequest:
    """Arguments and options of the command, as its help explains them."""

    path: Path
    limits: BatchLimits
    may_change_factor: bool = False
    measure_s: float = 10.0  # How long the logs are watched to measure write rates.
    dry_run: bool = False
    detach: bool = False
    standalone: bool = False
    as_json: bool = False
    throttle: PlanThrottle = field(default_factory=PlanThrottle)
    at: str | None = None  # When the plan starts; None: at once.
    yes: bool = False


def run_reassign(config: Path, request: ReassignRequest) -> int:
    """Checks, submits and watches a plan, and returns the exit code.

    Raises:
        BadInputError, CommandError, NotConfirmedError: the plan was not submitted, or it cannot be watched any more.
    """
    tune_gc()
    # The file is read first, because its faults can be reported without a cluster.
    plan = read_plan_file(request.path)
    requested_start = parse_planned_start(request.at, unthrottled=request.throttle.unthrottled)
    settings = load_settings(config)
    if not request.dry_run:
        check_can_confirm(yes=request.yes)
    with open_client(settings) as client:
        topics = {target.topic for target in plan.targets}
        cluster = read_cluster_state(client, settings, topics, request.measure_s, print_line)
    changes = find_changes(plan, cluster)
    if not changes.partitions:
        return _report_no_changes(changes, request)
    stored = plan_store.read_plans(settings)
    constraints = read_constraints(
        settings,
        request.throttle,
        lease_has_members=cluster.tuners != 0,  # If the number is not known (None), a tuner may run.
        standalone=request.standalone,
    )
    result = check_plan(
        changes,
        cluster,
        rate_bytes_per_s_max=constraints.rate_bytes_per_s,
        limits=settings.limits.limits(),
        may_change_factor=request.may_change_factor,
        batch_limits=request.limits,
        active_plans=stored.active,
        effective_leader_ratio=constraints.effective_leader_ratio,
        has_objective=constraints.objective is not None,
    )
    conflicts = _find_conflicts(changes.partitions.keys(), stored)
    start = read_planned_start(settings, requested_start, list_planned(changes, cluster), constraints, result)
    if request.dry_run:
        order = order_text(settings.tuner.first_topics)
        return _dry_run(changes, cluster, result, conflicts, constraints, start, request, order)
    for line in result.notes:
        print_line(line)
    if conflicts:
        raise BadInputError(conflicts[0])
    if result.violations:
        raise CommandError("\n".join([*result.violations, "The plan is not on record, and nothing was started."]))
    if (reason := wrong_cluster_name(settings)) is not None:
        raise BadInputError(reason)
    if request.standalone and not cluster.tuners and settings.tuner.dry_run:
        raise BadInputError(
            "--standalone starts a tuner, and with these settings it would not act: write dry_run: false under tuner:. "
            "Nothing was recorded."
        )
    if constraints.no_executor is not None:
        raise CommandError(constraints.no_executor)
    # A plan without a throttle can slow down all clients, so the operator confirms it by typing a word instead of "y".
    word = "unthrottled" if request.throttle.unthrottled else None
    order = order_text(settings.tuner.first_topics)
    confirm([*_describe_changes(changes, result, constraints), order, *start.lines], yes=request.yes, word=word)
    with EmbeddedService(config if request.standalone else None, other_tuners=cluster.tuners) as service:
        head = plan_store.submit_plan(
            settings,
            changes.partitions,
            request.limits,
            request.throttle,
            start.not_before_ms,
            changes.cordon,
            result.expected_s,
        )
        print_line(
            f"Plan {head.id} is on record: {_count_text(len(changes.partitions), 'partition')}.{start.advice(head.id)}"
        )
        if request.detach or start.not_before_ms:
            return _detach(settings, head.id, head.ordered_at_ms, request)
        return _watch(settings, head.id, service, request)


def _watch(settings: Settings, plan_id: str, service: EmbeddedService, request: ReassignRequest) -> int:
    """Watches the plan, prints how it ended, and returns the exit code."""
    try:
        progress = _watch_to_end(settings, plan_id, service)
    except BaseException:
        # An error also ends the tuner that runs in this command, before the tuner removes its throttles: tell the operator.
        if service.is_running:
            leave_running(plan_id, standalone=True)
        raise
    if isinstance(progress, int):
        return progress
    is_paused = progress.plan.is_active  # The watch ends before the plan only if the operator has paused it.
    advice = " To continue it, run `rheostat reassign resume` while a tuner runs." if is_paused else ""
    print_line(f"Plan {plan_id}: {state_text(progress)}{advice}")
    if request.as_json:
        _print_json(as_record(progress))
    return EXIT_DONE if is_paused or progress.is_well else EXIT_NOT_WELL


def _watch_to_end(settings: Settings, plan_id: str, service: EmbeddedService) -> PlanProgress | int:
    """Watches the plan. Returns its last progress, or the exit code if the operator stops watching with Ctrl-C.

    Raises:
        CommandError: the plan cannot be watched any more. With an embedded service, only if retrying does not help.
    """
    is_ordered = False  # The operator has paused or cancelled the plan, and the command waits until that is done.
    last_error, wait_s = "", 0.0
    while True:
        began_s = time.monotonic()
        try:
            _wait(service, wait_s)
            return _watch_once(settings, plan_id, service, may_pause=is_ordered)
        except KeyboardInterrupt:
            # The operator presses Ctrl-C a second time, so this command no longer waits until the order is carried out.
            if is_ordered:
                return leave_running(plan_id, standalone=service.is_running)
            wait_s = 0.0
            try:
                code = handle_interrupt(settings, plan_id, standalone=service.is_running)
            except CommandError as error:
                # The order failed, or its result is not known. The command watches on, and the operator can press Ctrl-C again.
                print_line(str(error))
                continue
            if code is not None:
                return code
            is_ordered = True
        except CommandError as error:
            # The embedded service is the only executor of the plan. Ending it now would leave its throttles in Kafka.
            if not service.is_running or isinstance(error, BadInputError):
                raise
            if str(error) != last_error or time.monotonic() - began_s > _REPEAT_ERROR_AFTER_S:
                print_line(f"{str(error).rstrip('.')}. Trying again.")
            last_error, wait_s = str(error), _RETRY_AFTER_S


def _wait(service: EmbeddedService, for_s: float) -> None:
    """Waits, and meanwhile restarts processes of the service that have stopped."""
    until_s = time.monotonic() + for_s
    while time.monotonic() < until_s:
        for line in service.check():
            print_line(f"  {line}")
        threading.Event().wait(_TICK_S)


def _watch_once(settings: Settings, plan_id: str, service: EmbeddedService, *, may_pause: bool) -> PlanProgress:
    """Watches until the plan has ended, then until the tuner of this command has removed its throttles.

    Args:
        may_pause: also stop once the plan is paused and no step runs.
    """

    def is_paused(progress: PlanProgress) -> bool:
        plan = progress.plan
        return may_pause and plan.head.desired is DesiredPlanState.PAUSED and not plan.requested

    texts = {}
    if service.is_running:
        texts["unacknowledged_text"] = f"the tuner of this command has not started yet; its log: {service.log}"
    with DeferredCtrlC() as ctrl_c, PlanView(stderr_console()) as view:

        def tick() -> None:
            ctrl_c.check()
            for line in service.check():
                view.print_line(f"  {line}")

        progress = watch_plan(settings, plan_id, view, on_tick=tick, stop_when=is_paused, **texts)
        if service.is_running and plan_store.has_settings_to_restore(settings):
            view.print_line("The tuner is removing its throttles.")
            if not service.wait_for_cleanup(lambda: plan_store.has_settings_to_restore(settings), tick):
                view.print_line("Some throttles are still set: the next active tuner removes them.")
    return progress


def _detach(settings: Settings, plan_id: str, ordered_at_ms: int, request: ReassignRequest) -> int:
    acknowledged = plan_store.wait_until_acknowledged(settings, plan_id, ordered_at_ms)
    if request.as_json:
        _print_json({"plan": plan_id, "acknowledged": acknowledged})
    if not acknowledged:
        print_line(
            "No tuner has acknowledged the plan yet. The next active tuner that executes plans (tuner.reassign.enabled) begins it."
        )
    return EXIT_DONE if acknowledged else EXIT_NOT_ACKNOWLEDGED


def _report_no_changes(changes: PlanChanges, request: ReassignRequest) -> int:
    if request.as_json:
        _print_json({"plan": None, "partitions": 0})
    print_line(
        f"Nothing to move: all {len(changes.targets)} partitions of the plan already have their target replicas."
        f"{' So the plan cordons no broker.' if changes.cordon else ''}"
    )
    return EXIT_DONE


def _describe_changes(changes: PlanChanges, result: CheckResult, constraints: PlanConstraints) -> list[str]:
    """Returns sentences on the partitions that the plan moves, its highest rate and its estimated duration."""
    partitions = changes.partitions
    added = sorted({b for p in partitions.values() for b in p.target if b not in p.original_replicas})
    to_brokers = f" to broker{'s' if len(added) != 1 else ''} {', '.join(map(str, added))}" if added else ""
    topics = {topic for topic, _ in partitions}
    moves = f"{_count_text(len(partitions), 'partition')} of {_count_text(len(topics), 'topic')}"
    cordons = [cordon_text(changes.cordon)] if changes.cordon else []
    return [f"The plan moves {moves}{to_brokers}.", *cordons, *describe_rate(constraints), *result.duration]


def _dry_run(
    changes: PlanChanges,
    cluster: PlanClusterState,
    result: CheckResult,
    conflicts: list[str],
    constraints: PlanConstraints,
    start: PlannedStart,
    request: ReassignRequest,
    order: str,
) -> int:
    """Shows the steps and the checks of the plan, and returns the exit code."""
    violations = [*conflicts, *result.violations]
    transitions = list_transitions(changes, cluster)
    if request.as_json:
        _print_json(
            {
                "partitions": len(changes.partitions),
                "copied_bytes": result.bound.copied_bytes,
                "fluid_optimum_s": result.bound.time_s,
                "expected_s": result.expected_s,
                "all_at_once_s": result.bound.at_once_s,
                "steps": steps_as_records(transitions, request.limits.replica_movements_max),
                "rate_bytes_per_s": constraints.rate_bytes_per_s,
                "ceiling_bytes_per_s": constraints.ceiling_bytes_per_s,
                "objective": constraints.objective,
                "tuner": None if constraints.tuner is None else constraints.tuner.holder,
                "limits_source": constraints.source,
                "differences": list(constraints.differences),
                "forbidden": violations,
                "order": order,
                "cordon": list(changes.cordon),
                "notes": list(result.notes),
                "start": start.record(),
            }
        )
    else:
        for line in describe_steps(transitions, request.limits.replica_movements_max):
            out(line)
        forbidden = (f"Forbidden: {line}" for line in violations)
        lines = _describe_changes(changes, result, constraints)
        for line in (*lines, order, *start.lines, *result.notes, *forbidden):
            print_line(line)
        if constraints.no_executor is not None:
            print_line(constraints.no_executor)
    print_line("Dry run: the plan is not on record, and nothing was started.")
    return EXIT_NOT_WELL if violations else EXIT_DONE


def _find_conflicts(keys: Collection[TopicPartition], stored: plan_store.StoredPlans) -> list[str]:
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


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"


def _print_json(record: dict[str, Any]) -> None:
    out(json.dumps(record, indent=2))
