"""What of plans is on record, and what failed so that it is tried again later.

As with the throttles: what is asked for is on record before it is asked, with the reason; and where the journal takes no
record nothing is asked. What the journal took is put into the book by the same way by which the next life reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from streaming.shared.short_lists import join_names, more_text
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

PLANS_KEPT = 20  # That have ended, for those who ask how.
HEADLESS_S_MAX = 3600.0  # Whoever gives a plan writes its head within seconds after the parts.
_LINES_MAX = 5


class ReassignmentRecorder:
    """``book`` holds all plans; what is made of them comes back through ``record``."""

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
            outbox: what has happened and is not in the journal yet; all recorders of a leadership term share it.
        """
        self.book = book
        self._journal = journal
        self._cluster = cluster
        self._clock = clock
        self._numbers: dict[str, dict[TopicPartition, int]] = {}  # Which record of its plan a part is in.
        self._backoff: Backoff[TopicPartition] = Backoff(clock.monotonic_s)
        self._refused: dict[TopicPartition, str] = {}  # Why the last try failed.
        self._headless_since_s: dict[str, float] = {}
        self._outbox = outbox if outbox is not None else Outbox()

    @property
    def active_plans(self) -> tuple[Plan, ...]:
        return tuple(plan for plan in self.book.plans if plan.is_active)

    def record(self, before: Sequence[Plan], made: ExecutorDecision, why: Mapping[str, object]) -> None:
        """What a cycle has found out and is about to ask for.

        Args:
            before: the plans as they are on record, in the order of those of ``made``.
            why: what the steps stood on besides the plan.

        Raises:
            JournalError: nothing of it is on record, and nothing of it is so.
        """
        changes = made.admission.concurrency.changes
        found = [concurrency_entry(changes, self._clock.now_ms())]
        records: dict[bytes, bytes | None] = {}
        for plan, each in zip(before, made.plans, strict=True):
            found += [
                outcome_entry(plan, each, self._clock.now_ms()),
                steps_entry(plan, each, self._clock.now_ms(), why),
            ]
            records |= self._records(plan, each.plan, said=bool(changes))
        self._write([entry for entry in found if entry is not None], records)
        for change in changes[:_LINES_MAX]:
            log.info(change.text, action="concurrency", reason=change.reason.value)
        for plan, each in zip(before, made.plans, strict=True):
            self._tell(plan, each)
            self._went_well(each)
        self._keep_refused(made.plans)

    def _went_well(self, made: PlanDecision) -> None:
        for key in made.progress.reached:
            self._backoff.succeed(key)

    def _keep_refused(self, made: Sequence[PlanDecision]) -> None:
        """Of what is still to be tried; a step that is under way was taken after all, though its stop may not have been."""
        if not self._refused:
            return
        tried = set[TopicPartition]()
        for each in made:
            stopping = [key for key in each.progress.running if each.plan.requested[key].cancel_requested]
            tried.update(each.progress.ready, each.progress.to_elect, each.progress.unconfirmed, stopping)
        self._refused = {key: why for key, why in self._refused.items() if key in tried}

    def note_accepted(self, keys: Iterable[TopicPartition]) -> None:
        """Kafka has said so."""
        for key in keys:
            self._refused.pop(key, None)

    def record_failures(
        self,
        plans: Sequence[Plan],
        after: Sequence[Plan],
        failures: Mapping[TopicPartition, StepRefusal],
        waits: Mapping[TopicPartition, str],
        rests: Collection[TopicPartition] = (),
    ) -> None:
        """On record and told once a cause; of what Kafka refused, and of what waits, nothing is under way.

        Args:
            failures: tried again later each time.
            waits: what was kept back though nothing has failed; the next look goes on with it.
            rests: of that, what is looked at again only after the shortest pause, however often.

        Raises:
            JournalError: the entries go on record with what the journal takes next.
        """
        if not failures and not waits:
            return
        for key in failures:
            self._backoff.fail(key)
        for key in rests:
            self._backoff.pause_once(key)
        self._refused |= {key: refusal.why for key, refusal in failures.items()}
        for said in _by_cause({key: refusal.why for key, refusal in failures.items()}):
            log.error(f"not done: {said}")
        for said in _by_cause(waits):
            log.info(f"waits: {said}")
        records: dict[bytes, bytes | None] = {}
        for plan, later in zip(plans, after, strict=True):
            records |= self._records(plan, later, said=False)
        if failures:
            self._outbox.entries.append(failed_entry(failures, self._clock.now_ms()))
        if waits:
            self._outbox.entries.append(deferred_entry(waits, self._clock.now_ms()))
        self._write([], records)

    def delete_headless_parts(self) -> None:
        """Takes parts off the record whose plan has had no head for long.

        Raises:
            JournalError
        """
        now_s, found = self._clock.monotonic_s(), self.book.parts_without_head
        since_s = self._headless_since_s = {plan: self._headless_since_s.get(plan, now_s) for plan in found}
        for plan, parts in found.items():
            if now_s - since_s[plan] > HEADLESS_S_MAX:
                self._write([], tombstones(self._cluster, plan, parts))
                log.info("parts of a plan that was never given whole are off the record", plan=plan, records=parts)

    @property
    def backing_off(self) -> frozenset[TopicPartition]:
        return self._backoff.paused()

    @property
    def refusals(self) -> Mapping[TopicPartition, str]:
        """Why the last try of these failed; what was taken since, or is not to be tried any more, is not among them."""
        return dict(self._refused)

    def _write(self, entries: Sequence[Entry], records: Mapping[bytes, bytes | None]) -> None:
        """With what has happened since the last time: all of it, or nothing."""
        if not entries and not records and not self._outbox.entries:
            return
        self._journal.write((*self._outbox.entries, *entries), beside=records)
        self._outbox.entries.clear()
        for key, value in records.items():
            self.book.take(key, value)

    def _records(self, before: Plan, after: Plan, *, said: bool) -> dict[bytes, bytes | None]:
        """``said``: also why so many run at a time, which changes too often to be worth a record of its own."""
        records: dict[bytes, bytes | None] = {}
        if after.requested != before.requested:
            numbers = self._numbers_of(before)
            changed = {
                numbers[key]
                for key in before.requested.keys() | after.requested.keys()
                if key in numbers and before.requested.get(key) != after.requested.get(key)
            }
            for number in changed:
                some = {key: a for key, a in after.requested.items() if numbers.get(key) == number}
                records[requested_key(self._cluster, before.id, number)] = encode_requested(some)
        if after.state != before.state and (
            said or replace(after.state, concurrency=before.state.concurrency) != before.state
        ):
            records[state_key(self._cluster, before.id)] = encode_state(after.state)
        if not after.is_active:
            records |= tombstones(self._cluster, before.id, before.head.part_records)
            ended = [plan.id for plan in self.book.plans if not plan.is_active]
            for old in ended[: max(0, len(ended) + 1 - PLANS_KEPT)]:
                records |= {head_key(self._cluster, old): None, state_key(self._cluster, old): None}
            self._numbers.pop(before.id, None)
        return records

    def _numbers_of(self, plan: Plan) -> dict[TopicPartition, int]:
        if plan.id not in self._numbers:
            self._numbers[plan.id] = {
                key: n for n, some in enumerate(split_into_parts(plan.partitions)) for key in some
            }
        return self._numbers[plan.id]

    def _tell(self, before: Plan, made: PlanDecision) -> None:
        after = made.plan
        if before.state.acknowledged_at_ms < after.state.acknowledged_at_ms:
            log.info(
                f"plan {after.id}: {after.head.desired.value}", by=after.head.ordered_by or after.head.submitted_by
            )
        for step in made.starts[:_LINES_MAX]:
            log.info(
                f"plan {after.id}: {step.topic}-{step.partition} to {list(step.replicas)}",
                action="reassign",
                reason=step.reason.value,
            )
        if len(made.starts) > _LINES_MAX:
            log.info(f"plan {after.id}: {more_text(len(made.starts) - _LINES_MAX, 'steps')}")
        if made.cancels:
            log.info(f"plan {after.id}: {len(made.cancels)} steps under way are stopped", action="cancel")
        for line in after.state.blockers:
            if line not in before.state.blockers:
                log.warning(f"plan {after.id}: {line}")
        if after.state.ending is not None:
            log.info(f"plan {after.id}: {after.state.ending.value}", dropped=len(after.state.dropped))


def _by_cause(steps: Mapping[TopicPartition, str]) -> list[str]:
    said = []
    for why, _ in Counter(steps.values()).most_common(_LINES_MAX):
        names = join_names((f"{topic}-{number}" for (topic, number), cause in steps.items() if cause == why), 1)
        said.append(f"the step of {names}: {why}")
    return said
