"""What of the mutation quotas is on record, and what failed so that it is tried again later.

As with the throttles: what is ours is on record before it becomes true, and where the journal takes no record nothing is done.
A dry run owns nothing and puts nothing back, so it writes no memory over that of a real run.
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

_TOLD_MAX = 100
_LINES_MAX = 5  # Of a cycle's writes; all of them are on record.


class MutationQuotaRecorder:
    """``memory`` is what is remembered now; what is made of it comes back through ``record``."""

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
            outbox: what has happened and is not in the journal yet; all recorders of a leadership term share it.
        """
        self.memory = memory
        self._journal = journal
        self._cluster = cluster
        self._clock = clock
        self._dry_run = dry_run
        self._saved: MutationMemory | None = None if memory == MutationMemory() else memory
        self._said: dict[object, QuotaReason] = {}
        self._backoff: Backoff[QuotaEntity] = Backoff(clock.monotonic_s)
        self._outbox = outbox if outbox is not None else Outbox()
        self._told: set[Failure] = set()

    def record(
        self,
        decisions: Sequence[QuotaDecision],
        changes: Sequence[QuotaWrite],
        memory: MutationMemory,
        inputs: Mapping[str, Any],
    ) -> None:
        """A cycle's word: what is new of what was decided, what is about to be written, and what is ours from now on.

        Raises:
            JournalError: nothing of it is on record, and nothing of it is so.
        """
        said = {_subject(d): d.reason for d in decisions if not isinstance(d, SetQuota | RestoreQuota)}
        news = [
            d
            for d in decisions
            if not isinstance(d, SetQuota | RestoreQuota) and self._said.get(_subject(d)) is not d.reason
        ]
        entries = [decision_entry(d, self._clock.now_ms(), dry_run=self._dry_run) for d in news]
        if changes:
            entries.append(quotas_entry(changes, self._clock.now_ms(), inputs, dry_run=self._dry_run))
        records = {} if self._dry_run else self._records(memory)
        # With nothing new as well: what the cycle stood on may have to be written.
        self._write(entries, beside=records)
        if not self._dry_run:
            self._saved = memory
        self.memory, self._said = memory, said
        for decision in [*news, *changes[:_LINES_MAX]]:
            log.info(
                decision.text,
                action=action_of(decision),
                reason=decision.reason.value,
                dry_run=self._dry_run,
                **_whose(decision),
            )
        if len(changes) > _LINES_MAX:
            log.info(
                f"{more_text(len(changes) - _LINES_MAX, 'quotas')}, as `rheostat quotas` shows", dry_run=self._dry_run
            )

    def failed(self, failures: Mapping[QuotaEntity, Failure]) -> None:
        """On record, told once a cause until something goes well, and tried again later each time.

        Raises:
            JournalError: it goes on record with what the journal takes next.
        """
        if not failures:
            return
        for entity in failures:
            self._backoff.fail(entity)
        news = set(failures.values()) - self._told
        # Of causes that have a number or a name in them there may be any number.
        self._told = self._told | news if len(self._told) < _TOLD_MAX else news
        for failure, _ in Counter(failures.values()).most_common(_LINES_MAX):
            if failure not in news:
                continue
            entities = join_names((entity for entity, said in failures.items() if said == failure), 1)
            log.error(f"not done: the quota of {entities}: {failure}")
        self._outbox.entries.append(failed_entry(failures, self._clock.now_ms()))
        self._write()

    def succeed(self, entity: QuotaEntity) -> None:
        self._backoff.succeed(entity)
        self._told.clear()

    def is_paused(self, entity: QuotaEntity) -> bool:
        return self._backoff.is_paused(entity)

    def _write(self, entries: Sequence[Entry] = (), **more: Any) -> None:
        """With what has happened since the last time: all of it, or nothing."""
        self._journal.write((*self._outbox.entries, *entries), **more)
        self._outbox.entries.clear()

    def _records(self, memory: MutationMemory) -> dict[bytes, bytes | None]:
        saved = self._saved or MutationMemory()
        changed = [e for e, owned in memory.owned.items() if saved.owned.get(e) != owned]
        changed += [e for e in saved.owned if e not in memory.owned]
        records: dict[bytes, bytes | None] = {
            owned_key(self._cluster, e): encode_owned(e, memory.owned.get(e)) for e in changed
        }
        if is_state_changed(memory, self._saved):
            records[state_key(self._cluster)] = encode_state(memory)
        return records


def _subject(decision: QuotaDecision) -> object:
    """What a decision is about, so that the next one about it can be told from a repetition."""
    reason = decision.reason if isinstance(decision, HoldQuota) else None
    return (type(decision), getattr(decision, "entity", None), reason)


def _whose(decision: QuotaDecision) -> dict[str, str]:
    """Whose quota, as a key of a line for machines; nothing where it is about all of them."""
    entity = getattr(decision, "entity", None)
    return {} if entity is None else {"entity": str(entity)}
