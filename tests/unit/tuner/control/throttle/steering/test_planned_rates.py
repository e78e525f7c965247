"""The rates of sides with waiting plan steps: constant, draining, and followers above leaders."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tuner_cases import F, L

from streaming.shared.contract import BrokerSignal, MoveSignal, Side, ThrottledBy
from tuner.control.throttle.objective import Capacity, ControlLimits, Objective
from tuner.control.throttle.steering.law import control_step
from tuner.control.throttle.steering.state import ControlInput, ControlState
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import MB

LIMITS = ControlLimits()
FAST = Objective(50.0)
LINK = Capacity(125 * MB, 125 * MB)


class Planned:
    """One side of a broker in a plan, second by second; of what flows the signals tell every five seconds."""

    def __init__(self, side: Side, stands: float, *, objective: Objective = FAST, planned: bool = True) -> None:
        self.side: BrokerSide = (1, side)
        self.limits = ControlLimits(rate_bytes_per_s_max=30 * MB, takeover_ramp_s=3.0)
        self.stands = round(stands)
        self._objective = objective
        self._planned = frozenset({self.side}) if planned else frozenset[BrokerSide]()
        self._memory, self._second = ControlState(), 0

    def go(
        self,
        lasts_s: int,
        flows: Sequence[float],
        *,
        steady_state: float = 0.0,
        remaining: float = 400e9,
        throttled: float | None = None,
    ) -> list[int]:
        """What is written."""
        found = []
        for _ in range(lasts_s):
            at_ms = self._second // 5 * 5000
            flow = flows[at_ms // 5000 % len(flows)]
            broker = BrokerSignal(
                "c", 1, at_ms, at_ms, 6, 1.0, network_out_bytes_per_s=0.0, network_in_bytes_per_s=0.0, produce_p99_ms=1.0,
                reassignment_out_bytes_per_s=flow, reassignment_in_bytes_per_s=flow,
                leader_throttled_bytes_per_s=throttled, throttled_by=ThrottledBy.QUOTA,
            )  # fmt: skip
            move = MoveSignal(
                "c", 1, self.side[1], at_ms, at_ms, 6, 1.0, 1, 1, remaining_bytes=remaining, steady_state_bytes_per_s=steady_state,
                write_bytes_per_s=0.0,
            )  # fmt: skip
            stands = {self.side: self.stands}
            view = ControlInput(
                self._second * 1000, {1: broker}, {self.side: move}, stands, {1: LINK}, planned_sides=self._planned
            )
            self._memory, asked = control_step(view, self._memory, self._objective, self.limits)
            self.stands = asked.get(self.side, self.stands)
            found += asked.values()
            self._second += 1
        return found


UNEVEN = (22 * MB, 26 * MB, 24 * MB, 28 * MB)


def test_leader_of_growing_plan_ignores_uneven_seconds() -> None:
    """Moves end and begin within a window: what it holds is not chased with a write a second."""
    leader = Planned(L, 5 * MB)
    leader.go(60, UNEVEN)
    paced = leader.limits.plan_leader_ratio * 30 * MB
    assert leader.go(120, UNEVEN) == []
    assert leader.stands == pytest.approx(paced, rel=leader.limits.plan_deadband_ratio)


def test_setpoint_is_written_outside_the_deadband() -> None:
    leader = Planned(L, 5 * MB)
    leader.go(60, UNEVEN, remaining=30 * MB)
    stood = leader.stands
    assert leader.go(60, UNEVEN, remaining=30.3 * MB) == []
    assert 1 <= len(leader.go(60, UNEVEN, remaining=31.5 * MB)) <= 3
    assert leader.stands > 1.02 * stood


def test_leader_of_new_move_does_not_ramp_from_current_rate() -> None:
    """Kafka's mean, and the newest step, are of seconds in which its partition was not there yet."""
    leader = Planned(L, 27.6 * MB)
    assert leader.go(5, [2.4 * MB], throttled=1 * MB) == []
    assert min([leader.stands, *leader.go(40, [27 * MB], throttled=20 * MB)]) > 27 * MB


def test_deadband_does_not_cover_undraining_or_forbidden_rates() -> None:
    leader = Planned(L, 24 * MB)
    leader.go(60, [23 * MB], steady_state=20 * MB, remaining=1000)
    assert leader.stands == pytest.approx(24 * MB, rel=0.01)
    leader.go(60, [23 * MB], steady_state=20.3 * MB, remaining=1000)
    assert leader.stands >= 1.2 * 20.3 * MB * (1 - leader.limits.deadband_ratio)
    somebodys = Planned(L, 30.5 * MB)
    somebodys.go(60, [27 * MB], steady_state=27 * MB)
    assert somebodys.stands == 30 * MB


def test_plan_follower_is_never_below_its_leaders() -> None:
    follower = Planned(F, 27.3 * MB)
    follower.go(60, UNEVEN)
    leaders = LIMITS.plan_leader_ratio * 30 * MB
    assert follower.stands >= (1 + LIMITS.plan_deadband_ratio) * leaders
    alone = Planned(F, 27.3 * MB, planned=False)
    alone.go(60, UNEVEN)
    assert alone.stands == 30 * MB
