"""Runs the plan executor: reads the cluster, decides, records, announces the next steps, and requests them.

    read and decide (background) → record → announce (prepare.py) → cancel, start, elect (background) → record failures

A plan in the journal is an operator's order, and the cluster shows the plan's progress. A tuner that takes over reads only the
journal and the cluster, and continues. The executor never waits for an answer, so that the throttle controller keeps its schedule.

Invariant: each step that may be in progress is in the journal. A step that Kafka refused is not in progress. A step whose request
got no answer may be in progress.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
from tuner.core.cordon_state import CordonState
from tuner.core.operator_orders import Orders
from tuner.core.outcome import Failure, Outcome, StepRefusal
from tuner.core.partition_limits import PartitionLimits
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlansStateUnknown, ReassignmentSnapshot, TopicPartition
from tuner.core.throttle_state import ThrottleState
from tuner.core.vetoes import Veto
from tuner.journal.kafka_journal import JournalError
from tuner.runtime.background_call import BackgroundCaller, Call, result_or_error
from tuner.runtime.clock import Clock
from tuner.runtime.ports import CurrentOrders
from tuner.runtime.reassignment.actuator import ReassignmentActuator
from tuner.runtime.reassignment.dry_run import EVERY_S as DRY_RUN_EVERY_S
from tuner.runtime.reassignment.dry_run import DryRunReassignments
from tuner.runtime.reassignment.prepare import PREPARE_S_MAX, PrepareStep
from tuner.runtime.reassignment.recorder import ReassignmentRecorder

log = structlog.get_logger("tuner")

CYCLE_S_MIN = 1.0  # A step of a small partition takes about as long, so faster cycles would find nothing new.
# Pause after a cycle, as a multiple of its CPU time. So the executor uses at most a fifth of the time, and the throttle controller
# has the rest. The wait for Kafka's answers does not lengthen the pause, because slots that become free would stay unused
# meanwhile.
REST_PER_CYCLE = 4.0
MEASURE_EVERY_S = 15.0
_POLL_S = 0.05


class PlanSignals(Protocol):
    @property
    def brokers(self) -> Mapping[int, BrokerSignal]: ...

    @property
    def controllers(self) -> Mapping[int, ControllerSignal]: ...


class PlanObserver(Protocol):
    """Receives the result of each cycle, for the metrics and the status page."""

    def record_step(
        self, plans: tuple[PlanDecision, ...], limits: BatchLimits, figures: PartitionMeasurements, at_ms: int
    ) -> None: ...

    def record_unknown(self, why: str, unknown_since_ms: int | None = None) -> None: ...

    def expect_snapshot(self) -> None: ...

    def clear(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _CycleResult:
    """The result of the background part of a cycle.

    Attributes:
        plans: the plans as recorded before the cycle.
        context: the limits and the reasons not to act when the cycle began.
    """

    plans: tuple[Plan, ...]
    snapshot: ReassignmentSnapshot
    measurements: PartitionMeasurements
    decision: ExecutorDecision
    context: ExecutorContext


@dataclass(frozen=True, slots=True)
class _Request:
    """Changes to request from Kafka, in this order."""

    cancels: tuple[TopicPartition, ...] = ()
    starts: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    elections: tuple[TopicPartition, ...] = ()

    def keys(self) -> list[TopicPartition]:
        return [*self.cancels, *self.starts, *self.elections]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorPorts:
    """Everything that the executor reads from and writes to.

    Attributes:
        throttle_state: the current rates of all sides, and the rates that they may get.
        write_refusal: returns why nothing may be written now; None if writes are allowed. It is called before each write.
        handshake: announces steps to the throttle controller before they begin; None if steps begin unthrottled.
        cordons: returns which brokers take no replicas, and which ordered cordons are in place.
        vetoes: returns the external checks that veto now.
    """

    actuator: ReassignmentActuator
    caller: BackgroundCaller
    orders: CurrentOrders
    signals: PlanSignals
    throttle_state: Callable[[], ThrottleState]
    write_refusal: Callable[[], Failure | None]
    observer: PlanObserver
    handshake: PrepareHandshake | None = None
    cordons: Callable[[], CordonState] = CordonState
    vetoes: Callable[[], tuple[Veto, ...]] = tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorConfig:
    """Settings of the operator.

    Attributes:
        limits: limits over all plans together.
        prepare_s_max: longest time that a step waits for its throttle, in seconds. After that the step does not begin.
        dry_run: the executor only reports the steps that it would begin. It requests and records nothing.
    """

    limits: OperatorLimits
    prepare_s_max: float = PREPARE_S_MAX
    dry_run: bool = False


class ReassignmentExecutor:
    """Executes reassignment plans step by step. One thread calls all methods."""

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
            processor_s: returns the CPU seconds that the process has used, including the Kafka client's threads.
        """
        self.recorder = recorder
        self._actuator = ports.actuator
        self._caller = ports.caller
        self._orders = ports.orders
        self._signals = ports.signals
        self._throttle_state = ports.throttle_state
        self._write_refusal = ports.write_refusal
        self._observer = ports.observer
        self._cordons = ports.cordons
        self._vetoes = ports.vetoes
        self._limits = config.limits
        self._clock = clock
        self._due_s = float("-inf")
        self._cycle: Call[_CycleResult | ClusterError] | None = None  # The background part of a cycle under way.
        self._processor_s = processor_s
        self._cycle_cost_s = 0.0  # CPU seconds of the last cycle.
        self._dry_run = DryRunReassignments() if config.dry_run else None
        self._prepare = PrepareStep(ports.handshake, config.prepare_s_max, clock.monotonic_s)
        self._answer: Call[Outcome] | None = None  # A request to Kafka under way.
        self._write_allowed = False  # During a request: this tuner was still the leader at the last check.
        self._request = _Request()  # The last request.
        self._deferred = NONE_DEFERRED  # Steps of the last request that were not sent to Kafka.
        self._state = ExecutorState()
        self._measurements = PartitionMeasurements()
        self._measure_due_s = float("-inf")
        # Whether the cycle under way measures all unfinished partitions, not only partitions in progress.
        self._measures_all = False
        self._unfinished: frozenset[TopicPartition] = frozenset()  # Partitions that plans still have to move.
        self._in_progress: frozenset[TopicPartition] = frozenset()  # Partitions with a requested step.
        self._succeeded_at_ms: int | None = None  # When the last cycle was recorded.
        self._unknown: PlansStateUnknown | None = None  # None if the state of the plans is known.
        # Bytes by side that plans still have to copy with steps that have not begun; empty without a plan.
        self.pending_bytes: Mapping[BrokerSide, float] = {}

    def next_due_s(self) -> float:
        """Returns the monotonic time of the next ``tick``, in seconds."""
        busy = self._cycle is not None or self._prepare.is_waiting or self._answer is not None
        return self._clock.monotonic_s() + _POLL_S if busy else self._due_s

    def tick(self) -> None:
        """Continues the cycle if a call was answered, or starts the next cycle when it is due. Never waits."""
        try:
            if self._cycle is not None:
                if (cycle := self._cycle).done():
                    self._cycle = None
                    pause_s = max(CYCLE_S_MIN, REST_PER_CYCLE * self._cycle_cost_s)
                    self._due_s = self._clock.monotonic_s() + (pause_s if self._dry_run is None else DRY_RUN_EVERY_S)
                    self._finish_cycle(result_or_error(cycle))
            elif self._prepare.is_waiting:
                desired = {plan.id: plan.head.desired for plan in self.recorder.active_plans}
                if (prepared := self._prepare.poll(desired, paused=self._is_paused())) is not None:
                    self._start_request(*prepared)
            elif self._answer is not None:
                if self._answer.done():
                    answer, self._answer = self._answer, None
                    self._finish_request(result_or_error(answer))
                elif self._write_allowed:
                    # Renews the proof of leadership, which the actuator checks before each further request.
                    self._write_allowed = self._write_refusal() is None
            elif self._clock.monotonic_s() >= self._due_s:
                self._start_cycle()
        except JournalError as error:
            log.error("the journal accepts no record, so no step of a plan is requested", error=str(error))
            self._report_unknown(f"the journal accepts no record: {error}")
        except BaseException as error:
            # The announcement is withdrawn, because this executor will not request the announced steps before its next attempt.
            self._prepare.clear()
            self.pending_bytes = {}
            self._report_unknown(
                f"the executor of plans failed with an internal error: {type(error).__name__}: {error}"
            )
            raise

    def _start_cycle(self) -> None:
        if self._dry_run is None:
            self.recorder.delete_headless_parts()
        plans, now_s = self.recorder.active_plans, self._clock.monotonic_s()
        if not plans:
            self._due_s = now_s + CYCLE_S_MIN
            self._state, self._measurements, self.pending_bytes = ExecutorState(), PartitionMeasurements(), {}
            self._succeeded_at_ms = self._unknown = None
            self._observer.clear()
            return
        if self._dry_run is None:
            self._observer.expect_snapshot()
        self._measures_all = now_s >= self._measure_due_s
        to_measure = self._unfinished if self._measures_all else self._in_progress
        context = ExecutorContext(
            now_ms=self._clock.now_ms(),
            limits=self._limits,
            pause_reason=_pause_reason(self._orders.latest),
            backing_off=self.recorder.backing_off,
            refusals=self.recorder.refusals,
            cordons=self._cordons(),
            vetoes=self._vetoes(),
        )
        sent_steps = self._request.starts.keys() - self._deferred.failed.keys() - self._deferred.waiting.keys()
        measurements = ClusterMeasurements(
            partitions=self._measurements,
            throttles=self._throttle_state(),
            brokers=dict(self._signals.brokers),
            controllers=dict(self._signals.controllers),
            last_request_steps=len(sent_steps),
        )
        state, measures_all = self._state, self._measures_all

        def run() -> _CycleResult | ClusterError:
            began_s = self._processor_s()
            try:
                snapshot = self._read_snapshot(plans, to_measure)
                if isinstance(snapshot, ClusterError):
                    return snapshot
                partitions = update_measurements(
                    measurements.partitions, snapshot, context.now_ms, has_all_sizes=measures_all
                )
                decision = decide(plans, snapshot, replace(measurements, partitions=partitions), state, context)
                return _CycleResult(plans, snapshot, partitions, decision, context)
            finally:
                self._cycle_cost_s = self._processor_s() - began_s

        # For a large plan, the decision takes as long as the reading, so both run in the background.
        self._cycle = self._caller.start(run)

    def _read_snapshot(
        self, plans: tuple[Plan, ...], to_measure: frozenset[TopicPartition]
    ) -> ReassignmentSnapshot | ClusterError:
        topics = {topic for plan in plans for topic, _ in plan.partitions}
        # Partition limits count all partitions of a broker, and a drained broker must have none left. Both need all topics.
        needs_all_topics = self._limits.partitions != PartitionLimits() or any(plan.head.cordon for plan in plans)
        return self._actuator.read_snapshot(topics, to_measure, all_topics=needs_all_topics)

    def _finish_cycle(self, result: _CycleResult | ClusterError) -> None:
        if isinstance(result, ClusterError):
            if self._unknown is None or self._unknown.why != str(result):
                log.error("plans wait: the cluster cannot be read", why=str(result))
            self._report_unknown(str(result))
            return
        decision, self._measurements = result.decision, result.measurements
        if _pause_reason(self._orders.latest) != result.context.pause_reason:
            return  # A pause or resume arrived during the cycle, so the decision is out of date. The next cycle applies the order.
        if self._dry_run is not None:
            self._unknown = None
            self._dry_run.log_decision(decision)
            return
        if self._measures_all and result.snapshot.log_bytes:
            self._measure_due_s = self._clock.monotonic_s() + MEASURE_EVERY_S
        self.recorder.record(result.plans, decision, _inputs(result.snapshot, decision, result.context))
        self._succeeded_at_ms, self._unknown = self._clock.now_ms(), None
        self._observer.record_step(decision.plans, decision.limits, self._measurements, self._succeeded_at_ms)
        self._state, self.pending_bytes = decision.state, decision.admission.pending_bytes
        self._unfinished = frozenset(
            key for plan in decision.plans for key in (*plan.progress.ready, *plan.progress.running)
        )
        in_progress = frozenset(key for plan in decision.plans for key in plan.plan.requested)
        # If no other step continues, no early cycle is needed, because the cleanup after the move follows.
        if in_progress and self._in_progress - in_progress:
            self._prepare.note_step_ended()
        self._in_progress = in_progress
        self._prepare.note_running_steps(decision, result.snapshot)
        deferred = self._prepare.begin(decision, result.snapshot)
        if deferred is not None:
            self._start_request(decision, deferred)

    def _report_unknown(self, why: str) -> None:
        """Reports that the state of the plans has been unknown since the last successful cycle."""
        since_ms = (
            self._unknown.since_ms if self._unknown is not None else self._succeeded_at_ms or self._clock.now_ms()
        )
        self._unknown = PlansStateUnknown(why, since_ms)
        if self._dry_run is None:
            self._observer.record_unknown(why, since_ms)

    def _start_request(self, decision: ExecutorDecision, deferred: Deferred) -> None:
        request = self._request_for(decision)
        deferred = self._defer_cordoned(decision, deferred)
        self._request, self._deferred = request, deferred
        if not request.keys():
            self._prepare.clear()
            return
        not_sent = deferred.failed.keys() | deferred.waiting.keys()
        starts = {key: replicas for key, replicas in request.starts.items() if key not in not_sent}
        if not (request.cancels or starts or request.elections):
            self._finish_request({})
            return
        refused = self._write_refusal()
        if refused is not None:
            self._finish_request(dict.fromkeys(request.keys(), StepRefusal(refused)))
            return
        actuator = self._actuator

        def send() -> Outcome:
            outcome = actuator.request(dict.fromkeys(request.cancels)) if request.cancels else {}
            outcome |= actuator.request(starts) if starts else {}
            return outcome | (actuator.elect_preferred(request.elections) if request.elections else {})

        self._write_allowed, self._answer = True, self._caller.start(send)

    def _defer_cordoned(self, decision: ExecutorDecision, deferred: Deferred) -> Deferred:
        """Returns the deferred steps. Adds steps whose target was cordoned while the steps waited for their throttle."""
        cordoned = self._cordons().cordoned
        late = {
            (step.topic, step.partition): "the step adds a replica on a broker that is cordoned"
            for plan in decision.plans
            for step in (plan.starts if cordoned else ())
            if not cordoned.isdisjoint(step.adding)
        }
        return replace(deferred, waiting={**deferred.waiting, **late}) if late else deferred

    def _request_for(self, decision: ExecutorDecision) -> _Request:
        """Returns the changes to request for a decision. While the tuner is paused, it cancels and elects nothing."""
        starts = {(step.topic, step.partition): step.replicas for plan in decision.plans for step in plan.starts}
        if self._is_paused():
            return _Request(starts=starts)  # ``PrepareStep.poll`` has deferred all starts, so none of them is sent.
        cancels = tuple(key for plan in decision.plans for key in plan.cancels)
        going_on = [plan for plan in decision.plans if plan.plan.head.desired is not DesiredPlanState.CANCELLING]
        elections = (key for plan in going_on for key in plan.progress.to_elect)
        return _Request(cancels, starts, tuple(key for key in elections if key not in self.recorder.backing_off))

    def _finish_request(self, answer: Outcome | ClusterError) -> None:
        """Records the steps that Kafka refused and the steps that were deferred. Snapshots will show all other steps."""
        self._prepare.clear()
        request, waits, keys = self._request, self._deferred.waiting, self._request.keys()
        if isinstance(answer, ClusterError):
            answer = dict.fromkeys(keys, StepRefusal(str(answer), is_certain=False))
        failures = {key: refusal for key, refusal in answer.items() if refusal is not None and key not in waits}
        failures |= {key: StepRefusal(why) for key, why in self._deferred.failed.items()}
        certainly_failed = {key for key, refusal in failures.items() if refusal.is_certain and key in request.starts}
        not_begun = certainly_failed | waits.keys()
        self._in_progress -= not_begun  # Otherwise the next cycle would count them as ended.
        plans = self.recorder.active_plans
        after = [_without_steps(plan, not_begun) for plan in plans]
        memories = dict(self._state.plans)
        for plan in plans:
            memory = memories.get(plan.id, PlanMemory())
            sent = {key for key in request.starts if key in plan.partitions and key not in waits}
            accepted = sent - failures.keys()
            memories[plan.id] = replace(
                memory, accepted=memory.accepted | accepted, all_refused=not accepted if sent else memory.all_refused
            )
        self._state = replace(self._state, plans=memories)
        self.recorder.note_accepted(key for key in keys if key not in failures and key not in waits)
        self.recorder.record_failures(plans, after, failures, waits, self._deferred.waiting_for_capacity)

    def _is_paused(self) -> bool:
        return _pause_reason(self._orders.latest) is not None


def _without_steps(plan: Plan, keys: set[TopicPartition]) -> Plan:
    if not keys & plan.requested.keys():
        return plan
    return replace(plan, requested={key: step for key, step in plan.requested.items() if key not in keys})


def _inputs(snapshot: ReassignmentSnapshot, decision: ExecutorDecision, context: ExecutorContext) -> dict[str, object]:
    """Returns the inputs of a decision for its journal entry. Changes of the concurrency have entries of their own."""
    held = {limit.value: count for limit, count in decision.admission.schedule.held.items()}
    vetoes = {veto.name: veto.cause for veto in context.vetoes}
    return {"online": sorted(snapshot.online), "held": held, **({"vetoes": vetoes} if vetoes else {})}


def _pause_reason(orders: Orders) -> str | None:
    """Returns by whom the tuner was paused or released, and how to resume it; None if it is not paused."""
    if orders.pause is None:
        return None
    state = "released" if orders.pause.released else "paused"
    return f"rheostat is {state} by {orders.pause.by}, until `rheostat resume`"
