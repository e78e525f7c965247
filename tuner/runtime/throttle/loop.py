"""Runs one cycle of the throttle controller: observe, decide, journal, write to Kafka, journal the outcome.

The rules are in tuner/control/throttle/. This module only runs them in the right order, so that three guarantees hold:

1. A decision to write is in the journal, with its inputs, before the first write. The outcome follows the last write.
2. The memory of managed throttles is in the journal before Kafka has the new value.
3. If the journal refuses a record, the controller writes nothing: an operator could neither trace nor undo such a write.

Between two cycles, ``tick`` continues the ramps (gradual rate changes) and asks the control law for new rates once a second.
``cycle_is_due`` returns whether a cycle has to run before its regular time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from streaming.shared.contract import MoveSignal, ReplicationSignal
from tuner.control.throttle.cleanup_rules import may_need_cleanup
from tuner.control.throttle.decision import ClearLists, Decision, Reason, RestoreRate, SetRate, StartRate
from tuner.control.throttle.incremental.cycle_cache import CycleCache
from tuner.control.throttle.isr_recovery import leaders_to_inspect
from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.control.throttle.plan_moves import (
    highest_plan_rate_bytes_per_s,
    list_requested_moves,
    plan_setpoints,
    select_moves_to_list,
    throttles_any_move,
)
from tuner.control.throttle.policy import decide
from tuner.control.throttle.recovery import with_recoveries
from tuner.control.throttle.replica_lists.capacity import steps_that_fit
from tuner.control.throttle.replica_lists.prepared_moves import (
    FailedThrottles,
    find_deferred_steps,
    sides_not_readable,
    with_prepared_moves,
)
from tuner.control.throttle.state import Memory
from tuner.control.throttle.step_rates import find_steps_above_plan_rate
from tuner.control.throttle.superseded import (
    find_changes_to_stop,
    find_superseded_changes,
    find_undraining_changes,
    find_vetoed_changes,
)
from tuner.control.throttle.write_intents import (
    narrow_to_current,
    record_change_intents,
)
from tuner.core.cluster import BrokerSide, LiveCluster, Observation, PartitionMove
from tuner.core.deadline_forecast import DeadlineForecast
from tuner.core.freshness import fresh_signals
from tuner.core.outcome import Failure
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.core.reassignment_plan import Plan, PlanThrottle, TopicPartition
from tuner.core.throttle_limits import StallLimits, ThrottleLimits
from tuner.core.throttle_state import ThrottleState, throttle_state_of
from tuner.core.vetoes import Veto
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import JournalError
from tuner.journal.outbox import Outbox
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.actuator import Throttles
from tuner.runtime.throttle.cleanup import Cleanup, ClusterLooker
from tuner.runtime.throttle.cycle_scheduler import CycleScheduler, OrdersFeed
from tuner.runtime.throttle.list_writer import ActObserver, ReplicaListWriter
from tuner.runtime.throttle.ramp_executor import RampExecutor
from tuner.runtime.throttle.ramp_outcomes import RampOutcomes
from tuner.runtime.throttle.recorder import Journal, ThrottleRecorder
from tuner.runtime.throttle.steering_controller import SteeringController
from tuner.runtime.throttle.steering_tick import LatestSignals, SteeringTick
from tuner.runtime.throttle.window_warmup import WindowWarmup

log = structlog.get_logger("tuner")

_JOURNAL_REFUSED = "the journal accepts no record, so no throttle is changed"


class SignalSource(LatestSignals, Protocol):
    @property
    def replication(self) -> Mapping[int, ReplicationSignal]: ...

    def forget_old(self, now_ms: int) -> None: ...


class RecoverySource(Protocol):
    """Finds recovering replicas; see observe/recovery_watch.py."""

    @property
    def has_news(self) -> bool: ...

    def take(self) -> frozenset[str]: ...

    def add_to(self, live: LiveCluster) -> LiveCluster: ...


class CycleObserver(ActObserver, Protocol):
    """Receives every cycle and its writes, for the status page and the metrics."""

    def record_cycle(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottlePorts:
    """Everything that the controller reads from and writes to.

    Attributes:
        inputs: records the inputs of each cycle; None if nothing is recorded.
        outbox: events that are not in the journal yet; None means a new, empty outbox.
        recoveries: finds recovering replicas; None if they are ignored.
        vetoes: returns the external checks that veto now.
        eta_ratios: returns ``Observation.eta_ratios`` for the newest signals at a time (epoch).
        deadline_forecasts: returns ``Observation.deadline_forecasts`` for the newest signals at a time (epoch), and for a deadline
            (epoch); None if there is no deadline.
    """

    live: ClusterLooker
    signals: SignalSource
    throttles: Throttles
    orders: OrdersFeed
    journal: Journal
    observer: CycleObserver
    inputs: InputLog | None = None
    outbox: Outbox | None = None
    recoveries: RecoverySource | None = None
    vetoes: Callable[[], tuple[Veto, ...]] = tuple
    eta_ratios: Callable[[Mapping[BrokerSide, MoveSignal], int], Mapping[BrokerSide, float]] = lambda _, __: {}
    deadline_forecasts: Callable[
        [Mapping[BrokerSide, MoveSignal], int, int | None], Mapping[BrokerSide, DeadlineForecast]
    ] = lambda _, __, ___: {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleConfig:
    """Settings of the operator.

    Attributes:
        writes_per_s_max: budget of writes to Kafka for all rate changes together.
        dry_run: the controller decides and records, and writes nothing to Kafka.
    """

    limits: ThrottleLimits
    stall_limits: StallLimits
    writes_per_s_max: float
    dry_run: bool = False


class ThrottleController:
    """Watches moves of replicas and changes their replication throttles."""

    def __init__(
        self,
        ports: ThrottlePorts,
        config: ThrottleConfig,
        clock: Clock,
        *,
        memory: Memory,
        ramps: RampExecutor,
        steering: SteeringController | None,
        processor_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """
        Args:
            memory: the controller's memory at the end of the last leadership term, from the journal.
            ramps: carries out gradual rate changes.
            steering: closed-loop control towards the objective; None if the controller only rescues stalled moves.
            processor_s: returns the CPU seconds that the process has used; by default always 0.
        """
        limits = config.limits
        self.recorder = ThrottleRecorder(
            ports.journal,
            memory,
            limits,
            clock,
            dry_run=config.dry_run,
            inputs=ports.inputs,
            outbox=ports.outbox,
        )
        self._live = ports.live
        self._recoveries = ports.recoveries
        self._signals = ports.signals
        self._orders = ports.orders
        self._observer = ports.observer
        self._vetoes = ports.vetoes
        self._eta_ratios, self._deadline_forecasts = ports.eta_ratios, ports.deadline_forecasts
        self._ramps = ramps
        self._steering = steering
        self._limits = limits
        self._stall_limits = config.stall_limits
        self._dry_run = config.dry_run
        self._clock = clock
        self._processor_s = processor_s
        self._last_live: LiveCluster | None = None  # The last snapshot that could be read.
        self._handshake = PrepareHandshake()
        self._plans: Callable[[], Sequence[Plan]] = tuple
        # Whether the tuner throttles at least one move of the last snapshot.
        self._throttles_moves = limits.throttles_all_moves
        # Partitions that Kafka reports as moving while a step is being prepared.
        self._moving: set[TopicPartition] = set()
        # Prepared steps whose replicas do not fit into a throttled-replica list any more, with the reason.
        self._without_capacity: Mapping[TopicPartition, str] = {}
        self._scheduler = CycleScheduler(ports.orders, ports.signals, clock, signal_age_s_max=limits.signal_age_s_max)
        self._rate_started = False  # The last cycle has started a rate.
        self._recovered = False  # A snapshot has narrowed the memory of the last term to the rates that Kafka has.
        self._cache = CycleCache()
        self._windows = WindowWarmup(ramps, limits, clock, writes_per_s_max=config.writes_per_s_max)
        self._ramp_outcomes = RampOutcomes(ramps, self._windows, self.recorder, ports.observer)
        self._list_writer = ReplicaListWriter(ports.throttles, self.recorder, ports.observer, clock)
        self._cleanup = Cleanup(
            ports.live, ports.throttles, self.recorder, ports.observer, stop=self._ramp_outcomes.stop
        )
        self._steering_tick = (
            None
            if steering is None
            else SteeringTick(
                steering, ports.signals, self.recorder, ports.observer, limits, clock, dry_run=config.dry_run
            )
        )

    @property
    def memory(self) -> Memory:
        return self.recorder.memory

    def change_policy(self, limits: ThrottleLimits, objective: Objective | None, control_limits: ControlLimits) -> None:
        """Uses other limits and another objective from the next cycle on. Learned values and running changes stay.

        Args:
            objective: None if, and only if, this controller has no control law.
        """
        self._limits = self.recorder.limits = self._windows.limits = limits
        if self._steering_tick is not None:
            self._steering_tick.limits = limits
        if self._steering is not None and objective is not None:
            self._steering.change_policy(objective, control_limits)

    def cycle(self) -> tuple[Decision, ...]:
        """Runs one cycle and returns its decisions. The caller has to call ``hold`` if this method raises an exception."""
        began_s, used_s = self._clock.monotonic_s(), self._processor_s()
        try:
            return self._cycle(self._handshake.moves)
        finally:
            self._scheduler.end_cycle(self._clock.monotonic_s() - began_s, self._processor_s() - used_s)

    def hold(self) -> None:
        """Changes no rate until the next successful cycle. Call it after a cycle that failed.

        Steering stops, because only a cycle applies orders such as a pause. Ramps stop at their current rate, because without
        signals their effect is unknown. A window warm-up continues, because its low rate is only for a few seconds.
        """
        if self._steering_tick is not None:
            self._steering_tick.withdraw_sides()
        self._ramp_outcomes.try_stop(
            dict.fromkeys(self._ramps.busy - self._windows.active().keys(), "interrupted: a cycle failed")
        )

    def _cycle(self, prepared: Sequence[PartitionMove]) -> tuple[Decision, ...]:
        self._rate_started = False
        observation = self._observe()
        if not self._recovered and isinstance(observation.live, LiveCluster):
            self.recorder.memory = narrow_to_current(self.memory, observation.live, observation.now_ms, self._limits)
            self._recovered = True
        acting = self._with_recoveries(observation)
        memory, decisions = decide(observation, self.memory, self._limits, self._stall_limits, self._cache)
        if self._steering is not None:
            self._scheduler.await_signals(decisions, observation)
        is_cluster_read = isinstance(observation.live, LiveCluster)
        if isinstance(acting.live, LiveCluster):
            self._windows.update(acting.live, self._cache.paths.sides() if acting.live.moves else ())
        else:  # Reported before the journal is written, because the journal is probably unreachable as well.
            self._observer.record_cycle(observation, self.memory, decisions)
        try:
            self.recorder.record_cycle(decisions, observation, memory, self._orders.superseded)
            self._orders.superseded = ()
            if not self._dry_run:
                self._carry_out(decisions, acting, prepared)
            if self._steering_tick is not None:
                self._steering_tick.hand_over(decisions, acting, throttles_moves=self._throttles_moves)
        except JournalError as error:
            log.error(_JOURNAL_REFUSED, error=str(error))
        if is_cluster_read:
            self._observer.record_cycle(observation, self.memory, decisions)
        return decisions

    def tick(self) -> None:
        """Writes the ramp steps that are due, and runs the control law if its next second has come."""
        now_s = self._clock.monotonic_s()
        self._ramp_outcomes.try_stop(find_undraining_changes(self._ramps.changes, self._signals.moves, self._limits))
        self._ramp_outcomes.step(now_s, throttles_moves=self._throttles_moves)
        tick = self._steering_tick
        if tick is not None and (due_s := tick.next_due_s()) is not None and due_s <= now_s:
            try:
                tick.run()
            except JournalError as error:
                log.error(_JOURNAL_REFUSED, error=str(error))

    def end(self, why: Failure) -> None:
        """Ends the leadership term: ramps stop at their current rate.

        If another tuner has already taken over the journal, the outcomes wait in the outbox.
        """
        if self._steering_tick is not None:
            self._steering_tick.withdraw_sides()
        self._ramp_outcomes.try_stop(dict.fromkeys(self._ramps.busy, why))

    def next_due_s(self) -> float | None:
        """Returns when ``tick`` has work next, in seconds of the monotonic clock; None if nothing is under way."""
        ramp_due_s = self._ramps.next_due_s()
        law_due_s = self._steering_tick.next_due_s() if self._steering_tick is not None else None
        return min((due_s for due_s in (ramp_due_s, law_due_s) if due_s is not None), default=None)

    @property
    def throttle_state(self) -> ThrottleState:
        """The current rates of all sides, and the rates that they may get. The reassignment executor uses them."""
        setpoints = self._steering.setpoints if self._steering is not None else {}
        plans = self._plans()
        moves = self._last_live.moves if self._last_live is not None else ()
        return throttle_state_of(
            self._last_live,
            setpoints,
            self._limits,
            warmup_rates={s: float(change.setpoint_bytes_per_s) for s, change in self._windows.active().items()},
            plan_rates=plan_setpoints(moves, list_requested_moves(plans), self._limits),
            highest_plan_rate_bytes_per_s=highest_plan_rate_bytes_per_s(plans, self._limits, self._clock.now_ms()),
        )

    def connect_plans(
        self,
        pending_bytes: Callable[[], Mapping[BrokerSide, float]],
        handshake: PrepareHandshake,
        plans: Callable[[], Sequence[Plan]] = tuple,
    ) -> None:
        """Connects the reassignment executor.

        Args:
            pending_bytes: returns the bytes by side that plans have not begun to copy; steering treats them as remaining work.
            handshake: the executor announces the steps that are about to begin, and this controller answers which are throttled.
            plans: returns all recorded plans, even plans that another tuner executes, because their moves are throttled too.
        """
        self._handshake, self._plans = handshake, plans
        if self._steering_tick is not None:
            self._steering_tick.pending_bytes = pending_bytes

    def cycle_is_due(self) -> bool:
        """Returns whether a cycle has to run before its regular time.

        Call it every ``CHECK_EVERY_S``, and whenever a step may have been prepared.
        """
        # A replica that has caught up is a normal follower. If it is still listed while the quota is used up, it fetches nothing,
        # and producers with acks=all wait for it. So it is removed from the list soon after its step has ended.
        step_ended = self._handshake.step_ended and bool(self.memory.listed)
        # A recovery takes the clients' bandwidth from its first second on.
        recovery_began = self._recoveries is not None and self._recoveries.has_news
        # A new rate starts low, and the control law may raise it only from the next cycle on.
        requested = self._handshake.is_pending or recovery_began or self._rate_started
        return self._scheduler.is_early_cycle_due(requested=requested, step_ended=step_ended, memory=self.memory)

    def _observe(self) -> Observation:
        self._signals.poll()
        is_full_scan = self._scheduler.begin_cycle()
        now_ms = self._clock.now_ms()
        self._signals.forget_old(now_ms)
        setpoints = self._steering.setpoints if self._steering is not None else {}
        # A snapshot reads the lists of these topics only if the tuner changes them.
        topics = self._recoveries.take() if self._recoveries is not None else frozenset[str]()
        recovering_topics = topics if self._limits.throttles_recoveries else frozenset[str]()
        live = self._live.snapshot(
            full=is_full_scan or may_need_cleanup(self.memory, self._last_live),
            extra_topics=recovering_topics.union(move.topic for move in self._handshake.moves),
            waiting_brokers=leaders_to_inspect(
                self._last_live,
                self.memory,
                setpoints.keys(),
                fresh_signals(self._signals.brokers, now_ms, self._limits.signal_age_s_max),
            ),
        )
        unfilled, plan_moves = self._windows.pending_sides(self.memory), list_requested_moves(self._plans())
        self._handshake.step_ended = False
        if isinstance(live, LiveCluster):
            live = live if self._recoveries is None else self._recoveries.add_to(live)
            live, newly_unfilled = self._with_prepared(live, plan_moves)
            unfilled |= newly_unfilled
            self._last_live = live
        return Observation(
            now_ms,
            live,
            dict(self._signals.brokers),
            dict(self._signals.moves),
            ramping=self._ramps.busy,
            empty_windows=unfilled,
            setpoints=setpoints,
            orders=self._orders.latest,
            plan_moves=plan_moves,
            replication_signals=dict(self._signals.replication),
            baselines=dict(self._signals.baselines),
            vetoes=self._vetoes(),
            eta_ratios=self._eta_ratios(self._signals.moves, now_ms),
            deadline_forecasts=self._deadline_forecasts_at(now_ms),
        )

    def _deadline_forecasts_at(self, now_ms: int) -> Mapping[BrokerSide, DeadlineForecast]:
        tick = self._steering_tick
        moves = tick.remaining_moves(tick.pending_bytes()) if tick is not None else {}
        return self._deadline_forecasts(moves, now_ms, self._limits.finish_at_ms)

    def _with_recoveries(self, observation: Observation) -> Observation:
        """Returns the observation with the recoveries that may be throttled among the moves, as ``decide`` sees it."""
        if not isinstance(observation.live, LiveCluster):
            return observation
        live = with_recoveries(observation.live, self._limits, self.memory)
        self._throttles_moves = throttles_any_move(live.moves, observation.plan_moves, self._limits, self.memory.listed)
        return observation if live is observation.live else replace(observation, live=live)

    def _with_prepared(
        self, live: LiveCluster, plan_moves: Mapping[TopicPartition, PlanThrottle]
    ) -> tuple[LiveCluster, frozenset[BrokerSide]]:
        """Adds the prepared steps of plans to a snapshot.

        Returns:
            The snapshot, and the sides whose quota window is not full although a step begins there.
        """
        self._moving = {(m.topic, m.partition) for m in live.moves} if self._handshake.moves else set()
        prepared, self._without_capacity = self._handshake.moves, {}
        if self._orders.latest.pause is None:  # While the tuner is paused, the executor begins no step anyway.
            prepared, self._without_capacity = steps_that_fit(live, prepared)
        urgent = [move for move in prepared if (move.topic, move.partition) in self._handshake.urgent]
        running = select_moves_to_list(live.moves, plan_moves, self._limits, self.memory.listed)
        unfilled = self._windows.find_unfilled(live, prepared, urgent, running, self._handshake.last_copied_at_s)
        return with_prepared_moves(live, prepared), unfilled

    def _carry_out(
        self, decisions: tuple[Decision, ...], observation: Observation, prepared: Sequence[PartitionMove]
    ) -> None:
        self._stop_changes(decisions, observation)
        unthrottled = self._list_writer.carry_out(decisions)
        started = {(d.broker, d.side) for d in decisions if isinstance(d, StartRate)}
        self._rate_started = not started <= unthrottled.sides
        deferred: Mapping[TopicPartition, str] = {}
        starting: Sequence[PartitionMove] | None = None
        if isinstance(observation.live, LiveCluster):
            unreadable_sides = sides_not_readable(observation.live, self.memory)
            deferred = {
                **self._without_capacity,
                **find_deferred_steps(prepared, unthrottled, unreadable_sides, self._moving),
            }
            starting = [move for move in prepared if (move.topic, move.partition) not in deferred]
        self._start_ramps(decisions, observation, unthrottled, starting)
        cleanups = [d for d in decisions if isinstance(d, ClearLists | RestoreRate)]
        if cleanups and isinstance(observation.live, LiveCluster):
            self._cleanup.carry_out(cleanups, observation.live)
        if isinstance(observation.live, LiveCluster):
            failed, waits = find_steps_above_plan_rate(
                prepared,
                decisions,
                observation,
                self._limits,
                not_set=unthrottled.sides,
                ramping=self._ramps.busy,
                warming_up=self._windows.active().keys() - self._ramps.waiting.keys(),
            )
            waits = {key: why for key, why in waits.items() if key not in deferred}
            self._handshake.answer({**failed, **waits, **deferred}, {*self._without_capacity, *waits})

    def _start_ramps(
        self,
        decisions: Sequence[Decision],
        observation: Observation,
        unthrottled: FailedThrottles,
        starting: Sequence[PartitionMove] | None,
    ) -> None:
        """Journals the rate changes of a cycle and starts their ramps.

        Args:
            unthrottled: throttles that could not be set. Their sides have no rate to change.
            starting: the prepared steps that begin now; None if the cluster could not be read.

        Raises:
            JournalError: nothing was started.
        """
        changes = [
            d
            for d in decisions
            if isinstance(d, SetRate) and not self.recorder.is_paused(d) and (d.broker, d.side) not in unthrottled.sides
        ]
        if starting is not None:
            changes = self._windows.drop_unneeded(changes, observation.empty_windows, starting)
        ramp_count = len(changes) + len(self._ramps.busy)
        owned = self.memory.owned  # Before the intents are recorded: the rates that earlier ramps may have written.
        ramps = [(change, self._windows.ramp_steps(change, ramp_count)) for change in changes]
        if changes:
            intents = ((change, [step.rate_bytes_per_s for step in steps]) for change, steps in ramps)
            memory = record_change_intents(self.memory, intents)
            self.recorder.record([self.recorder.intent(change, observation) for change in changes], memory)
        resumed = self._windows.resume(changes)
        for change, steps in ramps:
            managed = owned.get((change.broker, change.side))
            possible_rates = managed.possible_rates if managed is not None else ()
            self._ramps.start(change, steps, self._clock.monotonic_s(), possible_rates=possible_rates)
        if any(change.reason is Reason.WINDOW_WARMUP for change in changes):
            # The prepared step begins right after this cycle, so its warm-up has to lower the rate now. A warm-up that has to wait
            # for the write budget would be too late and is stopped.
            self._ramp_outcomes.step(self._clock.monotonic_s(), throttles_moves=self._throttles_moves)
            late = self._windows.find_late(resumed)
            self._ramp_outcomes.stop(
                dict.fromkeys(
                    late,
                    "too many rates change at the same time, so this rate cannot be lowered before the step begins",
                ),
                intended=True,
            )

    def _stop_changes(self, decisions: tuple[Decision, ...], observation: Observation) -> None:
        self._ramp_outcomes.stop(
            find_changes_to_stop(decisions, self._ramps.busy, self._windows.active().keys(), self.memory.owned.keys())
        )
        self._ramp_outcomes.stop(find_vetoed_changes(decisions, self._ramps.busy), intended=True)
        self._ramp_outcomes.stop(
            find_superseded_changes(self._ramps.changes, self._ramps.waiting, observation, self._limits), intended=True
        )
