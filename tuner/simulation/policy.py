"""Defines policies that set the throttles of a simulated cluster: the production loop, and rules to compare it with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from streaming.shared.contract import BrokerSignal, MoveSignal
from tuner.control.throttle.objective import Capacity, ControlLimits, Objective
from tuner.control.throttle.state import Memory
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.throttle_limits import StallLimits, ThrottleLimits
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.cycle_scheduler import CHECK_EVERY_S
from tuner.runtime.throttle.loop import ThrottleConfig, ThrottleController, ThrottlePorts
from tuner.runtime.throttle.ramp_executor import RampExecutor
from tuner.runtime.throttle.steering_controller import SteeringController
from tuner.simulation.cluster import Cluster
from tuner.simulation.ports import (
    MemoryJournal,
    NoOrders,
    SilentObserver,
    SimulatedLive,
    SimulatedSignals,
    SimulatedThrottles,
)
from tuner.simulation.signals import Stream
from tuner.simulation.world import World

EPOCH_MS = 1_700_000_000_000  # The wall clock at the start of a simulation.


@dataclass(slots=True)
class SimulatedEnvironment:
    """A simulated cluster with its stream of signals, and the ports through which a policy reads and changes it."""

    cluster: Cluster
    stream: Stream
    signals: SimulatedSignals
    live: SimulatedLive
    throttles: SimulatedThrottles

    @classmethod
    def at(cls, cluster: Cluster) -> SimulatedEnvironment:
        stream = Stream(cluster, EPOCH_MS)
        return cls(cluster, stream, SimulatedSignals(stream), SimulatedLive(cluster), SimulatedThrottles(cluster))


class ThrottlePolicyRunner(Protocol):
    def act(self) -> None:
        """Reads and sets throttles; called before every tick."""


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    def start(self, simulated: SimulatedEnvironment) -> ThrottlePolicyRunner:
        """Starts the policy on a cluster. The same policy may be started on several clusters, one after the other."""


@dataclass(frozen=True, slots=True)
class RuleInput:
    """The input of a rule: delayed signals, and the live cluster."""

    now_s: float
    world: World  # For the capacities of links and disks.
    live: LiveCluster
    brokers: Mapping[int, BrokerSignal]
    moves: Mapping[BrokerSide, MoveSignal]
    baselines: Mapping[int, BrokerBaseline] = field(default_factory=dict)


class Rule(Protocol):
    def rates(self, now_s: float, view: RuleInput) -> Mapping[BrokerSide, int | None]:
        """Returns the desired rates. None removes a rate; a side without an entry keeps its rate."""


@dataclass(frozen=True, slots=True)
class RulePolicy:
    """A rule that is evaluated every ``every_s`` seconds. A rate that differs from the current rate is written at once."""

    name: str
    rule: Rule
    every_s: float = 5.0

    def start(self, simulated: SimulatedEnvironment) -> ThrottlePolicyRunner:
        return _RuleRunner(simulated, self.rule, self.every_s)


class _RuleRunner:
    def __init__(self, simulated: SimulatedEnvironment, rule: Rule, every_s: float) -> None:
        self._simulated = simulated
        self._rule = rule
        self._every_s = every_s
        self._next_s = 0.0

    def act(self) -> None:
        simulated, now_s = self._simulated, self._simulated.cluster.now_s
        if now_s < self._next_s:
            return
        self._next_s += self._every_s
        simulated.signals.poll()
        live = simulated.live.snapshot(full=True)
        signals = simulated.signals
        view = RuleInput(
            now_s,
            simulated.cluster.world,
            live,
            brokers=signals.brokers,
            moves=signals.moves,
            baselines=signals.baselines,
        )
        desired = dict(self._rule.rates(now_s, view))
        current = simulated.throttles.read_rates(desired)
        changes = {side: rate for side, rate in desired.items() if current[side] != rate}
        if changes:
            simulated.throttles.write_rates(changes)


@dataclass(frozen=True, slots=True)
class LoopPolicy:
    """The production loop with its decisions, ramps and memory. Without an objective the loop only rescues stalled moves."""

    limits: ThrottleLimits
    objective: Objective | None = None
    law_limits: ControlLimits = field(default_factory=ControlLimits)
    name: str = "rheostat"
    stall_limits: StallLimits = field(default_factory=StallLimits)
    cycle_s: float = 5.0
    writes_per_s_max: float = 50.0
    journal: MemoryJournal | None = None  # For inspection after the run.

    def start(self, simulated: SimulatedEnvironment) -> ThrottlePolicyRunner:
        return _LoopRunner(simulated, self)


class _LoopRunner:
    def __init__(self, simulated: SimulatedEnvironment, policy: LoopPolicy) -> None:
        self._simulated = simulated
        self._cycle_s = policy.cycle_s
        self._next_s = 0.0  # When the next regular cycle is due.
        self._next_check_s = 0.0  # When the loop next checks whether a cycle is due early.
        has_objective = policy.objective is not None
        finish_at_ms = policy.objective.finish_at_ms if policy.objective is not None else None
        ports = ThrottlePorts(
            live=simulated.live,
            signals=simulated.signals,
            throttles=simulated.throttles,
            orders=NoOrders(),
            journal=policy.journal if policy.journal is not None else MemoryJournal(),
            observer=SilentObserver(),
        )
        config = ThrottleConfig(
            # As in production: with an objective, a move without a throttle gets a throttle.
            limits=replace(
                policy.limits, closed_loop=has_objective, throttles_all_moves=has_objective, finish_at_ms=finish_at_ms
            ),
            stall_limits=policy.stall_limits,
            writes_per_s_max=policy.writes_per_s_max,
        )
        clock = Clock(lambda: EPOCH_MS / 1000 + simulated.cluster.now_s, lambda: simulated.cluster.now_s)
        self._loop = ThrottleController(
            ports,
            config,
            clock,
            memory=Memory(),
            ramps=RampExecutor(simulated.throttles, writes_per_s_max=policy.writes_per_s_max),
            steering=_steering(simulated, policy),
        )

    def act(self) -> None:
        now_s = self._simulated.cluster.now_s
        due_early = now_s >= self._next_check_s and self._loop.cycle_is_due()
        if due_early or now_s >= self._next_s:
            # Regular cycles keep their schedule; an early cycle starts a new schedule.
            self._next_s = (now_s if due_early else self._next_s) + self._cycle_s
            self._loop.cycle()
        if now_s >= self._next_check_s:
            self._next_check_s = now_s + CHECK_EVERY_S
        due_s = self._loop.next_due_s()
        if due_s is not None and due_s <= now_s:
            self._loop.tick()


def capacities(world: World) -> dict[int, Capacity]:
    """Returns the capacities in the tuner's settings, by broker. Brokers without a capacity in the settings are left out."""
    return {
        b.broker: Capacity(
            in_bytes_per_s=b.configured_capacity_ratio * min(b.link_in_bytes_per_s, b.disk_write_bytes_per_s),
            out_bytes_per_s=b.configured_capacity_ratio * b.link_out_bytes_per_s,
        )
        for b in world.brokers
        if b.configured_capacity_ratio is not None
    }


def _steering(simulated: SimulatedEnvironment, policy: LoopPolicy) -> SteeringController | None:
    if policy.objective is None:
        return None
    broker_capacities = capacities(simulated.cluster.world)
    return SteeringController(
        simulated.throttles,
        policy.objective,
        broker_capacities.__getitem__,
        policy.law_limits,
        writes_per_s_max=policy.writes_per_s_max,
    )
