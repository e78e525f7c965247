"""The production executor runs a plan on the simulated cluster: it completes, within its limits, before its rivals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.moves.controller_latency import ControllerLine
from benchmarks.moves.plan_run import PlanRun, run_plan
from benchmarks.moves.rivals import AllAtOnce, Batches
from benchmarks.moves.simulated import optimum, rates_of
from benchmarks.moves.simulated_reassignments import Ours, SimulatedReassignments
from benchmarks.moves.worlds import four_brokers, joining
from streaming.shared.contract import Side
from tuner.control.reassignment.concurrency_model import ConcurrencyLimits
from tuner.core.batch_limits import BatchLimits
from tuner.simulation.cluster import Cluster
from tuner.simulation.controller import Controller
from tuner.simulation.policy import EPOCH_MS, SimulatedEnvironment
from tuner.simulation.world import BrokerLoss, World

pytestmark = pytest.mark.slow


def world(seed: int = 5) -> World:
    """Two brokers join eight, and 400 partitions move there, within a fifth of the benchmark's time."""
    return joining(seed, brokers=10, new=2, partitions=400, drains_s=300.0)


def run_with_executor(made: World, **others: object) -> tuple[PlanRun, Ours]:
    kept: list[Ours] = []

    def of(line: ControllerLine) -> Ours:
        kept.append(Ours(rates_of(made), line, **others))  # type: ignore[arg-type]  # by name, whatever a test sets
        return kept[0]

    return run_plan(made, of), kept[0]


def batches_of_ten(line: ControllerLine) -> Batches:
    return Batches(10)


def all_at_once(line: ControllerLine) -> AllAtOnce:
    return AllAtOnce()


@pytest.fixture(scope="module")
def run() -> PlanRun:
    return run_with_executor(world())[0]


def test_plan_ends_near_optimum_and_before_batches(run: PlanRun) -> None:
    made = world()
    best = optimum(made).time_s
    assert best is not None
    assert run.completed
    assert run.duration_s <= 1.35 * best
    assert run.queue_p99_ms_max <= 500.0
    batches = run_plan(made, batches_of_ten)
    assert batches.completed
    assert run.duration_s < 0.8 * batches.duration_s


def test_late_step_reports_do_not_raise_concurrency() -> None:
    """On real brokers the first bytes arrive seconds after the first steps were requested.

    Until then the throttle looks underused. Doubling the concurrent partitions would spend half of the throttle on keeping up
    with their writes.
    """
    made = four_brokers(1, heard_after_s=5.0)
    found, executor = run_with_executor(made)
    assert found.completed
    assert all(change.after <= change.before + 1 for _, change in executor.changes if change.side and change.before)
    batches = run_plan(made, lambda _: Batches(50))
    assert found.duration_s < 0.8 * batches.duration_s


def test_few_partitions_end_near_optimum_with_immediate_reports() -> None:
    made = four_brokers(1)
    best = optimum(made).time_s
    assert best is not None
    assert run_with_executor(made)[0].duration_s <= 1.2 * best


def test_all_partitions_at_once_delay_other_requests(run: PlanRun) -> None:
    """400 controller operations of 1 ms arrive at once."""
    found = run_plan(replace(world(), duration_s_max=60.0), all_at_once)
    assert found.running_max == 400
    assert found.queue_p99_ms_max > 2 * run.queue_p99_ms_max


def test_two_runs_of_one_world_are_equal(run: PlanRun) -> None:
    assert run_with_executor(world())[0] == run


def test_every_partition_reaches_its_target_replicas() -> None:
    made = world()
    seen: list[Cluster] = []

    def look(simulated: SimulatedEnvironment, port: SimulatedReassignments) -> None:
        seen[:] = [simulated.cluster]

    run_plan(made, lambda line: Ours(rates_of(made), line), watch=look)
    replicas = seen[0].replicas
    for i, p in enumerate(made.partitions):
        there = {replicas.brokers[b] for b in replicas.broker[(replicas.partition == i) & replicas.present]}
        assert there == ({*p.replicas} - {*p.removing}) | {*p.adding}


def test_concurrency_limits_always_hold() -> None:
    made = world()
    most: list[int] = []

    def look(simulated: SimulatedEnvironment, port: SimulatedReassignments) -> None:
        most.append(len(port.running()))

    limits, batch = ConcurrencyLimits(slots_max=2, cluster_max=6), BatchLimits(partition_movements_max=5)
    run_plan(replace(made, duration_s_max=120.0), lambda line: Ours(rates_of(made), line, limits, batch), watch=look)
    assert max(most) == 5


def test_lost_broker_delays_only_its_own_partitions() -> None:
    made = replace(world(), disturbances=(BrokerLoss(30.0, 1e9, 9),), duration_s_max=500.0)
    found, _ = run_with_executor(made)
    onto_9 = sum(9 in p.adding for p in made.partitions)
    assert not found.completed
    assert found.done_partitions >= len(made.partitions) - onto_9


def test_only_moving_replicas_are_listed() -> None:
    cluster = Cluster(world())
    port = SimulatedReassignments(cluster)
    largest = sorted(port.plan, key=lambda i: cluster.world.partitions[i].size_bytes)[-3:]
    port.ask(largest)
    for _ in range(3):
        port.advance()
        cluster.step()
    replicas = cluster.replicas
    assert port.running().tolist() == sorted(largest)
    assert set(replicas.partition[replicas.leader_listed].tolist()) == set(largest)
    assert np.array_equal(replicas.follower_listed, replicas.adding)


def test_controller_wait_shrinks_as_the_queue_drains() -> None:
    """400 ms of work arrive at 0 s: events wait 400, 350, … ms, every 50 ms less."""
    controller = Controller(world(), np.random.default_rng(1))
    line = ControllerLine(controller, EPOCH_MS)
    controller.submit(0.0, 400)
    waits = line.waits_s(0.0, 30.0)
    assert waits[:9].round(3).tolist() == [0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.0]
    assert line.p99_ms_max(30.0) == pytest.approx(100.0, abs=51.0)
    line.advance(5.0)
    line.advance(8.0)
    assert line.newest is not None
    assert line.newest.idle_ratio == pytest.approx(1 - 0.4 / 5)
    assert line.newest.event_queue_time_mean_ms == pytest.approx(18.0, abs=0.1)


def test_world_throttles_both_sides() -> None:
    made = world()
    assert {start.side for start in made.rates} == {Side.LEADER, Side.FOLLOWER}
    assert {b for p in made.partitions for b in p.adding} == {8, 9}
