"""A rule of the schedule during a move on a simulated cluster: traffic follows the ceiling down and up again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from test_law import world

from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.simulation.policy import LoopPolicy, SimulatedEnvironment
from tuner.simulation.run import run

OBJECTIVE = Objective(latency_ms=50.0)
DAY, NIGHT = 20 * MB, 100 * MB
BEGINS_S, ENDS_S = 60, 150
RAMP_S = 20  # One cycle, and one quota window with the answer of Kafka's mean.


def policy(ceiling: int, rules: str) -> LoopPolicy:
    limits = ThrottleLimits(rate_bytes_per_s_max=ceiling, schedule_rules=rules, closed_loop=True)
    return LoopPolicy(limits, OBJECTIVE, ControlLimits(rate_bytes_per_s_max=ceiling))


@dataclass(frozen=True, slots=True)
class ScheduledPolicy:
    """The production loop, whose ceiling a rule lowers for a while."""

    name: str = "scheduled"

    def start(self, simulated: SimulatedEnvironment) -> ScheduledRunner:
        return ScheduledRunner(simulated)


class ScheduledRunner:
    def __init__(self, simulated: SimulatedEnvironment) -> None:
        self._simulated = simulated
        self._runner = policy(NIGHT, "").start(simulated)
        self._rules = ""

    def act(self) -> None:
        rules = "office hours" if BEGINS_S <= self._simulated.cluster.now_s < ENDS_S else ""
        if rules != self._rules:
            self._rules = rules
            in_force = policy(DAY if rules else NIGHT, rules)
            limits = replace(in_force.limits, throttles_all_moves=True)
            loop = self._runner._loop  # type: ignore[attr-defined]
            loop.change_policy(limits, in_force.objective, in_force.law_limits)
        self._runner.act()


def test_traffic_follows_the_ceiling_of_a_rule() -> None:
    trace = run(world(), ScheduledPolicy(), settle_s=0.0)
    into = trace.catch_up_in_bytes_per_s[:, 2]
    assert into[BEGINS_S - 20 : BEGINS_S].mean() > 50 * MB
    assert trace.follower_rate_bytes_per_s[BEGINS_S + RAMP_S : ENDS_S, 2].max() <= DAY
    # Bytes that left the quota window before may pass once more, so the mean of some seconds can exceed the rate a little.
    assert into[BEGINS_S + RAMP_S : ENDS_S].mean() <= 1.01 * DAY
    assert into[BEGINS_S + RAMP_S : ENDS_S].mean() > 0.6 * DAY
    assert into[ENDS_S + RAMP_S : ENDS_S + 2 * RAMP_S].mean() > 50 * MB, "what was learned before the rule counts"
    assert trace.summary.completed
