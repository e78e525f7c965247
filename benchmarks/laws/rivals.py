"""The laws that are compared: rheostat's, and those of other tools.

Every rival has the information that it has in production. The static rates have more: the link capacity, and the fluid optimum of
the world. None of them has a ramp, as none has one in production.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.laws.one_page import OnePage
from streaming.shared.contract import Side
from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import BrokerSide
from tuner.simulation.optimum import optimum_s
from tuner.simulation.policy import (
    EPOCH_MS,
    Policy,
    Rule,
    RuleInput,
    RulePolicy,
    SimulatedEnvironment,
    ThrottlePolicyRunner,
    capacities,
)
from tuner.simulation.world import World

MB = 1e6
OURS = "rheostat"
_HABIT_BYTES_PER_S = 50_000_000


def policies(world: World) -> list[Policy]:
    """Returns the laws, rheostat's first."""
    mean = clairvoyant_bytes_per_s(world)
    statics = [(f"static {share:.0%}", round(share * mean)) for share in (0.25, 0.5, 1.0)]
    return [
        Law(ControlLimits(quota_samples=world.fetch.quota_samples)),
        *(RulePolicy(name, Static(rate), every_s=1e9) for name, rate in statics),
        RulePolicy("habit 50 MB/s", Static(_HABIT_BYTES_PER_S), every_s=1e9),
        *(Fresh(f"autothrottle {share:.1f}", _Autothrottle, share) for share in (1.0, 0.8)),
        Fresh("cruise control", _CruiseControl, 1.0),
        _FreshOnePage(),
        RulePolicy("none", Static(None), every_s=1e9),
    ]


def clairvoyant_bytes_per_s(world: World) -> float:
    """Returns the uniform rate at which the busiest side ends exactly at T*."""
    ends_s = optimum_s(world)
    if not ends_s:
        return float(_HABIT_BYTES_PER_S)
    remaining: dict[BrokerSide, float] = {}
    steady_state: dict[BrokerSide, float] = {}
    for p in world.moving:
        leader = (p.replicas[0], Side.LEADER)
        fetching = len(p.replicas) - 1 + len(p.adding)
        steady_state[leader] = steady_state.get(leader, 0.0) + p.write_bytes_per_s * fetching
        for broker in p.adding:
            follower = (broker, Side.FOLLOWER)
            steady_state[follower] = steady_state.get(follower, 0.0) + p.write_bytes_per_s
            for side in (leader, follower):
                remaining[side] = remaining.get(side, 0.0) + p.size_bytes
    return max(steady_state[side] + remaining[side] / ends_s for side in remaining)


@dataclass(slots=True)
class Tuner:
    """rheostat's policy without a controller: pure functions of the input."""

    world: World
    limits: ControlLimits
    is_auto: bool = False
    memory: ControlState = field(default_factory=ControlState)

    def rates(self, now_s: float, view: RuleInput) -> Mapping[BrokerSide, int | None]:
        seen = ControlInput(
            now_ms=EPOCH_MS + round(now_s * 1000),
            brokers=view.brokers,
            moves=view.moves,
            current_rates={side: rate.bytes_per_s for side, rate in view.live.rates.items()},
            capacities=capacities(self.world),
            baselines=view.baselines,
        )
        objective = Objective() if self.is_auto else Objective(self.world.latency.objective_ms)
        self.memory, writes = control_step(seen, self.memory, objective, self.limits)
        return writes


@dataclass(frozen=True, slots=True)
class Law:
    """rheostat's control law, called once a second."""

    limits: ControlLimits = field(default_factory=ControlLimits)
    name: str = OURS
    is_auto: bool = False  # The objective is not told.

    def start(self, simulated: SimulatedEnvironment) -> ThrottlePolicyRunner:
        tuner = Tuner(simulated.cluster.world, self.limits, self.is_auto)
        return RulePolicy(self.name, tuner, every_s=1.0).start(simulated)


@dataclass(frozen=True, slots=True)
class Static:
    """One rate for all throttles and the whole move; None: no throttle."""

    rate_bytes_per_s: int | None

    def rates(self, now_s: float, view: RuleInput) -> Mapping[BrokerSide, int | None]:  # noqa: ARG002 - the rule's shape
        return dict.fromkeys(view.live.rates, self.rate_bytes_per_s)


@dataclass(slots=True)
class _Autothrottle:
    """DataDog's autothrottle with its defaults: link capacity minus all other network traffic.

    Every 180 s it sets 90 % of the free bandwidth, at least 10 MB/s, if that differs by 10 % from the current rate.
    """

    world: World
    link_share: float  # Share of the link that it is configured with.

    def rates(self, now_s: float, view: RuleInput) -> Mapping[BrokerSide, int | None]:  # noqa: ARG002 - the rule's shape
        capacity = {b.broker: b for b in self.world.brokers}
        found: dict[BrokerSide, int | None] = {}
        for side, stands in view.live.rates.items():
            signal, spec = view.brokers.get(side[0]), capacity[side[0]]
            sends = side[1] is Side.LEADER
            network = None
            if signal is not None:
                network = signal.network_out_bytes_per_s if sends else signal.network_in_bytes_per_s
            if network is None:
                continue
            link = self.link_share * (spec.link_out_bytes_per_s if sends else spec.link_in_bytes_per_s)
            free = link - max(network - stands.bytes_per_s, 0.0) - max(network - link, 0.0)
            rate = max(0.9 * free, 10 * MB)
            if abs(rate - stands.bytes_per_s) >= 0.1 * stands.bytes_per_s:
                found[side] = round(rate)
        return found


@dataclass(slots=True)
class _CruiseControl:
    """Cruise Control's concurrency adjuster: 5 moves per broker at first; every 6 minutes one more, or half as many.

    All moves of a world begin at once. A move that Cruise Control would not have started yet is represented by its share of the
    rate: 10 MB/s per move, at most 12 moves.
    """

    world: World
    moves_at_once: float
    slots: dict[int, float] = field(default_factory=dict)

    def rates(self, now_s: float, view: RuleInput) -> Mapping[BrokerSide, int | None]:
        found: dict[BrokerSide, int | None] = {}
        for broker in sorted({broker for broker, _ in view.live.rates}):
            signal = view.brokers.get(broker)
            before = self.slots.get(broker, 5.0 * self.moves_at_once)
            if now_s > 0 and signal is not None and signal.produce_p99_ms is not None:
                well = signal.produce_p99_ms <= self.world.latency.objective_ms
                before = min(12.0, before + 1.0) if well else max(1.0, before / 2)
            self.slots[broker] = before
            for side in view.live.rates:
                if side[0] == broker:
                    found[side] = round(before * 10 * MB)
        return found


@dataclass(frozen=True, slots=True)
class _FreshOnePage:
    name: str = "one page"

    def start(self, simulated: SimulatedEnvironment) -> ThrottlePolicyRunner:
        return RulePolicy(self.name, OnePage(simulated.cluster.world), every_s=1.0).start(simulated)


@dataclass(frozen=True, slots=True)
class Fresh:
    """A rule with state. Each cluster gets a new instance."""

    name: str
    rule: type[_Autothrottle] | type[_CruiseControl]
    parameter: float

    def start(self, simulated: SimulatedEnvironment) -> ThrottlePolicyRunner:
        every_s = 180.0 if self.rule is _Autothrottle else 360.0
        rule: Rule = self.rule(simulated.cluster.world, self.parameter)
        # The first signals take a few seconds; a tool that starts looks as soon as it has some.
        return RulePolicy(self.name, rule, every_s=every_s).start(simulated)
