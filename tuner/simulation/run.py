"""Runs a policy in a world. The same world and policy give the same trace, byte for byte."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from tuner.simulation.cluster import Cluster
from tuner.simulation.optimum import optimum_s
from tuner.simulation.policy import Policy, SimulatedEnvironment
from tuner.simulation.trace import Recorder, Trace
from tuner.simulation.world import World


def run(
    world: World,
    policy: Policy,
    *,
    settle_s: float = 60.0,
    watch: Callable[[SimulatedEnvironment], None] | None = None,
) -> Trace:
    """Runs until the moves have ended and settled, or the world's time is over.

    Args:
        world: the cluster and its load.
        policy: sets the throttles.
        settle_s: seconds to continue after the end of the moves, so that the policy can restore throttles.
        watch: called after every tick, for checks and progress bars; must not change the simulation.
    """
    cluster = Cluster(world)
    simulated = SimulatedEnvironment.at(cluster)
    runner = policy.start(simulated)
    recorder = Recorder(cluster, optimum_s=optimum_s(world), policy=policy.name)
    writes = 0  # Until the end of the moves.
    with _silence():
        while cluster.now_s < world.duration_s_max:
            if cluster.moves_ended_s is not None and cluster.now_s >= cluster.moves_ended_s + settle_s:
                break
            simulated.stream.advance()
            runner.act()
            if cluster.moves_ended_s is None:
                writes = simulated.throttles.writes
            recorder.add(cluster.step())
            if watch is not None:
                watch(simulated)
    return recorder.trace(writes)


@contextmanager
def _silence() -> Iterator[None]:
    """Drops log lines below critical: the lines of a simulated hour would bury its result."""
    config = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**config)
