"""Records the decisions about mutation quotas in the journal, logs them, and schedules the retry of failed writes.

Ownership of a quota is recorded before the quota is written. If the journal accepts no record, nothing is written to Kafka. A dry
run owns no quota, so it never overwrites the state that a real run has written to the journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.short_lists import join_names, more_text
from tuner.control.mutation_quota.decision import (
    HoldQuota,
    QuotaDecision,
    QuotaReason,
    RestoreQuota,
    SetQuota,
    action_of,
)
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.backoff import Backoff
from tuner.core.outcome import Failure
from tuner.journal.entries import Entry
from tuner.journal.outbox import Outbox
from tuner.journal.quota_records import (
    QuotaWrite,
    decision_entry,
    encode_owned,
    encode_state,
    failed_entry,
    is_state_changed,
    owned_key,
    quotas_entry,
    state_key,
)
from tuner.runtime.clock import Clock
from tuner.runtime.ports import RecordJournal

log = structlog.get_logger("tuner")

_LOGGED_CAUSES_MAX = 100
_LINES_MAX = 5  # Log lines for the writes of one cycle. The journal has all writes.


class MutationQuotaRecorder:
    """Holds the recorded state (``memory``). A new state is set only by ``record``."""

    def __init__(
        self,
        journal: RecordJournal,
        cluster: str,
        memory: MutationMemory,
        clock: Clock,
        *,
        dry_run: bool,
        outbox: Outbox | None = None,
    ) -> None:
        """
        Args:
            outbox: entries that wait for the next journal write; all recorders of one leadership term share it.
        """
        self.memory = memory
        self._journal = journal
        self._cluster = cluster
        self._clock = clock
        self._dry_run = dry_run
        # The state in the journal; None if the journal has none.
        self._recorded: MutationMemory | None = None if memory == MutationMemory() else memory
        self._last_reasons: dict[object, QuotaReason] = {}
        self._backoff: Backoff[QuotaEntity] = Backoff(clock.monotonic_s)
        self._outbox = outbox if outbox is not None else Outbox()
        self._logged_causes: set[Failure] = set()

    def record(
        self,
        decisions: Sequence[QuotaDecision],
        changes: Sequence[QuotaWrite],
        memory: MutationMemory,
        inputs: Mapping[str, Any],
    ) -> None:
        """Records a cycle: new holds and totals, the writes that follow, and the new state. Logs all new decisions.

        Args:
            inputs: the inputs of the writes, as fields of their journal entry.

        Raises:
            JournalError: nothing was recorded, and the state stays as it was.
        """
        reports = [d for d in decisions if not isinstance(d, SetQuota | RestoreQuota)]
        new = [d for d in reports if self._last_reasons.get(_subject(d)) is not d.reason]
        entries = [decision_entry(d, self._clock.now_ms(), dry_run=self._dry_run) for d in new]
        if changes:
            entries.append(quotas_entry(changes, self._clock.now_ms(), inputs, dry_run=self._dry_run))
        records = {} if self._dry_run else self._encode_changes(memory)
        # The write takes place even without entries, because the journal also writes the inputs of the cycle.
        self._write(entries, other_records=records)
        if not self._dry_run:
            self._recorded = memory
        self.memory, self._last_reasons = memory, {_subject(d): d.reason for d in reports}
        for decision in [*new, *changes[:_LINES_MAX]]:
            log.info(
                decision.text,
                action=action_of(decision),
                reason=decision.reason.value,
                dry_run=self._dry_run,
                **_entity_field(decision),
            )
        if len(changes) > _LINES_MAX:
            log.info(
                f"{more_text(len(changes) - _LINES_MAX, 'quotas')}, as `rheostat quotas` shows", dry_run=self._dry_run
            )

    def record_failures(self, failures: Mapping[QuotaEntity, Failure]) -> None:
        """Records failed writes, logs each new cause once, and doubles the pause before the retry.

        Raises:
            JournalError: the entry is recorded with the next write that the journal accepts.
        """
        if not failures:
            return
        for entity in failures:
            self._backoff.fail(entity)
        new_causes = set(failures.values()) - self._logged_causes
        # The set is emptied when it is full: causes contain numbers and names, so there is no limit to their number.
        self._logged_causes = (
            self._logged_causes | new_causes if len(self._logged_causes) < _LOGGED_CAUSES_MAX else new_causes
        )
        for cause, _ in Counter(failures.values()).most_common(_LINES_MAX):
            if cause not in new_causes:
                continue
            entities = join_names((entity for entity, failure in failures.items() if failure == cause), 1)
            log.error(f"not done: the quota of {entities}: {cause}")
        self._outbox.entries.append(failed_entry(failures, self._clock.now_ms()))
        self._write()

    def succeed(self, entity: QuotaEntity) -> None:
        """Forgets earlier failures of this entity."""
        self._backoff.succeed(entity)
        self._logged_causes.clear()

    def is_paused(self, entity: QuotaEntity) -> bool:
        """Returns whether a failed write of this entity still waits for its retry."""
        return self._backoff.is_paused(entity)

    def _write(self, entries: Sequence[Entry] = (), **more: Any) -> None:
        """Writes the entries, together with entries that an earlier write could not write."""
        self._journal.write((*self._outbox.entries, *entries), **more)
        self._outbox.entries.clear()

    def _encode_changes(self, memory: MutationMemory) -> dict[bytes, bytes | None]:
        """Returns the state records that differ from the last write; None as value removes a record."""
        recorded = self._recorded or MutationMemory()
        changed = [entity for entity, owned in memory.owned.items() if recorded.owned.get(entity) != owned]
        changed += [entity for entity in recorded.owned if entity not in memory.owned]
        records: dict[bytes, bytes | None] = {
            owned_key(self._cluster, entity): encode_owned(entity, memory.owned.get(entity)) for entity in changed
        }
        if is_state_changed(memory, self._recorded):
            records[state_key(self._cluster)] = encode_state(memory)
        return records


def _subject(decision: QuotaDecision) -> object:
    """Returns the subject of a decision. A decision with the same subject and reason as one of the last cycle is a repetition.

    Several holds of one cycle may be about the same entity, or about all quotas. So a hold's reason is a part of its subject.
    """
    reason = decision.reason if isinstance(decision, HoldQuota) else None
    return (type(decision), getattr(decision, "entity", None), reason)


def _entity_field(decision: QuotaDecision) -> dict[str, str]:
    """Returns the entity as a field of the log line; empty if the decision is about all quotas."""
    entity = getattr(decision, "entity", None)
    return {} if entity is None else {"entity": str(entity)}
