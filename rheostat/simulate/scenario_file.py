"""Reads a scenario file and builds the world to simulate. Each fault is reported with its line and key.

The file is checked in three rounds, because each round relies on the previous one: keys and units; consistent brokers, topics and
times; a possible move with a possible deadline. All faults of a round are reported together.
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
from tuner.simulation.optimum import optimum_s
from tuner.simulation.scenario import Scenario, Topic, lay_out, with_throttle
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
from tuner.simulation.world_json import read_world

# The default ceiling, as a share of the slowest link: one tenth is left for unmeasured traffic, and one for the latency objective.
_CEILING_SHARE = 0.8


def shipped_scenarios() -> dict[str, Path]:
    """Returns the scenarios that come with rheostat, by name."""
    return {path.stem: path for path in sorted(conf_file("scenarios").glob("*.yaml"))}


def load_scenario(name_or_file: str, seed: int | None = None) -> Scenario:
    """Reads a scenario.

    Args:
        name_or_file: a file, or the name of a shipped scenario. A file that ends in ``.json`` holds a random world (brokers,
            partitions and loads) that ``benchmarks.control --worst`` has written.
        seed: replaces the seed of a YAML file. A world has its own seed, which is not replaced.

    Raises:
        BadInputError: every fault of the first round that finds any, one per line.
    """
    shipped = shipped_scenarios()
    path = shipped.get(name_or_file, Path(name_or_file))
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise BadInputError(
            f"{path}: cannot be read: {error.strerror or error}\nexpected a file, or one of {', '.join(shipped)}"
        ) from error
    if path.suffix == ".json":
        return _world_scenario(text, path)
    return parse_scenario(text, str(path), name=path.stem, seed=seed)


def _world_scenario(text: str, path: Path) -> Scenario:
    """Returns the scenario of a random world that a benchmark has written as JSON, with the seed of that world."""
    try:
        world = read_world(text)
    except ValueError as error:
        raise BadInputError(f"{path}: {error}") from error
    if not world.moving:
        raise BadInputError(f"{path}: expected something to copy, found no partition that moves")
    return Scenario(path.stem, "a random world", world, rate_bytes_per_s_max=_CEILING_SHARE * _slowest_link(world))


def _slowest_link(world: World) -> float:
    return min(min(b.link_in_bytes_per_s, b.link_out_bytes_per_s) for b in world.brokers)


def parse_scenario(text: str, file: str, *, name: str, seed: int | None = None) -> Scenario:
    """Returns the scenario in ``text``; ``file`` is the file's name in error messages. Raises as ``load_scenario`` does."""
    source = YamlFile(text, file)
    try:
        schema = ScenarioSchema.model_validate(source.body)
    except ValidationError as error:
        raise BadInputError("\n".join(source.faults(error, ScenarioSchema))) from error
    if faults := [source.fault(at, message) for at, message in find_faults(schema)]:
        raise BadInputError("\n".join(faults))
    try:
        world = _build_world(schema, schema.seed if seed is None else seed)
    except moves.NoSuchMove as error:
        raise BadInputError(source.fault(("move", _move_kind(schema)), str(error))) from error
    if not world.moving:
        raise BadInputError(
            source.fault(("move",), "expected something to copy, found every replica on its target broker already")
        )
    if schema.deadline is not None:
        fastest_s = optimum_s(world)
        # If no schedule ends the moves at all, the report of the run explains the reason.
        if fastest_s is not None and schema.deadline < fastest_s:
            message = f"expected at least {span_text(fastest_s)}, the fastest possible schedule, found {span_text(schema.deadline)}"
            raise BadInputError(source.fault(("deadline",), message))
    return Scenario(
        name=name,
        about=" ".join(schema.about.split()),
        world=world,
        rate_bytes_per_s_max=schema.ceiling if schema.ceiling is not None else _CEILING_SHARE * _slowest_link(world),
        deadline_s=schema.deadline,
        share_max=schema.share,
    )


def _move_kind(schema: ScenarioSchema) -> str:
    """Returns the only key of ``move`` that is set: add, drain, replace or plan."""
    return next(key for key in type(schema.move).model_fields if getattr(schema.move, key) is not None)


def _build_world(schema: ScenarioSchema, seed: int) -> World:
    ids = [b.id for b in schema.brokers]
    load = schema.load
    world = World(
        seed=seed,
        brokers=tuple(
            BrokerSpec(
                b.id,
                link_in_bytes_per_s=b.link or schema.link,
                link_out_bytes_per_s=b.link or schema.link,
                disk_write_bytes_per_s=b.disk or schema.disk,
                disk_read_bytes_per_s=b.disk or schema.disk,
            )
            for b in schema.brokers
        ),
        partitions=tuple(_apply_move(schema, lay_out(_build_topics(schema), seed))),
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
        disturbances=tuple(_build_disturbances(schema)),
        duration_s_max=float(math.ceil(schema.duration)),
        moves_begin_s=schema.begin,
        fetch=FetchSettings(
            response_bytes_max=schema.fetch.response,
            partition_bytes_max=schema.fetch.partition,
            fetchers=schema.fetch.threads,
            quota_samples=schema.fetch.quota_samples,
            thread_bytes_per_s_max=schema.fetch.thread_rate,
        ),
        latency=LatencyModel(
            base_ms=1000 * schema.latency.base, objective_utilisation=1 - schema.latency.base / schema.latency.objective
        ),
        delivery=SignalDelivery(
            scrape_every_s=schema.signals.every,
            window_s=schema.signals.window,
            delay_s_min=schema.signals.delay,
            delay_s_max=schema.signals.delay_max,
            loss_ratio=schema.signals.loss,
        ),
    )
    return world if schema.throttle is None else with_throttle(world, round(schema.throttle))


def _build_topics(schema: ScenarioSchema) -> Iterable[Topic]:
    move = schema.move
    joining = {*(move.add or ()), *(move.replace or {}).values()}
    initial_brokers = tuple(b.id for b in schema.brokers if b.id not in joining)
    for topic in schema.topics:
        holders = topic.brokers or initial_brokers
        yield Topic(
            topic.name,
            partitions=len(topic.replicas) if topic.replicas else topic.partitions or 1,
            size_bytes=topic.size,
            write_bytes_per_s=topic.write,
            replication=topic.replication,
            on=holders,
            leaders=topic.leaders or holders,
            spread_ratio=topic.spread,
            replicas=topic.replicas or (),
        )


def _apply_move(schema: ScenarioSchema, partitions: list[PartitionSpec]) -> list[PartitionSpec]:
    move = schema.move
    if move.add is not None:
        return moves.join(partitions, move.add)
    if move.drain is not None:
        return moves.drain(partitions, move.drain, [b.id for b in schema.brokers])
    if move.replace is not None:
        return moves.replace_brokers(partitions, move.replace)
    entries = move.plan.partitions if move.plan is not None else ()
    return moves.apply_plan(partitions, {(e.topic, e.partition): e.replicas for e in entries})


def _build_disturbances(schema: ScenarioSchema) -> Iterable[Disturbance]:
    all_brokers = tuple(b.id for b in schema.brokers)
    for step in schema.load.steps:
        yield LoadStep(step.at, step.until, step.brokers or all_brokers, step.factor)
    for disturbance in schema.disturbances:
        match disturbance:
            case SlowLink():
                yield LinkStep(disturbance.at, disturbance.until, disturbance.brokers, disturbance.factor)
            case BrokerDown():
                yield BrokerLoss(disturbance.at, disturbance.until, disturbance.broker)
            case NoSignals():
                yield SignalOutage(disturbance.at, disturbance.until, disturbance.brokers or all_brokers)
            case ControllerBusy():
                yield ControllerStorm(disturbance.at, disturbance.until, disturbance.operations_per_s)
            case LeaderChange():
                yield LeaderMove(disturbance.at, disturbance.topic, disturbance.partition, disturbance.to)
            case OperatorSets():
                rate = None if disturbance.rate is None else round(disturbance.rate)
                yield OperatorWrite(disturbance.at, disturbance.broker, Side(disturbance.side), rate)
