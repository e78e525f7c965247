"""Runs storms in the simulation, with the controller of KIP-599, which stays busy for minutes, and with that of KRaft."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.controllers.controller_queue import EVERYBODY_ELSE, QueueModel
from benchmarks.controllers.figures import Row, jain, percentile, settled_after_s, writes_per_tenant_min
from benchmarks.controllers.queue_run import (
    Fixed,
    Law,
    QueueOutcome,
    QueueWorld,
    QuotaDealer,
    TenantSpec,
    alone,
    run_queue,
)
from benchmarks.controllers.queue_signals import ControllerStream
from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity
from tuner.control.mutation_quota.model import MutationPolicy
from tuner.core.controller import ControllerObjective
from tuner.core.controller_cost import KRAFT, ZOOKEEPER
from tuner.core.controller_pressure import worst_pressure

STORM_AT_S = 60.0
SETTLED_S = 300.0
_STORMS = tuple(f"storm-{i}" for i in range(10))
_QUIET = tuple(f"quiet-{i}" for i in range(5))
# Who wants others' creations to take no longer than half as long again keeps the controller idle for nine tenths of the time.
OBJECTIVES = {
    "zookeeper": ControllerObjective(idle_ratio_min=0.9, queue_ms_max=100.0, burst_ms_max=5_000.0),
    "kraft": ControllerObjective(idle_ratio_min=0.5, queue_ms_max=50.0, create_ms_max=60.0, burst_ms_max=5_000.0),
}
_COSTS = {"zookeeper": ZOOKEEPER, "kraft": KRAFT}
_SAMPLES = 11  # controller.quota.window.num
_STEPS = 6


@dataclass
class _Watched:
    """A quota dealer, and the pressure during its run: means over half a minute, also where Kafka's metric covers five seconds."""

    hand: QuotaDealer
    objective: ControllerObjective
    pressures: list[tuple[float, float]] = field(default_factory=list)
    queue_ms: list[tuple[float, float]] = field(default_factory=list)
    idle: deque[float] = field(default_factory=lambda: deque(maxlen=6))

    def deal(self, now_s: float, stream: ControllerStream, quotas: dict[str, float]) -> dict[str, float]:
        if stream.newest is not None:
            signal, _, beside = stream.newest
            self.idle.append(signal.idle_ratio if signal.idle_ratio is not None else 1.0)
            found = worst_pressure(replace(signal, idle_ratio=sum(self.idle) / len(self.idle)), beside, self.objective)
            assert found is not None, "the made-up controller measures everything"
            self.pressures.append((now_s, found.ratio))
        return self.hand.deal(now_s, stream, quotas)


def world_of(kind: str, seed: int) -> QueueWorld:
    """Returns a world with ten storms from the first minute on, and five tenants with a low, constant rate."""
    rng = np.random.default_rng([seed, 1])
    quiet = tuple(TenantSpec(name, 0.1, 1, 4, at_random=True) for name in _QUIET)
    if kind == "zookeeper":
        storms = tuple(
            TenantSpec(name, 1.0, 50, 4, at_s=STORM_AT_S + float(rng.uniform(0, 10)), honours=i % 2 == 0)
            for i, name in enumerate(_STORMS)
        )
        return QueueWorld(seed, QueueModel(ZOOKEEPER), storms + quiet, 1_200.0)
    storms = tuple(
        TenantSpec(name, 20.0, 10, 2, at_s=STORM_AT_S + float(rng.uniform(0, 10)), honours=i % 2 == 0)
        for i, name in enumerate(_STORMS)
    )
    return QueueWorld(seed, QueueModel(KRAFT), storms + quiet, 900.0)


def measure(kind: str, seed: int) -> list[Row]:
    """Returns rows for no quotas, for the best static quota of a search, and for rheostat's policy."""
    world, objective = world_of(kind, seed), OBJECTIVES[kind]
    by_itself = percentile(_took_ms(run_queue(alone(world, _QUIET[0]), Fixed())), 99)
    assert by_itself is not None
    law = Law(MutationPolicy(objective, default_entity=QuotaEntity(client_id=DEFAULT)))
    rows = [_row(kind, seed, "none", replace(world, duration_s=400.0), Fixed(), objective, by_itself)]
    # A static quota is held to the same burst: all of its buckets at once.
    spec = next(spec for spec in world.tenants if spec.client_id == _STORMS[0])
    topic_ms = 1000 * _COSTS[kind].work_s(1, spec.partitions_per_topic)
    low, high = 0.0, objective.burst_ms_max * spec.partitions_per_topic / (topic_ms * _SAMPLES * len(_STORMS))
    for _ in range(_STEPS):
        each = (low + high) / 2
        row = _row(kind, seed, f"static-{each:.3g}", world, Fixed({EVERYBODY_ELSE: each}), objective, by_itself)
        rows.append(row)
        low, high = (each, high) if (row["pressure_p99"] or 0.0) <= 1 else (low, each)
    return [*rows, _row(kind, seed, "rheostat", world, law, objective, by_itself)]


def _row(
    kind: str,
    seed: int,
    policy: str,
    world: QueueWorld,
    hand: QuotaDealer,
    objective: ControllerObjective,
    by_itself_ms: float,
) -> Row:
    watched = _Watched(hand, objective)
    felt = run_queue(world, watched)
    quiet_ms = percentile(_took_ms(felt), 99)
    done = [sum(_settled(felt.partitions.get(name, []))) for name in _STORMS]
    all_done = sum(sum(_settled(points)) for points in felt.partitions.values())
    return {
        "where": f"simulated-{kind}",
        "seed": seed,
        "policy": policy,
        "pressure_p99": percentile(_settled(watched.pressures), 99),
        "queue_time_p99_ms": percentile([1000 * wait for wait in _settled(felt.waits_s)], 99),
        "well_behaved_create_p99_ms": quiet_ms,
        "well_behaved_ratio": None if quiet_ms is None else quiet_ms / by_itself_ms,
        "goodput_partitions_per_s": all_done / (world.duration_s - SETTLED_S),
        "jain_index": jain(done),
        "time_to_settle_s": settled_after_s(watched.pressures, STORM_AT_S),
        "writes_per_tenant_min": writes_per_tenant_min(felt.writes, SETTLED_S),
    }


def _settled(points: Sequence[tuple[float, float]]) -> list[float]:
    return [value for at_s, value in points if at_s >= SETTLED_S]


def _took_ms(felt: QueueOutcome) -> list[float]:
    """Returns the create latencies of well-behaved tenants after settling."""
    return [1000 * took for name in _QUIET for took in _settled(felt.took_s.get(name, []))]
