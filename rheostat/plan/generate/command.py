"""Runs `rheostat plan generate`: a plan for kafka-reassign-partitions that adds, drains or replaces brokers, or rebalances bytes.

The command only writes the plan. An operator starts the plan with kafka-reassign-partitions or with `rheostat reassign start`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from rheostat.config.settings import load_settings
from rheostat.console import output
from rheostat.errors import EXIT_DONE, BadInputError, CommandError
from rheostat.limits.command import count_replicas
from rheostat.limits.overrides import LimitOverrides, limit_text
from rheostat.plan.cluster_layout import (
    ClusterLayout,
    open_cluster,
    read_copy_bytes,
    read_cordoned_brokers,
    read_layout,
    read_log_bytes,
)
from rheostat.plan.estimate.report import EstimateOptions, EstimateReport, estimate_plan
from rheostat.plan.estimate.sources import EstimateFigures
from rheostat.plan.generate.report import GeneratedPlanReport, plan_json, sentences, to_record
from rheostat.plan.generate.request import PlanRequest
from rheostat.plan.write_rates import measure_write_rates
from rheostat.reassign.active_plans import describe_active_plans
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.cordons import find_missing
from streaming.shared.move_order import order_text
from streaming.shared.short_lists import join_names
from tuner.core.partition_limits import PartitionLimits
from tuner.core.reassignment_plan import TopicPartition
from tuner.core.side_load import PlannedPartition
from tuner.planning.broker_load import BrokerLoads, PlacedPartition
from tuner.planning.generate import GeneratedPlan, NoPlacementError
from tuner.planning.kip73 import kip73_figures

_CLIENT_ID = "rheostat-plan"


def run_generate(
    config: Path,
    request: PlanRequest,
    overrides: LimitOverrides,
    options: EstimateOptions,
    *,
    write_bytes_per_s: float | None,
    measure_s: float,
    out: Path | None,
    as_json: bool,
) -> int:
    """Generates the plan, prints it, and returns the exit code.

    Args:
        overrides: partition limits from the command line.
        options: the limits for the time estimate.
        write_bytes_per_s: write rate of each partition; None if the rates are measured during ``measure_s``.
        out: the file to write the plan to; None means standard output.
    """
    request.check()
    options.check()
    overrides.check()
    settings = load_settings(config)
    limits = overrides.apply_to(settings.limits) or PartitionLimits()
    with open_cluster(settings, _CLIENT_ID) as client:
        layout = read_layout(client, settings, _CLIENT_ID)
        # In contrast, ``request.cordoned`` has the brokers that the plan will cordon.
        already_cordoned = read_cordoned_brokers(client, layout)
        known = {*layout.brokers, *count_replicas(layout).by_broker}
        request.check_brokers(layout.brokers, known, already_cordoned)
        check_can_cordon(client, layout, request.cordoned)
        check_nothing_moves(layout)
        sizes = read_log_bytes(client, layout)
        loads = make_loads(layout, sizes, limits, already_cordoned)
        held_bytes_before, hosted_before = dict(loads.held_bytes), dict(loads.hosted)  # ``generate`` changes the loads.
        try:
            plan = request.generate(loads)
        except NoPlacementError as error:
            if limits == PartitionLimits():
                raise CommandError(f"No plan can be made: {error}.") from error
            raise CommandError(
                f"POLICY_VIOLATION: {error}. max.broker.partitions={limit_text(limits.broker_partitions_max)}, "
                f"max.partitions={limit_text(limits.partitions_max)}."
            ) from error
        rates: Mapping[TopicPartition, float] = {}
        if plan.targets and write_bytes_per_s is None:
            rates = measure_write_rates(client, settings, layout, measure_s, output.tell)
        copy_bytes = read_copy_bytes(client, layout, {target.topic for target in plan.targets}, sizes)
    if write_bytes_per_s is not None:
        rates = dict.fromkeys(sizes, write_bytes_per_s)
    estimate = estimate_generated(layout, copy_bytes, held_bytes_before, plan, rates, options)
    report = GeneratedPlanReport(
        source=layout.source,
        plan=plan,
        held_bytes_before=held_bytes_before,
        hosted_before=hosted_before,
        estimate=estimate,
        notes=(*([order_text(settings.tuner.first_topics)] if plan.targets else ()), *leaderless_note(layout)),
        cordon=request.cordoned,
    )
    if out is not None and plan.targets:
        _write_plan(report, out)
    if as_json:
        output.out(json.dumps(to_record(report), indent=2))
    else:
        if plan.targets and out is None:
            output.out(json.dumps(plan_json(plan, report.cordon)))
        for line in (*sentences(report), *describe_active_plans(settings), "Nothing was changed."):
            output.tell(line)
    return EXIT_DONE if estimate is None else estimate.exit_code()


def make_loads(
    layout: ClusterLayout,
    sizes: Mapping[TopicPartition, float],
    limits: PartitionLimits,
    cordoned: Collection[int] = (),
) -> BrokerLoads:
    """Returns the loads that the plan starts from, without partitions that have no leader to copy from.

    Args:
        cordoned: brokers that are already cordoned, so that the plan gives them no replicas.
    """
    partitions = [
        PlacedPartition(state.topic, state.partition, state.replicas, sizes[key])
        for key, state in layout.partitions.items()
        if key in sizes
    ]
    return BrokerLoads(partitions, layout.racks, count_replicas(layout), limits, cordoned)


def estimate_generated(
    layout: ClusterLayout,
    copy_bytes: Mapping[TopicPartition, float],
    held_bytes: Mapping[int, float],
    plan: GeneratedPlan,
    write_rates: Mapping[TopicPartition, float],
    options: EstimateOptions,
) -> EstimateReport | None:
    """Returns how long the plan takes; None if there is nothing to copy.

    Args:
        copy_bytes: bytes that a new replica of each partition of the plan copies.
        held_bytes: bytes on each broker before the plan.
        write_rates: bytes/s that clients write to each partition.
    """
    planned = []
    for target in plan.targets:
        key = (target.topic, target.partition)
        state = layout.partitions[key]
        planned.append(
            PlannedPartition(
                target.topic,
                target.partition,
                leader=state.leader,
                isr=frozenset(state.isr),
                write_bytes_per_s=write_rates.get(key, 0.0),
                lacking_bytes={broker: copy_bytes[key] for broker in target.replicas if broker not in state.replicas},
            )
        )
    if not any(partition.lacking_bytes for partition in planned):
        return None
    led_bytes_per_s: dict[int, float] = {}
    for key, state in layout.partitions.items():
        led_bytes_per_s[state.leader] = led_bytes_per_s.get(state.leader, 0.0) + write_rates.get(key, 0.0)
    kip = kip73_figures(len(planned), len(layout.partitions), held_bytes.values(), led_bytes_per_s.values())
    return estimate_plan(EstimateFigures(layout.source, kip, tuple(planned)), options)


def check_can_cordon(client: ClusterClient, layout: ClusterLayout, brokers: Collection[int]) -> None:
    """Checks that these brokers can be cordoned.

    Raises:
        CommandError: a broker is down, or the cluster runs a version of Kafka without cordons.
    """
    if not brokers:
        return
    missing = find_missing(client.broker_versions(layout.brokers), brokers)
    if missing is not None:
        raise CommandError(
            f"--cordon: {missing}. Leave --cordon out to drain without a cordon: then Kafka may place new replicas on the broker."
        )


def check_nothing_moves(layout: ClusterLayout) -> None:
    """Checks that no reassignment is in progress.

    Raises:
        CommandError: partitions are being reassigned.
    """
    moving = sorted(key for key, state in layout.partitions.items() if state.adding or state.removing)
    if moving:
        raise CommandError(
            f"{len(moving)} partitions are being reassigned, {moving[0][0]}-{moving[0][1]} among them. A plan made now would be "
            "based on replicas that are about to change: wait until the reassignments are done, or cancel them."
        )


def leaderless_note(layout: ClusterLayout) -> tuple[str, ...]:
    """Returns a note about partitions without a leader, if there are any."""
    leaderless = sorted(f"{topic}-{n}" for (topic, n), state in layout.partitions.items() if state.leader < 0)
    if not leaderless:
        return ()
    return (
        f"The plan leaves out partitions without a leader: {join_names(leaderless, 5)}. Start one of their brokers to include "
        "them.",
    )


def _write_plan(report: GeneratedPlanReport, out: Path) -> None:
    try:
        out.write_text(json.dumps(plan_json(report.plan, report.cordon), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"--out: {out}: cannot be written: {error.strerror or error}") from error
