"""Runs `rheostat reassign start PLAN.json`: checks the plan, submits it, and watches it until it has ended."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rheostat.config.settings import Settings, load_settings
from rheostat.console.confirm import check_can_confirm, confirm
from rheostat.console.interrupt import DeferredCtrlC
from rheostat.console.output import out
from rheostat.errors import EXIT_DONE, EXIT_NOT_ACKNOWLEDGED, EXIT_NOT_WELL, BadInputError, CommandError
from rheostat.orders.send import wrong_cluster_name
from rheostat.reassign import plan_store
from rheostat.reassign.checks import list_transitions
from rheostat.reassign.embedded_service import EmbeddedService
from rheostat.reassign.interrupted import handle_interrupt, leave_running
from rheostat.reassign.plan_input import read_plan_file
from rheostat.reassign.planned_start import parse_planned_start
from rheostat.reassign.prepare import (
    NothingToMove,
    PlanOptions,
    PreparedPlan,
    count_text,
    describe_changes,
    prepare_plan,
)
from rheostat.reassign.progress import PlanProgress, as_record
from rheostat.reassign.step_preview import describe_steps, steps_as_records
from rheostat.reassign.text import state_text
from rheostat.reassign.view import PlanView, print_line, stderr_console
from rheostat.reassign.watch import watch_plan
from streaming.shared.move_order import order_text
from tuner.core.batch_limits import BatchLimits
from tuner.core.reassignment_plan import DesiredPlanState, PlanThrottle
from tuner.runtime.gc_tuning import tune_gc

_RETRY_AFTER_S = 5.0
# An error with the same text as the last error is shown again only if watching worked for this time in between.
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
    at: str | None = None  # When the plan starts; None means at once.
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
    try:
        prepared = prepare_plan(
            settings,
            plan,
            requested_start,
            print_line,
            PlanOptions(
                request.limits, request.throttle, request.may_change_factor, request.measure_s, request.standalone
            ),
        )
    except NothingToMove as finding:
        return _report_no_changes(finding, request)
    changes, result, constraints, start = prepared.changes, prepared.result, prepared.constraints, prepared.start
    if request.dry_run:
        return _dry_run(prepared, request, order_text(settings.tuner.first_topics))
    for line in result.notes:
        print_line(line)
    if prepared.conflicts:
        raise BadInputError(prepared.conflicts[0])
    if result.violations:
        raise CommandError("\n".join([*result.violations, "The plan is not on record, and nothing was started."]))
    if (reason := wrong_cluster_name(settings)) is not None:
        raise BadInputError(reason)
    if request.standalone and not prepared.cluster.tuners and settings.tuner.dry_run:
        raise BadInputError(
            "--standalone starts a tuner, but these settings keep the tuner from acting: write dry_run: false under tuner:. "
            "Nothing was recorded."
        )
    if constraints.no_executor is not None:
        raise CommandError(constraints.no_executor)
    # A plan without a throttle can slow down all clients, so the operator confirms it by typing a word instead of "y".
    word = "unthrottled" if request.throttle.unthrottled else None
    order = order_text(settings.tuner.first_topics)
    confirm([*describe_changes(changes, result, constraints), order, *start.lines], yes=request.yes, word=word)
    with EmbeddedService(config if request.standalone else None, other_tuners=prepared.cluster.tuners) as service:
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
            f"Plan {head.id} is on record: {count_text(len(changes.partitions), 'partition')}.{start.advice(head.id)}"
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
    # Whether the operator has paused or cancelled the plan, so that the command waits until that is done.
    is_ordered = False
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
        may_pause: whether to stop also when the plan is paused and no step runs.
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


def _report_no_changes(finding: NothingToMove, request: ReassignRequest) -> int:
    if request.as_json:
        _print_json({"plan": None, "partitions": 0})
    print_line(str(finding))
    return EXIT_DONE


def _dry_run(prepared: PreparedPlan, request: ReassignRequest, order: str) -> int:
    """Shows the steps and the checks of the plan, and returns the exit code."""
    changes, result, constraints, start = prepared.changes, prepared.result, prepared.constraints, prepared.start
    violations = [*prepared.conflicts, *result.violations]
    transitions = list_transitions(changes, prepared.cluster)
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
        lines = describe_changes(changes, result, constraints)
        for line in (*lines, order, *start.lines, *result.notes, *forbidden):
            print_line(line)
        if constraints.no_executor is not None:
            print_line(constraints.no_executor)
    print_line("Dry run: the plan is not on record, and nothing was started.")
    return EXIT_NOT_WELL if violations else EXIT_DONE


def _print_json(record: dict[str, Any]) -> None:
    out(json.dumps(record, indent=2))
