"""What is on record: every decision, everything that is ours, and what failed so that it is tried again later.

The order of things that the loop relies on is kept here:

    what is ours is on record before it becomes true
    where the journal does not take a record, nothing is done: an act nobody can trace would be one nobody can undo
    what has happened is so, whatever the journal takes: it waits (journal/outbox.py), and goes with the next record that is taken

A dry run owns nothing and puts nothing back, so it must not write over the memory that a real run has on record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol

import structlog

from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.decision import (
    AddPairs,
    AllowSteering,
    ClearLists,
    Decision,
    Hold,
    Reason,
    Relinquish,
    RemovePairs,
    SetRate,
    action_of,
)
from tuner.control.throttle.order_events import expired, ordered
from tuner.control.throttle.ownership import let_go
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.backoff import RETRY_S_MAX, RETRY_S_MIN
from tuner.core.cluster import BrokerSide, Observation
from tuner.core.operator_orders import Orders
from tuner.core.outcome import Failure
from tuner.core.throttle_limits import Limits
from tuner.journal.decision_inputs import DecisionInputs
from tuner.journal.entries import ORDER, Entry, entry_of, order_entry, turn_entry
from tuner.journal.event_lines import about, event_text, events
from tuner.journal.input_log import InputLog
from tuner.journal.moving_replicas_records import MovingReplicasByTopic
from tuner.journal.outbox import Outbox

log = structlog.get_logger("tuner")

Listed = Mapping[str, TopicThrottle]


class Journal(Protocol):
    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        memory: Memory | None = None,
        owned: Mapping[BrokerSide, OwnedRate] | None = None,
        seen: Mapping[str, Mapping[int, frozenset[int]]] | None = None,
        listed: Mapping[str, TopicThrottle] | None = None,
    ) -> None:
        """All of it, or nothing; ``owned``, ``seen`` and ``listed`` (by topic) are newer than the memory written last."""


class ThrottleRecorder:
    """``memory`` is what is remembered now; what is made of it comes back through ``record``."""

    def __init__(
        self,
        journal: Journal,
        memory: Memory,
        limits: Limits,
        *,
        wall_clock: Callable[[], float],
        monotonic: Callable[[], float],
        dry_run: bool,
        inputs: InputLog | None = None,
        owed: Outbox | None = None,
    ) -> None:
        """
        Args:
            inputs: is told of every cycle; what it makes of that goes with the journal's next write.
            owed: what has happened and is not on record yet; what a term leaves there the next one records.
        """
        self._owed = owed if owed is not None else Outbox()
        self.memory = self._owed.as_it_is(memory)
        self._journal = journal
        self._limits = limits
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._dry_run = dry_run
        self._inputs = inputs
        self._said: dict[tuple[object, ...], Reason] = {}
        self._pauses: dict[tuple[object, ...], tuple[float, float]] = {}  # Subject → (until, how long), of failed acts.
        self._saved: Memory | None = None
        self._seen = MovingReplicasByTopic()
        self._stood: DecisionInputs | None = None  # What the last entries stood on.
        self._noted = False  # Whether a cycle is on record.

    def record(self, entries: Sequence[Entry] = (), memory: Memory | None = None) -> None:
        """On record first, then ours. What is measured anew after a restart is not worth a record.

        Raises:
            JournalError: nothing of it is on record, and nothing of it is so.
        """
        if memory is None:
            self._write(entries)
            return
        saved = self._saved
        if self._dry_run:
            self._write(entries)
        elif saved is None or memory.seen.keys() < saved.seen.keys() or _kept(memory) != _kept(saved, memory):
            self._write(entries, memory=memory)
            self._saved = memory
        elif memory.seen is not saved.seen or memory.listed is not saved.listed:
            listed = _relisted(memory.listed, saved.listed)
            self._write(entries, seen=self._seen.grown(saved.seen, memory.seen), listed=listed)
            self._saved = memory
        else:
            self._write(entries)
        self.memory = memory

    def record_owned(self, entries: Sequence[Entry], memory: Memory, sides: Collection[BrokerSide]) -> None:
        """The same where ``memory`` differs from what is on record by what is owned on ``sides`` alone."""
        if self._dry_run or self._saved is None:
            self.record(entries, memory)
            return
        owned = {side: memory.owned[side] for side in sides}
        self._write(entries, owned=owned)
        self._saved = replace(self._saved, owned={**self._saved.owned, **owned})
        self.memory = memory

    def happened(self, entry: Entry, memory: Memory | None = None, side: BrokerSide | None = None) -> None:
        """Goes with the next record that the journal takes, before what that is about.

        Args:
            memory: what it makes of what is remembered; it holds at once, as it says no more of what may stand than what is on
                record.
            side: the one whose rate it is about, if it is about one.
        """
        self._owed.entries.append(entry)
        self._became(memory if memory is not None else self.memory, side)

    def settle(self) -> None:
        """What has happened goes on record, if anything has.

        Raises:
            JournalError: it goes with the next record.
        """
        if self._owed.entries:
            self.record(memory=self.memory)

    def note(
        self,
        decisions: Sequence[Decision],
        observation: Observation,
        memory: Memory,
        overtaken: Sequence[Orders] = (),
    ) -> None:
        """A cycle's word: a line for people for each decision, and a record of those that nothing follows; what only repeats
        is neither. ``memory`` goes on record with them.

        Args:
            overtaken: orders that were in force for a while since the last word, and that nobody has acted on.
        """
        if self._inputs is not None:
            self._inputs.cycle(observation, self.memory, memory, decisions)
        self._stood = None
        said: dict[tuple[object, ...], Reason] = {}
        now_ms, ordered_now = observation.now_ms, observation.orders
        given, told_ms = [self.memory.ordered, *overtaken, ordered_now], self.memory.ordered_until_ms
        if self._dry_run and not self._noted:
            # It puts nothing on record of what it remembers, so what was before its first cycle the one before may have told.
            given, told_ms = [ordered_now], None
        since_ms = now_ms if told_ms is None else told_ms
        news = [each for before, after in pairwise(given) for each in ordered(before, after, since_ms, now_ms)]
        news += expired(ordered_now, since_ms, now_ms)
        if news or told_ms is None or memory.ordered != ordered_now:
            memory = replace(memory, ordered=ordered_now, ordered_until_ms=now_ms)
        entries, lines = [order_entry(each, now_ms) for each in news], []
        for decision in decisions:
            subject = subject_of(decision)
            repeats = self._said.get(subject) is decision.reason
            # A real act is told each time it is tried; a dry run would say it every cycle, as nothing comes of it.
            if not (repeats and (isinstance(decision, Hold | AllowSteering) or self._dry_run)):
                kind = "decision" if isinstance(decision, Hold | Relinquish | AllowSteering) else "intent"
                if kind == "decision" or self._dry_run:
                    entries.append(self._entry(kind, decision, self._stood_on(decision, observation, memory)))
                lines.append(decision)
            said[subject] = decision.reason
        self.record(entries, memory)
        self._said, self._noted = said, True
        for some in events(order_entry(each, now_ms) for each in news):
            log.info(event_text(some), action=ORDER, **about(some))
        self.tell(lines)

    # -- the form of a record -----------------------------------------------------------------------------------------

    def intent(self, decision: Decision, observation: Observation | None = None) -> Entry:
        inputs = self._stood_on(decision, observation, self.memory) if observation is not None else {}
        return self._entry("intent", decision, inputs)

    def turn(self, changes: Sequence[SetRate]) -> Entry:
        """The intents of one second of the law, which belong together and would be many, as one."""
        return turn_entry(changes, self._now_ms())

    def outcome(self, decision: Decision, failure: Failure | None) -> Entry:
        return self._entry("outcome", decision, {}, failure)

    def tell(self, decisions: Sequence[Decision]) -> None:
        """Logs a line for each event."""
        for some in events(entry_of("", decision, 0) for decision in decisions):
            first = some[0]
            log.info(event_text(some), action=first.action, reason=first.reason, dry_run=self._dry_run, **about(some))

    # -- what is somebody else's now -------------------------------------------------------------------------------------

    def let_go(self, side: BrokerSide, found: int | None) -> None:
        """Between two cycles, and at once: it is theirs before that is on record, too. Where it was not ours there is nothing to
        let go of."""
        if side in self.memory.owned:
            memory, changed = let_go(side, found, self.memory, self._now_ms(), self._limits)
            self._owed.given_up.append(self._entry("decision", changed, {}))
            self._became(memory, side)
            self.tell([changed])

    # -- what failed --------------------------------------------------------------------------------------------------

    def pausing(self, decision: Decision) -> bool:
        until_s, _ = self._pauses.get(subject_of(decision), (0.0, 0.0))
        return self._monotonic() < until_s

    def back_off(self, decision: Decision) -> None:
        """What failed is tried again, later each time: a right that is missing is not there five seconds later."""
        _, before_s = self._pauses.get(subject_of(decision), (0.0, 0.0))
        pause_s = min(RETRY_S_MAX, max(RETRY_S_MIN, 2 * before_s))
        self._pauses[subject_of(decision)] = (self._monotonic() + pause_s, pause_s)

    def went_well(self, decision: Decision) -> None:
        self._pauses.pop(subject_of(decision), None)

    def _write(self, entries: Sequence[Entry], **more: Any) -> None:
        """With what has happened since the last time: all of it, or nothing. What was given up goes with all that is remembered."""
        owed, whole = self._owed, "memory" in more
        self._journal.write((*owed.entries, *(owed.given_up if whole else ()), *entries), **more)
        owed.entries.clear()
        if whole:
            owed.given_up.clear()
            owed.rates.clear()
        for side in more.get("owned", ()):
            owed.rates.pop(side, None)

    def _became(self, memory: Memory, side: BrokerSide | None) -> None:
        if side is not None and memory is not self.memory:
            self._owed.became(side, self.memory, memory)
        self.memory = memory

    def _now_ms(self) -> int:
        return round(self._wall_clock() * 1000)

    def _entry(self, kind: str, decision: Decision, inputs: Mapping[str, Any], failure: Failure | None = None) -> Entry:
        return entry_of(kind, decision, self._now_ms(), inputs=inputs, failure=failure, dry_run=self._dry_run)

    def _stood_on(self, decision: Decision, observation: Observation, memory: Memory) -> dict[str, Any]:
        """What the decision stood on, as far as it is about one side."""
        if not isinstance(decision, Hold | SetRate | AllowSteering) or decision.broker is None or decision.side is None:
            return {}
        if self._stood is None or not self._stood.is_about(observation, memory):
            self._stood = DecisionInputs(observation, memory, self._limits)
        return self._stood.of((decision.broker, decision.side))


def subject_of(decision: Decision) -> tuple[object, ...]:
    """What a decision is about, so that the next one about it can be told from a repetition."""
    if isinstance(decision, ClearLists):
        return ("lists", decision.topic)
    if isinstance(decision, AddPairs | RemovePairs):
        return ("pairs", decision.topic, action_of(decision))
    return (decision.broker, decision.side, decision.reason if decision.broker is None else None)


def _relisted(listed: Listed, before: Listed) -> dict[str, TopicThrottle]:
    """The topics on whose lists something else is ours than before; of some it is nothing any more."""
    changed = {topic: pairs for topic, pairs in listed.items() if before.get(topic) is not pairs}
    return changed | {topic: TopicThrottle() for topic in before if topic not in listed}


def _kept(memory: Memory, newer: Memory | None = None) -> Memory:
    """The part that is on record whole: without what is measured anew after a restart, nor what has records by topic."""
    newer = newer or memory
    return replace(memory, stalls={}, idle_looks=0, missing=frozenset(), seen=newer.seen, listed=newer.listed)
