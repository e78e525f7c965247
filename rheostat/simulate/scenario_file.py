"""A scenario file → a world to simulate. Every fault of the file is named with line and key, all of one kind at once.

Faults come in three rounds, as each needs the one before: words and units; brokers, topics and times that fit each other;
a move that can be made, in a time that can be kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from rheostat.config.resources import conf_file
from rheostat.config.yaml_file import YamlFile
from rheostat.errors import BadInputError
from rheostat.simulate.check import find_faults
from rheostat.simulate.disturbance_schema import (
    BrokerDown,
    ControllerBusy,
    LeaderChange,
    NoSignals,
    OperatorSets,
    SlowLink,
)
from rheostat.simulate.scenario_schema import ScenarioSchema
from streaming.shared.contract import Side
from streaming.shared.units import span_text
from tuner.simulation import moves
from tuner.simulation import scenario as made
from tuner.simulation.optimum import optimum_s
from tuner.simulation.world import (
    BrokerLoss,
    BrokerSpec,
    ClientLoad,
    ControllerStorm,
    Disturbance,
    FetchSettings,
    LatencyModel,
    LeaderMove,
    LinkStep,
    LoadStep,
    OperatorWrite,
    PartitionSpec,
    SignalDelivery,
    SignalOutage,
    World,
)

_CEILING_SHARE = 0.8  # Of the slowest link: a tenth for what is not measured, a tenth for the objective.


def shipped_scenarios() -> dict[str, Path]:
    """The scenarios that come with rheostat, by name."""
    return {path.stem: path for path in sorted(conf_file("scenarios").glob("*.yaml"))}


def load_scenario(named: str, seed: int | None = None) -> made.Scenario:
    """
    Args:
        named: a file, or the name of a shipped scenario.
        seed: in place of the file's.

    Raises:
        BadInputError: with every fault, one a line.
    """
    known = shipped_scenarios()
    path = known.get(named, Path(named))
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        why = f"{path}: cannot be read: {error.strerror or error}"
        raise BadInputError(f"{why}\nexpected a file, or one of {', '.join(known)}") from error
    return parse_scenario(text, str(path), name=path.stem, seed=seed)


def parse_scenario(text: str, file: str, *, name: str, seed: int | None = None) -> made.Scenario:
    source = YamlFile(text, file)
    try:
        words = ScenarioSchema.model_validate(source.body)
    except ValidationError as error:
        raise BadInputError("\n".join(source.faults(error, ScenarioSchema))) from error
    if faults := [source.fault(at, message) for at, message in find_faults(words)]:
        raise BadInputError("\n".join(faults))
    try:
        world = _world(words, words.seed if seed is None else seed)
    except moves.NoSuchMove as error:
        raise BadInputError(source.fault(("move", _kind(words)), str(error))) from error
    if not world.moving:
        raise BadInputError(
            source.fault(("move",), "expected something to copy, found every replica in its place already")
        )
    if words.deadline is not None:
        least_s = optimum_s(world)
        # Without any schedule at all the run itself says why; a deadline is only wrong beside a time that there is.
        if least_s is not None and words.deadline < least_s:
            message = (
                f"expected at least {span_text(least_s)}, which nobody can beat here, found {span_text(words.deadline)}"
            )
            raise BadInputError(source.fault(("deadline",), message))
    slowest = min(min(b.link_in_bytes_per_s, b.link_out_bytes_per_s) for b in world.brokers)
    ceiling = words.ceiling if words.ceiling is not None else _CEILING_SHARE * slowest
    return made.Scenario(name, " ".join(words.about.split()), world, ceiling, words.deadline, words.share)


def _kind(words: ScenarioSchema) -> str:
    return next(key for key in type(words.move).model_fields if getattr(words.move, key) is not None)


def _world(words: ScenarioSchema, seed: int) -> World:
    ids = [b.id for b in words.brokers]
    load = words.load
    world = World(
        seed=seed,
        brokers=tuple(
            BrokerSpec(b.id, *[b.link or words.link] * 2, *[b.disk or words.disk] * 2) for b in words.brokers
        ),
        partitions=tuple(_moved(words, made.lay_out(_topics(words), seed))),
        loads=tuple(
            ClientLoad(
                b,
                in_bytes_per_s=load.writes,
                out_bytes_per_s=load.reads,
                reads_per_write=load.reads_per_write,
                daily_ratio=load.daily,
                daily_phase_s=load.phase,
                day_s=load.day,
                noise_ratio=load.noise,
                noise_s=load.noise_lasts,
            )
            for b in ids
        ),
        disturbances=tuple(_disturbances(words)),
        duration_s_max=float(math.ceil(words.duration)),
        moves_begin_s=words.begin,
        fetch=FetchSettings(
            response_bytes_max=words.fetch.response,
            partition_bytes_max=words.fetch.partition,
            fetchers=words.fetch.threads,
            quota_samples=words.fetch.quota_samples,
            thread_bytes_per_s_max=words.fetch.thread_rate,
        ),
        latency=LatencyModel(
            base_ms=1000 * words.latency.base, objective_utilisation=1 - words.latency.base / words.latency.objective
        ),
        delivery=SignalDelivery(
            words.signals.every, words.signals.window, words.signals.delay, words.signals.delay_max, words.signals.loss
        ),
    )
    return world if words.throttle is None else made.with_throttle(world, round(words.throttle))


def _topics(words: ScenarioSchema) -> Iterable[made.Topic]:
    move = words.move
    joining = {*(move.add or ()), *(move.replace or {}).values()}
    old = tuple(b.id for b in words.brokers if b.id not in joining)
    for topic in words.topics:
        on = topic.brokers or old
        yield made.Topic(
            topic.name,
            partitions=len(topic.replicas) if topic.replicas else topic.partitions or 1,
            size_bytes=topic.size,
            write_bytes_per_s=topic.write,
            replication=topic.replication,
            on=on,
            leaders=topic.leaders or on,
            spread_ratio=topic.spread,
            replicas=topic.replicas or (),
        )


def _moved(words: ScenarioSchema, partitions: list[PartitionSpec]) -> list[PartitionSpec]:
    move = words.move
    if move.add is not None:
        return moves.join(partitions, move.add)
    if move.drain is not None:
        return moves.drain(partitions, move.drain, [b.id for b in words.brokers])
    if move.replace is not None:
        return moves.replace_brokers(partitions, move.replace)
    entries = move.plan.partitions if move.plan is not None else ()
    return moves.apply_plan(partitions, {(e.topic, e.partition): e.replicas for e in entries})


def _disturbances(words: ScenarioSchema) -> Iterable[Disturbance]:
    everybody = tuple(b.id for b in words.brokers)
    for step in words.load.steps:
        yield LoadStep(step.at, step.until, step.brokers or everybody, step.factor)
    for what in words.disturbances:
        match what:
            case SlowLink():
                yield LinkStep(what.at, what.until, what.brokers, what.factor)
            case BrokerDown():
                yield BrokerLoss(what.at, what.until, what.broker)
            case NoSignals():
                yield SignalOutage(what.at, what.until, what.brokers or everybody)
            case ControllerBusy():
                yield ControllerStorm(what.at, what.until, what.operations_per_s)
            case LeaderChange():
                yield LeaderMove(what.at, what.topic, what.partition, what.to)
            case OperatorSets():
                rate = None if what.rate is None else round(what.rate)
                yield OperatorWrite(what.at, what.broker, Side(what.side), rate)
