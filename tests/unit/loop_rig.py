"""A throttle controller in the middle of a move, with fakes of all its ports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fake_throttles import FakeThrottles
from tuner_cases import (
    LIMITS,
    NOW_MS,
    OWN_LISTS,
    SEEN,
    SOURCE,
    STALL,
    STALLED,
    TARGET,
    WELL,
    broker_signal,
    live,
    move_signal,
    owned,
)

from streaming.shared.contract import BrokerSignal, MoveSignal, ReplicationSignal
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.decision import Decision, ExecutedDecision, Reason
from tuner.control.throttle.objective import Capacity, ControlLimits, Objective
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.cluster import (
    BrokerSide,
    ClusterUnreadable,
    LiveCluster,
    Observation,
    PartitionMove,
    RateSetting,
)
from tuner.core.operator_orders import Orders
from tuner.core.outcome import Failure
from tuner.core.throttle_limits import MB
from tuner.core.vetoes import Veto
from tuner.journal.entries import Entry, decode_memory, encode_memory
from tuner.journal.kafka_journal import JournalError
from tuner.journal.outbox import Outbox
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.actuator import DryRunThrottles, Throttles
from tuner.runtime.throttle.loop import ThrottleConfig, ThrottleController, ThrottlePorts
from tuner.runtime.throttle.ramp_executor import RampExecutor
from tuner.runtime.throttle.steering_controller import SteeringController

Events = list[tuple[Any, ...]]


class FakeLive:
    """A cluster reader that returns the settings of ``FakeThrottles``."""

    def __init__(self, throttles: FakeThrottles) -> None:
        self.throttles = throttles
        self.moves: tuple[PartitionMove, ...] = live().moves
        self.not_seen: str | None = None
        self.looks: list[bool] = []
        self.also: frozenset[str] = frozenset()
        self.quota_samples = 11
        self.quota_sample_s: Mapping[int, int] = {}
        self.beside: Mapping[int, frozenset[BrokerSide]] = {}
        self.waits: list[Collection[int]] = []

    def snapshot(
        self, *, full: bool, extra_topics: Collection[str] = (), waiting_brokers: Collection[int] = ()
    ) -> LiveCluster | ClusterUnreadable:
        self.also = frozenset(extra_topics)
        self.looks.append(full)
        self.waits.append(waiting_brokers)
        if self.not_seen is not None:
            return ClusterUnreadable(self.not_seen)
        inherited = {
            (broker, side): RateSetting(value, is_set_on_broker=False)
            for side, value in self.throttles.default_rates.items()
            for broker in self.throttles.brokers
        }
        return LiveCluster(
            frozenset(self.throttles.brokers),
            self.moves,
            inherited | {side: RateSetting(value) for side, value in self.throttles.rates.items()},
            {topic: lists for topic, lists in self.throttles.lists.items() if lists},
            quota_samples=dict.fromkeys(self.throttles.brokers, self.quota_samples),
            lost_replica_sides=self.beside,
            quota_sample_s=self.quota_sample_s,
        )


class FakeSignals:
    def __init__(self) -> None:
        self.brokers: Mapping[int, BrokerSignal] = {
            1: broker_signal(1, leader=9.5 * MB),
            3: broker_signal(3, follower=6 * MB),
        }
        self.replication: Mapping[int, ReplicationSignal] = {}
        self.baselines: Mapping[int, BrokerBaseline] = {}
        self.moves: Mapping[BrokerSide, MoveSignal] = {
            SOURCE: move_signal(*SOURCE),
            TARGET: move_signal(*TARGET, steady_state=3 * MB),
        }

    def poll(self) -> int:
        return 0

    def forget_old(self, now_ms: int) -> None:
        pass


@dataclass
class FakeJournal:
    events: Events
    refusing: bool = False
    refusing_kinds: frozenset[str] = frozenset()
    writes: int = 0
    entries: list[Entry] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    owned: dict[BrokerSide, OwnedRate] = field(default_factory=dict)
    seen: dict[tuple[str, int], frozenset[int]] = field(default_factory=dict)
    listed: dict[str, TopicThrottle] = field(default_factory=dict)

    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        memory: Memory | None = None,
        owned: Mapping[BrokerSide, OwnedRate] | None = None,
        moving_replicas: Mapping[str, Mapping[int, frozenset[int]]] | None = None,
        listed: Mapping[str, TopicThrottle] | None = None,
    ) -> None:
        if self.refusing or any(entry.kind in self.refusing_kinds for entry in entries):
            raise JournalError("no leader for the journal's partition")
        self.writes += 1
        self.entries.extend(entries)
        self.events.extend((entry.kind, entry.action) for entry in entries)
        if memory is not None:
            self.memories.append(memory)
            self.owned.clear()
            self.seen.clear()
            self.listed.clear()
            self.events.append(("memory", tuple(memory.owned)))
        if moving_replicas:
            self.seen.update(
                {(topic, p): brokers for topic, rows in moving_replicas.items() for p, brokers in rows.items()}
            )
            self.events.append(("seen", tuple(sorted(moving_replicas))))
        if owned:
            self.owned.update(owned)
            self.events.append(("owned", tuple(owned)))
        if listed:
            self.listed.update(listed)
            self.events.append(("listed", tuple(sorted(listed))))


@dataclass
class FakeOrders:
    latest: Orders = field(default_factory=Orders)
    superseded: tuple[Orders, ...] = ()
    coming: list[Orders] = field(default_factory=list)  # Recorded, but not read yet.

    def follow(self, wait_ms: int = 0) -> None:  # noqa: ARG002 - the port's signature
        while self.coming:
            self.superseded, self.latest = (*self.superseded, self.latest), self.coming.pop(0)


@dataclass
class FakeWatcher:
    cycles: list[tuple[Observation, Memory, tuple[Decision, ...]]] = field(default_factory=list)
    acts: list[tuple[Decision, Failure | None]] = field(default_factory=list)

    def record_cycle(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None:
        self.cycles.append((observation, memory, decisions))

    def record_actions(self, acts: Sequence[ExecutedDecision]) -> None:
        self.acts += acts


class Rig:
    """A throttle controller in the middle of the standard move, and the fakes of its ports."""

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        dry_run: bool = False,
        objective: Objective | None = None,
        law_limits: ControlLimits | None = None,
        writes_per_s_max: float = 50.0,
        throttles_moves: bool = False,
    ) -> None:
        self.events: Events = []
        self.throttles = FakeThrottles(
            rates={SOURCE: 10 * MB, TARGET: 10 * MB},
            lists={**OWN_LISTS, "payments": TopicThrottle()},
            events=self.events,
        )
        self.live = FakeLive(self.throttles)
        self.signals = FakeSignals()
        self.journal = FakeJournal(self.events)
        self.observer = FakeWatcher()
        self.orders = FakeOrders()
        self.outbox = Outbox()
        self.vetoes: tuple[Veto, ...] = ()
        self.now_s = 0.0
        self.now_ms = NOW_MS  # Advanced by tests only, so the age of signals stays the same.
        self.clock = Clock(lambda: self.now_ms / 1000, lambda: self.now_s)
        port: Throttles = DryRunThrottles(self.throttles) if dry_run else self.throttles
        self.limits = replace(LIMITS, closed_loop=objective is not None, throttles_all_moves=throttles_moves)

        def loop(memory: Memory) -> ThrottleController:
            ports = ThrottlePorts(
                live=self.live,
                signals=self.signals,
                throttles=port,
                orders=self.orders,
                journal=self.journal,
                observer=self.observer,
                outbox=self.outbox,
                vetoes=lambda: self.vetoes,
            )
            config = ThrottleConfig(
                limits=self.limits, stall_limits=STALL, writes_per_s_max=writes_per_s_max, dry_run=dry_run
            )
            return ThrottleController(
                ports,
                config,
                self.clock,
                memory=memory,
                ramps=RampExecutor(port),
                steering=None
                if objective is None
                else SteeringController(
                    port,
                    objective,
                    lambda _: Capacity(125 * MB, 125 * MB),
                    law_limits or ControlLimits(rate_bytes_per_s_max=LIMITS.rate_bytes_per_s_max),
                    writes_per_s_max=writes_per_s_max,
                ),
            )

        self._make_loop = loop
        self.loop = loop(Memory(stalls={3: STALLED}) if memory is None else memory)

    def set_ceiling(self, rate_bytes_per_s: int) -> None:
        """Changes the maximum rate, as a reload of the settings does."""
        self.limits = replace(self.limits, rate_bytes_per_s_max=rate_bytes_per_s)
        self.loop = self._make_loop(self.loop.memory)

    def respect(self) -> None:
        """Sets ``tuner.existing_throttles: preserve``."""
        self.limits = replace(self.limits, adopts_existing=False)
        self.loop = self._make_loop(self.loop.memory)

    def die_and_start_again(self) -> None:
        """Starts another process: it knows the journal only."""
        self.outbox = Outbox()
        self.begin_another_term()

    def begin_another_term(self) -> None:
        """Starts another leadership term of the same process, with the state of the journal and the outbox of the process."""
        recorded = self.journal.memories[-1] if self.journal.memories else Memory()
        memory = decode_memory(encode_memory(recorded))
        listed = {topic: pairs for topic, pairs in {**memory.listed, **self.journal.listed}.items() if pairs}
        newer = {
            "owned": {**memory.owned, **self.journal.owned},
            "moving_replicas": {**memory.moving_replicas, **self.journal.seen},
        }
        self.loop = self._make_loop(replace(memory, **newer, listed=listed))

    def cycle(self) -> list[Reason]:
        return [d.reason for d in self.loop.cycle()]

    def run_ramps(self) -> None:
        while (due_s := self.loop.next_due_s()) is not None:
            self.now_s = due_s
            self.loop.tick()

    def end_the_move(self) -> None:
        self.live.moves = ()
        self.loop.cycle()

    def kinds(self, action: str) -> list[str]:
        return [e.kind for e in self.journal.entries if e.action == action]

    def writes(self) -> list[tuple[Any, ...]]:
        return [e for e in self.events if e[0] in ("write", "clear", "add", "remove")]


RAISED = Memory(
    moving_replicas=SEEN,
    throttled=True,
    stalls={3: WELL},
    owned={SOURCE: owned(10 * MB, 50 * MB), TARGET: owned(10 * MB, 50 * MB)},
)


def raised() -> Rig:
    """Returns a rig after the ramps: both sides have a managed rate of 50 MB/s."""
    rig = Rig(RAISED)
    rig.throttles.rates.update({SOURCE: 50 * MB, TARGET: 50 * MB})
    return rig
