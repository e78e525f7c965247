"""Closed-loop control on a simulated cluster: moves end near the optimum, deadlines and client latency are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from streaming.shared.contract import Side
from tuner.control.throttle.objective import Capacity, ControlLimits, Mode, Objective
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import MB
from tuner.simulation.policy import EPOCH_MS, RuleInput, RulePolicy
from tuner.simulation.run import run
from tuner.simulation.trace import Trace
from tuner.simulation.world import BrokerSpec, ClientLoad, InitialRate, PartitionSpec, TopicLists, World

LINK = Capacity(125 * MB, 125 * MB)


@dataclass
class Law:
    objective: Objective
    memory: ControlState = field(default_factory=ControlState)

    def rates(self, now_s: float, view: RuleInput) -> Mapping[BrokerSide, int | None]:
        rates = {side: rate.bytes_per_s for side, rate in view.live.rates.items()}
        links = {b.broker: LINK for b in view.world.brokers}
        seen = ControlInput(EPOCH_MS + round(now_s * 1000), view.brokers, view.moves, rates, links)
        self.memory, writes = control_step(seen, self.memory, self.objective, ControlLimits())
        return writes


def world(rate: int = 50_000_000) -> World:
    """10 GB move from brokers 1 and 2 to broker 3; clients use a third of the gigabit links."""
    moves = [PartitionSpec("t", i, 2.5e9, 1e6, ((1, 2), (2, 1))[i % 2], (3,), ((2,), (1,))[i % 2]) for i in range(4)]
    pairs = [(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b]
    rest = [PartitionSpec("rest", i, 1e6, 5e4, pair) for i, pair in enumerate(pairs)]
    return World(
        seed=5,
        brokers=tuple(BrokerSpec(b, 125e6, 125e6, 400e6, 400e6) for b in (1, 2, 3)),
        partitions=(*moves, *rest),
        loads=tuple(ClientLoad(b, 40e6, 40e6, noise_ratio=0.05) for b in (1, 2, 3)),
        lists=(TopicLists("t", "0:1,0:2,1:1,1:2,2:1,2:2,3:1,3:2", "0:3,1:3,2:3,3:3"),),
        rates=(*(InitialRate(b, Side.LEADER, rate) for b in (1, 2)), InitialRate(3, Side.FOLLOWER, rate)),
        duration_s_max=1_200.0,
    )


def law(objective: Objective) -> Trace:
    return run(world(), RulePolicy("law", Law(objective), every_s=1.0), settle_s=0.0)


def test_move_ends_near_optimum_within_latency_objective() -> None:
    found = law(Objective(50.0)).summary
    assert found.completed
    assert found.ratio_to_optimum == pytest.approx(1.15, abs=0.15)
    assert found.slo_violation_ratio_5s <= 0.05


def test_very_low_rate_rises_and_very_high_rate_falls() -> None:
    for start in (6_000_000, 500_000_000):
        found = run(world(start), RulePolicy("law", Law(Objective(50.0)), every_s=1.0), settle_s=0.0).summary
        assert found.completed
        assert found.ratio_to_optimum is not None
        assert found.ratio_to_optimum < 1.5


def test_deadline_mode_ends_shortly_before_the_deadline() -> None:
    found = law(Objective(50.0, Mode.DEADLINE, finish_at_ms=EPOCH_MS + 400_000)).summary
    assert found.completed
    assert 320.0 < found.duration_s <= 400.0


def test_share_mode_uses_at_most_its_share_of_the_link() -> None:
    trace = law(Objective(50.0, Mode.SHARE, share_max=0.2))
    into = trace.catch_up_in_bytes_per_s[70:, 2]
    assert into.mean() <= 0.2 * 125e6 * 1.02
    assert trace.summary.completed


def test_gentle_mode_has_lower_latency_than_fast_mode() -> None:
    fast, gentle = law(Objective(50.0)), law(Objective(50.0, Mode.GENTLE))
    assert gentle.summary.completed
    assert gentle.p99_ms[70:250, 2].mean() < 0.7 * fast.p99_ms[70:, 2].mean()


def test_two_runs_are_equal() -> None:
    assert law(Objective(50.0)).digest() == law(Objective(50.0)).digest()
