"""The moves that nobody throttles: a rate on every side that needs one, then the lists; and off the lists what is done.

The order holds whatever fails on the way: a rate stands, and is seen to stand, before a list counts against it; a pair is on
record as ours before it is listed, and until it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import structlog

from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.decision import Acted, AddPairs, Decision, RemovePairs, StartRate
from tuner.control.throttle.policy import intend_start, settle
from tuner.control.throttle.replica_lists.list_rules import intend_pairs, settle_pairs, without_sides
from tuner.control.throttle.replica_lists.prepared_moves import Unthrottled
from tuner.core.cluster import BrokerSide
from tuner.core.outcome import Failure
from tuner.journal import list_records
from tuner.journal.entries import lists_entry
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.actuator import Throttles
from tuner.runtime.throttle.recorder import ThrottleRecorder

log = structlog.get_logger("tuner")


class ActObserver(Protocol):
    def acted(self, acts: Sequence[Acted]) -> None:
        """Takes what was carried out at once: one event, however many throttles."""


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

    def carry_out(self, decisions: Sequence[Decision]) -> Unthrottled:
        """What could not be put on.

        Raises:
            JournalError: what is not on record is not done.
        """
        removals = [d for d in decisions if isinstance(d, RemovePairs)]
        starts = [d for d in decisions if isinstance(d, StartRate)]
        adds = [d for d in decisions if isinstance(d, AddPairs)]
        unset: set[BrokerSide] = set()
        if starts:
            # Which pairs may be put on is known when it is known which rates stand.
            self._edit(removals, ())
            unset, removals = self._start(starts), []
        unlisted = self._edit(removals, without_sides(adds, unset))
        self._recorder.settle()
        return Unthrottled(frozenset(unlisted), frozenset(unset))

    def _start(self, starts: Sequence[StartRate]) -> set[BrokerSide]:
        """All together; the sides on which the rate does not stand."""
        unset = {(d.broker, d.side) for d in starts if self._recorder.is_paused(d)}
        unset |= self._taken({(d.broker, d.side) for d in starts} - unset)
        starts = [d for d in starts if (d.broker, d.side) not in unset]
        if not starts:
            return unset
        memory = self._recorder.memory
        for start in starts:
            memory = intend_start(memory, start)
        self._recorder.record([self._recorder.intent(start) for start in starts], memory)
        answers = self._written({(d.broker, d.side): d.value_bytes_per_s for d in starts})
        self._came_out([(start, answers[(start.broker, start.side)]) for start in starts])
        for start in starts:
            failure = answers[(start.broker, start.side)]
            settled = settle(self._recorder.memory, start) if failure is None else None
            self._recorder.add_outcome(self._recorder.outcome(start, failure), settled, (start.broker, start.side))
        return unset | {side for side, failure in answers.items() if failure is not None}

    def _taken(self, sides: set[BrokerSide]) -> set[BrokerSide]:
        """Where something stands by now, or nobody can tell: the next look knows more."""
        try:
            found = self._throttles.read_rates(sides) if sides else {}
        except ClusterError:
            return sides
        return {side for side, rate in found.items() if rate is not None}

    def _written(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        answers = self._throttles.write_rates(rates)
        taken = {side: rates[side] for side, refused in answers.items() if refused is None}
        return answers | (self._throttles.confirm_rates(taken) if taken else {})

    def _edit(self, removals: Sequence[RemovePairs], adds: Sequence[AddPairs]) -> set[str]:
        """On record, done, and what came of it with the next record; the topics whose lists do not name what they should."""
        resting = {add.topic for add in adds if self._recorder.is_paused(add)}
        adds = [add for add in adds if add.topic not in resting]
        removals = [removal for removal in removals if not self._recorder.is_paused(removal)]
        # A topic may lose pairs for two reasons, and a reason is what an entry is about.
        reasons = [[r for r in removals if r.reason is reason] for reason in dict.fromkeys(r.reason for r in removals)]
        every: list[Sequence[AddPairs | RemovePairs]] = [*reasons, adds]
        batches = [batch for some in every for batch in list_records.split_into_records(some)]
        if not batches:
            return resting
        intents = [lists_entry("intent", batch, self._clock.now_ms()) for batch in batches]
        self._recorder.record(intents, intend_pairs(self._recorder.memory, adds))
        for some in reasons:
            self._write(some, self._throttles.remove_pairs, adds)
        return resting | (self._write(adds, self._throttles.add_pairs, adds).keys() if adds else set())

    def _write(
        self,
        changes: Sequence[AddPairs] | Sequence[RemovePairs],
        write: Callable[[Mapping[str, TopicThrottle]], Mapping[str, Failure | None]],
        adds: Sequence[AddPairs],
    ) -> dict[str, Failure]:
        """What failed, by topic.

        Args:
            adds: what is on record as ours already, as it is about to be.
        """
        answers = write({change.topic: change.pairs for change in changes})
        failures = {topic: failure for topic, failure in answers.items() if failure is not None}
        self._came_out([(change, failures.get(change.topic)) for change in changes])
        for some in list_records.split_into_records(changes):
            failed = {change.topic: failures[change.topic] for change in some if change.topic in failures}
            gone = [change for change in some if isinstance(change, RemovePairs) and change.topic not in failures]
            entry = lists_entry("outcome", some, self._clock.now_ms(), failures=failed)
            topics = {change.topic for change in gone}
            comes = [add for add in adds if add.topic in topics]
            memory = intend_pairs(settle_pairs(self._recorder.memory, gone), comes) if gone else None
            self._recorder.add_outcome(entry, memory)
        return failures

    def _came_out(self, acts: Sequence[Acted]) -> None:
        """Tells of them, and leaves alone for a while what has failed."""
        if acts:
            self._observer.acted(acts)
        for decision, failure in acts:
            if failure is None:
                self._recorder.succeed(decision)
            else:
                log.error(f"not done: {decision.text}: {failure}")
                self._recorder.back_off(decision)
