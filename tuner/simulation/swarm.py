"""Runs the production loop in thousands of small random worlds with faults, and collects violated invariants.

The seed determines the whole run (swarm_draw): a move of half a minute, the tuner's settings, and the mishaps, which are faults of
the tuner. In a run the tuner is killed and restarted, its journal fails, its clock jumps, operators write throttles and give
orders, brokers fail, or signals stop. This module applies the mishaps to the loop; swarm_watch checks the invariants.

Invariant: the same seed gives the same run, so a failure can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.objective import ControlLimits
from tuner.core.operator_orders import Orders
from tuner.core.throttle_limits import StallLimits
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.loop import ThrottleConfig, ThrottleController, ThrottlePorts
from tuner.runtime.throttle.ramp_executor import RampExecutor
from tuner.runtime.throttle.steering_controller import SteeringController
from tuner.simulation.policy import SimulatedEnvironment, ThrottlePolicyRunner, capacities
from tuner.simulation.ports import SilentObserver
from tuner.simulation.run import run
from tuner.simulation.swarm_draw import DrawnRun, draw_run
from tuner.simulation.swarm_watch import (
    CYCLE_S,
    VISIBLE_AFTER_S,
    Findings,
    ProcessSuspended,
    SwarmJournal,
    WatchedThrottles,
    find_leftovers,
)

SETTLE_S = 120.0  # A minute longer than the longest mishap.
_WRITES_PER_S_MAX = 50.0


class SwarmRunner:
    """Runs the production loop and applies the mishaps to it."""

    def __init__(self, simulated: SimulatedEnvironment, drawn: DrawnRun, findings: Findings) -> None:
        self._simulated, self._drawn = simulated, drawn
        self.journal = SwarmJournal()
        self.throttles = WatchedThrottles(simulated, drawn, self.journal, findings)
        self._orders = SwarmOrders()
        self._next_cycle_s = 0.0
        self._kills = list(drawn.mishaps.killed_at_s)
        self._restart_at_s = 0.0
        self._cleared_parts = 0  # Removed by another tool so far: 0 nothing, 1 all rates, 2 all rates and lists.
        self._operator_writes = list(drawn.operator_writes)
        self._wakes_at_s: float | None = None  # When the process that was suspended in a write resumes.
        # Number of rates that a suspended process has written after the next process had started.
        self.late_predecessor_writes = 0
        self.loop: ThrottleController | None = self._start_loop()

    def act(self) -> None:
        now_s, mishaps = self._simulated.cluster.now_s, self._drawn.mishaps
        while self._operator_writes and self._operator_writes[0].at_s <= now_s:
            operator_write = self._operator_writes.pop(0)
            self.journal.managed_at[operator_write.at_s] = frozenset(self.journal.memory.owned)
        if self._simulated.cluster.moves_ended_s is None:
            self._clear_throttles(now_s)
            self._wake(now_s)
        self.journal.is_down = mishaps.journal_down_s[0] <= now_s < mishaps.journal_down_s[1]
        self._orders.latest = mishaps.orders_at(now_s)
        if self._kills and now_s >= self._kills[0]:
            self._kills.pop(0)
            if mishaps.suspended_s < float("inf"):
                self.throttles.suspend_next_write = True
            else:
                self._kill(now_s)
        if self.loop is None:
            if now_s < self._restart_at_s:
                return
            self.loop = self._start_loop()
        try:
            self._run_due(self.loop, now_s)
        except ProcessSuspended:
            self._kill(now_s)

    def _run_due(self, loop: ThrottleController, now_s: float) -> None:
        if now_s >= self._next_cycle_s:
            self._next_cycle_s = now_s + CYCLE_S
            loop.cycle()
            if self.throttles.suspended_writes and self._wakes_at_s is None:
                self._wakes_at_s = now_s + self._drawn.mishaps.suspended_s
        due_s = loop.next_due_s()
        if due_s is not None and due_s <= now_s:
            loop.tick()

    def _kill(self, now_s: float) -> None:
        """Kills the tuner. If an earlier process is still suspended, it never resumes."""
        self.loop, self._restart_at_s = None, now_s + self._drawn.mishaps.down_s
        if self._wakes_at_s is not None:
            self._wakes_at_s, self.throttles.suspended_writes = None, {}

    def _wake(self, now_s: float) -> None:
        """Sends the suspended write, if the suspended process resumes now."""
        if self._wakes_at_s is None or now_s < self._wakes_at_s or self.loop is None:
            return
        operator_sides = {(p.broker, p.side) for p in self._drawn.operator_writes}
        late_writes, self.throttles.suspended_writes, self._wakes_at_s = self.throttles.suspended_writes, {}, None
        for side, rate in late_writes.items():
            # Only rates that are still managed are written. A late write over a restored rate would count as an external change,
            # which is known (docs/explanation/ownership-and-fencing.md).
            if rate is not None and side in self.loop.memory.owned and side not in operator_sides:
                self.late_predecessor_writes += 1
                self._simulated.cluster.controller.write(now_s, side, rate)

    def _clear_throttles(self, now_s: float) -> None:
        """Removes all rates and then all lists, as ``kafka-reassign-partitions --verify`` does."""
        cluster, at_s = self._simulated.cluster, self._drawn.mishaps.cleared_at_s
        if self._cleared_parts < 1 and now_s >= at_s:
            self._cleared_parts = 1
            for side in list(cluster.controller.rates):
                cluster.controller.write(now_s, side, None)
        if self._cleared_parts == 1 and now_s >= at_s + VISIBLE_AFTER_S:
            self._cleared_parts = 2
            for topic in list(cluster.lists):
                cluster.set_lists(topic, TopicThrottle())

    def _start_loop(self) -> ThrottleController:
        simulated, drawn = self._simulated, self._drawn
        broker_capacities = capacities(drawn.world)
        law_limits = ControlLimits(
            rate_bytes_per_s_min=drawn.limits.rate_bytes_per_s_min,
            rate_bytes_per_s_max=drawn.limits.rate_bytes_per_s_max,
        )
        steering = None
        if drawn.objective is not None:
            steering = SteeringController(
                self.throttles,
                drawn.objective,
                broker_capacities.__getitem__,
                law_limits,
                writes_per_s_max=_WRITES_PER_S_MAX,
            )
        ports = ThrottlePorts(
            live=simulated.live,
            signals=simulated.signals,
            throttles=self.throttles,
            orders=self._orders,
            journal=self.journal,
            observer=SilentObserver(),
        )
        config = ThrottleConfig(
            limits=replace(drawn.limits, closed_loop=steering is not None, throttles_all_moves=steering is not None),
            stall_limits=StallLimits(),
            writes_per_s_max=_WRITES_PER_S_MAX,
        )
        clock = Clock(self._wall_clock, lambda: simulated.cluster.now_s)
        return ThrottleController(
            ports,
            config,
            clock,
            memory=self.journal.recovered(),
            ramps=RampExecutor(self.throttles, writes_per_s_max=_WRITES_PER_S_MAX),
            steering=steering,
        )

    def _wall_clock(self) -> float:
        return self._drawn.mishaps.wall_s(self._simulated.cluster.now_s)


@dataclass(slots=True)
class SwarmOrders:
    """The orders port; ``SwarmRunner`` sets the latest orders."""

    latest: Orders = field(default_factory=Orders)
    superseded: tuple[Orders, ...] = ()

    def follow(self, wait_ms: int = 0) -> None:
        pass


@dataclass(slots=True)
class SwarmPolicy:
    """Starts the swarm's runner, and keeps it for the checks after the run."""

    drawn: DrawnRun
    findings: Findings
    name: str = "rheostat"
    runner: SwarmRunner | None = None
    simulated: SimulatedEnvironment | None = None

    def start(self, simulated: SimulatedEnvironment) -> ThrottlePolicyRunner:
        self.simulated, self.runner = simulated, SwarmRunner(simulated, self.drawn, self.findings)
        return self.runner


def findings_of(seed: int) -> list[str]:
    """Runs the world of this seed, and returns the violated invariants as lines of text."""
    drawn, findings = draw_run(seed), Findings()
    policy = SwarmPolicy(drawn, findings)
    run(drawn.world, policy, settle_s=SETTLE_S)
    assert policy.simulated is not None
    assert policy.runner is not None
    cluster = policy.simulated.cluster
    # The end is checked only if the moves have ended. A throttle below steady-state replication, a pause or an operator's rate can
    # keep them from ending. It is also checked only if the tuner has recorded the move; otherwise the tuner cannot know that a
    # throttle belonged to the move, and leaves it.
    ended = cluster.moves_ended_s is not None and cluster.now_s >= cluster.moves_ended_s + SETTLE_S
    if ended and policy.runner.journal.saw_move:
        for leftover in find_leftovers(drawn, policy.runner.throttles, policy.runner.journal, policy.simulated):
            findings.note(cluster.now_s, leftover)
    return findings.lines
