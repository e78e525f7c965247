"""Checks that the parts of a scenario are consistent: known brokers and topics, no duplicates, times in order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rheostat.config.yaml_file import Path
from rheostat.simulate.disturbance_schema import LeaderChange
from rheostat.simulate.scenario_schema import ScenarioSchema, TopicSchema
from streaming.shared.units import span_text

BROKER_SECONDS_MAX = 20_000_000  # A run keeps every second of every broker, which is over a gigabyte at this size.

Fault = tuple[Path, str]


def find_faults(schema: ScenarioSchema) -> list[Fault]:
    """Returns every fault, with the path of its key."""
    return [
        *_check_brokers(schema),
        *_check_topics(schema),
        *_check_move(schema),
        *_check_times(schema),
        *_check_goal(schema),
        *_check_disturbances(schema),
    ]


def _check_brokers(schema: ScenarioSchema) -> Iterator[Fault]:
    ids = [b.id for b in schema.brokers]
    yield from _find_duplicates(("brokers",), ids, "broker")
    size = math.ceil(schema.duration) * len(ids)
    if size > BROKER_SECONDS_MAX:
        longest_s = BROKER_SECONDS_MAX // len(ids)
        yield (
            ("duration",),
            f"expected at most {span_text(longest_s)} with {len(ids)} brokers, found {span_text(schema.duration)}",
        )


def _check_topics(schema: ScenarioSchema) -> Iterator[Fault]:
    known = {b.id for b in schema.brokers}
    names = [t.name for t in schema.topics]
    yield from _find_duplicates(("topics",), names, "topic", key="name")
    joining = {*(schema.move.add or ()), *(schema.move.replace or {}).values()}
    for i, topic in enumerate(schema.topics):
        at: Path = ("topics", i)
        if topic.replicas is not None:
            yield from _check_replicas(topic, at, known)
            continue
        if topic.partitions is None:
            yield (
                (*at, "partitions"),
                "is missing: give the number of partitions (or replicas, with the brokers of each)",
            )
        holders = topic.brokers if topic.brokers is not None else tuple(known - joining)
        yield from _find_unknown_brokers((*at, "brokers"), topic.brokers or (), known)
        yield from _find_duplicates((*at, "brokers"), topic.brokers or (), "broker")
        if len(holders) < topic.replication:
            key = "brokers" if topic.brokers is not None else "replication"
            yield (
                (*at, key),
                f"expected at least as many brokers as replicas ({topic.replication}), found {len(holders)}",
            )
        without_topic = sorted(set(topic.leaders or ()) - set(holders))
        if without_topic:
            yield (
                (*at, "leaders"),
                f"expected only brokers that hold the topic ({_brokers_text(holders)}), found {_brokers_text(without_topic)}",
            )
        yield from _find_duplicates((*at, "leaders"), topic.leaders or (), "broker")


def _check_replicas(topic: TopicSchema, at: Path, known: set[int]) -> Iterator[Fault]:
    for key in ("partitions", "brokers", "leaders", "replication"):
        if key in topic.model_fields_set:
            yield (*at, key), "expected not to be set together with replicas"
    for p, replicas in enumerate(topic.replicas or ()):
        yield from _find_unknown_brokers((*at, "replicas", p), replicas, known)
        yield from _find_duplicates((*at, "replicas", p), replicas, "replica on broker")


def _check_move(schema: ScenarioSchema) -> Iterator[Fault]:
    known, move = {b.id for b in schema.brokers}, schema.move
    for key, brokers in (("add", move.add), ("drain", move.drain)):
        yield from _find_unknown_brokers(("move", key), brokers or (), known)
        yield from _find_duplicates(("move", key), brokers or (), "broker")
    for old, new in (move.replace or {}).items():
        yield from _find_unknown_brokers(("move", "replace", old), (old, new), known)
    yield from _find_duplicates(("move", "replace"), list((move.replace or {}).values()), "new broker")
    counts = _partition_counts(schema)
    entries = move.plan.partitions if move.plan is not None else ()
    for i, entry in enumerate(entries):
        at: Path = ("move", "plan", "partitions", i)
        yield from _check_partition(at, entry.topic, entry.partition, counts)
        yield from _find_unknown_brokers((*at, "replicas"), entry.replicas, known)
        yield from _find_duplicates((*at, "replicas"), entry.replicas, "replica on broker")
    yield from _find_duplicates(
        ("move", "plan", "partitions"), [f"{e.topic}-{e.partition}" for e in entries], "partition"
    )


def _check_times(schema: ScenarioSchema) -> Iterator[Fault]:
    if schema.begin >= schema.duration:
        yield (
            ("begin",),
            f"expected a time before the end ({span_text(schema.duration)}), found {span_text(schema.begin)}",
        )
    for i, step in enumerate(schema.load.steps):
        yield from _check_time(("load", "steps", i, "at"), step.at, schema.duration)
        yield from _find_unknown_brokers(
            ("load", "steps", i, "brokers"), step.brokers or (), {b.id for b in schema.brokers}
        )


def _check_goal(schema: ScenarioSchema) -> Iterator[Fault]:
    if schema.deadline is not None and schema.share is not None:
        yield (
            ("share",),
            "expected deadline or share, as rheostat has one goal at a time, found both: leave share out, and try the share with "
            f"--policy rheostat:share:{schema.share:g}",
        )


def _check_disturbances(schema: ScenarioSchema) -> Iterator[Fault]:
    known, counts = {b.id for b in schema.brokers}, _partition_counts(schema)
    for i, disturbance in enumerate(schema.disturbances):
        at: Path = ("disturbances", i)
        yield from _check_time((*at, "at"), disturbance.at, schema.duration)
        for key in ("broker", "brokers", "to"):
            value = getattr(disturbance, key, None)  # One broker, several brokers, or not a key of this disturbance.
            brokers = (value,) if isinstance(value, int) else value or ()
            yield from _find_unknown_brokers((*at, key), brokers, known)
        if isinstance(disturbance, LeaderChange):
            yield from _check_partition(at, disturbance.topic, disturbance.partition, counts)


def _partition_counts(schema: ScenarioSchema) -> dict[str, int]:
    """Returns the number of partitions of each topic."""
    return {t.name: len(t.replicas) if t.replicas is not None else t.partitions or 0 for t in schema.topics}


def _check_partition(at: Path, topic: str, partition: int, counts: Mapping[str, int]) -> Iterator[Fault]:
    if topic not in counts:
        yield (*at, "topic"), f"unknown topic {topic}, there are {', '.join(counts)}"
    elif partition >= counts[topic]:
        yield (*at, "partition"), f"{topic} has no partition {partition}, there are 0 to {counts[topic] - 1}"


def _check_time(at: Path, moment_s: float, duration_s: float) -> Iterator[Fault]:
    if moment_s >= duration_s:
        yield at, f"expected a time before the end ({span_text(duration_s)}), found {span_text(moment_s)}"


def _find_unknown_brokers(at: Path, brokers: Iterable[int], known: set[int]) -> Iterator[Fault]:
    for broker in brokers:
        if broker not in known:
            yield at, f"unknown broker {broker}, there are {_brokers_text(known)}"


def _find_duplicates(at: Path, values: Sequence[object], kind: str, key: str | None = None) -> Iterator[Fault]:
    """Yields a fault for each value that is listed twice.

    Args:
        kind: the noun for the values, for the message.
        key: the key of the value in each item of the list; None if the items are the values.
    """
    for i, value in enumerate(values):
        if value in values[:i]:
            yield (*at, i, *([key] if key else [])), f"{kind} {value} is listed twice"


def _brokers_text(brokers: Iterable[int]) -> str:
    """Returns the brokers as text; a long range without gaps as ``1 to 1000``."""
    ordered = sorted(brokers)
    if len(ordered) > 4 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))
