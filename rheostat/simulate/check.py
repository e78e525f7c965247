"""Do the parts of a scenario fit each other: brokers and topics that there are, replicas once, times that come in order?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rheostat.config.yaml_file import Path
from rheostat.simulate.disturbance_schema import LeaderChange
from rheostat.simulate.scenario_schema import ScenarioSchema, TopicSchema
from streaming.shared.units import span_text

BROKER_SECONDS_MAX = 20_000_000  # Every second of every broker is kept: a good gigabyte at this size.

Fault = tuple[Path, str]


def find_faults(words: ScenarioSchema) -> list[Fault]:
    """Every fault, with the key where it stands."""
    return [*_brokers(words), *_topics(words), *_move(words), *_times(words), *_goal(words), *_disturbances(words)]


def _brokers(words: ScenarioSchema) -> Iterator[Fault]:
    ids = [b.id for b in words.brokers]
    yield from _twice(("brokers",), ids, "broker")
    size = math.ceil(words.duration) * len(ids)
    if size > BROKER_SECONDS_MAX:
        longest_s = BROKER_SECONDS_MAX // len(ids)
        yield (
            ("duration",),
            f"expected at most {span_text(longest_s)} with {len(ids)} brokers, found {span_text(words.duration)}",
        )


def _topics(words: ScenarioSchema) -> Iterator[Fault]:
    known = {b.id for b in words.brokers}
    names = [t.name for t in words.topics]
    yield from _twice(("topics",), names, "topic", key="name")
    joining = {*(words.move.add or ()), *(words.move.replace or {}).values()}
    for i, topic in enumerate(words.topics):
        at: Path = ("topics", i)
        if topic.replicas is not None:
            yield from _spelt_out(topic, at, known)
            continue
        if topic.partitions is None:
            yield (*at, "partitions"), "is missing: how many partitions (or, with replicas, each one's brokers)"
        on = topic.brokers if topic.brokers is not None else tuple(known - joining)
        yield from _unknown((*at, "brokers"), topic.brokers or (), known)
        yield from _twice((*at, "brokers"), topic.brokers or (), "broker")
        if len(on) < topic.replication:
            where = "brokers" if topic.brokers is not None else "replication"
            yield (*at, where), f"expected at least as many brokers as replicas ({topic.replication}), found {len(on)}"
        strangers = sorted(set(topic.leaders or ()) - set(on))
        if strangers:
            yield (
                (*at, "leaders"),
                f"expected only brokers that hold the topic ({_listed(on)}), found {_listed(strangers)}",
            )
        yield from _twice((*at, "leaders"), topic.leaders or (), "broker")


def _spelt_out(topic: TopicSchema, at: Path, known: set[int]) -> Iterator[Fault]:
    for key in ("partitions", "brokers", "leaders", "replication"):
        if key in topic.model_fields_set:
            yield (*at, key), "expected not to be there, as replicas says it"
    for p, replicas in enumerate(topic.replicas or ()):
        yield from _unknown((*at, "replicas", p), replicas, known)
        yield from _twice((*at, "replicas", p), replicas, "replica on broker")


def _move(words: ScenarioSchema) -> Iterator[Fault]:
    known, move = {b.id for b in words.brokers}, words.move
    for key, brokers in (("add", move.add), ("drain", move.drain)):
        yield from _unknown(("move", key), brokers or (), known)
        yield from _twice(("move", key), brokers or (), "broker")
    for old, new in (move.replace or {}).items():
        yield from _unknown(("move", "replace", old), (old, new), known)
    yield from _twice(("move", "replace"), list((move.replace or {}).values()), "new broker")
    counts = _partition_counts(words)
    entries = move.plan.partitions if move.plan is not None else ()
    for i, entry in enumerate(entries):
        at: Path = ("move", "plan", "partitions", i)
        yield from _partition(at, entry.topic, entry.partition, counts)
        yield from _unknown((*at, "replicas"), entry.replicas, known)
        yield from _twice((*at, "replicas"), entry.replicas, "replica on broker")
    yield from _twice(("move", "plan", "partitions"), [f"{e.topic}-{e.partition}" for e in entries], "partition")


def _times(words: ScenarioSchema) -> Iterator[Fault]:
    if words.begin >= words.duration:
        yield (
            ("begin",),
            f"expected a time before the end ({span_text(words.duration)}), found {span_text(words.begin)}",
        )
    for i, step in enumerate(words.load.steps):
        yield from _in_time(("load", "steps", i, "at"), step.at, words.duration)
        yield from _unknown(("load", "steps", i, "brokers"), step.brokers or (), {b.id for b in words.brokers})


def _goal(words: ScenarioSchema) -> Iterator[Fault]:
    if words.deadline is not None and words.share is not None:
        yield (
            ("share",),
            "expected deadline or share, as rheostat has one goal at a time, found both: leave share out, and try it with "
            f"--policy rheostat:share:{words.share:g}",
        )


def _disturbances(words: ScenarioSchema) -> Iterator[Fault]:
    known, counts = {b.id for b in words.brokers}, _partition_counts(words)
    for i, what in enumerate(words.disturbances):
        at: Path = ("disturbances", i)
        yield from _in_time((*at, "at"), what.at, words.duration)
        for key in ("broker", "brokers", "to"):
            named = getattr(what, key, None)
            yield from _unknown((*at, key), [named] if isinstance(named, int) else named or (), known)
        if isinstance(what, LeaderChange):
            yield from _partition(at, what.topic, what.partition, counts)


def _partition_counts(words: ScenarioSchema) -> dict[str, int]:
    return {t.name: len(t.replicas) if t.replicas is not None else t.partitions or 0 for t in words.topics}


def _partition(at: Path, topic: str, partition: int, counts: Mapping[str, int]) -> Iterator[Fault]:
    if topic not in counts:
        yield (*at, "topic"), f"unknown topic {topic}, there are {', '.join(counts)}"
    elif partition >= counts[topic]:
        yield (*at, "partition"), f"{topic} has no partition {partition}, there are 0 to {counts[topic] - 1}"


def _in_time(at: Path, moment_s: float, duration_s: float) -> Iterator[Fault]:
    if moment_s >= duration_s:
        yield at, f"expected a time before the end ({span_text(duration_s)}), found {span_text(moment_s)}"


def _unknown(at: Path, brokers: Iterable[int], known: set[int]) -> Iterator[Fault]:
    for broker in brokers:
        if broker not in known:
            yield at, f"unknown broker {broker}, there are {_listed(known)}"


def _twice(at: Path, values: Sequence[object], what: str, key: str | None = None) -> Iterator[Fault]:
    for i, value in enumerate(values):
        if value in values[:i]:
            yield (*at, i, *([key] if key else [])), f"{what} {value} stands twice"


def _listed(brokers: Iterable[int]) -> str:
    """``1 to 1000``, where that says all."""
    ordered = sorted(brokers)
    if len(ordered) > 4 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))
