"""Throttles moves that no tool has throttled: sets a rate on each side that needs one, then edits the throttled-replica lists.

A side is a broker in its role as leader or as follower of the replicas that move.

Two guarantees hold even if a write fails. A side gets its rate before one of its replicas is listed, because listed replicas
without a rate are unlimited. The journal names a replica as managed before it is added to a list, and until it has been removed
from the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import structlog

from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.decision import AddPairs, Decision, ExecutedDecision, Reason, RemovePairs, StartRate
from tuner.control.throttle.replica_lists.list_rules import record_pairs_to_add, record_removed_pairs, without_sides
from tuner.control.throttle.replica_lists.prepared_moves import FailedThrottles
from tuner.control.throttle.write_intents import record_start_intent, record_success
from tuner.core.cluster import BrokerSide
from tuner.core.outcome import Failure
from tuner.journal import list_records
from tuner.journal.entries import lists_entry
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.actuator import Throttles
from tuner.runtime.throttle.recorder import ThrottleRecorder

log = structlog.get_logger("tuner")


class ActObserver(Protocol):
    """Receives writes to Kafka and their outcomes."""

    def record_actions(self, acts: Sequence[ExecutedDecision]) -> None:
        """Receives writes that were made together, as one event."""


class ReplicaListWriter:
    def __init__(
        self,
        throttles: Throttles,
        recorder: ThrottleRecorder,
        observer: ActObserver,
        clock: Clock,
    ) -> None:
        self._throttles = throttles
        self._recorder = recorder
        self._observer = observer
        self._clock = clock

    def carry_out(self, decisions: Sequence[Decision]) -> FailedThrottles:
        """Carries out the list edits and first rates of a cycle. Returns the topics and sides where a write failed.

        Raises:
            JournalError: the journal cannot be written. Changes that are not recorded in the journal were not made.
        """
        removals = [d for d in decisions if isinstance(d, RemovePairs)]
        starts = [d for d in decisions if isinstance(d, StartRate)]
        adds = [d for d in decisions if isinstance(d, AddPairs)]
        unset: set[BrokerSide] = set()
        if starts:
            # Replicas of a side may be listed only once the side has a rate, so rates come before additions. Removals come first,
            # because they make room on lists that are full.
            self._edit(removals, adds=())
            unset, removals = self._start_rates(starts), []
        unlisted = self._edit(removals, without_sides(adds, unset))
        self._recorder.flush_outbox()
        return FailedThrottles(topics=frozenset(unlisted), sides=frozenset(unset))

    def _start_rates(self, starts: Sequence[StartRate]) -> set[BrokerSide]:
        """Sets all rates together. Returns the sides that did not get their rate."""
        unset = {(d.broker, d.side) for d in starts if self._recorder.is_paused(d)}
        unset |= self._find_sides_with_rate({(d.broker, d.side) for d in starts} - unset)
        starts = [d for d in starts if (d.broker, d.side) not in unset]
        if not starts:
            return unset
        memory = self._recorder.memory
        for start in starts:
            memory = record_start_intent(memory, start)
        self._recorder.record([self._recorder.intent(start) for start in starts], memory)
        failures = self._write_rates({(d.broker, d.side): d.value_bytes_per_s for d in starts})
        self._report([(start, failures[(start.broker, start.side)]) for start in starts])
        for start in starts:
            failure = failures[(start.broker, start.side)]
            settled = record_success(self._recorder.memory, start) if failure is None else None
            self._recorder.add_outcome(self._recorder.outcome(start, failure), settled, (start.broker, start.side))
        return unset | {side for side, failure in failures.items() if failure is not None}

    def _find_sides_with_rate(self, sides: set[BrokerSide]) -> set[BrokerSide]:
        """Returns the sides that have got a rate since the snapshot; all sides if Kafka cannot be read."""
        try:
            rates = self._throttles.read_rates(sides) if sides else {}
        except ClusterError:
            return sides
        return {side for side, rate in rates.items() if rate is not None}

    def _write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        failures = self._throttles.write_rates(rates)
        accepted = {side: rates[side] for side, failure in failures.items() if failure is None}
        return failures | (self._throttles.confirm_rates(accepted) if accepted else {})

    def _edit(self, removals: Sequence[RemovePairs], adds: Sequence[AddPairs]) -> set[str]:
        """Journals and makes list edits. Their outcomes are journaled with the next record.

        Returns:
            The topics whose lists lack replicas that they should name.
        """
        paused = {add.topic for add in adds if self._recorder.is_paused(add)}
        adds = [add for add in adds if add.topic not in paused]
        removals = [removal for removal in removals if not self._recorder.is_paused(removal)]
        # A journal entry has one reason, but replicas of one topic may be removed for two reasons.
        removals_by_reason: dict[Reason, list[RemovePairs]] = {}
        for removal in removals:
            removals_by_reason.setdefault(removal.reason, []).append(removal)
        groups: list[Sequence[AddPairs | RemovePairs]] = [*removals_by_reason.values(), adds]
        batches = [batch for group in groups for batch in list_records.split_into_records(group)]
        if not batches:
            return paused
        intents = [lists_entry("intent", batch, self._clock.now_ms()) for batch in batches]
        self._recorder.record(intents, record_pairs_to_add(self._recorder.memory, adds))
        for group in removals_by_reason.values():
            self._write_lists(group, self._throttles.remove_pairs, adds)
        return paused | (self._write_lists(adds, self._throttles.add_pairs, adds).keys() if adds else set())

    def _write_lists(
        self,
        changes: Sequence[AddPairs] | Sequence[RemovePairs],
        write: Callable[[Mapping[str, TopicThrottle]], Mapping[str, Failure | None]],
        adds: Sequence[AddPairs],
    ) -> dict[str, Failure]:
        """Writes list edits. Returns the failures by topic.

        Args:
            adds: replicas that the journal already names as managed, and that are added to lists next.
        """
        answers = write({change.topic: change.pairs for change in changes})
        failures = {topic: failure for topic, failure in answers.items() if failure is not None}
        self._report([(change, failures.get(change.topic)) for change in changes])
        for batch in list_records.split_into_records(changes):
            failed = {change.topic: failures[change.topic] for change in batch if change.topic in failures}
            removed = [change for change in batch if isinstance(change, RemovePairs) and change.topic not in failures]
            entry = lists_entry("outcome", batch, self._clock.now_ms(), failures=failed)
            topics = {change.topic for change in removed}
            memory = None
            if removed:
                # The record of a topic has its whole list, so it must also name the replicas that are about to be added.
                still_intended = [add for add in adds if add.topic in topics]
                memory = record_pairs_to_add(record_removed_pairs(self._recorder.memory, removed), still_intended)
            self._recorder.add_outcome(entry, memory)
        return failures

    def _report(self, acts: Sequence[ExecutedDecision]) -> None:
        """Reports writes to the observer. After a failed write, its next attempt is delayed."""
        if acts:
            self._observer.record_actions(acts)
        for decision, failure in acts:
            if failure is None:
                self._recorder.succeed(decision)
            else:
                log.error(f"not done: {decision.text}: {failure}")
                self._recorder.back_off(decision)
