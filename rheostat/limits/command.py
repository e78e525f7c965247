"""Runs `rheostat limits`, which shows partition headroom, and `rheostat limits place`, which places a topic. Changes nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from rheostat.config.settings import load_settings
from rheostat.console.output import out, tell
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, BadInputError
from rheostat.limits.history import read_histories
from rheostat.limits.overrides import LimitOverrides, check_topic
from rheostat.limits.report import Fill, LimitsReport, as_record, build_report
from rheostat.limits.thread_spread import avoid_fetcher_collisions
from rheostat.limits.view import describe_report
from rheostat.plan.cluster_layout import ClusterLayout, open_cluster, read_cordoned_brokers, read_layout
from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import PartitionState
from tuner.core.partition_limits import INTERNAL_TOPICS, PRESETS, PartitionCounts, PartitionLimits, count_partitions
from tuner.planning.placement import PlacementRequest, PolicyViolation, place

_CLIENT_ID = "rheostat-limits"
_RECOMMENDED = PRESETS["kafka"].limits  # Shown for comparison if no limits are set.
# The controller accepts a request that creates at most this number of records: one for each partition, and one for a new topic.
RECORDS_MAX = 10_000


def run_limits(config: Path, overrides: LimitOverrides, *, as_json: bool) -> int:
    """Shows the headroom of all brokers and when it is used up, and returns the exit code."""
    overrides.check()
    settings = load_settings(config)
    limits = overrides.apply_to(settings.limits)
    with open_cluster(settings, _CLIENT_ID) as client:
        layout = read_layout(client, settings, _CLIENT_ID)
        histories = read_histories(client, settings)
    report = build_report(
        layout.source,
        layout.racks,
        count_replicas(layout),
        _RECOMMENDED if limits is None else limits,
        are_set=limits is not None,
        histories=histories.by_broker,
        missing_reason=histories.missing_reason,
    )
    if as_json:
        out(json.dumps(as_record(report), indent=2))
    else:
        from rheostat.console.rich_console import console_for
        from rheostat.limits.view import show

        show(report, console_for(sys.stdout))
    return report.exit_code()


def run_place(
    config: Path, overrides: LimitOverrides, topic: str, partitions: int, replication: int | None, *, as_json: bool
) -> int:
    """Prints the replicas of a topic's new partitions, or why they do not fit, and returns the exit code."""
    overrides.check()
    check_topic(topic)
    settings = load_settings(config)
    limits = overrides.apply_to(settings.limits)
    with open_cluster(settings, _CLIENT_ID) as client:
        layout = read_layout(client, settings, _CLIENT_ID)
        counts = count_replicas(layout)
        existing = layout.topics.get(topic, [])
        cordoned = read_cordoned_brokers(client, layout)
        request = placement_request(topic, partitions, replication, existing, layout.brokers, cordoned)
        try:
            placement = place(request, open_racks(layout, cordoned), counts, limits_for_topic(topic, limits))
        except PolicyViolation as violation:
            text = f"{violation}{cordoned_text(cordoned)}"
            if as_json:
                out(json.dumps({"plan": None, "policy_violation": text}, indent=2))
            tell(text)
            return EXIT_NOT_WELL
        placement = avoid_fetcher_collisions(client, layout, topic, placement)
    plan = placement_json(topic, len(existing), placement)
    after = _report_after(layout, counts, topic, placement, limits)
    if as_json:
        out(json.dumps({"plan": plan, "policy_violation": None, "after": as_record(after)}, indent=2))
    else:
        out(json.dumps(plan))
        for line in _describe_placement(request, existing, after):
            tell(line)
    return EXIT_DONE


def limits_for_topic(topic: str, limits: PartitionLimits | None) -> PartitionLimits:
    """Returns the limits that apply to a topic: none for internal topics (KIP-578)."""
    return PartitionLimits() if limits is None or topic in INTERNAL_TOPICS else limits


def count_replicas(layout: ClusterLayout) -> PartitionCounts:
    return count_partitions(((key, state.replicas) for key, state in layout.partitions.items()), layout.brokers)


def open_racks(layout: ClusterLayout, cordoned: Collection[int]) -> dict[int, str | None]:
    """Returns the rack of each living broker that takes new replicas."""
    return {broker: rack for broker, rack in layout.racks.items() if broker not in cordoned}


def placement_request(
    topic: str,
    partitions: int,
    replication: int | None,
    existing: Sequence[PartitionState],
    alive: Collection[int],
    cordoned: Collection[int],
    option: str = "--partitions",
) -> PlacementRequest:
    """Returns the number of new partitions and their replication factor.

    Args:
        partitions: number of partitions that the topic is to have in all.
        existing: the topic's current partitions; empty if the topic does not exist.
        alive: the brokers that are alive.
        cordoned: the brokers that take no new replicas.
        option: the option that sets ``partitions``.

    Raises:
        BadInputError: the message names the option.
    """
    if existing:
        count, factor = len(existing), len(existing[0].replicas) - len(existing[0].adding)
        if partitions <= count:
            raise BadInputError(
                f"{option}: topic {topic} already has {count} partitions, and Kafka cannot remove partitions: expected more than "
                f"{count}, found {partitions}"
            )
        if replication not in (None, factor):
            raise BadInputError(
                f"--replication: topic {topic} exists with replication factor {factor}, which its new partitions also get: "
                f"leave --replication out, or give {factor}; found {replication}"
            )
        replication = factor
        partitions -= count
    elif replication is None:
        raise BadInputError(f"--replication: missing, and topic {topic} does not exist: give a replication factor")
    open_count = len({*alive} - {*cordoned})
    if replication > open_count:
        found = f"{len(alive)} are alive" if open_count == len(alive) else f"{open_count} are alive and not cordoned"
        raise BadInputError(
            f"--replication: INVALID_REPLICATION_FACTOR: {replication} replicas need {replication} brokers, and {found}"
            f"{cordoned_text(cordoned)}"
        )
    count_max = RECORDS_MAX if existing else RECORDS_MAX - 1
    if partitions > count_max:
        raise BadInputError(
            f"{option}: Kafka creates at most {count_max} partitions with one request, found {partitions}: create them in "
            "several steps"
        )
    return PlacementRequest(topic, partitions, replication)


def cordoned_text(cordoned: Collection[int]) -> str:
    """Returns which brokers are cordoned, as the end of a sentence; empty if none is."""
    if not cordoned:
        return ""
    return f" (cordoned by {kafka_names.CORDONED_LOG_DIRS}: {', '.join(map(str, sorted(cordoned)))})"


def placement_json(topic: str, first_partition: int, placement: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Returns the placement in the JSON of kafka-reassign-partitions.

    Args:
        first_partition: number of the first new partition.
    """
    entries = [
        {"topic": topic, "partition": first_partition + n, "replicas": list(brokers)}
        for n, brokers in enumerate(placement)
    ]
    return {"version": 1, "partitions": entries}


def _report_after(
    layout: ClusterLayout,
    counts: PartitionCounts,
    topic: str,
    placement: Sequence[Sequence[int]],
    limits: PartitionLimits | None,
) -> LimitsReport:
    """Returns the report on the cluster as it would be with the placed partitions."""
    # Only the number of replicas per broker counts, so the partitions can have any number.
    new_replicas = [((topic, number), brokers) for number, brokers in enumerate(placement)]
    added = count_partitions(new_replicas, ())
    brokers = {*counts.by_broker, *added.by_broker}
    after = PartitionCounts({b: counts.on_broker(b) + added.on_broker(b) for b in brokers})
    are_set = limits is not None
    return build_report(layout.source, layout.racks, after, limits or _RECOMMENDED, are_set=are_set)


def _describe_placement(
    request: PlacementRequest, existing: Sequence[PartitionState], after: LimitsReport
) -> list[str]:
    partitions = f"{request.partitions} {'more ' if existing else ''}partitions of topic {request.topic}"
    line = (
        f"There is room: {partitions}, replication factor {request.replication}, placed as above. Nothing was changed."
    )
    if after.worst is Fill.OK:
        return [line]
    # Without the headline of the report.
    return [line, *(f"Afterwards: {text}" for text in describe_report(after)[1:])]
