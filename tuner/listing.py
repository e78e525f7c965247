"""The moves that nobody throttles: a rate on every side that needs one, then the lists; and off the lists what is done.

The order holds whatever fails on the way: a rate stands, and is seen to stand, before a list counts against it; a pair is on
record as ours before it is listed, and until it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import structlog

from streaming.kafka.cluster import ClusterError
from streaming.throttles import TopicThrottle
from tuner.actuate.throttles import Failure, Throttles
from tuner.decide.announced import Unthrottled
from tuner.decide.lists import intend_pairs, settle_pairs, without_sides
from tuner.decide.policy import intend_start, settle
from tuner.journal import list_records
from tuner.journal.entries import lists_entry
from tuner.ledger import Ledger
from tuner.model.cluster import BrokerSide
from tuner.model.decision import AddPairs, Decision, RemovePairs, StartRate
from tuner.model.memory import Memory

log = structlog.get_logger("tuner")


class Told(Protocol):
    def acted(self, decision: Decision, failure: Failure | None) -> None: ...


class Listing:
    def __init__(self, throttles: Throttles, ledger: Ledger, watcher: Told, *, wall_clock: Callable[[], float]) -> None:
        self._throttles = throttles
        self._ledger = ledger
        self._watcher = watcher
        self._wall_clock = wall_clock

    def carry_out(self, decisions: Sequence[Decision]) -> Unthrottled:
        """What could not be put on.

        Raises:
            JournalError: what is not on record is not done.
        """
        self._take_off([d for d in decisions if isinstance(d, RemovePairs)])
        unset = self._start([d for d in decisions if isinstance(d, StartRate)])
        unlisted = self._put_on(without_sides([d for d in decisions if isinstance(d, AddPairs)], unset))
        self._ledger.settle()
        return Unthrottled(frozenset(unlisted), frozenset(unset))

    def _start(self, starts: Sequence[StartRate]) -> set[BrokerSide]:
        """All together; the sides on which the rate does not stand."""
        unset = {(d.broker, d.side) for d in starts if self._ledger.pausing(d)}
        unset |= self._taken({(d.broker, d.side) for d in starts} - unset)
        starts = [d for d in starts if (d.broker, d.side) not in unset]
        if not starts:
            return unset
        memory = self._ledger.memory
        for start in starts:
            memory = intend_start(memory, start)
        self._ledger.record([self._ledger.intent(start) for start in starts], memory)
        answers = self._written({(d.broker, d.side): d.value_bytes_per_s for d in starts})
        for start in starts:
            failure = answers[(start.broker, start.side)]
            self._came_out(start, failure)
            settled = settle(self._ledger.memory, start) if failure is None else None
            self._ledger.happened(self._ledger.outcome(start, failure), settled, (start.broker, start.side))
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

    def _put_on(self, adds: Sequence[AddPairs]) -> set[str]:
        """The topics whose lists do not name what they should."""
        resting = {add.topic for add in adds if self._ledger.pausing(add)}
        adds = [add for add in adds if add.topic not in resting]
        if not adds:
            return resting
        failed = self._edit(adds, self._throttles.add_pairs, intend_pairs(self._ledger.memory, adds))
        return resting | failed.keys()

    def _take_off(self, removals: Sequence[RemovePairs]) -> None:
        removals = [removal for removal in removals if not self._ledger.pausing(removal)]
        # A topic may lose pairs for two reasons, and a reason is what an entry is about.
        for reason in dict.fromkeys(removal.reason for removal in removals):
            some = [removal for removal in removals if removal.reason is reason]
            self._edit(some, self._throttles.remove_pairs, self._ledger.memory)

    def _edit(
        self,
        changes: Sequence[AddPairs] | Sequence[RemovePairs],
        write: Callable[[Mapping[str, TopicThrottle]], Mapping[str, Failure | None]],
        memory: Memory,
    ) -> dict[str, Failure]:
        """On record, done, and what came of it with the next record; what failed, by topic."""
        batches = list(list_records.batches(changes))
        self._ledger.record([lists_entry("intent", some, self._now_ms()) for some in batches], memory)
        answers = write({change.topic: change.pairs for change in changes})
        failures = {topic: failure for topic, failure in answers.items() if failure is not None}
        for change in changes:
            self._came_out(change, failures.get(change.topic))
        for some in batches:
            failed = {change.topic: failures[change.topic] for change in some if change.topic in failures}
            gone = [change for change in some if isinstance(change, RemovePairs) and change.topic not in failures]
            entry = lists_entry("outcome", some, self._now_ms(), failures=failed)
            self._ledger.happened(entry, settle_pairs(self._ledger.memory, gone) if gone else None)
        return failures

    def _came_out(self, decision: Decision, failure: Failure | None) -> None:
        """Told, and where it failed left for a while."""
        self._watcher.acted(decision, failure)
        if failure is None:
            self._ledger.went_well(decision)
        else:
            log.error(f"not done: {decision.text}: {failure}")
            self._ledger.back_off(decision)

    def _now_ms(self) -> int:
        return round(self._wall_clock() * 1000)
