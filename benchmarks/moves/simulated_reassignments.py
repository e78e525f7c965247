"""Executes a plan on the simulated cluster, with rheostat's executor or with a rival.

Every partition of a plan exchanges its replicas in one step; the further steps of KIP-435 have no effect on time and controller. A
request waits in the controller's queue. When it is done, the brokers hear of it after the propagation delay and begin to fetch. The
throttled-replica lists contain exactly what moves.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from benchmarks.moves.controller_latency import ControllerLine
from tuner.control.reassignment.concurrency import decide_concurrency
from tuner.control.reassignment.concurrency_model import (
    ConcurrencyChange,
    ConcurrencyInput,
    ConcurrencyLimits,
    ConcurrencyState,
)
from tuner.control.reassignment.scheduler import schedule
from tuner.control.reassignment.scheduler_model import (
    RunningStep,
    SchedulerConstraints,
    WaitingPartition,
    slots_in_use,
    steady_state,
    waiting_by_side,
)
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import BrokerSide
from tuner.core.partition_limits import PartitionCounts
from tuner.core.reassignment_steps import PartitionTransition, ReassignmentStep, next_step
from tuner.simulation.cluster import Cluster
from tuner.simulation.numbers import Bools, Ints
from tuner.simulation.policy import EPOCH_MS, SimulatedEnvironment

_SIZES_EVERY_S = 60.0  # Of partitions that wait: they hardly grow.
CHECK_EVERY_S = 5.0  # Interval of snapshots of all executors.


class SimulatedReassignments:
    """AlterPartitionReassignments and ListPartitionReassignments of a simulated cluster; partitions are identified by index."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        cluster.replicas.lists_follow_moves = True
        specs = cluster.world.partitions
        self.plan: tuple[int, ...] = tuple(i for i, p in enumerate(specs) if p.adding)
        self.asked: Bools = np.zeros(len(specs), dtype=np.bool_)
        self._begins: list[tuple[float, int, Ints]] = []
        self.requests: list[tuple[float, int]] = []

    def ask(self, partitions: Sequence[int]) -> None:
        """Requests the reassignment of these partitions in one request."""
        if not partitions:
            return
        cluster, model = self.cluster, self.cluster.world.controller
        those = np.array(partitions, dtype=np.int64)
        self.asked[those] = True
        self.requests.append((cluster.now_s, len(those)))
        done_s = cluster.controller.submit(cluster.now_s, len(those))
        heapq.heappush(self._begins, (done_s + model.propagation_s_max, len(self.requests), those))

    def advance(self) -> None:
        """Begins the requests that the controller has handled."""
        due: list[Ints] = []
        while self._begins and self._begins[0][0] <= self.cluster.now_s:
            due.append(heapq.heappop(self._begins)[2])
        if due:
            self.cluster.start_moves(np.concatenate(due))

    def running(self) -> Ints:
        """Returns the partitions that were requested and are not done, as a snapshot shows them."""
        return np.flatnonzero(self.asked & ~self.done)

    @property
    def unheard(self) -> Bools:
        """Returns the partitions that were requested and that no broker has heard of yet."""
        waits = np.zeros(len(self.asked), dtype=np.bool_)
        for _, _, partitions in self._begins:
            waits[partitions] = True
        return waits

    @property
    def done(self) -> Bools:
        replicas, waits = self.cluster.replicas, self.unheard
        waits[replicas.partition[replicas.adding]] = True
        return self.asked & ~waits


class Executor(Protocol):
    def look(self, simulated: SimulatedEnvironment, port: SimulatedReassignments) -> Iterable[Sequence[int]]:
        """Returns the requests to make now, each with the partitions that it begins. It is called every few seconds."""


@dataclass(slots=True)
class Ours:
    """rheostat's executor: ``decide_concurrency`` decides how many partitions begin, and ``schedule`` which ones."""

    rates: Mapping[BrokerSide, float]  # That stand, as a person has set them.
    line: ControllerLine
    limits: ConcurrencyLimits = field(default_factory=ConcurrencyLimits)
    batch: BatchLimits = field(default_factory=BatchLimits)
    memory: ConcurrencyState = field(default_factory=ConcurrencyState)
    changes: list[tuple[float, ConcurrencyChange]] = field(default_factory=list)
    slots: list[tuple[float, float]] = field(default_factory=list)  # Mean of a side, over time.
    _asked: int = 0
    _ways: dict[int, tuple[PartitionTransition, ReassignmentStep]] = field(default_factory=dict)
    _waiting: dict[int, WaitingPartition] = field(default_factory=dict)
    _sized_until_s: float = 0.0

    def look(self, simulated: SimulatedEnvironment, port: SimulatedReassignments) -> Iterable[Sequence[int]]:
        cluster = port.cluster
        replicas = cluster.replicas
        alive = frozenset(b for b, lives in zip(replicas.brokers, replicas.alive, strict=True) if lives)
        if not self._ways:
            self._ways = {i: _way(cluster, i) for i in port.plan}
        size = replicas.size_bytes + replicas.written_bytes
        lacks = np.bincount(replicas.partition, replicas.lag_bytes * replicas.adding, len(replicas.specs))
        # Who has not begun lacks everything.
        lacks = np.where(port.unheard, size * [len(p.adding) for p in replicas.specs], lacks)
        running = []
        for i in port.running().tolist():
            way, step = self._ways[i]
            running.append(RunningStep(way, step, float(lacks[i]), float(size[i]), replicas.specs[i].write_bytes_per_s))
        if cluster.now_s >= self._sized_until_s:
            self._sized_until_s = cluster.now_s + _SIZES_EVERY_S
            self._waiting = {
                i: WaitingPartition(self._ways[i][0], float(size[i]), replicas.specs[i].write_bytes_per_s)
                for i in port.plan
                if not port.asked[i]
            }
        asked = port.asked.tolist()
        self._waiting = {i: one for i, one in self._waiting.items() if not asked[i]}
        left, waiting = list(self._waiting), list(self._waiting.values())
        in_use, waits = slots_in_use(running, self.rates), waiting_by_side(waiting)
        view = ConcurrencyInput(
            EPOCH_MS + round(cluster.now_s * 1000),
            frozenset({*in_use, *waits}),
            in_use,
            waits,
            self.rates,
            steady_state(running),
            self._asked,
            simulated.signals.brokers,
            {self.line.newest.node: self.line.newest} if self.line.newest is not None else {},
        )
        paced = decide_concurrency(view, self.memory, self.limits)
        self.memory = paced.state
        self.changes += [(cluster.now_s, change) for change in paced.changes]
        if paced.slots:
            self.slots.append((cluster.now_s, sum(paced.slots.values()) / len(paced.slots)))
        terms = SchedulerConstraints(
            alive,
            self.batch,
            paced.slots,
            paced.cluster_max,
            paced.starts_max,
            self.rates,
            hosted=PartitionCounts({}),
            since_last_request_s=self.memory.since_last_start_s(view.now_ms),
            snapshot_interval_s=self.memory.snapshot_interval_s(view.now_ms),
            carried_small_share=self.memory.carried_small_share,
        )
        of = {(one.transition.topic, one.transition.partition): i for one, i in zip(waiting, left, strict=True)}
        refilled = schedule(waiting, running, terms)
        starts = refilled.starts
        self._asked = len(starts)
        self.memory = replace(
            self.memory, last_snapshot_at_ms=view.now_ms, carried_small_share=refilled.carried_small_share
        )
        if starts:
            self.memory = replace(self.memory, last_start_at_ms=view.now_ms)
        return [[of[start.transition.topic, start.transition.partition] for start in starts]]


def _way(cluster: Cluster, index: int) -> tuple[PartitionTransition, ReassignmentStep]:
    p = cluster.world.partitions[index]
    new_of = dict(zip(p.removing, p.adding, strict=True))
    target = tuple(new_of.get(b, b) for b in p.replicas)
    way = PartitionTransition(
        p.topic, p.partition, p.replicas, target, p.replicas[0], frozenset(p.replicas), cluster.world.min_in_sync
    )
    step = next_step(way, {*p.replicas, *target})
    assert isinstance(step, ReassignmentStep)
    assert step.is_last, "the plant exchanges all replicas of a partition in one step"
    return way, step
