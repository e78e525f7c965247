"""Runs the controller of cordons: reads the cordons, decides, records, writes, and confirms the writes.

    read (background) → decide and record → write and confirm (background)

The requests run in the background, and ``tick`` returns at once, so that the throttle controller keeps its schedule.

Invariant: before Kafka has the new value of ``cordoned.log.dirs``, the journal names the entries that rheostat adds and the entries
that the setting had before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from streaming.shared.kafka.cluster import ClusterError
from tuner.control.cordon.decision import (
    CordonDecision,
    CordonReason,
    CordonWrite,
    HoldCordon,
    LiftCordon,
    SetCordon,
    cordon_action,
)
from tuner.control.cordon.model import CordonMemory, CordonStep, CordonView
from tuner.control.cordon.policy import (
    decide_cordons,
    has_open_cordons,
    note_cordon_intent,
    note_cordon_outcome,
    note_cordon_refusal,
)
from tuner.core.backoff import Backoff
from tuner.core.cordon_state import CordonState
from tuner.core.outcome import CHANGED_EXTERNALLY, Failure
from tuner.core.reassignment_plan import Plan
from tuner.journal.cordon_records import changed_cordons, cordon_entry
from tuner.journal.entries import Entry
from tuner.journal.kafka_journal import JournalError
from tuner.journal.outbox import Outbox
from tuner.runtime.background_call import BackgroundCaller, Call, result_or_error
from tuner.runtime.clock import Clock
from tuner.runtime.cordon.actuator import CordonActuator, CordonOutcomes, ReadCordons
from tuner.runtime.ports import CurrentOrders, RecordJournal

log = structlog.get_logger("tuner")

_POLL_S = 0.05
# A cordon that an operator sets during a plan should soon stop the steps of the plan. Without a plan, cordons are only shown.
CYCLE_S, IDLE_CYCLE_S = 2.0, 15.0


class CordonObserver(Protocol):
    def publish(self, step: CordonStep) -> None:
        """Publishes the result of a cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonPorts:
    """Everything that the controller reads from and writes to.

    Attributes:
        plans: returns all plans on record.
        write_refusal: returns why nothing may be written now; None if writes are allowed. It is called before each write.
    """

    actuator: CordonActuator
    caller: BackgroundCaller
    plans: Callable[[], tuple[Plan, ...]]
    orders: CurrentOrders
    journal: RecordJournal
    outbox: Outbox
    write_refusal: Callable[[], Failure | None]
    observer: CordonObserver


class CordonController:
    """Watches the cordons of all brokers, and sets and lifts the cordons that plans order.

    Attributes:
        state: the cordons at the newest reading, as the executor of plans needs them.
    """

    def __init__(self, ports: CordonPorts, memory: CordonMemory, cluster: str, clock: Clock, *, dry_run: bool) -> None:
        """
        Args:
            memory: the state in the journal.
        """
        self.state = CordonState()
        self._ports = ports
        self._memory = self._recorded = memory
        self._cluster = cluster
        self._clock = clock
        self._dry_run = dry_run
        self._due_s = self._read_at_s = float("-inf")
        self._read: Call[ReadCordons] | None = None
        self._write: Call[CordonOutcomes] | None = None
        self._in_flight: dict[int, CordonWrite] = {}
        # Brokers whose present write is their first: no earlier write can still take effect.
        self._first_writes: frozenset[int] = frozenset()
        self._failures: dict[int, str] = {}
        self._last_reasons: dict[int, CordonReason] = {}
        self._backoff: Backoff[int] = Backoff(clock.monotonic_s)
        self._unreadable = ""

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
                now_s = self._clock.monotonic_s()
                self._due_s = now_s + CYCLE_S
                if self._is_busy() or now_s >= self._read_at_s + IDLE_CYCLE_S:
                    self._read_at_s = now_s
                    self._read = self._ports.caller.start(self._ports.actuator.read)
        except JournalError as error:
            log.error("the journal accepts no record, so no cordon is changed", error=str(error))

    def _is_busy(self) -> bool:
        """Returns whether a cordon may have to change soon. The cordon of a drained broker does not count: it may stay for
        years."""
        plans = self._ports.plans()
        return any(plan.is_active for plan in plans) or has_open_cordons(self._memory, plans, self._ports.orders.latest)

    def _run_cycle(self, answer: ReadCordons | ClusterError) -> None:
        if isinstance(answer, ClusterError):
            if str(answer) != self._unreadable:
                self._unreadable = str(answer)
                log.error("the cordons cannot be read, so no cordon is changed", error=self._unreadable)
            return
        self._unreadable = ""
        view = CordonView(self._clock.now_ms(), answer, self._ports.plans(), self._ports.orders.latest)
        step = decide_cordons(view, self._memory)
        changes = [
            d for d in step.decisions if isinstance(d, SetCordon | LiftCordon) and not self._backoff.is_paused(d.broker)
        ]
        memory = step.memory
        for change in changes if not self._dry_run else ():
            memory = note_cordon_intent(memory, change)
        self._record(step.decisions, changes, memory)
        self.state = self._state_after(step)
        self._ports.observer.publish(replace(step, memory=memory, state=self.state))
        if changes and not self._dry_run:
            self._first_writes = frozenset(change.broker for change in changes) - step.memory.owned.keys()
            self._start_write(changes)

    def _state_after(self, step: CordonStep) -> CordonState:
        """Returns the state for the executor, with the failures of earlier writes. In a dry run, ordered cordons count as set.

        A broker that cannot be read now keeps its state of the last reading.
        """
        state = replace(step.state, cordoned=step.state.cordoned | (self.state.cordoned - step.brokers.keys()))
        if self._dry_run:
            return replace(state, settled=frozenset(plan.id for plan in self._ports.plans()))
        failures = {d.broker: self._failures[d.broker] for d in step.decisions if d.broker in self._failures}
        return replace(state, waits={**state.waits, **failures})

    def _record(
        self, decisions: Sequence[CordonDecision], changes: Sequence[CordonWrite], memory: CordonMemory
    ) -> None:
        """Records new decisions and the memory, and logs them.

        Raises:
            JournalError: nothing was recorded, and nothing may be written.
        """
        now_ms, entries, lines = self._clock.now_ms(), [], []
        for decision in decisions:
            is_write = isinstance(decision, SetCordon | LiftCordon)
            if is_write and decision not in changes:
                continue  # The last write for this broker has failed, and the next attempt waits.
            repeats = self._last_reasons.get(decision.broker) is decision.reason
            if repeats and (isinstance(decision, HoldCordon) or self._dry_run):
                continue
            entries.append(cordon_entry("intent" if is_write else "decision", decision, now_ms, dry_run=self._dry_run))
            lines.append(decision)
        records = {} if self._dry_run else changed_cordons(self._cluster, memory, self._recorded)
        self._write_journal(entries, records)
        if not self._dry_run:
            self._memory = self._recorded = memory
        self._last_reasons = {d.broker: d.reason for d in decisions}
        for decision in lines:
            log.info(
                decision.text,
                action=cordon_action(decision),
                reason=decision.reason.value,
                broker=decision.broker,
                dry_run=self._dry_run,
            )

    def _start_write(self, changes: Sequence[CordonWrite]) -> None:
        self._in_flight = {change.broker: change for change in changes}
        refused = self._ports.write_refusal()
        if refused is not None:
            self._finish_write(dict.fromkeys(self._in_flight, refused))
            return
        self._write = self._ports.caller.start(lambda: self._ports.actuator.write(changes))

    def _finish_write(self, outcomes: CordonOutcomes | ClusterError) -> None:
        """Records the outcomes. After a failure the memory still names the entries, as the broker may have them.

        If another tool has changed the setting before the first write, that write was not sent, so all entries belong to that tool.
        """
        changes, self._in_flight = self._in_flight, {}
        if isinstance(outcomes, ClusterError):
            outcomes = dict.fromkeys(changes, str(outcomes))
        memory = self._memory
        for broker, change in changes.items():
            failure = outcomes[broker]
            if failure is None:
                memory = note_cordon_outcome(memory, change)
                self._backoff.succeed(broker)
                self._failures.pop(broker, None)
            else:
                if failure == CHANGED_EXTERNALLY and isinstance(change, SetCordon) and broker in self._first_writes:
                    memory = note_cordon_refusal(memory, change)
                self._backoff.fail(broker)
                self._failures[broker] = failure
                log.error(f"not done: {change.text}: {failure}", broker=broker)
            self._ports.outbox.entries.append(cordon_entry("outcome", change, self._clock.now_ms(), failure=failure))
        self._memory = memory
        self._due_s = float("-inf")  # The executor waits for the cordon.
        self._write_journal([], changed_cordons(self._cluster, memory, self._recorded))
        self._recorded = memory

    def _write_journal(self, entries: Sequence[Entry], records: Mapping[bytes, bytes | None]) -> None:
        outbox = self._ports.outbox
        if entries or records or outbox.entries:
            self._ports.journal.write((*outbox.entries, *entries), other_records=records)
            outbox.entries.clear()
