"""Records the decisions about log directory throttles in the journal, logs them, and pauses after failed writes.

If the journal accepts no record, nothing is written to Kafka. A dry run manages no limit, so it never overwrites the state that a
real run has written to the journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from streaming.shared.contract import BrokerSignal
from tuner.control.log_dir.decision import (
    HoldLogDirRate,
    LogDirDecision,
    LogDirReason,
    LogDirWrite,
    RestoreLogDirRate,
    SetLogDirRate,
    log_dir_action,
)
from tuner.control.log_dir.model import LogDirMemory
from tuner.core.backoff import Backoff
from tuner.core.outcome import Failure
from tuner.journal.log_dir_records import changed_log_dirs, is_steered, log_dir_entry
from tuner.journal.outbox import Outbox
from tuner.runtime.clock import Clock
from tuner.runtime.ports import RecordJournal

log = structlog.get_logger("tuner")

# Holds for these reasons alternate with small changes of a limit every few seconds, so the journal leaves them out. The status
# shows them.
_UNRECORDED = frozenset({LogDirReason.SETTLING, LogDirReason.NEAR_OBJECTIVE, LogDirReason.NOT_THROTTLE_LIMITED})


class LogDirRecorder:
    """Holds the current state (``memory``)."""

    def __init__(
        self,
        journal: RecordJournal,
        cluster: str,
        memory: LogDirMemory,
        clock: Clock,
        *,
        dry_run: bool,
        outbox: Outbox | None = None,
    ) -> None:
        """
        Args:
            memory: the state in the journal.
            outbox: entries that wait for the next journal write; all recorders of one leadership term share it.
        """
        self.memory = memory
        self._journal = journal
        self._cluster = cluster
        self._clock = clock
        self._dry_run = dry_run
        self._recorded = memory
        self._last_reasons: dict[int, LogDirReason] = {}
        self._backoff: Backoff[int] = Backoff(clock.monotonic_s)
        self._outbox = outbox if outbox is not None else Outbox()
        self._unreadable = ""

    def record(
        self,
        decisions: Sequence[LogDirDecision],
        changes: Sequence[LogDirWrite],
        memory: LogDirMemory,
        signals: Mapping[int, BrokerSignal],
    ) -> None:
        """Records a cycle: new holds, the writes that follow, and the new state. Logs new decisions, except routine steering.

        Args:
            signals: the inputs of the writes.

        Raises:
            JournalError: nothing was recorded, and the state stays as it was.
        """
        self._unreadable = ""
        now_ms, entries, lines = self._clock.now_ms(), [], []
        for decision in decisions:
            is_write = isinstance(decision, SetLogDirRate | RestoreLogDirRate)
            if is_write and decision not in changes:
                continue  # The last write for this broker has failed, and the next attempt waits.
            repeats = self._last_reasons.get(decision.broker) is decision.reason
            if decision.reason in _UNRECORDED or (repeats and (isinstance(decision, HoldLogDirRate) or self._dry_run)):
                continue
            inputs = _inputs(signals.get(decision.broker)) if is_write else {}
            kind = "intent" if is_write else "decision"
            entries.append(log_dir_entry(kind, decision, now_ms, inputs=inputs, dry_run=self._dry_run))
            if not is_steered(decision):
                lines.append(decision)
        records = {} if self._dry_run else changed_log_dirs(self._cluster, memory, self._recorded)
        if entries or records:
            self._journal.write((*self._outbox.entries, *entries), other_records=records)
            self._outbox.entries.clear()
        if not self._dry_run:
            self._recorded = memory
        self.memory = memory
        self._last_reasons = {
            d.broker: self._last_reasons.get(d.broker, d.reason) if d.reason in _UNRECORDED else d.reason
            for d in decisions
        }
        for decision in lines:
            log.info(
                decision.text,
                action=log_dir_action(decision),
                reason=decision.reason.value,
                broker=decision.broker,
                dry_run=self._dry_run,
            )

    def record_outcomes(
        self, changes: Mapping[int, LogDirWrite], outcomes: Mapping[int, Failure | None], memory: LogDirMemory
    ) -> None:
        """Takes the state after the writes, and records their outcomes and the state.

        The state takes effect at once: it only narrows the values that the journal already names as possible.

        Raises:
            JournalError: the entries and the state are recorded with the next write that the journal accepts.
        """
        self.memory = memory
        for broker, change in changes.items():
            failure = outcomes[broker]
            if failure is None:
                self._backoff.succeed(broker)
            else:
                self._backoff.fail(broker)
                log.error(f"not done: {change.text.partition(': ')[0]}: {failure}", broker=broker)
            if failure is not None or not is_steered(change):
                entry = log_dir_entry("outcome", change, self._clock.now_ms(), failure=failure)
                self._outbox.entries.append(entry)
        records = changed_log_dirs(self._cluster, memory, self._recorded)
        self._journal.write(tuple(self._outbox.entries), other_records=records)
        self._outbox.entries.clear()
        self._recorded = memory

    def is_paused(self, broker: int) -> bool:
        """Returns whether a failed write still waits for its retry."""
        return self._backoff.is_paused(broker)

    def log_unreadable(self, why: str) -> None:
        """Logs that the cluster did not answer; a repetition is not logged."""
        if why != self._unreadable:
            self._unreadable = why
            log.error("the log directories cannot be read, so no log directory throttle is changed", error=why)


def _inputs(signal: BrokerSignal | None) -> dict[str, Any]:
    if signal is None:
        return {}
    names = (
        "sampled_at_ms",
        "log_dir_copied_bytes_per_s",
        "produce_p99_ms",
        "produce_mean_ms",
        "client_in_bytes_per_s",
        "request_handler_idle_ratio",
    )
    return {name: getattr(signal, name) for name in names}
