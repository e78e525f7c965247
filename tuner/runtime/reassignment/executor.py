"""The executor of plans, in a small loop of its own: look, see what has ended, put on record, ask for what comes next.

Intuition: a plan is a person's word on record, and how far it is the cluster tells. So there is nothing to hand from one life
to the next: look again, and go on. Nothing here waits for an answer: a call is under way or it is not, and between its
beginning and its end the throttles have their seconds.

    look, what has ended, what comes next (beside) → on record → announced, throttled → stop, ask, elect (beside) → answered

Invariant: a step that may be under way is on record. What Kafka has refused is none; what it has not answered may be one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from streaming.shared.contract import BrokerSignal, ControllerSignal
from streaming.shared.kafka.cluster import ClusterError
from tuner.control.reassignment.admission import ClusterMeasurements, OperatorLimits
from tuner.control.reassignment.measurements import PartitionMeasurements, update_measurements
from tuner.control.reassignment.partition_progress import PlanMemory
from tuner.control.reassignment.policy import ExecutorContext, ExecutorDecision, ExecutorState, PlanDecision, decide
from tuner.control.throttle.replica_lists.prepared_moves import NONE_DEFERRED, Deferred
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import Orders
from tuner.core.outcome import Failure, Outcome, StepRefusal
from tuner.core.partition_limits import PartitionLimits
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlansStateUnknown, ReassignmentSnapshot, TopicPartition
from tuner.core.throttle_state import ThrottleState
from tuner.journal.kafka_journal import JournalError
from tuner.runtime.background_call import BackgroundCaller, Call, answer_of
from tuner.runtime.clock import Clock
from tuner.runtime.ports import CurrentOrders
from tuner.runtime.reassignment.actuator import ReassignmentActuator
from tuner.runtime.reassignment.dry_run import EVERY_S as WOULD_DO_EVERY_S
from tuner.runtime.reassignment.dry_run import DryRunReassignments
from tuner.runtime.reassignment.prepare import PREPARE_S_MAX, PrepareStep
from tuner.runtime.reassignment.recorder import ReassignmentRecorder

log = structlog.get_logger("tuner")

CYCLE_S_MIN = 1.0  # A step of a small partition takes as long.
# A look at a large plan takes seconds of the processor, which the throttles need as well: it may have a fifth of it. What it waits
# for Kafka's answers costs nobody anything: rested for as well, slots that have come free would stand empty.
REST_PER_LOOK = 4.0
MEASURE_EVERY_S = 15.0
_POLL_S = 0.05


class PlanSignals(Protocol):
    @property
    def brokers(self) -> Mapping[int, BrokerSignal]: ...

    @property
    def controllers(self) -> Mapping[int, ControllerSignal]: ...


class PlanObserver(Protocol):
    """Is told of everything; metrics and status."""

    def record_step(
        self, plans: tuple[PlanDecision, ...], limits: BatchLimits, figures: PartitionMeasurements, at_ms: int
    ) -> None: ...

    def record_unknown(self, why: str, unknown_since_ms: int | None = None) -> None: ...

    def expect_snapshot(self) -> None: ...

    def clear(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _CycleResult:
    """What came of a look."""

    plans: tuple[Plan, ...]  # As they were on record before it.
    look: ReassignmentSnapshot
    figures: PartitionMeasurements
    made: ExecutorDecision
    paused: str | None  # As was said when it began.


@dataclass(frozen=True, slots=True)
class _Request:
    """What is being asked for, in this order."""

    stops: tuple[TopicPartition, ...]
    steps: Mapping[TopicPartition, tuple[int, ...]]
    elections: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorPorts:
    """Everything that the executor reads from and writes to.

    Attributes:
        throttle_state: the current rates of all sides, and the rates that they may get.
        refusal: why nothing may be written now, asked before each write; None: writes are allowed.
        handshake: announces steps to the throttle controller before they begin; None: steps begin unthrottled.
    """

    actuator: ReassignmentActuator
    caller: BackgroundCaller
    orders: CurrentOrders
    signals: PlanSignals
    throttle_state: Callable[[], ThrottleState]
    refusal: Callable[[], Failure | None]
    observer: PlanObserver
    handshake: PrepareHandshake | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorConfig:
    """What the operator set.

    Attributes:
        limits: limits over all plans together.
        prepare_s_max: seconds that a step waits to be throttled; then it does not begin.
        dry_run: the executor only reports what it would begin; it asks Kafka for nothing and records nothing.
    """

    limits: OperatorLimits
    prepare_s_max: float = PREPARE_S_MAX
    dry_run: bool = False


class ReassignmentExecutor:
    """Executes reassignment plans step by step."""

    def __init__(
        self,
        ports: ExecutorPorts,
        config: ExecutorConfig,
        clock: Clock,
        recorder: ReassignmentRecorder,
        *,
        processor_s: Callable[[], float] = time.process_time,
    ) -> None:
        """
        Args:
            processor_s: CPU seconds that the process has used, with those of the client's own threads.
        """
        self.recorder = recorder
        self._actuator = ports.actuator
        self._caller = ports.caller
        self._orders = ports.orders
        self._signals = ports.signals
        self._throttle_state = ports.throttle_state
        self._refusal = ports.refusal
        self._observer = ports.observer
        self._limits = config.limits
        self._clock = clock
        self._due_s = float("-inf")
        self._looking: Call[_CycleResult | ClusterError] | None = None
        self._processor_s = processor_s
        self._look_cost_s = 0.0  # Of the last look, of the processor.
        self._would_do = DryRunReassignments() if config.dry_run else None
        self._prepare = PrepareStep(ports.handshake, config.prepare_s_max, clock.monotonic_s)
        self._asking: Call[Outcome] | None = None
        self._may = False  # Of what is being asked for, as far as it was asked.
        self._asked: _Request = _Request((), {}, ())
        self._withheld = NONE_DEFERRED  # Of what is asked, what is not.
        self._memory = ExecutorState()
        self._figures = PartitionMeasurements()
        self._measure_due_s = float("-inf")
        self._unsettled: frozenset[TopicPartition] = frozenset()
        self._under_way: frozenset[TopicPartition] = frozenset()
        self._measures_whole = False
        self._seen_at_ms: int | None = None  # When plans were seen last, and that was put on record.
        self._not_known: PlansStateUnknown | None = None
        self.pending_bytes: Mapping[
            BrokerSide, float
        ] = {}  # What no step under way copies yet; nothing without a plan.

    def next_due_s(self) -> float:
        busy = self._looking is not None or self._prepare.is_waiting or self._asking is not None
        return self._clock.monotonic_s() + _POLL_S if busy else self._due_s

    def tick(self) -> None:
        """Goes on where something is due or has been answered; never waits."""
        try:
            if self._looking is not None:
                if (looking := self._looking).done():
                    self._looking = None
                    now_s = self._clock.monotonic_s()
                    self._due_s = now_s + max(CYCLE_S_MIN, REST_PER_LOOK * self._look_cost_s)
                    if self._would_do is not None:
                        self._due_s = now_s + WOULD_DO_EVERY_S
                    self._cycle(answer_of(looking))
            elif self._prepare.is_waiting:
                words = {plan.id: plan.head.desired for plan in self.recorder.active_plans}
                if (over := self._prepare.poll(words, paused=self._is_paused())) is not None:
                    self._ask(*over)
            elif self._asking is not None:
                if self._asking.done():
                    asking, self._asking = self._asking, None
                    self._answered(answer_of(asking))
                elif self._may:
                    # Keeps the proof young for the requests that follow; their port sees what came of it.
                    self._may = self._refusal() is None
            elif self._clock.monotonic_s() >= self._due_s:
                self._look()
        except JournalError as error:
            log.error("the journal takes no record, so no step of a plan is asked for", error=str(error))
            self._tell_not_known(f"the journal takes no record: {error}")
        except BaseException as error:
            # Until it is tried again nobody asks for these steps, hurries for them, or sees how they are.
            self._prepare.clear()
            self.pending_bytes = {}
            self._tell_not_known(f"what carries plans out had an error: {type(error).__name__}: {error}")
            raise

    def _look(self) -> None:
        if self._would_do is None:
            self.recorder.delete_headless_parts()
        plans, now_s = self.recorder.active_plans, self._clock.monotonic_s()
        if not plans:
            self._due_s = now_s + CYCLE_S_MIN
            self._memory, self._figures, self.pending_bytes = ExecutorState(), PartitionMeasurements(), {}
            self._seen_at_ms = self._not_known = None
            self._observer.clear()
            return
        if self._would_do is None:
            self._observer.expect_snapshot()
        topics = {topic for plan in plans for topic, _ in plan.partitions}
        # They count what every broker has, of whatever topic.
        limited = self._limits.partitions != PartitionLimits()
        self._measures_whole = now_s >= self._measure_due_s
        to_measure = self._unsettled if self._measures_whole else self._under_way
        known, memory, whole = self._figures, self._memory, self._measures_whole
        terms = ExecutorContext(
            self._clock.now_ms(),
            self._limits,
            _paused(self._orders.latest),
            self.recorder.backing_off,
            self.recorder.refusals,
        )
        measures = ClusterMeasurements(
            known,
            self._throttle_state(),
            dict(self._signals.brokers),
            dict(self._signals.controllers),
            len(self._asked.steps.keys() - self._withheld.failed.keys() - self._withheld.waiting.keys()),
        )

        def find() -> _CycleResult | ClusterError:
            look = self._actuator.read_snapshot(topics, to_measure, others=limited)
            if isinstance(look, ClusterError):
                return look
            figures = update_measurements(known, look, terms.now_ms, whole=whole)
            return _CycleResult(
                plans,
                look,
                figures,
                decide(plans, look, replace(measures, partitions=figures), memory, terms),
                terms.pause_reason,
            )

        def timed() -> _CycleResult | ClusterError:
            began_s = self._processor_s()
            try:
                return find()
            finally:
                self._look_cost_s = self._processor_s() - began_s

        # Of a large plan to decide takes as long as to look.
        self._looking = self._caller.start(timed)

    def _cycle(self, found: _CycleResult | ClusterError) -> None:
        if isinstance(found, ClusterError):
            if self._not_known is None or self._not_known.why != str(found):
                log.error("plans wait", why=str(found))
            self._tell_not_known(str(found))
            return
        made, self._figures = found.made, found.figures
        if _paused(self._orders.latest) != found.paused:
            return  # It was said during the look: the next one heeds it.
        if self._would_do is not None:
            self._not_known = None
            self._would_do.log_decision(made)
            return
        if self._measures_whole and found.look.log_bytes:
            self._measure_due_s = self._clock.monotonic_s() + MEASURE_EVERY_S
        self.recorder.record(found.plans, made, _why(found.look, made))
        self._seen_at_ms, self._not_known = self._clock.now_ms(), None
        self._observer.record_step(made.plans, made.limits, self._figures, self._seen_at_ms)
        self._memory, self.pending_bytes = made.state, made.admission.pending_bytes
        self._unsettled = frozenset(
            key for each in made.plans for key in (*each.progress.ready, *each.progress.running)
        )
        under_way = frozenset(key for each in made.plans for key in each.plan.requested)
        if under_way and not self._under_way <= under_way:
            self._prepare.note_step_ended()
        self._under_way = under_way
        self._prepare.note_running_steps(made, found.look)
        withheld = self._prepare.begin(made, found.look)
        if withheld is not None:
            self._ask(made, withheld)

    def _tell_not_known(self, why: str) -> None:
        since_ms = self._not_known.since_ms if self._not_known is not None else self._seen_at_ms or self._clock.now_ms()
        self._not_known = PlansStateUnknown(why, since_ms)
        if self._would_do is None:  # Nobody waits for a dry run.
            self._observer.record_unknown(why, since_ms)

    def _ask(self, made: ExecutorDecision, withheld: Deferred) -> None:
        paused = self._is_paused()
        stops = () if paused else tuple(key for each in made.plans for key in each.cancels)
        steps = {(s.topic, s.partition): s.replicas for each in made.plans for s in each.starts}
        may_elect = [] if paused else [p for p in made.plans if p.plan.head.desired is not DesiredPlanState.CANCELLING]
        elections = tuple(
            key for each in may_elect for key in each.progress.to_elect if key not in self.recorder.backing_off
        )
        self._asked, self._withheld = _Request(stops, steps, elections), withheld
        if not (stops or steps or elections):
            self._prepare.clear()
            return
        kept_back = withheld.failed.keys() | withheld.waiting.keys()
        allowed = {key: replicas for key, replicas in steps.items() if key not in kept_back}
        if not (stops or allowed or elections):
            self._answered({})
            return
        refused = self._refusal()
        if refused is not None:
            self._answered(dict.fromkeys([*stops, *steps, *elections], StepRefusal(refused)))
            return
        port, asked = self._actuator, self._asked

        def act() -> Outcome:
            outcome = port.request(dict.fromkeys(asked.stops)) if asked.stops else {}
            outcome |= port.request(allowed) if allowed else {}
            return outcome | (port.elect_preferred(asked.elections) if asked.elections else {})

        self._may, self._asking = True, self._caller.start(act)

    def _answered(self, answer: Outcome | ClusterError) -> None:
        self._prepare.clear()  # By now what has begun is told by the cluster.
        asked, waits = self._asked, self._withheld.waiting
        keys = [*asked.stops, *asked.steps, *asked.elections]
        outcome = (
            answer
            if not isinstance(answer, ClusterError)
            else dict.fromkeys(keys, StepRefusal(str(answer), is_certain=False))
        )
        failures = {key: refusal for key, refusal in outcome.items() if refusal is not None and key not in waits}
        failures |= {key: StepRefusal(why) for key, why in self._withheld.failed.items()}
        none_under_way = {key for key, refusal in failures.items() if refusal.is_certain and key in asked.steps} | {
            *waits
        }
        self._under_way -= none_under_way  # They have not ended.
        plans = self.recorder.active_plans
        after = [_without(plan, none_under_way) for plan in plans]
        recent = dict(self._memory.plans)
        for plan in plans:
            known = recent.get(plan.id, PlanMemory())
            tried = {key for key in asked.steps if key in plan.partitions and key not in waits}
            taken = tried - failures.keys()
            recent[plan.id] = replace(
                known, accepted=known.accepted | taken, all_refused=not taken if tried else known.all_refused
            )
        self._memory = replace(self._memory, plans=recent)
        self.recorder.note_accepted(key for key in keys if key not in failures and key not in waits)
        self.recorder.record_failures(plans, after, failures, waits, self._withheld.waiting_for_room)

    def _is_paused(self) -> bool:
        return _paused(self._orders.latest) is not None


def _without(plan: Plan, keys: set[TopicPartition]) -> Plan:
    if not keys & plan.requested.keys():
        return plan
    return replace(plan, requested={key: a for key, a in plan.requested.items() if key not in keys})


def _why(look: ReassignmentSnapshot, made: ExecutorDecision) -> dict[str, object]:
    """What the steps of a turn stood on, as it goes on record; how many at a time has entries of its own, when it changes."""
    held = {by.value: count for by, count in made.admission.schedule.held.items()}
    return {"online": sorted(look.online), "held": held}


def _paused(orders: Orders) -> str | None:
    if orders.pause is None:
        return None
    word = "released" if orders.pause.released else "paused"
    return f"rheostat is {word} by {orders.pause.by}, until `rheostat resume`"
