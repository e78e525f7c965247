"""The standard rig, which records all inputs of its decisions as the Kafka journal does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from loop_rig import FakeJournal, Rig
from tuner_cases import LIMITS, STALL

from streaming.shared.contract import MoveStep
from tuner.control.throttle.objective import Capacity, ControlLimits, Objective
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide, LiveCluster, PartitionMove
from tuner.core.deadline_forecast import DeadlineForecast
from tuner.core.throttle_limits import MB
from tuner.journal.entries import Entry
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import JournalError
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.replay.recording import MissedSteps, decode_chunk, recorded_steps
from tuner.replay.replayer import ReplayedStep, Replayer
from tuner.runtime.throttle.actuator import DryRunThrottles, Throttles
from tuner.runtime.throttle.loop import ThrottleConfig, ThrottleController, ThrottlePorts
from tuner.runtime.throttle.ramp_executor import RampExecutor
from tuner.runtime.throttle.steering_controller import SteeringController, writes_per_tick_max

WRITES_PER_S_MAX = 50.0


@dataclass
class FilmedJournal(FakeJournal):
    """Records the inputs with each journal write, in one transaction."""

    inputs: InputLog | None = None
    records: list[bytes] = field(default_factory=list)

    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        memory: Memory | None = None,
        owned: Mapping[BrokerSide, OwnedRate] | None = None,
        moving_replicas: Mapping[str, Mapping[int, frozenset[int]]] | None = None,
        **more: object,
    ) -> None:
        assert self.inputs is not None
        taken = self.inputs.take_records()
        try:
            super().write(entries, memory=memory, owned=owned, moving_replicas=moving_replicas, **more)  # type: ignore[arg-type]
        except JournalError:
            self.inputs.discard_pending()
            raise
        self.records += taken


@dataclass
class FakeRecoveries:
    """The recovering replicas that a test sets; each partition lacks a gigabyte."""

    recoveries: tuple[PartitionMove, ...] = ()
    has_news: bool = False

    def take(self) -> frozenset[str]:
        return frozenset(r.topic for r in self.recoveries)

    def add_to(self, live: LiveCluster) -> LiveCluster:
        return replace(
            live,
            recoveries=self.recoveries,
            min_in_sync={r.topic: 1 for r in self.recoveries},
            lacking_bytes={(r.topic, r.partition): 1000 * MB for r in self.recoveries},
        )


class FilmedRig(Rig):
    """A rig that can end, start again and be replayed."""

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        objective: Objective | None = None,
        dry_run: bool = False,
        throttles_moves: bool = False,
    ) -> None:
        super().__init__(memory, objective=objective, dry_run=dry_run, throttles_moves=throttles_moves)
        self.throttles_moves = throttles_moves
        self.objective = objective
        self.dry_run = dry_run
        self.runs = 0
        self.silent = False  # No signals come.
        self.recoveries: FakeRecoveries | None = None  # Set it before ``filmed_loop``.
        self.deadline_forecasts: Mapping[BrokerSide, DeadlineForecast] = {}
        self.journal: FilmedJournal = FilmedJournal(self.events)
        self._make_loop = self.filmed_loop
        self.loop = self.filmed_loop(self.loop.memory)

    def filmed_loop(self, memory: Memory) -> ThrottleController:
        self.runs += 1
        law = ControlLimits(rate_bytes_per_s_max=LIMITS.rate_bytes_per_s_max, takeover_ramp_s=0.1)
        limits = replace(
            LIMITS,
            closed_loop=self.objective is not None,
            throttles_all_moves=self.throttles_moves,
            throttles_recoveries=self.recoveries is not None,
            finish_at_ms=self.objective.finish_at_ms if self.objective is not None else None,
        )
        in_force = SettingsSnapshot(
            limits,
            STALL,
            self.objective,
            law if self.objective else None,
            writes_per_tick_max(WRITES_PER_S_MAX),
            self.dry_run,
        )
        inputs = InputLog(in_force, run=f"run {self.runs}", program="test", wall_clock=lambda: self.now_ms / 1000)
        self.journal.inputs = inputs
        port: Throttles = DryRunThrottles(self.throttles) if self.dry_run else self.throttles
        steering = None
        if self.objective is not None:
            steering = SteeringController(
                port, self.objective, lambda _: Capacity(125 * MB, 125 * MB), law,
                writes_per_s_max=WRITES_PER_S_MAX, inputs=inputs,
            )  # fmt: skip
        ports = ThrottlePorts(
            live=self.live,
            signals=self.signals,
            throttles=port,
            orders=self.orders,
            journal=self.journal,
            observer=self.observer,
            inputs=inputs,
            recoveries=self.recoveries,
            vetoes=lambda: self.vetoes,
            deadline_forecasts=lambda *_: self.deadline_forecasts,
        )
        config = ThrottleConfig(
            limits=limits, stall_limits=STALL, writes_per_s_max=WRITES_PER_S_MAX, dry_run=self.dry_run
        )
        return ThrottleController(ports, config, self.clock, memory=memory, ramps=RampExecutor(port), steering=steering)

    def goes_on(self, seconds: int, *, gained_bytes_per_s: float = 0.0, cycle_s: int = 5) -> None:
        """Advances the time; every five seconds new signals of all sides arrive."""
        for _ in range(seconds):
            self.now_s += 1.0
            self.now_ms += 1000
            second = round(self.now_s)
            if second % 5 == 2 and not self.silent:
                self._hear(gained_bytes_per_s)
            if second % cycle_s == 0:
                self.loop.cycle()
            due_s = self.loop.next_due_s()
            while due_s is not None and due_s <= self.now_s:
                self.loop.tick()
                due_s = self.loop.next_due_s()

    def _hear(self, gained_bytes_per_s: float) -> None:
        sampled_at_ms = self.now_ms - 2_000
        wobble = 1.0 + 0.001 * (self.now_ms // 1000 % 7)
        step = MoveStep(sampled_at_ms, 5.0, 5 * gained_bytes_per_s * wobble, 5 * 1.3 * MB / 3, 600 * MB / wobble)
        self.signals.moves = {
            side: replace(
                move,
                sampled_at_ms=sampled_at_ms,
                steps=(*move.steps, step)[-5:],
                remaining_bytes=None if move.remaining_bytes is None else move.remaining_bytes / 1.01,
            )
            for side, move in self.signals.moves.items()
        }
        self.signals.brokers = {
            broker: replace(
                signal,
                sampled_at_ms=sampled_at_ms,
                network_in_bytes_per_s=75.3 * MB * wobble,
                network_out_bytes_per_s=75.7 * MB * wobble,
                reassignment_in_bytes_per_s=4 * MB / wobble,
                reassignment_out_bytes_per_s=4 * MB / wobble,
                fetch_p99_ms=9.0 * wobble,
            )
            for broker, signal in self.signals.brokers.items()
        }

    def replayed(
        self, records: Iterable[bytes] | None = None, policy: SettingsSnapshot | None = None
    ) -> list[ReplayedStep]:
        film = recorded_steps(map(decode_chunk, self.journal.records if records is None else records), MissedSteps())
        return list(Replayer(policy).replay(film))


def differing(played: Iterable[ReplayedStep]) -> list[ReplayedStep]:
    return [one for one in played if one.decisions != one.step.decisions or one.differing_fields]
