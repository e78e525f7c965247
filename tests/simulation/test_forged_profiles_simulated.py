"""Forged profiles on a simulated cluster, with the production loop: at worst a move is slower, or as fast as the ceiling allows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from test_law import world

from streaming.shared.contract import BrokerProfile, LearnedCapacity
from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.simulation.policy import EPOCH_MS, LoopPolicy, SimulatedEnvironment, ThrottlePolicyRunner
from tuner.simulation.run import run

START, CEILING = 10 * MB, 60 * MB
HOUR_MS = 3_600_000
START_MS = EPOCH_MS - EPOCH_MS % HOUR_MS
BROKERS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class ForgedProfiles:
    """The loop with default settings, whose profiles contain the same values for each broker."""

    p99_ms: float
    carried_bytes_per_s: float
    name: str = "forged"

    def start(self, simulated: SimulatedEnvironment) -> ThrottlePolicyRunner:
        capacity = LearnedCapacity(self.carried_bytes_per_s, START_MS)
        profile = BrokerProfile(
            "c",
            0,
            EPOCH_MS,
            START_MS,
            1e6,
            quiet_p99_ms=(self.p99_ms,) * 8,
            capacity_in=capacity,
            capacity_out=capacity,
        )
        simulated.signals.profiles = {broker: replace(profile, broker=broker) for broker in BROKERS}
        limits = ThrottleLimits(rate_bytes_per_s_max=CEILING, closed_loop=True)
        return LoopPolicy(limits, Objective(), ControlLimits(rate_bytes_per_s_max=CEILING)).start(simulated)


@pytest.mark.parametrize("p99_ms", [2e-3, 1e12])
@pytest.mark.parametrize("carried_bytes_per_s", [1.0, 1e15])
def test_forged_profiles_slow_or_speed_a_move_within_its_limits(p99_ms: float, carried_bytes_per_s: float) -> None:
    trace = run(world(rate=START), ForgedProfiles(p99_ms, carried_bytes_per_s), settle_s=0.0)
    for rates in (trace.leader_rate_bytes_per_s, trace.follower_rate_bytes_per_s):
        assert rates[np.isfinite(rates)].max() <= CEILING
        assert rates.min() >= ThrottleLimits(CEILING).rate_bytes_per_s_min
    # With a latency that no clients can have, the sources stay at the minimum rate, and the move goes on.
    ends = trace.summary.completed
    assert ends or trace.remaining_bytes[-1] < 0.8 * trace.remaining_bytes[0]
    assert ends == (p99_ms > 1.0)
