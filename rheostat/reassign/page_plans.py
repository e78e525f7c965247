"""Previews and starts plans for the status page, with the checks of `rheostat reassign start`."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Iterator

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError, CommandError, UnreachableError
from rheostat.orders.send import wrong_cluster_name
from rheostat.reassign import plan_store
from rheostat.reassign.checks import list_planned
from rheostat.reassign.plan_input import refuse_log_dirs
from rheostat.reassign.prepare import NothingToMove, PlanOptions, PreparedPlan, describe_changes, prepare_plan
from rheostat.start_report import StartReport
from rheostat.start_times import RequestedStart
from streaming.shared.contract import Side
from streaming.shared.move_order import order_text
from streaming.shared.units import size_text, span_text
from tuner.api.plan_service import (
    BrokerLoadRow,
    PlacementRow,
    PlanPreview,
    PlanRefused,
    PlanToStart,
    StartedPlan,
    StartRow,
)
from tuner.api.sentences import moment, utc_datetime
from tuner.core.side_load import side_loads
from tuner.planning.plan_file import PlanFile
from tuner.planning.plan_json import PlanFileError
from tuner.planning.start_time import START_AHEAD_S_MAX, StartEstimate

_NAME = "the plan"


def preview_plan(settings: Settings, request: PlanToStart) -> PlanPreview:
    """Returns a preview of the plan.

    Raises:
        PlanRefused: the plan is faulty, or the cluster cannot be read.
    """
    notes: list[str] = []
    prepared = _prepare(settings, request, notes)
    cluster = settings.cluster if settings.other_pages else None
    return _preview(prepared, request, order_text(settings.tuner.first_topics), notes, cluster)


def start_plan(settings: Settings, request: PlanToStart, by: str) -> StartedPlan:
    """Checks the plan, and records it.

    Raises:
        PlanRefused: the plan is not recorded, or it is unknown whether the plan is recorded.
    """
    prepared = _prepare(settings, request, [])
    if refusals := _refusals(prepared):
        raise PlanRefused(" ".join(refusals), 409)
    try:
        if (reason := wrong_cluster_name(settings)) is not None:
            raise PlanRefused(reason, 409)
        head = plan_store.submit_plan(
            settings,
            prepared.changes.partitions,
            PlanOptions().limits,
            not_before_ms=prepared.start.not_before_ms,
            cordon=prepared.changes.cordon,
            expected_s=prepared.result.expected_s,
            by=by,
        )
    except CommandError as error:
        raise PlanRefused(str(error), 503) from error
    begins = f"starts {moment(head.not_before_ms)}" if head.not_before_ms else "starts within a cycle"
    text = f"Plan {head.id} is on record, and {begins}. `rheostat reassign cancel {head.id}` withdraws it."
    return StartedPlan(head.id, head.not_before_ms, text)


def _prepare(settings: Settings, request: PlanToStart, notes: list[str]) -> PreparedPlan:
    """
    Raises:
        PlanRefused: the plan is faulty, or the cluster cannot be read.
    """
    now_ms = round(time.time() * 1000)
    start_ms = now_ms if request.start_ms is None else request.start_ms
    if start_ms > now_ms + 1000 * START_AHEAD_S_MAX:
        raise PlanRefused(
            f"the start is more than {span_text(START_AHEAD_S_MAX)} ahead; forecasts reach no further: give an earlier time"
        )
    try:
        plan = refuse_log_dirs(PlanFile(request.plan, _NAME), _NAME)
        requested = RequestedStart(None if request.at_best else start_ms)
        return prepare_plan(settings, plan, requested, notes.append, PlanOptions())
    except (PlanFileError, NothingToMove, BadInputError) as error:
        raise PlanRefused(str(error)) from error
    except UnreachableError as error:
        raise PlanRefused(f"the cluster does not answer, so the plan cannot be checked: {error}", 503) from error
    except CommandError as error:
        raise PlanRefused(str(error), 503) from error


def _refusals(prepared: PreparedPlan) -> list[str]:
    executor = [prepared.constraints.no_executor] if prepared.constraints.no_executor is not None else []
    return [*prepared.conflicts, *prepared.result.violations, *executor]


def _preview(
    prepared: PreparedPlan, request: PlanToStart, order: str, notes: list[str], cluster: str | None
) -> PlanPreview:
    """
    Args:
        cluster: the name of the cluster for the command; None if the settings file has only one cluster.
    """
    changes, result, report = prepared.changes, prepared.result, prepared.start.report
    count = len(changes.partitions)
    start_lines = (order, *prepared.start.lines, *result.notes, *map(_without_options, notes))
    sentences = [*describe_changes(changes, result, prepared.constraints), *start_lines]
    return PlanPreview(
        summary=_summary(prepared, report),
        partitions=count,
        placement=[
            PlacementRow(topic, number, partition.original_replicas, partition.target)
            for (topic, number), partition in sorted(changes.partitions.items())
        ],
        brokers=list(_broker_rows(prepared)),
        starts=list(_start_rows(report)),
        sentences=sentences,
        refusals=_refusals(prepared),
        command=_command(prepared, request, cluster),
    )


def _without_options(note: str) -> str:
    """Returns a note about the write rates without the options of the command, which the page does not have."""
    if note.startswith("--measure-for 0:"):
        return "No recent signal has the write rate of the clients. The checks assume that nothing is written."
    return note.replace(" --measure-for 10s measures each partition.", "")


def _summary(prepared: PreparedPlan, report: StartReport | None) -> str:
    count = len(prepared.changes.partitions)
    text = f"The tuner moves {count} partition{'s' if count != 1 else ''}, {size_text(prepared.result.bound.copied_bytes)} in all"
    start_ms = prepared.start.not_before_ms
    begins = f", from {moment(start_ms)} on" if start_ms else ", from now on"
    if report is None:
        return f"{text}{begins}."
    if report.chosen.end_ms is None:
        return f"{text}{begins}. The move does not end at the current limits."
    return (
        f"{text}{begins}, in about {span_text(report.chosen.duration_s or 0.0)}: until {moment(report.chosen.end_ms)}."
    )


def _broker_rows(prepared: PreparedPlan) -> Iterator[BrokerLoadRow]:
    """Yields the brokers whose load or whose numbers of replicas the plan changes."""
    layout, changes = prepared.cluster.layout, prepared.changes.partitions
    loads = side_loads(list_planned(prepared.changes, prepared.cluster))
    replicas, leaders = Counter[int](), Counter[int]()
    for state in layout.partitions.values():
        current = [broker for broker in state.replicas if broker not in state.adding]
        replicas.update(current)
        leaders.update(current[:1])
    added, led = Counter[int](), Counter[int]()
    for partition in changes.values():
        added.update(partition.target)
        added.subtract(partition.original_replicas)
        led.update(partition.target[:1])
        led.subtract(partition.original_replicas[:1])
    for broker in sorted({side[0] for side in loads} | added.keys() | led.keys()):
        incoming, outgoing = loads.get((broker, Side.FOLLOWER)), loads.get((broker, Side.LEADER))
        yield BrokerLoadRow(
            broker=broker,
            receives_bytes=incoming.remaining_bytes if incoming is not None else 0.0,
            sends_bytes=outgoing.remaining_bytes if outgoing is not None else 0.0,
            replicas_before=replicas[broker],
            replicas_after=replicas[broker] + added[broker],
            leaders_before=leaders[broker],
            leaders_after=leaders[broker] + led[broker],
        )


def _start_rows(report: StartReport | None) -> Iterator[StartRow]:
    """Yields the forecasts for a start now, for the requested start, and for the best start within a day."""
    if report is None:
        return
    rows = [("now", report.now), ("your start", report.chosen), ("best start within a day", report.best)]
    seen: set[int] = set()
    for name, estimate in rows:
        if estimate.start_ms not in seen:
            seen.add(estimate.start_ms)
            yield _start_row(name, estimate)


def _start_row(name: str, estimate: StartEstimate) -> StartRow:
    ends = (estimate.end_ms, estimate.end_low_ms, estimate.end_high_ms)
    return StartRow(name, estimate.start_ms, *ends, estimate.duration_s)


def _command(prepared: PreparedPlan, request: PlanToStart, cluster: str | None) -> str:
    start_ms = prepared.start.not_before_ms
    if request.at_best:
        at = " --at best"
    elif start_ms:
        at = f" --at {utc_datetime(start_ms).isoformat(timespec='minutes')}"
    else:
        at = ""
    chosen = "" if cluster is None else f" --cluster {shlex.quote(cluster)}"
    return f"rheostat reassign start plan.json{at}{chosen}"
