"""Reads new partitions back from the cluster, and shows the result of `rheostat limits create` and `rheostat limits grow`."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rheostat.console.output import out, tell
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL
from rheostat.limits.command import count_replicas, placement_json
from rheostat.limits.report import build_report
from rheostat.limits.view import describe_report
from rheostat.plan.cluster_layout import ClusterLayout
from streaming.shared.kafka.placed_topics import PlacingClient
from streaming.shared.units import span_text
from tuner.core.partition_limits import PartitionCounts, PartitionLimits

READ_BACK_S_MAX = 15.0  # On a busy cluster it takes up to this long until every partition has a leader.
_POLL_S = 0.2

Placement = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class PlacedPartitions:
    """New partitions of a topic, numbered from ``first``, and the brokers of each of them."""

    topic: str
    first: int
    placement: Placement


@dataclass(frozen=True, slots=True)
class PartitionsAfter:
    """The cluster with the new partitions.

    Attributes:
        limits: the limits of the topic.
        are_set: whether an operator has set limits.
        is_read_back: whether the brokers show the new partitions as they were placed.
    """

    layout: ClusterLayout
    limits: PartitionLimits
    are_set: bool
    is_read_back: bool


def wait_for_placement(client: PlacingClient, new: PlacedPartitions) -> bool:
    """Waits until the brokers show the partitions with this placement and all leaders; returns False after READ_BACK_S_MAX."""
    until_s = time.monotonic() + READ_BACK_S_MAX
    while True:
        states = {state.partition: state for state in client.partitions([new.topic])}
        are_placed = all(
            n in states and states[n].leader >= 0 and states[n].replicas == tuple(brokers)
            for n, brokers in enumerate(new.placement, new.first)
        )
        if are_placed and len(states) == new.first + len(new.placement):
            return True
        if time.monotonic() >= until_s:
            return False
        threading.Event().wait(_POLL_S)


def show_outcome(summary: str, verb: str, new: PlacedPartitions, after: PartitionsAfter, *, as_json: bool) -> int:
    """Prints the new partitions and the limits that are exceeded now, and returns the exit code.

    Args:
        summary: begins the sentence on the result.
        verb: the key of the result in JSON, such as "created".
    """
    counts = count_replicas(after.layout)
    violations = find_exceeded_limits(new.placement, counts, after.limits)
    report = build_report(after.layout.source, after.layout.racks, counts, after.limits, are_set=after.are_set)
    plan = placement_json(new.topic, new.first, new.placement)
    if as_json:
        record = {verb: True, "plan": plan, "policy_violation": None}
        out(json.dumps({**record, "read_back": after.is_read_back, "limits_exceeded": violations}, indent=2))
    else:
        out(json.dumps(plan))
    if after.is_read_back:
        result = "read back as placed above"
    else:
        result = f"but the brokers do not show this placement after {span_text(READ_BACK_S_MAX)}: check the brokers"
    tell(f"{summary}; {result}.")
    for line in (*violations, *(describe_report(report)[1:] if report.are_set else ())):
        tell(line)
    return EXIT_DONE if after.is_read_back and not violations else EXIT_NOT_WELL


def find_exceeded_limits(placement: Placement, after: PartitionCounts, limits: PartitionLimits) -> list[str]:
    """Returns a violation for each limit that is exceeded because other partitions were created at the same time.

    Args:
        placement: brokers of each new partition. They were within the limits before the creation.
        after: counts of the cluster with the new partitions.
    """
    violations = [
        _race_text(f"broker {broker} has", after.on_broker(broker), limits.for_broker(broker))
        for broker in sorted({broker for brokers in placement for broker in brokers})
        if after.on_broker(broker) > limits.for_broker(broker)
    ]
    if after.total > limits.partitions_max:
        violations.append(_race_text("the cluster has", after.total, limits.partitions_max))
    return violations


def _race_text(subject: str, count: int, limit: int) -> str:
    return (
        f"POLICY_VIOLATION: {subject} {count} partitions, and the limit is {limit}, because other topics were created at the same "
        "time. Nothing was deleted: delete topics that are not needed."
    )
