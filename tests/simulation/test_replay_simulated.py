"""A simulated move is recorded like a real one, and replays to exactly the same decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from streaming.shared.contract import Side
from tuner.control.throttle.decision import Reason
from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.control.throttle.state import Memory
from tuner.core.throttle_limits import MB, StallLimits, ThrottleLimits
from tuner.journal.entries import Entry
from tuner.journal.input_log import InputLog
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.replay.compare import Comparison, compare_steps
from tuner.replay.recording import MissedSteps, decode_chunk, recorded_steps
from tuner.replay.replayer import Replayer
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.loop import ThrottleConfig, ThrottleController, ThrottlePorts
from tuner.runtime.throttle.ramp_executor import RampExecutor
from tuner.runtime.throttle.steering_controller import SteeringController, writes_per_tick_max
from tuner.simulation.policy import EPOCH_MS, SimulatedEnvironment, ThrottlePolicyRunner, capacities
from tuner.simulation.ports import MemoryJournal, NoOrders, SilentObserver
from tuner.simulation.run import run
from tuner.simulation.world import BrokerSpec, ClientLoad, InitialRate, PartitionSpec, SignalOutage, TopicLists, World

WRITES_PER_S_MAX = 50.0


class RecordingJournal(MemoryJournal):
    def __init__(self, inputs: InputLog) -> None:
        super().__init__()
        self._inputs = inputs
        self.records: list[bytes] = []

    def write(self, entries: Sequence[Entry] = (), **kept: Any) -> None:
        super().write(entries, **kept)
        self.records += self._inputs.take_records()


@dataclass
class RecordedPolicy:
    """The production loop; all of its decisions are recorded."""

    objective: Objective | None
    name: str = "filmed"
    limits: ThrottleLimits = field(default_factory=lambda: ThrottleLimits(rate_bytes_per_s_max=80 * MB))
    records: list[bytes] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    def start(self, simulated: SimulatedEnvironment) -> ThrottlePolicyRunner:
        limits, law = (
            replace(self.limits, closed_loop=self.objective is not None),
            ControlLimits(rate_bytes_per_s_max=80 * MB),
        )

        def now_s() -> float:
            return simulated.cluster.now_s

        def wall_s() -> float:
            return EPOCH_MS / 1000 + simulated.cluster.now_s

        in_force = SettingsSnapshot(limits, StallLimits(), self.objective, law, writes_per_tick_max(WRITES_PER_S_MAX))
        inputs = InputLog(in_force, run="simulated", program="test", wall_clock=wall_s)
        journal = RecordingJournal(inputs)
        self.records, self.entries = journal.records, journal.entries
        steering = None
        if self.objective is not None:
            known = capacities(simulated.cluster.world)
            steering = SteeringController(
                simulated.throttles, self.objective, known.__getitem__, law,
                writes_per_s_max=WRITES_PER_S_MAX, inputs=inputs,
            )  # fmt: skip
        ports = ThrottlePorts(
            live=simulated.live,
            signals=simulated.signals,
            throttles=simulated.throttles,
            orders=NoOrders(),
            journal=journal,
            observer=SilentObserver(),
            inputs=inputs,
        )
        config = ThrottleConfig(limits=limits, stall_limits=StallLimits(), writes_per_s_max=WRITES_PER_S_MAX)
        ramps = RampExecutor(simulated.throttles)
        controller = ThrottleController(
            ports, config, Clock(wall_s, now_s), memory=Memory(), ramps=ramps, steering=steering
        )
        return _Hand(simulated, controller)

    def reasons(self) -> list[tuple[float, Reason]]:
        """Returns the time of each decision in simulated seconds, and its reason."""
        return [((entry.at_ms - EPOCH_MS) / 1000, Reason(entry.reason)) for entry in self.entries]

    def replayed(self) -> Comparison:
        missed = MissedSteps()
        found = compare_steps(
            Replayer().replay(recorded_steps(map(decode_chunk, self.records), missed)), 0, 2**53, differences_max=3
        )
        assert missed == MissedSteps()
        return found


@dataclass
class _Hand:
    simulated: SimulatedEnvironment
    loop: ThrottleController
    next_s: float = 0.0

    def act(self) -> None:
        now_s = self.simulated.cluster.now_s
        if now_s >= self.next_s:
            self.next_s += 5.0
            self.loop.cycle()
        due_s = self.loop.next_due_s()
        if due_s is not None and due_s <= now_s:
            self.loop.tick()


def world(rate: int) -> World:
    """2 GB move from brokers 1 and 2 to broker 3; clients use a third of the gigabit links, with noise."""
    moves = [PartitionSpec("t", i, 5e8, 1e6, ((1, 2), (2, 1))[i % 2], (3,), ((2,), (1,))[i % 2]) for i in range(4)]
    return World(
        seed=5,
        brokers=tuple(BrokerSpec(b, 125e6, 125e6, 400e6, 400e6) for b in (1, 2, 3)),
        partitions=tuple(moves),
        loads=tuple(ClientLoad(b, 40e6, 40e6, noise_ratio=0.05) for b in (1, 2, 3)),
        lists=(TopicLists("t", "0:1,0:2,1:1,1:2,2:1,2:2,3:1,3:2", "0:3,1:3,2:3,3:3"),),
        rates=(*(InitialRate(b, Side.LEADER, rate) for b in (1, 2)), InitialRate(3, Side.FOLLOWER, rate)),
        duration_s_max=400.0,
    )


@pytest.mark.parametrize(("objective", "rate"), [(None, 3_000_000), (Objective(50.0), 20_000_000)])
def test_whole_move_replays_without_differences(objective: Objective | None, rate: int) -> None:
    policy = RecordedPolicy(objective)
    trace = run(world(rate), policy)
    assert trace.summary.completed
    found = policy.replayed()
    assert found.differences == []
    assert found.different == 0
    assert found.cycles.same > 10
    assert found.steering_ticks.same > (0 if objective is None else 30) - 1


def test_ramp_cut_by_signal_outage_causes_no_diagnosis() -> None:
    """The ramp of the rescue ends early; later signals still contain the stall. The replay gives the same decisions."""
    undisturbed = RecordedPolicy(None)
    run(world(3_000_000), undisturbed)
    begins_s = min(at_s for at_s, reason in undisturbed.reasons() if reason is Reason.STALLED_BELOW_STEADY_STATE)
    outage = SignalOutage(begins_s - 2.0, begins_s + 10.0, (1, 2, 3))
    policy = RecordedPolicy(None, limits=ThrottleLimits(rate_bytes_per_s_max=80 * MB, signal_age_s_max=8.0))
    trace = run(replace(world(3_000_000), disturbances=(outage,)), policy)
    cut_s = [at_s for at_s, reason in policy.reasons() if reason is Reason.SIGNALS_STALE and at_s > begins_s]
    assert cut_s, "the signals were old during the ramp"
    diagnoses = [at_s for at_s, reason in policy.reasons() if reason.value.startswith("stalled")]
    assert not [at_s for at_s in diagnoses if cut_s[-1] < at_s < cut_s[-1] + 20.0]
    assert trace.summary.completed
    assert policy.replayed().differences == []
