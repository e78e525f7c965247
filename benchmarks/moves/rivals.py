"""Other executors of plans: all at once, in batches, and Cruise Control's. They have the same throttles and lists.

Each has a snapshot every five seconds, as Cruise Control and rheostat; operators' scripts look less often. All at once is a plan in
kafka-reassign-partitions. In batches an operator splits the plan: a batch begins when all of the previous one is done. None of them
considers sizes, as they do not by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.moves.simulated_reassignments import SimulatedReassignments
from tuner.control.reassignment.scheduler_model import REQUEST_PARTITIONS_MAX
from tuner.core.batch_limits import BatchLimits, next_batch
from tuner.core.reassignment_steps import PartitionTransition, ReassignmentStep
from tuner.simulation.policy import SimulatedEnvironment
from tuner.simulation.world import PartitionSpec


@dataclass(slots=True)
class AllAtOnce:
    def look(self, simulated: SimulatedEnvironment, port: SimulatedReassignments) -> Iterable[Sequence[int]]:  # noqa: ARG002 - the executor's shape
        left = [i for i in port.plan if not port.asked[i]]
        # No request takes more than the controller's ten thousand records.
        return [left[i : i + REQUEST_PARTITIONS_MAX] for i in range(0, len(left), REQUEST_PARTITIONS_MAX)]


@dataclass(slots=True)
class Batches:
    partitions: int

    def look(self, simulated: SimulatedEnvironment, port: SimulatedReassignments) -> Iterable[Sequence[int]]:  # noqa: ARG002 - the executor's shape
        if len(port.running()):
            return []
        return [[i for i in port.plan if not port.asked[i]][: self.partitions]]


@dataclass(slots=True)
class KipBatches:
    """KIP-435 with its own limits: movements of leaders first, and slots are filled again as steps end."""

    limits: BatchLimits
    _ways: dict[int, PartitionTransition] = field(default_factory=dict)
    _steps: dict[int, ReassignmentStep] = field(default_factory=dict)

    def look(self, simulated: SimulatedEnvironment, port: SimulatedReassignments) -> Iterable[Sequence[int]]:  # noqa: ARG002 - the executor's shape
        if not self._ways:
            self._ways = {i: _way(port.cluster.world.partitions[i]) for i in port.plan}
        running = [self._steps[i] for i in port.running().tolist()]
        if len(running) >= self.limits.partition_movements_max:
            return []
        left = {(way.topic, way.partition): i for i, way in self._ways.items() if not port.asked[i]}
        ways = [self._ways[i] for i in left.values()]
        batch = next_batch(ways, frozenset(port.cluster.replicas.brokers), self.limits, running)
        begun = {left[step.topic, step.partition]: step for step in batch.steps}
        self._steps |= begun
        chosen = list(begun)
        return [chosen[i : i + REQUEST_PARTITIONS_MAX] for i in range(0, len(chosen), REQUEST_PARTITIONS_MAX)]


def _way(spec: PartitionSpec) -> PartitionTransition:
    # What comes takes the place of what goes.
    new_of = dict(zip(spec.removing, spec.adding, strict=True))
    target = tuple(new_of.get(broker, broker) for broker in spec.replicas)
    return PartitionTransition(
        spec.topic, spec.partition, spec.replicas, target, spec.replicas[0], frozenset(spec.replicas)
    )


@dataclass(slots=True)
class CruiseControl:
    """Cruise Control's executor with its concurrency adjuster.

    A broker takes part in 5 moves at first: one more every six minutes while its latency is good, half as many otherwise, at most
    12, and 1,250 in the cluster. Slots are filled again as moves end.
    """

    objective_ms: float
    slots: dict[int, int] = field(default_factory=dict)
    next_s: float = 360.0

    def look(self, simulated: SimulatedEnvironment, port: SimulatedReassignments) -> Iterable[Sequence[int]]:
        specs, now_s = port.cluster.world.partitions, port.cluster.now_s
        if not self.slots:
            self.slots = dict.fromkeys(port.cluster.replicas.brokers, 5)
        if now_s >= self.next_s:
            self.next_s += 360.0
            for broker, before in self.slots.items():
                signal = simulated.signals.brokers.get(broker)
                p99_ms = None if signal is None else signal.produce_p99_ms
                # What isn't measured counts as bad.
                well = p99_ms is not None and p99_ms <= self.objective_ms
                self.slots[broker] = min(12, before + 1) if well else max(1, before // 2)
        running = port.running().tolist()
        free = dict(self.slots)
        for i in running:
            for broker in (specs[i].replicas[0], *specs[i].adding):
                free[broker] -= 1
        chosen: list[int] = []
        for i in port.plan:
            if len(running) + len(chosen) >= 1250:
                break
            ends = (specs[i].replicas[0], *specs[i].adding)
            if not port.asked[i] and all(free[broker] > 0 for broker in ends):
                chosen.append(i)
                for broker in ends:
                    free[broker] -= 1
        return [chosen[i : i + REQUEST_PARTITIONS_MAX] for i in range(0, len(chosen), REQUEST_PARTITIONS_MAX)]
