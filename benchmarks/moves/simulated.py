"""Runs one plan with one executor in its own process, so that its memory and CPU time can be measured."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from benchmarks.moves.controller_latency import ControllerLine
from benchmarks.moves.plan_run import run_plan
from benchmarks.moves.rivals import AllAtOnce, Batches, CruiseControl, KipBatches
from benchmarks.moves.simulated_reassignments import Executor, Ours
from benchmarks.moves.worlds import BROKERS, FOUR, PARTITIONS, WORLDS, four_brokers
from tuner.core.batch_limits import BatchLimits
from tuner.core.side_load import PlannedPartition
from tuner.planning.fluid_bound import FluidBound, fluid_bound
from tuner.simulation.world import World

OURS = "rheostat"
RIVAL_OVER_OPTIMUM_MAX = 3.0  # A slower run is stopped: it would take hours and change no verdict.
_MAKERS: dict[str, Callable[[World, ControllerLine], Executor]] = {
    OURS: lambda world, line: Ours(rates_of(world), line),
    "all at once": lambda _world, _line: AllAtOnce(),
    "batches of 5": lambda _world, _line: Batches(5),
    "batches of 50": lambda _world, _line: Batches(50),
    "the KIP's 500": lambda _world, _line: KipBatches(BatchLimits(200, 500)),
    "cruise control": lambda world, _line: CruiseControl(world.latency.objective_ms),
}
EXECUTORS = tuple(_MAKERS)


def rates_of(world: World) -> dict[tuple[int, Any], float]:
    return {(start.broker, start.side): float(start.rate_bytes_per_s) for start in world.rates}


def optimum(world: World) -> FluidBound:
    """Returns T* of the plan at the current throttles."""
    plan = [
        PlannedPartition(
            p.topic,
            p.partition,
            p.replicas[0],
            frozenset(p.replicas),
            p.write_bytes_per_s,
            dict.fromkeys(p.adding, p.size_bytes),
        )
        for p in world.moving
    ]
    return fluid_bound(plan, rates_of(world))


def run(name: str, executor: str, seed: int, *, brokers: int = BROKERS, partitions: int = PARTITIONS) -> dict[str, Any]:
    world = four_brokers(seed) if name == FOUR else WORLDS[name](seed, brokers=brokers, partitions=partitions)
    best = optimum(world)
    assert best.time_s is not None, "a world whose plan never ends is no benchmark"
    if executor != OURS and name in WORLDS:
        world = replace(world, duration_s_max=min(world.duration_s_max, RIVAL_OVER_OPTIMUM_MAX * best.time_s))
    began_s = time.process_time()
    found = run_plan(world, lambda line: _MAKERS[executor](world, line))
    return {
        "world": name,
        "executor": executor,
        "seed": seed,
        "optimum_s": best.time_s,
        "ratio_to_optimum": found.duration_s / best.time_s,
        **{name: value for name, value in asdict(found).items() if name not in ("calm", "clients")},
        **asdict(found.calm),
        **found.clients.flat(),
        "cpu_s": time.process_time() - began_s,
    }


if __name__ == "__main__":
    json.dump(run(sys.argv[1], sys.argv[2], int(sys.argv[3])), sys.stdout)
