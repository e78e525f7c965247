"""Writes the throttle controller's decisions and memory to the journal, and pauses retries after failures.

The controller relies on three guarantees:

1. The journal names a throttle as managed before Kafka has it.
2. If the journal refuses a record, the controller writes nothing to Kafka.
3. An outcome changes the memory at once. Its entry waits in the outbox (journal/outbox.py) for the next accepted record.

A dry run manages no throttle, so it never overwrites the memory that a real run has written to the journal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol

import structlog

from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.decision import (
    WITHOUT_WRITE,
    AddPairs,
    AllowSteering,
    ClearLists,
    Decision,
    FollowSchedule,
    Hold,
    Reason,
    RemovePairs,
    SetRate,
    action_of,
)
from tuner.control.throttle.order_events import list_expired_orders, list_order_events
from tuner.control.throttle.ownership import relinquish_rate
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.backoff import Backoff
from tuner.core.cluster import BrokerSide, Observation
from tuner.core.operator_orders import Orders
from tuner.core.outcome import Failure
from tuner.core.throttle_limits import ThrottleLimits
from tuner.journal.decision_inputs import DecisionInputs
from tuner.journal.entries import ORDER, Entry, entry_of, order_entry, steering_entry
from tuner.journal.event_lines import event_text, group_by_event, log_fields
from tuner.journal.input_log import InputLog
from tuner.journal.moving_replicas_records import MovingReplicasByTopic
from tuner.journal.outbox import Outbox
from tuner.runtime.clock import Clock

log = structlog.get_logger("tuner")

ListsByTopic = Mapping[str, TopicThrottle]
Subject = tuple[object, ...]  # The subject of a decision, such as a side or a topic: see ``subject_of``.


class Journal(Protocol):
    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        memory: Memory | None = None,
        owned: Mapping[BrokerSide, OwnedRate] | None = None,
        moving_replicas: Mapping[str, Mapping[int, frozenset[int]]] | None = None,
        listed: Mapping[str, TopicThrottle] | None = None,
    ) -> None:
        """Writes all arguments or nothing.

        ``owned``, ``moving_replicas`` and ``listed`` are the parts that have changed since the last write of the whole memory.
        """


class ThrottleRecorder:
    """Holds the controller's current memory; ``record`` replaces it."""

    def __init__(
        self,
        journal: Journal,
        memory: Memory,
        limits: ThrottleLimits,
        clock: Clock,
        *,
        dry_run: bool,
        inputs: InputLog | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        """
        Args:
            inputs: receives the inputs of every cycle; they are written together with the journal's next record.
            outbox: events that are not in the journal yet. If any remain at the end, the next leadership term records them.
        """
        self._outbox = outbox if outbox is not None else Outbox()
        self.memory = self._outbox.apply_to(memory)
        self._journal = journal
        self.limits = limits
        self._clock = clock
        self._dry_run = dry_run
        self._inputs = inputs
        self._last_reasons: dict[Subject, Reason] = {}
        self._backoff: Backoff[Subject] = Backoff(clock.monotonic_s)
        self._saved: Memory | None = None  # The memory that the journal holds; None if it is not known yet.
        self._moving_replicas = MovingReplicasByTopic()
        self._decision_inputs: DecisionInputs | None = None  # The inputs of the last entries, cached.
        self._has_noted = False  # Whether at least one cycle is in the journal.

    def record(self, entries: Sequence[Entry] = (), memory: Memory | None = None) -> None:
        """Writes entries and the changed parts of ``memory``, and then makes it the current memory.

        Parts of the memory that are measured again after a restart are not written.

        Raises:
            JournalError: nothing was written, and the memory is unchanged.
        """
        if memory is None:
            self._write(entries)
            return
        saved = self._saved
        if self._dry_run:
            self._write(entries)
        elif (
            saved is None
            or memory.moving_replicas.keys() < saved.moving_replicas.keys()  # Records by topic can only add replicas.
            or not _equal_without_parts(memory, saved)
        ):
            self._write(entries, memory=memory)
            self._saved = memory
        elif memory.moving_replicas is not saved.moving_replicas or memory.listed is not saved.listed:
            listed = _changed_lists(memory.listed, saved.listed)
            self._write(
                entries,
                moving_replicas=self._moving_replicas.grown_topics(saved.moving_replicas, memory.moving_replicas),
                listed=listed,
            )
            self._saved = memory
        else:
            self._write(entries)
        self.memory = memory

    def record_owned(self, entries: Sequence[Entry], memory: Memory, sides: Collection[BrokerSide]) -> None:
        """Does the same as ``record``, but writes only the managed rates of ``sides``. Nothing else may have changed.

        Raises:
            JournalError: nothing was written, and the memory is unchanged.
        """
        if self._dry_run or self._saved is None:
            self.record(entries, memory)
            return
        owned = {side: memory.owned[side] for side in sides}
        self._write(entries, owned=owned)
        self._saved = replace(self._saved, owned={**self._saved.owned, **owned})
        self.memory = memory

    def add_outcome(self, entry: Entry, memory: Memory | None = None, side: BrokerSide | None = None) -> None:
        """Puts an entry into the outbox. It is written with the next record, before that record's own entries.

        Args:
            memory: the memory after the outcome; it becomes the current memory at once. This is safe, because an outcome only
                narrows the set of possible values that the journal already names.
            side: the side whose rate changed; None if the entry is not about a rate.
        """
        self._outbox.entries.append(entry)
        self._change_memory(memory if memory is not None else self.memory, side)

    def flush_outbox(self) -> None:
        """Writes the entries of the outbox, if there are any.

        Raises:
            JournalError: the entries stay in the outbox.
        """
        if self._outbox.entries:
            self.record(memory=self.memory)

    def record_cycle(
        self,
        decisions: Sequence[Decision],
        observation: Observation,
        memory: Memory,
        superseded: Sequence[Orders] = (),
    ) -> None:
        """Records a cycle: entries for new orders and for decisions without a write, and a log line for each new decision.

        A decision that repeats a decision of the last cycle is neither recorded nor logged. ``memory`` is written with the entries.

        Args:
            superseded: orders that were replaced since the last cycle before any cycle could act on them.

        Raises:
            JournalError: nothing was written, and the memory is unchanged.
        """
        if self._inputs is not None:
            self._inputs.record_cycle(observation, self.memory, memory, decisions)
        self._decision_inputs = None
        memory, order_entries = self._order_entries(observation, memory, superseded)
        entries, lines = list(order_entries), []
        reasons: dict[Subject, Reason] = {}
        for decision in decisions:
            subject = subject_of(decision)
            # After the end of one rule of the schedule, another rule may end, so this decision never repeats an earlier one.
            repeats = self._last_reasons.get(subject) is decision.reason and not isinstance(decision, FollowSchedule)
            # A real write is logged each time it is tried. A dry run would log it every cycle, because it changes nothing.
            if not (repeats and (isinstance(decision, Hold | AllowSteering) or self._dry_run)):
                kind = "decision" if isinstance(decision, WITHOUT_WRITE) else "intent"
                if kind == "decision" or self._dry_run:
                    entries.append(self._entry(kind, decision, self._inputs_of(decision, observation, memory)))
                lines.append(decision)
            reasons[subject] = decision.reason
        self.record(entries, memory)
        self._last_reasons, self._has_noted = reasons, True
        for group in group_by_event(order_entries):
            log.info(event_text(group), action=ORDER, **log_fields(group))
        self.log_decisions(lines)

    def _order_entries(
        self, observation: Observation, memory: Memory, superseded: Sequence[Orders]
    ) -> tuple[Memory, list[Entry]]:
        """Returns the memory with the current orders, and an entry for each order that is new or expired since the last record."""
        now_ms, current = observation.now_ms, observation.orders
        orders = [self.memory.recorded_orders, *superseded, current]
        recorded_until_ms = self.memory.orders_recorded_until_ms
        if self._dry_run and not self._has_noted:
            # A dry run writes no memory. So in its first cycle, a dry run cannot know which orders an earlier run has recorded.
            orders, recorded_until_ms = [current], None
        since_ms = now_ms if recorded_until_ms is None else recorded_until_ms
        events = [
            event for before, after in pairwise(orders) for event in list_order_events(before, after, since_ms, now_ms)
        ]
        events += list_expired_orders(current, since_ms, now_ms)
        if events or recorded_until_ms is None or memory.recorded_orders != current:
            memory = replace(memory, recorded_orders=current, orders_recorded_until_ms=now_ms)
        return memory, [order_entry(event, now_ms) for event in events]

    # -- entries --------------------------------------------------------------------------------------------------------

    def intent(self, decision: Decision, observation: Observation | None = None) -> Entry:
        """Returns the entry that precedes a write, with its inputs if ``observation`` is given."""
        inputs = self._inputs_of(decision, observation, self.memory) if observation is not None else {}
        return self._entry("intent", decision, inputs)

    def steering_intent(self, changes: Sequence[SetRate]) -> Entry:
        """Returns one entry for all rate changes of the control law in one second."""
        return steering_entry(changes, self._clock.now_ms())

    def outcome(self, decision: Decision, failure: Failure | None) -> Entry:
        """Returns the entry that follows a write."""
        return self._entry("outcome", decision, {}, failure)

    def log_decisions(self, decisions: Sequence[Decision]) -> None:
        """Logs decisions; decisions with the same action and reason share a line."""
        for group in group_by_event(entry_of("", decision, 0) for decision in decisions):
            first = group[0]
            log.info(
                event_text(group), action=first.action, reason=first.reason, dry_run=self._dry_run, **log_fields(group)
            )

    # -- external changes -----------------------------------------------------------------------------------------------

    def relinquish(self, side: BrokerSide, current_bytes_per_s: int | None) -> None:
        """Stops managing a side between two cycles, because an operator or a tool has changed its rate.

        This takes effect at once, before it is in the journal. A side that is not managed is skipped.

        Args:
            current_bytes_per_s: the rate that Kafka has now; None if no rate is set.
        """
        if side in self.memory.owned:
            memory, decision = relinquish_rate(
                side, current_bytes_per_s, self.memory, self._clock.now_ms(), self.limits
            )
            self._outbox.relinquished.append(self._entry("decision", decision, {}))
            self._change_memory(memory, side)
            self.log_decisions([decision])

    # -- failures -------------------------------------------------------------------------------------------------------

    def is_paused(self, decision: Decision) -> bool:
        """Returns whether a write about the same subject has failed and still waits for its next attempt."""
        return self._backoff.is_paused(subject_of(decision))

    def back_off(self, decision: Decision) -> None:
        """Pauses writes about the same subject after a failure; the pause doubles with each failure."""
        self._backoff.fail(subject_of(decision))

    def succeed(self, decision: Decision) -> None:
        """Ends the pause after a write that succeeded."""
        self._backoff.succeed(subject_of(decision))

    def _write(self, entries: Sequence[Entry], **more: Any) -> None:
        """Writes the outbox and the entries, or nothing. Entries of relinquished sides are written only with a whole memory."""
        outbox, is_whole = self._outbox, "memory" in more
        self._journal.write((*outbox.entries, *(outbox.relinquished if is_whole else ()), *entries), **more)
        outbox.entries.clear()
        if is_whole:
            outbox.relinquished.clear()
            outbox.outcomes.clear()
        for side in more.get("owned", ()):
            outbox.outcomes.pop(side, None)

    def _change_memory(self, memory: Memory, side: BrokerSide | None) -> None:
        if side is not None and memory is not self.memory:
            self._outbox.record_outcome(side, self.memory, memory)
        self.memory = memory

    def _entry(self, kind: str, decision: Decision, inputs: Mapping[str, Any], failure: Failure | None = None) -> Entry:
        return entry_of(kind, decision, self._clock.now_ms(), inputs=inputs, failure=failure, dry_run=self._dry_run)

    def _inputs_of(self, decision: Decision, observation: Observation, memory: Memory) -> dict[str, Any]:
        """Returns the inputs of a decision about one side; an empty dictionary for other decisions."""
        if not isinstance(decision, Hold | SetRate | AllowSteering) or decision.broker is None or decision.side is None:
            return {}
        if self._decision_inputs is None or not self._decision_inputs.is_about(observation, memory):
            self._decision_inputs = DecisionInputs(observation, memory, self.limits)
        return self._decision_inputs.for_side((decision.broker, decision.side))


def subject_of(decision: Decision) -> Subject:
    """Returns the subject of a decision. A decision with the same subject and reason as one of the last cycle is a repetition.

    Several decisions of one cycle may be about the whole cluster, so their reason is a part of the subject.
    """
    if isinstance(decision, ClearLists):
        return ("lists", decision.topic)
    if isinstance(decision, AddPairs | RemovePairs):
        return ("pairs", decision.topic, action_of(decision))
    return (decision.broker, decision.side, decision.reason if decision.broker is None else None)


def _changed_lists(listed: ListsByTopic, before: ListsByTopic) -> dict[str, TopicThrottle]:
    """Returns the managed list entries of each topic whose entries have changed; empty for a topic that has no entries any more."""
    changed = {topic: pairs for topic, pairs in listed.items() if before.get(topic) is not pairs}
    return changed | {topic: TopicThrottle() for topic in before if topic not in listed}


def _equal_without_parts(memory: Memory, saved: Memory) -> bool:
    """Returns whether two memories have the same record of the whole memory.

    Two kinds of parts are not in that record: values that are measured again after a restart, and lists, which have one record per
    topic.
    """
    return memory == replace(
        saved,
        stalls=memory.stalls,
        idle_snapshots=memory.idle_snapshots,
        missing_rates=memory.missing_rates,
        listed_topics=memory.listed_topics,
        moving_replicas=memory.moving_replicas,
        listed=memory.listed,
    )
