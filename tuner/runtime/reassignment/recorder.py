"""Records the decisions about plans in the journal, logs them, and schedules the retry of failed steps.

A step and its reason are recorded before the step is requested. If the journal accepts no record, nothing is requested. The plans
in memory (``book``) are updated by decoding the records that the journal has accepted, exactly as after a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from streaming.shared.short_lists import join_names, more_text
from tuner.api.sentences import moment
from tuner.control.reassignment.policy import ExecutorDecision, PlanDecision
from tuner.core.backoff import Backoff
from tuner.core.outcome import StepRefusal
from tuner.core.reassignment_plan import Plan, TopicPartition
from tuner.journal.entries import Entry
from tuner.journal.outbox import Outbox
from tuner.journal.plan_book import PlanBook
from tuner.journal.plan_entries import concurrency_entry, deferred_entry, failed_entry, outcome_entry, steps_entry
from tuner.journal.plan_records import (
    encode_requested,
    encode_state,
    head_key,
    requested_key,
    split_into_parts,
    state_key,
    tombstones,
)
from tuner.runtime.clock import Clock
from tuner.runtime.ports import RecordJournal

log = structlog.get_logger("tuner")

PLANS_KEPT = 20  # Number of ended plans whose outcome stays readable.
# A command that submits a plan writes the parts and, within seconds, the head. Without a head for this long, it was interrupted.
HEADLESS_S_MAX = 3600.0
_LINES_MAX = 5  # Log lines of one kind in one cycle. The journal has all of them.


class ReassignmentRecorder:
    """Holds all recorded plans (``book``). The book changes only with records that the journal has accepted."""

    def __init__(
        self,
        journal: RecordJournal,
        cluster: str,
        book: PlanBook,
        clock: Clock,
        *,
        outbox: Outbox | None = None,
    ) -> None:
        """
        Args:
            outbox: entries that wait for the next journal write; all recorders of one leadership term share it.
        """
        self.book = book
        self._journal = journal
        self._cluster = cluster
        self._clock = clock
        # By plan id and partition: the number of the record that holds the partition.
        self._record_numbers: dict[str, dict[TopicPartition, int]] = {}
        self._backoff: Backoff[TopicPartition] = Backoff(clock.monotonic_s)
        self._refusals: dict[TopicPartition, str] = {}  # Why the last request failed.
        self._headless_since_s: dict[str, float] = {}
        self._outbox = outbox if outbox is not None else Outbox()

    @property
    def active_plans(self) -> tuple[Plan, ...]:
        return tuple(plan for plan in self.book.plans if plan.is_active)

    def record(self, before: Sequence[Plan], decision: ExecutorDecision, inputs: Mapping[str, object]) -> None:
        """Records a cycle: reached partitions, the next steps, and the new state. Logs all changes.

        Args:
            before: the plans before the cycle, in the order of ``decision.plans``.
            inputs: the inputs of the decision besides the plan, for the journal.

        Raises:
            JournalError: nothing was recorded, and no step may be requested.
        """
        changes = decision.admission.concurrency.changes
        entries = [concurrency_entry(changes, self._clock.now_ms())]
        records: dict[bytes, bytes | None] = {}
        for plan, plan_decision in zip(before, decision.plans, strict=True):
            entries += [
                outcome_entry(plan, plan_decision, self._clock.now_ms()),
                steps_entry(plan, plan_decision, self._clock.now_ms(), inputs),
            ]
            records |= self._encode_changes(plan, plan_decision.plan, with_concurrency=bool(changes))
        self._write([entry for entry in entries if entry is not None], records)
        for change in changes[:_LINES_MAX]:
            log.info(change.text, action="concurrency", reason=change.reason.value)
        for plan, plan_decision in zip(before, decision.plans, strict=True):
            _log_changes(plan, plan_decision, self._clock.now_ms())
            for key in plan_decision.progress.reached:
                self._backoff.succeed(key)
        self._drop_old_refusals(decision.plans)

    def _drop_old_refusals(self, decisions: Sequence[PlanDecision]) -> None:
        """Drops all refusals except refusals for partitions that are still to be requested, elected or cancelled."""
        if not self._refusals:
            return
        pending = set[TopicPartition]()
        for decision in decisions:
            progress = decision.progress
            stopping = [key for key in progress.running if decision.plan.requested[key].cancel_requested]
            pending.update(progress.ready, progress.to_elect, progress.unconfirmed, stopping)
        self._refusals = {key: why for key, why in self._refusals.items() if key in pending}

    def note_accepted(self, keys: Iterable[TopicPartition]) -> None:
        """Forgets earlier refusals of these partitions, because Kafka has accepted a request."""
        for key in keys:
            self._refusals.pop(key, None)

    def record_failures(
        self,
        plans: Sequence[Plan],
        after: Sequence[Plan],
        failures: Mapping[TopicPartition, StepRefusal],
        waits: Mapping[TopicPartition, str],
        paused_once: Collection[TopicPartition] = (),
    ) -> None:
        """Records that steps did not begin and are not in progress, and logs them by cause.

        Args:
            plans: the plans as recorded.
            after: the same plans without the steps that did not begin.
            failures: steps that failed. Each failure doubles the pause before the next attempt.
            waits: steps that were deferred without a failure, with the reason. The next cycle tries them again.
            paused_once: the entries of ``waits`` that are tried again only after the shortest pause.

        Raises:
            JournalError: the entries are recorded with the next write that the journal accepts.
        """
        if not failures and not waits:
            return
        for key in failures:
            self._backoff.fail(key)
        for key in paused_once:
            self._backoff.pause_once(key)
        self._refusals |= {key: refusal.why for key, refusal in failures.items()}
        for text in _texts_by_cause({key: refusal.why for key, refusal in failures.items()}):
            log.error(f"not done: {text}")
        for text in _texts_by_cause(waits):
            log.info(f"waits: {text}")
        records: dict[bytes, bytes | None] = {}
        for plan, later in zip(plans, after, strict=True):
            records |= self._encode_changes(plan, later, with_concurrency=False)
        if failures:
            self._outbox.entries.append(failed_entry(failures, self._clock.now_ms()))
        if waits:
            self._outbox.entries.append(deferred_entry(waits, self._clock.now_ms()))
        self._write([], records)

    def delete_headless_parts(self) -> None:
        """Deletes the parts of plans that have had no head for an hour, because their submission was interrupted.

        Raises:
            JournalError: the parts stay in the journal.
        """
        now_s, headless = self._clock.monotonic_s(), self.book.parts_without_head
        since_s = self._headless_since_s = {plan_id: self._headless_since_s.get(plan_id, now_s) for plan_id in headless}
        for plan_id, parts in headless.items():
            if now_s - since_s[plan_id] > HEADLESS_S_MAX:
                self._write([], tombstones(self._cluster, plan_id, parts))
                log.info(
                    "deleted the incomplete records of a plan whose submission was interrupted",
                    plan=plan_id,
                    records=parts,
                )

    @property
    def backing_off(self) -> frozenset[TopicPartition]:
        """Returns the partitions whose last request failed and that are retried later."""
        return self._backoff.paused()

    @property
    def refusals(self) -> Mapping[TopicPartition, str]:
        """Returns why the last request for a partition failed, as long as the partition still needs a request."""
        return dict(self._refusals)

    def _write(self, entries: Sequence[Entry], records: Mapping[bytes, bytes | None]) -> None:
        """Writes all entries and records, or nothing. Entries that an earlier write could not write are included."""
        if not entries and not records and not self._outbox.entries:
            return
        self._journal.write((*self._outbox.entries, *entries), other_records=records)
        self._outbox.entries.clear()
        for key, value in records.items():
            self.book.apply(key, value)

    def _encode_changes(self, before: Plan, after: Plan, *, with_concurrency: bool) -> dict[bytes, bytes | None]:
        """Returns the records that differ between two states of a plan; None as value removes a record.

        Once the plan has ended, the records of its parts are removed, and all records of the oldest plans beyond ``PLANS_KEPT``.

        Args:
            with_concurrency: whether to write a record if only the text about concurrency differs. This text changes often.
        """
        records: dict[bytes, bytes | None] = {}
        if after.requested != before.requested:
            numbers = self._record_numbers_of(before)
            changed = {
                numbers[key]
                for key in before.requested.keys() | after.requested.keys()
                if key in numbers and before.requested.get(key) != after.requested.get(key)
            }
            for number in changed:
                part = {key: step for key, step in after.requested.items() if numbers.get(key) == number}
                records[requested_key(self._cluster, before.id, number)] = encode_requested(part)
        if after.state != before.state and (
            with_concurrency or replace(after.state, concurrency=before.state.concurrency) != before.state
        ):
            records[state_key(self._cluster, before.id)] = encode_state(after.state)
        if not after.is_active:
            records |= tombstones(self._cluster, before.id, before.head.part_records)
            ended = [plan.id for plan in self.book.plans if not plan.is_active]
            # The book does not contain the end of this plan yet, so one is added.
            for old in ended[: max(0, len(ended) + 1 - PLANS_KEPT)]:
                records |= {head_key(self._cluster, old): None, state_key(self._cluster, old): None}
            self._record_numbers.pop(before.id, None)
        return records

    def _record_numbers_of(self, plan: Plan) -> dict[TopicPartition, int]:
        if plan.id not in self._record_numbers:
            self._record_numbers[plan.id] = {
                key: number for number, part in enumerate(split_into_parts(plan.partitions)) for key in part
            }
        return self._record_numbers[plan.id]


def _log_changes(before: Plan, decision: PlanDecision, now_ms: int) -> None:
    after = decision.plan
    if before.state.acknowledged_at_ms < after.state.acknowledged_at_ms:
        starts = f", starts {moment(after.head.not_before_ms)}" if after.head.waits_for_start(now_ms) else ""
        log.info(
            f"plan {after.id}: {after.head.desired.value}{starts}", by=after.head.ordered_by or after.head.submitted_by
        )
    for step in decision.starts[:_LINES_MAX]:
        log.info(
            f"plan {after.id}: moves {step.topic}-{step.partition} to brokers {list(step.replicas)}",
            action="reassign",
            reason=step.reason.value,
        )
    if len(decision.starts) > _LINES_MAX:
        log.info(f"plan {after.id}: {more_text(len(decision.starts) - _LINES_MAX, 'steps')}")
    if decision.cancels:
        log.info(f"plan {after.id}: stopping {len(decision.cancels)} running steps", action="cancel")
    for line in after.state.blockers:
        if line not in before.state.blockers:
            log.warning(f"plan {after.id}: {line}")
    if after.state.ending is not None:
        log.info(f"plan {after.id}: {after.state.ending.value}", dropped=len(after.state.dropped))


def _texts_by_cause(causes: Mapping[TopicPartition, str]) -> list[str]:
    """Returns one line for each of the most frequent causes, with the number of its steps."""
    texts = []
    for why, _ in Counter(causes.values()).most_common(_LINES_MAX):
        names = join_names((f"{topic}-{number}" for (topic, number), cause in causes.items() if cause == why), 1)
        texts.append(f"the step of {names}: {why}")
    return texts
