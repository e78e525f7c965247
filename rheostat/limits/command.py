"""`rheostat limits`: how many more partitions brokers and cluster may get, and where those of a topic would go. Changes nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rheostat.config.settings import Settings, load_settings
from rheostat.console.output import out, tell
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, BadInputError
from rheostat.limits.history import read_histories
from rheostat.limits.overrides import LimitOverrides, check_topic
from rheostat.limits.report import Fill, LimitsReport, as_record, report
from rheostat.limits.view import sentences
from rheostat.plan.cluster_layout import ClusterLayout, look, reading
from streaming.shared.kafka.cluster import PartitionState
from tuner.core.partition_limits import (
    INTERNAL_TOPICS,
    PRESETS,
    PartitionCounts,
    PartitionLimits,
    count_partitions,
)
from tuner.planning.placement import PlacementRequest, PolicyViolation, place

_CLIENT_ID = "rheostat-limits"
_RECOMMENDED = PRESETS["kafka"].limits
PARTITIONS_MAX = 10_000  # Of one request: more records the controller doesn't take.


def run_limits(config: Path, given: LimitOverrides, *, as_json: bool) -> int:
    """Shows headroom and when it ends, and returns the exit code."""
    given.check()
    settings = load_settings(config)
    limits = given.over(settings.limits)
    with reading(settings, _CLIENT_ID) as client:
        standing = look(client, settings, _CLIENT_ID)
        known = read_histories(client, settings)
    made = report(
        standing.source,
        standing.racks,
        counts_of(standing),
        _RECOMMENDED if limits is None else limits,
        binding=limits is not None,
        histories=known.by_broker,
        why_none=known.why_none,
    )
    if as_json:
        out(json.dumps(as_record(made), indent=2))
    else:
        from rheostat.console.rich_console import console_for
        from rheostat.limits.view import show

        show(made, console_for(sys.stdout))
    return made.exit_code()


def run_place(
    config: Path, given: LimitOverrides, topic: str, partitions: int, replication: int | None, *, as_json: bool
) -> int:
    """Prints the assignment of a topic's new partitions, or why there is none; returns the exit code."""
    given.check()
    check_topic(topic)
    settings = load_settings(config)
    said = given.over(settings.limits)
    standing = _look(settings)
    counts = counts_of(standing)
    there = standing.topics.get(topic, [])
    wanted = wanted_of(topic, partitions, replication, there, len(standing.brokers))
    try:
        placed = place(wanted, standing.racks, counts, applied_to(topic, said))
    except PolicyViolation as violation:
        if as_json:
            out(json.dumps({"plan": None, "policy_violation": str(violation)}, indent=2))
        tell(str(violation))
        return EXIT_NOT_WELL
    plan = plan_of(topic, len(there), placed)
    then = _after(standing, counts, topic, placed, said)
    if as_json:
        record = {"plan": plan, "policy_violation": None, "then": as_record(then)}
        out(json.dumps(record, indent=2))
    else:
        out(json.dumps(plan))
        for line in _summary(wanted, there, then):
            tell(line)
    return EXIT_DONE


def applied_to(topic: str, limits: PartitionLimits | None) -> PartitionLimits:
    """KIP-578: the limits don't apply to internal topics."""
    return PartitionLimits() if limits is None or topic in INTERNAL_TOPICS else limits


def counts_of(standing: ClusterLayout) -> PartitionCounts:
    return count_partitions(((key, state.replicas) for key, state in standing.partitions.items()), standing.brokers)


def wanted_of(
    topic: str, partitions: int, replication: int | None, there: Sequence[PartitionState], brokers: int
) -> PlacementRequest:
    """What is new of the topic.

    Args:
        there: its partitions, if it exists.
        brokers: that are alive.

    Raises:
        BadInputError: naming the option.
    """
    if there:
        has, factor = len(there), len(there[0].replicas) - len(there[0].adding)
        if partitions <= has:
            raise BadInputError(
                f"--partitions: topic {topic} has {has} already, and Kafka only ever adds some: expected more than {has}, "
                f"found {partitions}"
            )
        if replication not in (None, factor):
            raise BadInputError(
                f"--replication: topic {topic} exists with replication factor {factor}, which its new partitions take over: "
                f"leave it out, or give {factor}; found {replication}"
            )
        replication = factor
        partitions -= has
    elif replication is None:
        raise BadInputError(f"--replication: missing, and there is no topic {topic} that it could be taken from")
    if replication > brokers:
        raise BadInputError(
            f"--replication: INVALID_REPLICATION_FACTOR: {replication} replicas need as many brokers, {brokers} are alive"
        )
    if partitions > PARTITIONS_MAX:
        raise BadInputError(
            f"--partitions: Kafka creates at most {PARTITIONS_MAX} at a time, found {partitions}: ask for a part first"
        )
    return PlacementRequest(topic, partitions, replication)


def plan_of(topic: str, first: int, placed: Sequence[Sequence[int]]) -> dict[str, Any]:
    """As kafka-reassign-partitions writes assignments."""
    entries = [{"topic": topic, "partition": first + n, "replicas": list(brokers)} for n, brokers in enumerate(placed)]
    return {"version": 1, "partitions": entries}


def _look(settings: Settings) -> ClusterLayout:
    with reading(settings, _CLIENT_ID) as client:
        return look(client, settings, _CLIENT_ID)


def _after(
    standing: ClusterLayout,
    counts: PartitionCounts,
    topic: str,
    placed: Sequence[Sequence[int]],
    limits: PartitionLimits | None,
) -> LimitsReport:
    added = count_partitions((((topic, n), brokers) for n, brokers in enumerate(placed)), ())
    then = PartitionCounts({b: counts.on_broker(b) + added.on_broker(b) for b in {*counts.by_broker, *added.by_broker}})
    return report(
        standing.source, standing.racks, then, _RECOMMENDED if limits is None else limits, binding=limits is not None
    )


def _summary(wanted: PlacementRequest, there: Sequence[PartitionState], then: LimitsReport) -> list[str]:
    what = f"{wanted.partitions} {'more ' if there else ''}partitions of topic {wanted.topic}"
    said = [f"There is room: {what}, replication factor {wanted.replication}, placed as above. Nothing was changed."]
    return [*said, *(f"Then: {line}" for line in sentences(then)[1:] if then.worst is not Fill.OK)]
