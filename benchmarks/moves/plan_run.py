"""Runs a plan with one executor at fixed throttles on a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.moves.controller_latency import ControllerLine
from benchmarks.moves.simulated_reassignments import CHECK_EVERY_S, Executor, SimulatedReassignments
from tuner.simulation.calm import Calm
from tuner.simulation.client_phases import ClientPhases
from tuner.simulation.cluster import Cluster
from tuner.simulation.latency import violation_ratio
from tuner.simulation.policy import EPOCH_MS, SimulatedEnvironment
from tuner.simulation.trace import Recorder
from tuner.simulation.world import World

AFTER_S = 30.0  # Clients are observed for so long after the plan.


@dataclass(frozen=True, slots=True)
class PlanRun:
    duration_s: float  # Of the plan, or of the world's time where it didn't end.
    completed: bool
    done_partitions: int
    queue_p99_ms_max: float  # What others wait for the controller: the worst p99 of all half minutes.
    running_max: int
    requests: int
    request_partitions_max: int
    violation_ratio_5s: float  # Of the clients' objective.
    copied_bytes: float
    calm: Calm = field(default_factory=Calm)
    clients: ClientPhases = field(default_factory=ClientPhases)


def run_plan(
    world: World,
    executor_of: Callable[[ControllerLine], Executor],
    *,
    look_every_s: float = CHECK_EVERY_S,
    watch: Callable[[SimulatedEnvironment, SimulatedReassignments], None] | None = None,
) -> PlanRun:
    """Runs until every partition has its target replicas, or the time of the world is over.

    Args:
        world: its moves do not begin by themselves (``moves_begin_s`` is infinite).
        watch: called after every snapshot, for checks; it must not change anything.
    """
    cluster = Cluster(world)
    simulated, port = SimulatedEnvironment.at(cluster), SimulatedReassignments(cluster)
    line = ControllerLine(cluster.controller, EPOCH_MS)
    executor = executor_of(line)
    recorder = Recorder(cluster, optimum_s=None, policy="")
    next_s, running_max, ended_s = 0.0, 0, None
    utilised: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []
    while ended_s is None and cluster.now_s < world.duration_s_max:
        simulated.stream.advance()
        line.advance(cluster.now_s)
        port.advance()
        if cluster.now_s >= next_s:
            next_s += look_every_s
            simulated.signals.poll()
            done = int(port.done.sum())
            for request in executor.look(simulated, port):
                port.ask(request)
            running_max = max(running_max, len(port.running()))
            if watch is not None:
                watch(simulated, port)
            if done == len(port.plan):
                ended_s = cluster.now_s
        tick = cluster.step()
        recorder.add(tick)
        if cluster.ticks * world.tick_ms % 1000 == 0:
            utilised.append(tick.utilisation)
    copied_bytes, queue_p99_ms = float(cluster.totals[5].sum()), line.p99_ms_max(cluster.now_s)
    duration_s = ended_s if ended_s is not None else cluster.now_s
    while ended_s is not None and cluster.now_s < ended_s + AFTER_S:
        recorder.add(cluster.step())
    return PlanRun(
        duration_s,
        ended_s is not None,
        int(port.done.sum()),
        queue_p99_ms,
        running_max,
        len(port.requests),
        max((count for _, count in port.requests), default=0),
        violation_ratio(np.array(utilised), world.latency, bin_s=5) if utilised else 0.0,
        copied_bytes,
        recorder.calm(simulated.throttles.writes, duration_s),
        recorder.clients(0.0, ended_s),
    )
