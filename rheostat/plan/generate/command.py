"""Runs `rheostat plan generate`: a plan that adds, drains or replaces brokers, or evens out bytes, for kafka-reassign-partitions.

Only the plan is made. Nothing is started: hand it to kafka-reassign-partitions, and rheostat turns its throttle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rheostat.config.settings import load_settings
from rheostat.console import output
from rheostat.errors import EXIT_DONE, BadInputError, CommandError
from rheostat.limits.command import count_replicas
from rheostat.limits.overrides import LimitOverrides, limit_text
from rheostat.plan.cluster_layout import ClusterLayout, log_bytes, look, reading
from rheostat.plan.estimate.report import EstimateQuestion as TimesAsked
from rheostat.plan.estimate.report import EstimateReport as Times
from rheostat.plan.estimate.report import report as times_report
from rheostat.plan.estimate.sources import EstimateFigures
from rheostat.plan.generate.report import GeneratedPlanReport, as_record, plan_json, sentences
from rheostat.plan.generate.request import PlanRequest
from rheostat.plan.write_rates import write_rates
from rheostat.reassign.active_plans import describe_active_plans
from streaming.shared.short_lists import join_names
from tuner.core.partition_limits import PartitionLimits
from tuner.core.side_load import PlannedPartition
from tuner.planning.broker_load import BrokerLoads, PlacedPartition
from tuner.planning.generate import GeneratedPlan, NoPlacementError
from tuner.planning.kip73 import kip73_figures
from tuner.planning.plan_file import TopicPartition

_CLIENT_ID = "rheostat-move"


def run_move(
    config: Path,
    asked: PlanRequest,
    given: LimitOverrides,
    times: TimesAsked,
    *,
    write_bytes_per_s: float | None,
    watch_s: float,
    out: Path | None,
    as_json: bool,
) -> int:
    """Makes the plan and prints it; returns the exit code."""
    asked.check()
    times.check()
    given.check()
    settings = load_settings(config)
    limits = given.apply_to(settings.limits) or PartitionLimits()
    with reading(settings, _CLIENT_ID) as client:
        standing = look(client, settings, _CLIENT_ID)
        asked.check_brokers(standing.brokers, {*standing.brokers, *count_replicas(standing).by_broker})
        nothing_moves(standing)
        sizes = log_bytes(client, standing)
        ground = ground_of(standing, sizes, limits)
        before, hosted = dict(ground.held_bytes), dict(ground.hosted)
        try:
            plan = asked.planned(ground)
        except NoPlacementError as error:
            if limits == PartitionLimits():
                raise CommandError(f"No plan can be made: {error}.") from error
            raise CommandError(
                f"POLICY_VIOLATION: {error}. max.broker.partitions={limit_text(limits.broker_partitions_max)}, "
                f"max.partitions={limit_text(limits.partitions_max)}."
            ) from error
        rates: Mapping[TopicPartition, float] = {}
        if plan.targets and write_bytes_per_s is None:
            rates = write_rates(client, settings, standing, watch_s, output.tell)
    written = rates if write_bytes_per_s is None else dict.fromkeys(sizes, write_bytes_per_s)
    found = times_of(standing, sizes, before, plan, written, times)
    made = GeneratedPlanReport(standing.source, plan, before, hosted, found, leaderless(standing))
    if out is not None and plan.targets:
        _write(made, out)
    if as_json:
        output.out(json.dumps(as_record(made), indent=2))
    else:
        if plan.targets and out is None:
            output.out(json.dumps(plan_json(plan)))
        for line in (*sentences(made), *describe_active_plans(settings), "Nothing was changed."):
            output.tell(line)
    return EXIT_DONE if made.times is None else made.times.exit_code()


def ground_of(standing: ClusterLayout, sizes: Mapping[TopicPartition, float], limits: PartitionLimits) -> BrokerLoads:
    """Partitions that nobody leads are no part of it: there is nobody to copy from."""
    partitions = [
        PlacedPartition(state.topic, state.partition, state.replicas, sizes[key])
        for key, state in standing.partitions.items()
        if key in sizes
    ]
    return BrokerLoads(partitions, standing.racks, count_replicas(standing), limits)


def times_of(
    standing: ClusterLayout,
    sizes: Mapping[TopicPartition, float],
    held_bytes: Mapping[int, float],
    plan: GeneratedPlan,
    written: Mapping[TopicPartition, float],
    asked: TimesAsked,
) -> Times | None:
    """What the copying takes; None: nothing is to be copied."""
    planned = tuple(
        PlannedPartition(
            t.topic,
            t.partition,
            state.leader,
            frozenset(state.isr),
            written.get(key, 0.0),
            {b: sizes[key] for b in t.replicas if b not in state.replicas},
        )
        for t in plan.targets
        for key in [(t.topic, t.partition)]
        for state in [standing.partitions[key]]
    )
    if not any(p.lacking_bytes for p in planned):
        return None
    led: dict[int, float] = {}
    for key, state in standing.partitions.items():
        led[state.leader] = led.get(state.leader, 0.0) + written.get(key, 0.0)
    kip = kip73_figures(len(planned), len(standing.partitions), held_bytes.values(), led.values())
    return times_report(EstimateFigures(standing.source, kip, planned), asked)


def nothing_moves(standing: ClusterLayout) -> None:
    """
    Raises:
        CommandError: partitions are being reassigned.
    """
    moving = sorted(key for key, state in standing.partitions.items() if state.adding or state.removing)
    if moving:
        raise CommandError(
            f"{len(moving)} partitions are being reassigned, {moving[0][0]}-{moving[0][1]} among them: a plan made now would "
            "count on where they are. Wait until they are done, or cancel them."
        )


def leaderless(standing: ClusterLayout) -> tuple[str, ...]:
    """What is said of partitions that nobody leads."""
    without = sorted(f"{topic}-{n}" for (topic, n), state in standing.partitions.items() if state.leader < 0)
    if not without:
        return ()
    return (f"Nobody leads {join_names(without, 5)}: these are left out. Bring a broker of theirs back first.",)


def _write(made: GeneratedPlanReport, out: Path) -> None:
    try:
        out.write_text(json.dumps(plan_json(made.plan), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"--out: {out}: cannot be written: {error.strerror or error}") from error
