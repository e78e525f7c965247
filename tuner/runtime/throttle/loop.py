"""One cycle: observe → decide → journal → actuate → journal.

The ports are handed in. Functions of tuner/control/ judge and reckon; this module only puts things in their order:

    a decision to act is on record, with its inputs, before the first write; what came of it after the last
    the memory of what is ours is on record before it becomes true
    where the journal does not take a record, nothing is done: an act nobody can trace would be one nobody can undo

Between two cycles, ``tick`` carries on with the changes of rate that are under way, and asks the law, once a second, for
those that follow the clients. ``cycle_is_due`` says when a cycle comes before its time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import structlog

from streaming.shared.short_lists import join_names
from tuner.control.throttle.cleanup_rules import is_ending
from tuner.control.throttle.decision import ClearLists, Decision, Reason, RestoreRate, SetRate
from tuner.control.throttle.incremental.cycle_cache import CycleCache
from tuner.control.throttle.isr_recovery import to_look_beside
from tuner.control.throttle.ownership import may_be_swept
from tuner.control.throttle.plan_moves import (
    loosest_bytes_per_s,
    moves_to_list,
    moves_under_way,
    paced_plan_rates,
    throttles_any,
)
from tuner.control.throttle.policy import decide, intend, narrow, narrow_to_live, settle
from tuner.control.throttle.replica_lists.capacity import with_room
from tuner.control.throttle.replica_lists.prepared_moves import unseen, with_announced, withheld
from tuner.control.throttle.state import Memory
from tuner.control.throttle.step_rates import too_fast
from tuner.control.throttle.superseded import drains_no_more, overtaken, stopped_by
from tuner.core.cluster import BrokerSide, LiveCluster, Observation, PartitionMove
from tuner.core.freshness import fresh
from tuner.core.outcome import Failure
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.core.reassignment_plan import Plan, TopicPartition
from tuner.core.throttle_limits import Limits, StallLimits
from tuner.core.throttle_state import ThrottleState, throttling_of
from tuner.journal.event_lines import NAMED_MAX, about
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import JournalError
from tuner.journal.outbox import Outbox
from tuner.runtime.throttle.actuator import Throttles
from tuner.runtime.throttle.cleanup import Cleanup, LiveCleanup
from tuner.runtime.throttle.cycle_scheduler import CycleScheduler, OrdersGiven
from tuner.runtime.throttle.list_writer import ListWriteOutcome, ReplicaListWriter
from tuner.runtime.throttle.ramp_executor import RampEnd, RampExecutor
from tuner.runtime.throttle.recorder import Journal, ThrottleRecorder
from tuner.runtime.throttle.steering_controller import SteeringController
from tuner.runtime.throttle.steering_tick import NewestSignals, SteeringTick
from tuner.runtime.throttle.window_fill import WindowWarmup

log = structlog.get_logger("tuner")


class Signals(NewestSignals, Protocol):
    def forget_old(self, now_ms: int) -> None: ...


class CycleObserver(ListWriteOutcome, Protocol):
    """Is told of everything; the status page, the metrics."""

    def observed(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None: ...


class ThrottleController:
    """``steering`` is None where the tuner only rescues."""

    def __init__(
        self,
        *,
        live: LiveCleanup,
        signals: Signals,
        throttles: Throttles,
        slewing: RampExecutor,
        steering: SteeringController | None,
        orders: OrdersGiven,
        journal: Journal,
        watcher: CycleObserver,
        memory: Memory,
        limits: Limits,
        stall_limits: StallLimits,
        wall_clock: Callable[[], float],
        monotonic: Callable[[], float],
        writes_per_s_max: float,
        dry_run: bool,
        inputs: InputLog | None = None,
        owed: Outbox | None = None,
        processor_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """
        Args:
            inputs, owed: the ledger's.
            processor_s: what the process has used of the processor; by default a cycle costs nothing.
        """
        self.ledger = ThrottleRecorder(
            journal,
            memory,
            limits,
            wall_clock=wall_clock,
            monotonic=monotonic,
            dry_run=dry_run,
            inputs=inputs,
            owed=owed,
        )
        self._live = live
        self._signals = signals
        self._slewing = slewing
        self._steering = steering
        self._orders = orders
        self._watcher = watcher
        self._limits = limits
        self._stall_limits = stall_limits
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._processor_s = processor_s
        self._dry_run = dry_run
        self._seen: LiveCluster | None = None  # As it was last seen.
        self._announcing = PrepareHandshake()
        self._plans: Callable[[], Sequence[Plan]] = tuple
        self._throttles_moves = limits.throttles_moves  # Anything of what moved at the last look.
        self._moving: set[TopicPartition] = set()  # By the cluster's word, while something is announced.
        self._without_room: Mapping[TopicPartition, str] = {}  # Of what is announced, what no list has room for.
        self._early = CycleScheduler(
            orders, signals, signal_age_s_max=limits.signal_age_s_max, wall_clock=wall_clock, monotonic=monotonic
        )
        self._recovered = False
        self._kept = CycleCache()
        self._windows = WindowWarmup(slewing, limits, monotonic=monotonic, writes_per_s_max=writes_per_s_max)
        self._listing = ReplicaListWriter(throttles, self.ledger, watcher, wall_clock=wall_clock)
        self._endings = Cleanup(live, throttles, self.ledger, watcher, stop=self._stop)
        self._steered = (
            None
            if steering is None
            else SteeringTick(
                steering,
                signals,
                self.ledger,
                watcher,
                limits,
                wall_clock=wall_clock,
                monotonic=monotonic,
                dry_run=dry_run,
            )
        )

    @property
    def memory(self) -> Memory:
        return self.ledger.memory

    def cycle(self) -> tuple[Decision, ...]:
        """Runs one cycle and returns what it decided. After an error ``hold`` is to be called."""
        began_s, used_s = self._monotonic(), self._processor_s()
        try:
            return self._cycle(self._announcing.moves)
        finally:
            self._early.ends(self._monotonic() - began_s, self._processor_s() - used_s)

    def hold(self) -> None:
        """Changes nothing until a cycle goes well, after one that failed.

        The law stops, as only a cycle heeds an order such as a pause. Changes under way stop where they are, as they do without
        signals: nobody sees what they do. Only a window that is being filled goes on, as its rate is meant for a moment.
        """
        if self._steered is not None:
            self._steered.hold()
        self._end_changes(self._slewing.busy - frozenset(self._windows.filling()), "stopped on the way: a cycle failed")

    def _cycle(self, announced: Sequence[PartitionMove]) -> tuple[Decision, ...]:
        observation = self._observe()
        if not self._recovered and isinstance(observation.live, LiveCluster):
            self.ledger.memory = narrow_to_live(self.memory, observation.live, observation.now_ms, self._limits)
            self._recovered = True
        memory, decisions = decide(observation, self.memory, self._limits, self._stall_limits, self._kept)
        if self._steering is not None:
            self._early.lacks(decisions, observation)
        seen = isinstance(observation.live, LiveCluster)
        if isinstance(observation.live, LiveCluster):
            self._windows.seen(observation.live, self._kept.paths.sides() if observation.live.moves else ())
        else:  # Told at once: the journal is likely to be away with the rest of the cluster, and waited for.
            self._watcher.observed(observation, self.memory, decisions)
        try:
            self.ledger.note(decisions, observation, memory, self._orders.overtaken)
            self._orders.overtaken = ()
            if not self._dry_run:
                self._carry_out(decisions, observation, announced)
            if self._steered is not None:
                self._steered.hand_over(decisions, observation, throttles_moves=self._throttles_moves)
        except JournalError as error:
            log.error("the journal takes no record, so nothing is done", error=str(error))
        if seen:
            self._watcher.observed(observation, self.memory, decisions)
        return decisions

    def tick(self) -> None:
        """The steps that are due of the changes under way, and the law's next second."""
        now_s = self._monotonic()
        if stopped := drains_no_more(self._slewing.changes, self._signals.moves, self._limits):
            try:
                self._stop(stopped)
            except JournalError as error:
                log.error("the journal takes no outcome yet", error=str(error))
        self._ended(self._slewing.step(now_s))
        if self._steered is not None and (due_s := self._steered.next_due_s()) is not None and due_s <= now_s:
            try:
                self._steered.turn()
            except JournalError as error:
                log.error("the journal takes no record, so nothing is done", error=str(error))

    def end(self, why: Failure) -> None:
        """The term is over: changes under way end where they are, and what came of them waits where the journal is not ours."""
        if self._steered is not None:
            self._steered.hold()
        self._end_changes(self._slewing.busy, why)

    def _end_changes(self, sides: Collection[BrokerSide], why: Failure) -> None:
        try:
            self._stop(dict.fromkeys(sides, why))
        except JournalError as error:
            log.error("the journal takes no outcome yet", error=str(error))

    def next_due_s(self) -> float | None:
        due = [self._slewing.next_due_s(), self._steered.next_due_s() if self._steered is not None else None]
        return min((at_s for at_s in due if at_s is not None), default=None)

    @property
    def throttling(self) -> ThrottleState:
        """What every side carries now, and may be given: the executor of plans reckons with it."""
        courses = self._steering.courses if self._steering is not None else {}
        filling = {side: float(change.setpoint_bytes_per_s) for side, change in self._windows.filling().items()}
        plans = self._plans()
        moves = self._seen.moves if self._seen is not None else ()
        rates = paced_plan_rates(moves, moves_under_way(plans), self._limits)
        loosest = loosest_bytes_per_s(plans, self._limits)
        return throttling_of(self._seen, courses, self._limits, filling, rates, loosest)

    def heed_plans(
        self,
        pending_bytes: Callable[[], Mapping[BrokerSide, float]],
        announcing: PrepareHandshake,
        plans: Callable[[], Sequence[Plan]] = tuple,
    ) -> None:
        """
        Args:
            pending_bytes: what plans still have to begin, by side; the law hurries for that, too.
            announcing: what they are about to ask for, and where they are told that it is throttled.
            plans: all on record, also those that this tuner does not carry out: what they move is throttled.
        """
        self._announcing, self._plans = announcing, plans
        if self._steered is not None:
            self._steered.pending_bytes = pending_bytes

    def cycle_is_due(self) -> bool:
        """Whether one is before its time. To be asked every ``LOOK_EVERY_S``, and whenever a step may have been announced."""
        # A replica that has arrived begins to fetch anew, and gets nothing for as long as it is listed and its quota used up:
        # whoever writes to it waits.
        ended = self._announcing.step_ended and bool(self.memory.listed)
        return self._early.are_due(announced=self._announcing.is_pending, ended=ended, memory=self.memory)

    # -- between two cycles -------------------------------------------------------------------------------------------

    def _ended(self, ended: Sequence[RampEnd]) -> None:
        self._windows.ended(ended)
        self._told_of(ended)
        for each in ended:
            self._came_out(each)
        try:
            if ended:
                self.ledger.record(memory=self.memory)
        except JournalError as error:
            # Until it does, what may stand there is on record as the whole ramp, which is true, only less exact.
            log.error("the journal takes no outcome yet", error=str(error))

    def _told_of(self, ended: Sequence[RampEnd]) -> None:
        if not ended:
            return
        self._watcher.acted([(each.decision, each.failure) for each in ended])
        went_well = [each.decision for each in ended if each.failure is None]
        if went_well:
            entries = [self.ledger.outcome(decision, None) for decision in went_well]
            log.info(
                f"done: {join_names([each.text.split(':')[0] for each in went_well], NAMED_MAX)}", **about(entries)
            )

    def _came_out(self, ended: RampEnd) -> None:
        ledger, decision, failure = self.ledger, ended.decision, ended.failure
        side = (decision.broker, decision.side)
        if failure is None:
            ledger.went_well(decision)
        else:
            log.error(f"not done: {decision.text.split(':')[0]}: {failure}", broker=side[0], side=side[1])
            ledger.back_off(decision)
        memory = settle(self.memory, decision) if failure is None else self.memory
        if failure is not None and ended.may_stand:
            memory = narrow(memory, side, ended.may_stand)
        ledger.happened(ledger.outcome(decision, failure), memory, side)
        # Whether a tool has swept all of it away only a look at everything can tell.
        if ended.theirs and not may_be_swept(ended.found, throttles=self._throttles_moves):
            ledger.let_go(side, ended.found)

    # -- steps of a cycle ---------------------------------------------------------------------------------------------

    def _observe(self) -> Observation:
        self._signals.poll()
        full = self._early.begins()
        now_ms = round(self._wall_clock() * 1000)
        self._signals.forget_old(now_ms)
        courses = self._steering.courses if self._steering is not None else {}
        live = self._live.look(
            full=full or is_ending(self.memory, self._seen),
            also={move.topic for move in self._announcing.moves},
            waits=to_look_beside(
                self._seen,
                self.memory,
                courses.keys(),
                fresh(self._signals.brokers, now_ms, self._limits.signal_age_s_max),
            ),
        )
        empty, plan_moves = self._windows.in_question(self.memory), moves_under_way(self._plans())
        self._announcing.step_ended = False
        if isinstance(live, LiveCluster):
            self._moving = {(m.topic, m.partition) for m in live.moves} if self._announcing.moves else set()
            announced, self._without_room = self._announcing.moves, {}
            if self._orders.latest.pause is None:
                announced, self._without_room = with_room(live, announced)
            urgent = [move for move in announced if (move.topic, move.partition) in self._announcing.urgent]
            run = moves_to_list(live.moves, plan_moves, self._limits, self.memory.listed)
            empty |= self._windows.begun_empty(live, announced, urgent, run, self._announcing.last_copied_at_s)
            live = with_announced(live, announced)
            self._throttles_moves = throttles_any(live.moves, plan_moves, self._limits, self.memory.listed)
        self._seen = live if isinstance(live, LiveCluster) else self._seen
        return Observation(
            now_ms,
            live,
            dict(self._signals.brokers),
            dict(self._signals.moves),
            busy=self._slewing.busy,
            empty=empty,
            courses=courses,
            orders=self._orders.latest,
            plan_moves=plan_moves,
        )

    def _carry_out(
        self, decisions: tuple[Decision, ...], observation: Observation, announced: Sequence[PartitionMove]
    ) -> None:
        self._stop_changes(decisions, observation)
        unthrottled = self._listing.carry_out(decisions)
        changes = [d for d in decisions if isinstance(d, SetRate) and not self.ledger.pausing(d)]
        # Where no rate could be set there is none to bring up.
        changes = [d for d in changes if (d.broker, d.side) not in unthrottled.sides]
        kept_back: Mapping[TopicPartition, str] = {}
        if isinstance(observation.live, LiveCluster):
            not_seen = unseen(observation.live, self.memory)
            kept_back = {**self._without_room, **withheld(announced, unthrottled, not_seen, self._moving)}
            begin = [move for move in announced if (move.topic, move.partition) not in kept_back]
            changes = self._windows.that_fill(changes, observation.empty, begin)
        together = len(changes) + len(self._slewing.busy)
        memory, ramps, owned = self.memory, [], self.memory.owned
        for change in changes:
            steps = self._windows.steps(change, together)
            memory = intend(memory, change, [s.rate_bytes_per_s for s in steps])
            ramps.append((change, steps))
        if changes:
            self.ledger.record([self.ledger.intent(change, observation) for change in changes], memory)
        resumed = self._windows.go_on(changes)
        for change, steps in ramps:
            ours = owned.get((change.broker, change.side))
            self._slewing.start(change, steps, self._monotonic(), may_stand=ours.may_stand if ours is not None else ())
        if any(change.reason is Reason.WINDOW_WARMUP for change in changes):
            # What is to begin there does right after this, and would find the window open. What the budget has no write for now
            # would come too late.
            self._ended(self._slewing.step(self._monotonic()))
            late = self._windows.too_late(resumed)
            self._stop(dict.fromkeys(late, "too many at a time to be lowered before it begins"), meant=True)
        endings = [d for d in decisions if isinstance(d, ClearLists | RestoreRate)]
        if endings and isinstance(observation.live, LiveCluster):
            self._endings.carry_out(endings, observation.live)
        if isinstance(observation.live, LiveCluster):
            failed, waits = too_fast(
                announced,
                decisions,
                observation,
                self._limits,
                not_set=unthrottled.sides,
                busy=self._slewing.busy,
                lowered=self._windows.filling().keys() - self._slewing.waiting.keys(),
            )
            waits = {key: why for key, why in waits.items() if key not in kept_back}
            self._announcing.answer({**failed, **waits, **kept_back}, {*self._without_room, *waits})

    def _stop_changes(self, decisions: tuple[Decision, ...], observation: Observation) -> None:
        self._stop(stopped_by(decisions, self._slewing.busy, self._windows.filling().keys(), self.memory.owned.keys()))
        self._stop(overtaken(self._slewing.changes, self._slewing.waiting, observation, self._limits), meant=True)

    def _stop(self, stops: Mapping[BrokerSide, Failure], *, meant: bool = False) -> None:
        """Changes under way end where they are, and each intent has its outcome; where none is under way nothing happens.

        Args:
            meant: that is as it should be, and no failure to anybody.

        Raises:
            JournalError: they have ended all the same.
        """
        stopped = [each for side, why in stops.items() if (each := self._slewing.drop(side, why)) is not None]
        self._windows.ended(stopped)
        if stopped and not meant:
            self._watcher.acted([(each.decision, each.failure) for each in stopped])
        for each in stopped:
            if meant:
                log.info(f"no further: {each.decision.text.split(':')[0]}: {each.failure}")
            else:
                log.warning(f"not done: {each.decision.text.split(':')[0]}: {each.failure}")
            side = (each.decision.broker, each.decision.side)
            memory = narrow(self.memory, side, each.may_stand)
            self.ledger.happened(self.ledger.outcome(each.decision, each.failure), memory, side)
        if stopped:
            self.ledger.record(memory=self.memory)
