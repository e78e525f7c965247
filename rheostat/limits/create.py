"""Runs `rheostat limits create`: creates a topic within the limits, or refuses it as KIP-578 describes.

Kafka does not know the limits, so another client may use the same headroom between the check and the creation. The command
therefore counts again afterwards and reports exceeded limits. It deletes nothing, because clients may already write to the topic.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rheostat.config.settings import load_settings
from rheostat.console.output import out, tell
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, BadInputError, CommandError
from rheostat.limits.command import (
    cordoned_text,
    count_replicas,
    limits_for_topic,
    open_racks,
    placement_json,
    placement_request,
)
from rheostat.limits.overrides import LimitOverrides, check_topic, parse_topic_configs
from rheostat.limits.report import build_report
from rheostat.limits.thread_spread import avoid_fetcher_collisions
from rheostat.limits.view import describe_report
from rheostat.plan.cluster_layout import raise_as_command_errors, read_cordoned_brokers, read_layout
from rheostat.run.services import probe
from streaming.shared import kafka_names
from streaming.shared.kafka.placed_topics import PlacingClient, TopicRefusal
from streaming.shared.units import span_text
from tuner.core.partition_limits import PartitionCounts, PartitionLimits
from tuner.planning.placement import PolicyViolation, place

_CLIENT_ID = "rheostat-limits"
READ_BACK_S_MAX = 15.0  # On a busy cluster it takes up to this long until every partition has a leader.
_POLL_S = 0.2

Placement = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """The requested topic; ``configs`` are texts such as "retention.ms=60000"."""

    name: str
    partitions: int
    replication: int
    configs: Sequence[str] = ()


def run_create(config: Path, overrides: LimitOverrides, topic: NewTopic, *, as_json: bool) -> int:
    """Creates the topic, reads it back, and returns the exit code.

    Raises:
        BadInputError: the topic exists, or an option cannot be used.
        CommandError, UnreachableError: Kafka did not create the topic, or does not answer.
    """
    overrides.check()
    check_topic(topic.name)
    configs = parse_topic_configs(topic.configs)
    settings = load_settings(config)
    set_limits = overrides.apply_to(settings.limits)
    limits = limits_for_topic(topic.name, set_limits)
    probe(settings)
    with PlacingClient(settings.kafka, _CLIENT_ID) as client, raise_as_command_errors():
        before = read_layout(client, settings, _CLIENT_ID)
        if existing := before.topics.get(topic.name):
            raise BadInputError(
                f"--topic: {topic.name} already exists, with {len(existing)} partitions: expected a new name. "
                "`rheostat limits place` finds room for more partitions of it"
            )
        cordoned = read_cordoned_brokers(client, before)
        request = placement_request(topic.name, topic.partitions, topic.replication, (), before.brokers, cordoned)
        try:
            placement = place(request, open_racks(before, cordoned), count_replicas(before), limits)
        except PolicyViolation as violation:
            text = f"{violation}{cordoned_text(cordoned)}"
            if as_json:
                _print_json({"created": False, "policy_violation": text})
            tell(text)
            return EXIT_NOT_WELL
        placement = avoid_fetcher_collisions(client, before, topic.name, placement)
        with raise_as_command_errors("The topic cannot be created"):
            refusal = client.create_placed(topic.name, placement, configs)
        # "Already exists" is not yet a refusal: the client repeats a request that timed out, and the first attempt may have created
        # the topic. Only if the topic has another placement did another client create it.
        if refusal is not None and refusal.code != kafka_names.ERROR_TOPIC_ALREADY_EXISTS:
            raise refusal_error(refusal)
        is_read_back = _wait_for_placement(client, topic.name, placement)
        if refusal is not None and not is_read_back:
            raise CommandError(f"Topic {topic.name} was just created by another client: nothing was changed.")
        after = read_layout(client, settings, _CLIENT_ID)
    counts = count_replicas(after)
    violations = find_exceeded_limits(placement, counts, limits)
    report = build_report(after.source, after.racks, counts, limits, are_set=set_limits is not None)
    plan = placement_json(topic.name, 0, placement)
    if as_json:
        record = {"created": True, "plan": plan, "policy_violation": None}
        _print_json({**record, "read_back": is_read_back, "limits_exceeded": violations})
    else:
        out(json.dumps(plan))
    if is_read_back:
        result = "read back as placed above"
    else:
        result = f"but the brokers do not show this placement after {span_text(READ_BACK_S_MAX)}: check the brokers"
    tell(
        f"Created: topic {topic.name}, {topic.partitions} partitions, replication factor {topic.replication}; {result}."
    )
    for line in (*violations, *(describe_report(report)[1:] if report.are_set else ())):
        tell(line)
    return EXIT_DONE if is_read_back and not violations else EXIT_NOT_WELL


def refusal_error(refusal: TopicRefusal) -> CommandError:
    """Returns the error for Kafka's refusal: bad input if an option caused it."""
    if refusal.code == kafka_names.ERROR_INVALID_CONFIG:
        return BadInputError(f"--topic-config: Kafka refuses it: {refusal.text}")
    if refusal.code == kafka_names.ERROR_INVALID_TOPIC:
        return BadInputError(f"--topic: Kafka refuses it: {refusal.text}")
    return CommandError(f"Kafka did not create the topic: {refusal.text}. Nothing was changed.")


def find_exceeded_limits(placement: Placement, after: PartitionCounts, limits: PartitionLimits) -> list[str]:
    """Returns a violation for each limit that is exceeded because other topics were created at the same time.

    Args:
        placement: brokers of each new partition. They were within the limits before the creation.
        after: counts of the cluster with the new topic.
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


def _wait_for_placement(client: PlacingClient, topic: str, placement: Placement) -> bool:
    """Waits until the brokers show the topic with this placement and all leaders; returns False after READ_BACK_S_MAX."""
    until_s = time.monotonic() + READ_BACK_S_MAX
    while True:
        states = {state.partition: state for state in client.partitions([topic])}
        are_placed = all(
            n in states and states[n].leader >= 0 and states[n].replicas == tuple(brokers)
            for n, brokers in enumerate(placement)
        )
        if are_placed and len(states) == len(placement):
            return True
        if time.monotonic() >= until_s:
            return False
        threading.Event().wait(_POLL_S)


def _print_json(record: Mapping[str, object]) -> None:
    out(json.dumps(record, indent=2))
