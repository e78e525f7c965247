"""Runs `rheostat limits grow`: adds partitions to a topic within the limits, or refuses them as KIP-578 describes.

Kafka calls no policy when a client adds partitions, so another client may use the same headroom between the check and the change.
The command therefore counts again afterwards and reports exceeded limits. Kafka cannot remove partitions.
"""

from __future__ import annotations

import json
from pathlib import Path

from rheostat.config.settings import load_settings
from rheostat.console.output import out, tell
from rheostat.errors import EXIT_NOT_WELL, BadInputError, CommandError
from rheostat.limits.command import cordoned_text, count_replicas, limits_for_topic, open_racks, placement_request
from rheostat.limits.outcome import PartitionsAfter, PlacedPartitions, show_outcome, wait_for_placement
from rheostat.limits.overrides import LimitOverrides, check_topic
from rheostat.limits.thread_spread import avoid_fetcher_collisions
from rheostat.plan.cluster_layout import raise_as_command_errors, read_cordoned_brokers, read_layout
from rheostat.run.services import probe
from streaming.shared.kafka.placed_topics import PlacingClient, TopicRefusal
from tuner.planning.placement import PolicyViolation, place

_CLIENT_ID = "rheostat-limits"


def run_grow(config: Path, overrides: LimitOverrides, topic: str, partitions: int, *, as_json: bool) -> int:
    """Adds the partitions, reads them back, and returns the exit code.

    Args:
        partitions: number of partitions that the topic is to have in all.

    Raises:
        BadInputError: the topic does not exist, or an option cannot be used.
        CommandError, UnreachableError: Kafka did not add the partitions, or does not answer.
    """
    overrides.check()
    check_topic(topic, "TOPIC")
    settings = load_settings(config)
    given_limits = overrides.apply_to(settings.limits)
    limits = limits_for_topic(topic, given_limits)
    probe(settings)
    with PlacingClient(settings.kafka, _CLIENT_ID) as client, raise_as_command_errors():
        before = read_layout(client, settings, _CLIENT_ID)
        existing = before.topics.get(topic)
        if not existing:
            raise BadInputError(
                f"TOPIC: {topic} does not exist, or this user may not describe it: check the name; `rheostat limits create` "
                "creates a topic"
            )
        cordoned = read_cordoned_brokers(client, before)
        request = placement_request(topic, partitions, None, existing, before.brokers, cordoned, "--to")
        try:
            placement = place(request, open_racks(before, cordoned), count_replicas(before), limits)
        except PolicyViolation as violation:
            text = f"{violation}{cordoned_text(cordoned)}"
            if as_json:
                out(json.dumps({"grown": False, "policy_violation": text}, indent=2))
            tell(text)
            return EXIT_NOT_WELL
        placement = avoid_fetcher_collisions(client, before, topic, placement)
        new = PlacedPartitions(topic, len(existing), placement)
        with raise_as_command_errors("The partitions cannot be added"):
            refusal = client.add_placed(topic, partitions, placement)
        # The client repeats a request that timed out. If the first attempt has added the partitions, Kafka refuses the second
        # attempt, and the topic has exactly the placement of this command.
        may_be_added = refusal is None or _count(client, topic) == partitions
        is_read_back = may_be_added and wait_for_placement(client, new)
        if refusal is not None and not is_read_back:
            raise refusal_error(topic, refusal, len(existing), _count(client, topic))
        after = read_layout(client, settings, _CLIENT_ID)
    tell(
        f"Topic {topic}: clients that choose the partition by the key of a record send many keys to other partitions from now on."
    )
    return show_outcome(
        f"Grown: topic {topic} from {len(existing)} to {partitions} partitions, replication factor {request.replication}",
        "grown",
        new,
        PartitionsAfter(after, limits, are_set=given_limits is not None, is_read_back=is_read_back),
        as_json=as_json,
    )


def _count(client: PlacingClient, topic: str) -> int:
    return len(client.partitions([topic]))


def refusal_error(topic: str, refusal: TopicRefusal, before: int, now: int) -> CommandError:
    """Returns the error for Kafka's refusal.

    Args:
        before: number of partitions when the new partitions were placed.
        now: number of partitions after the refusal.
    """
    if now != before:
        return CommandError(
            f"Another client changed topic {topic} from {before} to {now} partitions at the same time, so Kafka refused this "
            "request: nothing was changed. Check the number of partitions, and run the command again if they are too few."
        )
    return CommandError(f"Kafka did not add partitions to topic {topic}: {refusal.text}. Nothing was changed.")
