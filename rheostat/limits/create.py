"""Runs `rheostat limits create`: creates a topic within the limits, or refuses it as KIP-578 describes.

Kafka does not know the limits, so another client may use the same headroom between the check and the creation. The command
therefore counts again afterwards and reports exceeded limits. It deletes nothing, because clients may already write to the topic.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rheostat.config.settings import load_settings
from rheostat.console.output import out, tell
from rheostat.errors import EXIT_NOT_WELL, BadInputError, CommandError
from rheostat.limits.command import cordoned_text, count_replicas, limits_for_topic, open_racks, placement_request
from rheostat.limits.outcome import PartitionsAfter, PlacedPartitions, show_outcome, wait_for_placement
from rheostat.limits.overrides import LimitOverrides, check_topic, parse_topic_configs
from rheostat.limits.thread_spread import avoid_fetcher_collisions
from rheostat.plan.cluster_layout import raise_as_command_errors, read_cordoned_brokers, read_layout
from rheostat.run.services import probe
from streaming.shared import kafka_names
from streaming.shared.kafka.placed_topics import PlacingClient, TopicRefusal
from tuner.planning.placement import PolicyViolation, place

_CLIENT_ID = "rheostat-limits"


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
    given_limits = overrides.apply_to(settings.limits)
    limits = limits_for_topic(topic.name, given_limits)
    probe(settings)
    with PlacingClient(settings.kafka, _CLIENT_ID) as client, raise_as_command_errors():
        before = read_layout(client, settings, _CLIENT_ID)
        if existing := before.topics.get(topic.name):
            raise BadInputError(
                f"--topic: {topic.name} already exists, with {len(existing)} partitions: expected a new name. "
                "`rheostat limits grow` adds partitions to it"
            )
        cordoned = read_cordoned_brokers(client, before)
        request = placement_request(topic.name, topic.partitions, topic.replication, (), before.brokers, cordoned)
        try:
            placement = place(request, open_racks(before, cordoned), count_replicas(before), limits)
        except PolicyViolation as violation:
            text = f"{violation}{cordoned_text(cordoned)}"
            if as_json:
                out(json.dumps({"created": False, "policy_violation": text}, indent=2))
            tell(text)
            return EXIT_NOT_WELL
        placement = avoid_fetcher_collisions(client, before, topic.name, placement)
        with raise_as_command_errors("The topic cannot be created"):
            refusal = client.create_placed(topic.name, placement, configs)
        # "Already exists" may be no refusal: the client repeats a request that timed out, and the first attempt may have
        # created the topic. Only if the topic has another placement, another client has created it.
        if refusal is not None and refusal.code != kafka_names.ERROR_TOPIC_ALREADY_EXISTS:
            raise refusal_error(refusal)
        new = PlacedPartitions(topic.name, 0, placement)
        is_read_back = wait_for_placement(client, new)
        if refusal is not None and not is_read_back:
            raise CommandError(f"Topic {topic.name} was just created by another client: nothing was changed.")
        after = read_layout(client, settings, _CLIENT_ID)
    return show_outcome(
        f"Created: topic {topic.name}, {topic.partitions} partitions, replication factor {topic.replication}",
        "created",
        new,
        PartitionsAfter(after, limits, are_set=given_limits is not None, is_read_back=is_read_back),
        as_json=as_json,
    )


def refusal_error(refusal: TopicRefusal) -> CommandError:
    """Returns the error for Kafka's refusal: bad input if an option caused it."""
    if refusal.code == kafka_names.ERROR_INVALID_CONFIG:
        return BadInputError(f"--topic-config: Kafka refuses it: {refusal.text}")
    if refusal.code == kafka_names.ERROR_INVALID_TOPIC:
        return BadInputError(f"--topic: Kafka refuses it: {refusal.text}")
    return CommandError(f"Kafka did not create the topic: {refusal.text}. Nothing was changed.")
