"""Runs the mutation quota controller: reads the quotas, decides, records, writes, and confirms the writes with the next read.

    read (background) → decide and record → write (background) → confirm with the next read

Requests to Kafka's controller are slowest when it is busy. So each request runs in the background, and ``tick`` returns at once, so
that the throttle controller keeps its schedule.

Invariant: until a read shows the new value of a quota, the quota may still have its old value. The state lists both as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog

from streaming.shared.contract import BrokerSignal, ControllerSignal, TenantSignal
from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.kafka.cluster import ClusterError
from tuner.control.mutation_quota.decision import RestoreQuota, SetQuota, TotalRateReport
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, QuotaView, with_broker_window
from tuner.control.mutation_quota.operator_orders import step_with_orders
from tuner.control.mutation_quota.ownership import note_confirmed_write, note_pending_write
from tuner.control.mutation_quota.policy import QuotaStep
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.cluster import ClusterUnreadable
from tuner.core.controller import cluster_wide_measures
from tuner.core.outcome import Failure
from tuner.core.partition_limits import InternalPartitions
from tuner.core.quota_window import QuotaWindow
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import JournalError
from tuner.journal.quota_records import QuotaWrite, requested_per_s
from tuner.runtime.background_call import BackgroundCaller, Call, result_or_error
from tuner.runtime.clock import Clock
from tuner.runtime.mutation_quota.actuator import Outcome, QuotaActuator
from tuner.runtime.mutation_quota.recorder import MutationQuotaRecorder
from tuner.runtime.ports import CurrentOrders

log = structlog.get_logger("tuner")

# A broker shows a change within seconds. If it does not show a value after this time, the write has failed.
CONFIRM_S_MAX = 20.0
_POLL_S = 0.05


class ControllerSignals(Protocol):
    """The newest signals, by broker, controller and tenant."""

    @property
    def brokers(self) -> Mapping[int, BrokerSignal]: ...

    @property
    def controllers(self) -> Mapping[int, ControllerSignal]: ...

    @property
    def tenants(self) -> Mapping[Any, TenantSignal]: ...


class QuotaObserver(Protocol):
    def publish(self, view: QuotaView, step: QuotaStep, memory: MutationMemory) -> None:
        """Publishes the result of a cycle."""

    def record_failures(self, count: int) -> None:
        """Counts failed writes."""

    def cycle_failed(self) -> None:
        """Marks the published result as out of date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationQuotaPorts:
    """Everything that the controller reads from and writes to.

    Attributes:
        write_refusal: returns why nothing may be written now; None if writes are allowed. It is called before each write.
        inputs: records the inputs of each cycle; None if nothing is recorded.
        read_windows: returns the brokers' quota windows (controller.quota.window.*); None if the policy's own window is used.
        read_probe_p90_ms: returns the measured latency of topic creations (p90); None if the objective does not limit this latency.
        read_internal: returns the partitions of internal topics, which no partition limit counts.
    """

    quotas: QuotaActuator
    caller: BackgroundCaller
    signals: ControllerSignals
    orders: CurrentOrders
    write_refusal: Callable[[], Failure | None]
    observer: QuotaObserver
    inputs: InputLog | None = None
    read_windows: Callable[[], Set[QuotaWindow]] | None = None
    read_probe_p90_ms: Callable[[], float | None] | None = None
    read_internal: Callable[[], InternalPartitions] = InternalPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationQuotaConfig:
    """Settings of the operator.

    Attributes:
        policy: how quotas are shared; None if quotas are no longer configured, so the controller restores the managed quotas.
        dry_run: the controller decides and records, and writes nothing to Kafka.
    """

    policy: MutationPolicy | None
    cycle_s: float
    dry_run: bool = False


def _without_internal(signal: ControllerSignal, internal: InternalPartitions) -> ControllerSignal:
    """Returns the signal with the number of partitions that partition limits count."""
    if signal.partitions is None or not internal.partitions:
        return signal
    return replace(signal, partitions=max(0.0, signal.partitions - internal.partitions))


class MutationQuotaController:
    """Shares the controllers' capacity for creating and deleting topics among tenants, by their KIP-599 quotas."""

    def __init__(
        self,
        ports: MutationQuotaPorts,
        config: MutationQuotaConfig,
        clock: Clock,
        recorder: MutationQuotaRecorder,
    ) -> None:
        self.recorder = recorder
        self._quotas = ports.quotas
        self._caller = ports.caller
        self._signals = ports.signals
        self._orders = ports.orders
        self._write_refusal = ports.write_refusal
        self._observer = ports.observer
        self._inputs = ports.inputs
        self._read_windows = ports.read_windows
        self._read_probe_p90_ms = ports.read_probe_p90_ms
        self._read_internal = ports.read_internal
        self._policy = config.policy
        limits = config.policy.limits if config.policy is not None else MutationLimits()
        self._signal_age_s_max = limits.hold_age_s
        self._cycle_s = config.cycle_s
        self._dry_run = config.dry_run
        self._clock = clock
        self._due_s = float("-inf")
        self._read: Call[dict[QuotaEntity, float] | ClusterError] | None = None  # The read that runs in the background.
        self._write: Call[Outcome] | None = None  # The write that runs in the background.
        self._write_allowed = False  # During a write: this tuner was still the leader at the last check.
        self._in_flight: dict[QuotaEntity, QuotaWrite] = {}  # The changes of the running write.
        # End of the last write. At the start it is the present time, because the previous tuner may just have sent a write.
        self._last_write_s = clock.monotonic_s()
        self._unconfirmed: dict[QuotaEntity, tuple[QuotaWrite, float]] = {}  # The write, and when it ended.

    def next_due_s(self) -> float:
        """Returns the monotonic time of the next ``tick``, in seconds."""
        busy = self._read is not None or self._write is not None
        return self._clock.monotonic_s() + _POLL_S if busy else self._due_s

    def tick(self) -> None:
        """Continues the cycle if a request was answered, or starts the next cycle when it is due. Never waits."""
        try:
            if self._read is not None:
                if self._read.done():
                    read, self._read = self._read, None
                    self._run_cycle(result_or_error(read))
            elif self._write is not None:
                if self._write.done():
                    write, self._write = self._write, None
                    outcome = result_or_error(write)
                    self._finish_write(
                        dict.fromkeys(self._in_flight, str(outcome)) if isinstance(outcome, ClusterError) else outcome
                    )
                elif self._write_allowed:
                    # Renews the proof of leadership, which the actuator checks before each further request.
                    self._write_allowed = self._write_refusal() is None
            elif self._clock.monotonic_s() >= self._due_s:
                self._due_s = self._clock.monotonic_s() + self._cycle_s
                self._read = self._caller.start(self._quotas.read)
        except JournalError as error:
            log.error("the journal accepts no record, so no quota is changed", error=str(error))
        except Exception:
            self._observer.cycle_failed()
            raise

    def _run_cycle(self, answer: dict[QuotaEntity, float] | ClusterError) -> None:
        view = self._build_view(answer)
        memory = self.recorder.memory
        results: dict[QuotaEntity, Failure | None] = {}  # The results of earlier writes that are known now.
        if not isinstance(view.quotas, ClusterUnreadable):
            memory, results = self._confirm_writes(view.quotas, memory)
        orders, policy = self._orders.latest, self._policy
        if policy is not None and self._read_windows is not None:
            policy = with_broker_window(policy, self._read_windows())
        step = step_with_orders(view, memory, policy, orders)
        if self._inputs is not None:
            self._inputs.record_quota_cycle(view, orders, policy, memory, step.memory, step.decisions)
        # A dry run cannot tell the writes of an active tuner from the writes of other tools. So in every cycle of a dry run,
        # the quotas are treated as read for the first time, and a difference is not an external change.
        memory = replace(step.memory, quotas_were_read=False) if self._dry_run else step.memory
        restored, changes = list[QuotaWrite](), list[QuotaWrite]()
        for decision in step.decisions:
            if not isinstance(decision, SetQuota | RestoreQuota):
                continue
            if decision.entity in self._unconfirmed and decision.entity not in results:
                continue  # The last write of this quota is not confirmed yet.
            if self._is_restored_already(decision):
                restored.append(decision)
                memory = note_confirmed_write(memory, decision)
            elif not self.recorder.is_paused(decision.entity):
                changes.append(decision)
                memory = memory if self._dry_run else note_pending_write(memory, decision)
        self.recorder.record(step.decisions, [*restored, *changes], memory, _total_fields(step))
        self._forget_confirmed(results)
        self._observer.publish(view, step, memory)
        if changes and not self._dry_run:
            self._start_write(changes)

    def _build_view(self, answer: dict[QuotaEntity, float] | ClusterError) -> QuotaView:
        now_ms, signals, internal = self._clock.now_ms(), self._signals, self._read_internal()
        p90_ms = self._read_probe_p90_ms() if self._read_probe_p90_ms is not None else None
        return QuotaView(
            now_ms,
            quotas=ClusterUnreadable(str(answer)) if isinstance(answer, ClusterError) else answer,
            controllers={node: _without_internal(signal, internal) for node, signal in signals.controllers.items()},
            tenants=tuple(signals.tenants.values()),
            cluster_wide=cluster_wide_measures(
                signals.controllers,
                signals.brokers,
                now_ms,
                self._signal_age_s_max,
                create_probe_p90_ms=p90_ms,
                internal=internal,
            ),
        )

    def _is_restored_already(self, decision: QuotaWrite) -> bool:
        """Returns whether a restore needs no write: Kafka has the value already, and no earlier write can still arrive.

        This is the case if Kafka refused to set the managed value. Kafka would probably refuse a needless restore as well.
        """
        unchanged = isinstance(decision, RestoreQuota) and decision.current_per_s == decision.value_per_s
        return unchanged and self._clock.monotonic_s() - self._last_write_s > CONFIRM_S_MAX

    def _confirm_writes(
        self, quotas: Mapping[QuotaEntity, float], memory: MutationMemory
    ) -> tuple[MutationMemory, dict[QuotaEntity, Failure | None]]:
        """Compares the last writes with the quotas in Kafka.

        Returns:
            The state after the confirmed writes, and the result of each write that has ended: None if it is confirmed, else the
            failure.
        """
        results: dict[QuotaEntity, Failure | None] = {}
        for entity, (change, since_s) in self._unconfirmed.items():
            written, current = requested_per_s(change), quotas.get(entity)
            if current == written:
                memory, results[entity] = note_confirmed_write(memory, change), None
            elif self._clock.monotonic_s() - since_s > CONFIRM_S_MAX:
                results[entity] = f"{_rate_text(written)} was written, but Kafka shows {_rate_text(current)}"
        return memory, results

    def _forget_confirmed(self, results: Mapping[QuotaEntity, Failure | None]) -> None:
        """Stops waiting for these writes.

        Call this after the state has been recorded: if the record fails, the next cycle confirms the same writes again.
        """
        for entity, failure in results.items():
            del self._unconfirmed[entity]
            if failure is None:
                self.recorder.succeed(entity)
        self._report_failures({entity: failure for entity, failure in results.items() if failure is not None})

    def _start_write(self, changes: list[QuotaWrite]) -> None:
        refused = self._write_refusal()
        if refused is not None:
            self._report_failures({change.entity: refused for change in changes})
            return
        self._in_flight, self._write_allowed = {change.entity: change for change in changes}, True
        rates = {entity: requested_per_s(change) for entity, change in self._in_flight.items()}
        self._write = self._caller.start(lambda: self._quotas.write(rates))

    def _finish_write(self, outcome: Outcome) -> None:
        """Notes successful writes as unconfirmed, and reports failures.

        After a failure the state keeps the old and the new value of the quota as possible.
        """
        failures = {entity: failure for entity, failure in outcome.items() if failure is not None}
        now_s = self._last_write_s = self._clock.monotonic_s()
        self._unconfirmed |= {e: (change, now_s) for e, change in self._in_flight.items() if e not in failures}
        self._in_flight = {}
        self._report_failures(failures)

    def _report_failures(self, failures: Mapping[QuotaEntity, Failure]) -> None:
        self._observer.record_failures(len(failures))
        self.recorder.record_failures(failures)


def _total_fields(step: QuotaStep) -> dict[str, Any]:
    """Returns the total and its reason as fields of the journal entry; empty if the cycle has no total."""
    total = next((d for d in step.decisions if isinstance(d, TotalRateReport)), None)
    if total is None:
        return {}
    return {"total_per_s": total.rate_per_s, "pressure": total.pressure, "total_reason": total.reason.value}


def _rate_text(rate: float | None) -> str:
    return "no quota" if rate is None else f"{rate:g}/s"
