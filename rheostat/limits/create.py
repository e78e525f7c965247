"""`rheostat limits create`: a new topic, placed where the limits leave room, or refused as KIP-578 has Kafka refuse it.

Kafka knows nothing of the limits, so between the look and the creation somebody else may take the same room: what stands
afterwards is counted again, and told. Nothing is taken back: a topic that somebody may write to by now is not ours to delete.
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
from rheostat.limits.command import applied_to, counts_of, plan_of, wanted_of
from rheostat.limits.overrides import LimitOverrides, check_topic, parse_topic_configs
from rheostat.limits.report import report
from rheostat.limits.view import sentences
from rheostat.plan.cluster_layout import ending_failures, look
from rheostat.run.services import probe
from streaming.shared import kafka_names
from streaming.shared.kafka.placed_topics import PlacingClient, TopicRefusal
from tuner.core.partition_limits import PartitionCounts, PartitionLimits
from tuner.planning.placement import PolicyViolation, place

_CLIENT_ID = "rheostat-limits"
SHOWN_S_MAX = 15.0  # Until every partition has a leader, also on a busy cluster.
_POLL_S = 0.2

Placed = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int
    replication: int
    configs: Sequence[str] = ()  # "retention.ms=60000".


def run_create(config: Path, given: LimitOverrides, asked: NewTopic, *, as_json: bool) -> int:
    """Creates the topic and reads it back; returns the exit code."""
    given.check()
    check_topic(asked.name)
    configs = parse_topic_configs(asked.configs)
    settings = load_settings(config)
    said = given.over(settings.limits)
    limits = applied_to(asked.name, said)
    probe(settings)
    with PlacingClient(settings.kafka, _CLIENT_ID) as client, ending_failures():
        before = look(client, settings, _CLIENT_ID)
        if there := before.topics.get(asked.name):
            raise BadInputError(
                f"--topic: {asked.name} exists already, with {len(there)} partitions: expected a new name. Where more partitions "
                "of it fit, `rheostat limits place` says"
            )
        counts = counts_of(before)
        wanted = wanted_of(asked.name, asked.partitions, asked.replication, (), len(before.brokers))
        try:
            placed = place(wanted, before.racks, counts, limits)
        except PolicyViolation as violation:
            if as_json:
                _write({"created": False, "policy_violation": str(violation)})
            tell(str(violation))
            return EXIT_NOT_WELL
        with ending_failures("The topic cannot be created"):
            refusal = client.create_placed(asked.name, placed, configs)
        if refusal is not None and refusal.code != kafka_names.ERROR_TOPIC_ALREADY_EXISTS:
            raise refused(refusal)
        stands = _read_back(client, asked.name, placed)
        # The first of two brokers asked may have answered too late, and done it.
        if refusal is not None and not stands:
            raise CommandError(f"Topic {asked.name} was created by somebody else just now: nothing was changed.")
        after = look(client, settings, _CLIENT_ID)
    over = filled_meanwhile(placed, counts_of(after), limits)
    made = report(after.source, after.racks, counts_of(after), limits, binding=said is not None)
    if as_json:
        _write(
            {
                "created": True,
                "plan": plan_of(asked.name, 0, placed),
                "policy_violation": None,
                "read_back": stands,
                "over": over,
            }
        )
    else:
        out(json.dumps(plan_of(asked.name, 0, placed)))
    shown = "read back as placed above" if stands else f"but not seen so within {SHOWN_S_MAX:g} s: look at the brokers"
    tell(
        f"Created: topic {asked.name}, {asked.partitions} partitions, replication factor {asked.replication}; {shown}."
    )
    for line in (*over, *(() if said is None else sentences(made)[1:])):
        tell(str(line))
    return EXIT_DONE if stands and not over else EXIT_NOT_WELL


def refused(refusal: TopicRefusal) -> CommandError:
    """What Kafka would not take: a fault of what was given, or of the moment."""
    if refusal.code == kafka_names.ERROR_INVALID_CONFIG:
        return BadInputError(f"--topic-config: Kafka refuses it: {refusal.text}")
    if refusal.code == kafka_names.ERROR_INVALID_TOPIC:
        return BadInputError(f"--topic: Kafka refuses it: {refusal.text}")
    return CommandError(f"Kafka did not create the topic: {refusal.text}. Nothing was changed.")


def filled_meanwhile(placed: Placed, after: PartitionCounts, limits: PartitionLimits) -> list[str]:
    """Whose limit is passed although our part left it whole: somebody else took the same room.

    Args:
        placed: within the limits as they were looked at.
        after: what is counted with the new topic.
    """
    found = [
        _raced(f"broker {broker} has", after.on_broker(broker), limits.for_broker(broker))
        for broker in sorted({broker for brokers in placed for broker in brokers})
        if after.on_broker(broker) > limits.for_broker(broker)
    ]
    if after.total > limits.partitions_max:
        found.append(_raced("the cluster has", after.total, limits.partitions_max))
    return found


def _raced(who: str, count: int, limit: int) -> str:
    return (
        f"POLICY_VIOLATION in a race: {who} {count} partitions of {limit}, as others were created at the same moment. "
        "Nothing was taken back: delete what is not needed."
    )


def _read_back(client: PlacingClient, topic: str, placed: Placed) -> bool:
    """Whether the topic stands as asked, each partition with a leader, within the time it takes."""
    until_s = time.monotonic() + SHOWN_S_MAX
    while True:
        states = {state.partition: state for state in client.partitions([topic])}
        if all(
            n in states and states[n].leader >= 0 and states[n].replicas == tuple(brokers)
            for n, brokers in enumerate(placed)
        ) and len(states) == len(placed):
            return True
        if time.monotonic() >= until_s:
            return False
        threading.Event().wait(_POLL_S)


def _write(record: Mapping[str, object]) -> None:
    out(json.dumps(record, indent=2))
