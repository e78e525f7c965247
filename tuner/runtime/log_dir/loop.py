"""Runs the controller of copies between log directories: reads the copies, decides, records, writes, and confirms the writes.

    read (background) → decide and record → write and confirm (background)

The requests run in the background, and ``tick`` returns at once, so that the throttle controller keeps its schedule. A cycle
without copies and without managed limits asks a few brokers only.

Invariant: the journal names a limit as managed, with its old and its new value, before Kafka has the new value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from streaming.shared.contract import BrokerSignal
from streaming.shared.kafka.cluster import ClusterError
from tuner.control.log_dir.decision import LogDirWrite, RestoreLogDirRate, SetLogDirRate
from tuner.control.log_dir.model import LogDirMemory, LogDirPolicy, LogDirStep, LogDirView
from tuner.control.log_dir.policy import decide_log_dirs, note_log_dir_intent, note_log_dir_outcome
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.outcome import CHANGED_EXTERNALLY, Failure
from tuner.journal.kafka_journal import JournalError
from tuner.runtime.background_call import BackgroundCaller, Call, result_or_error
from tuner.runtime.clock import Clock
from tuner.runtime.log_dir.actuator import LogDirActuator, ReadLogDirs, WriteOutcomes
from tuner.runtime.log_dir.recorder import LogDirRecorder
from tuner.runtime.ports import CurrentOrders

log = structlog.get_logger("tuner")

_POLL_S = 0.05


class BrokerSignals(Protocol):
    """The newest signal of each broker."""

    @property
    def baselines(self) -> Mapping[int, BrokerBaseline]: ...

    @property
    def brokers(self) -> Mapping[int, BrokerSignal]: ...


class LogDirObserver(Protocol):
    def publish(self, step: LogDirStep, at_ms: int) -> None:
        """Publishes the result of a cycle, and its time (epoch)."""

    def record_writes(self, count: int, failed: int) -> None:
        """Counts writes, and failed writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirPorts:
    """Everything that the controller reads from and writes to.

    Attributes:
        write_refusal: returns why nothing may be written now; None if writes are allowed. It is called before each write.
    """

    actuator: LogDirActuator
    caller: BackgroundCaller
    signals: BrokerSignals
    orders: CurrentOrders
    write_refusal: Callable[[], Failure | None]
    observer: LogDirObserver


class LogDirController:
    """Watches copies between the log directories of a broker, and sets their limit if there is a latency objective."""

    def __init__(
        self,
        ports: LogDirPorts,
        policy: LogDirPolicy,
        clock: Clock,
        recorder: LogDirRecorder,
        *,
        cycle_s: float,
        dry_run: bool,
    ) -> None:
        self.recorder = recorder
        self._ports = ports
        self.policy = policy
        self._clock = clock
        self._cycle_s = cycle_s
        self._dry_run = dry_run
        self._due_s = float("-inf")
        self._read: Call[ReadLogDirs] | None = None
        self._write: Call[WriteOutcomes] | None = None
        self._in_flight: dict[int, LogDirWrite] = {}

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
                    self._finish_write(result_or_error(write))
            elif self._clock.monotonic_s() >= self._due_s:
                self._due_s = self._clock.monotonic_s() + self._cycle_s
                watched = self._watched()
                self._read = self._ports.caller.start(lambda: self._ports.actuator.read(watched))
        except JournalError as error:
            log.error("the journal accepts no record, so no log directory throttle is changed", error=str(error))

    def _watched(self) -> frozenset[int]:
        """Returns the brokers to read in any case: brokers that are known to copy, or whose signal reports copied bytes."""
        copying = (b for b, signal in self._ports.signals.brokers.items() if signal.log_dir_copied_bytes_per_s)
        return self.recorder.memory.watched_brokers.union(copying)

    def _run_cycle(self, answer: ReadLogDirs | ClusterError) -> None:
        if isinstance(answer, ClusterError):
            self.recorder.log_unreadable(str(answer))
            return
        signals = self._ports.signals
        view = LogDirView(
            self._clock.now_ms(), answer, dict(signals.brokers), self._ports.orders.latest, dict(signals.baselines)
        )
        step = decide_log_dirs(view, self.recorder.memory, self.policy)
        changes: list[LogDirWrite] = []
        memory = step.memory
        for decision in step.decisions:
            if isinstance(decision, SetLogDirRate | RestoreLogDirRate) and not self.recorder.is_paused(decision.broker):
                changes.append(decision)
                memory = memory if self._dry_run else note_log_dir_intent(memory, decision)
        self.recorder.record(step.decisions, changes, memory, view.signals)
        self._ports.observer.publish(replace(step, memory=memory), view.now_ms)
        if changes and not self._dry_run:
            self._start_write(changes)

    def _start_write(self, changes: Sequence[LogDirWrite]) -> None:
        self._in_flight = {change.broker: change for change in changes}
        refused = self._ports.write_refusal()
        if refused is not None:
            self._finish_write(dict.fromkeys(self._in_flight, refused))
            return
        self._write = self._ports.caller.start(lambda: self._ports.actuator.write(changes))

    def _finish_write(self, outcomes: WriteOutcomes | ClusterError) -> None:
        """Records the outcomes. After a failure the state keeps the old and the new limit as possible."""
        changes, self._in_flight = self._in_flight, {}
        if isinstance(outcomes, ClusterError):
            outcomes = dict.fromkeys(changes, str(outcomes))
        memory: LogDirMemory = self.recorder.memory
        for broker, change in changes.items():
            if outcomes[broker] is None:
                memory = note_log_dir_outcome(memory, change)
        # A change by another client is no failure: from the next cycle on, the tuner leaves the limit to that client.
        failed = sum(failure not in (None, CHANGED_EXTERNALLY) for failure in outcomes.values())
        self._ports.observer.record_writes(len(changes), failed)
        self.recorder.record_outcomes(changes, outcomes, memory)
