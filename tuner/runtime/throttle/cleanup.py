"""Cleans up after a move: clears the throttled-replica lists, then restores the earlier rates.

Since the decision, a new move may have begun, or an operator may have changed something. So the cluster is read once more before
the first write, and each value right before its own write. Lists are cleared before rates are restored, because replicas in a list
would be unlimited if their rate were removed first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

import structlog

from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.decision import ClearLists, ExecutedDecision, Reason, RestoreRate
from tuner.control.throttle.write_intents import record_restore_intent, record_success
from tuner.core.cluster import BrokerSide, ClusterUnreadable, LiveCluster
from tuner.core.outcome import CHANGED_EXTERNALLY, Failure
from tuner.runtime.throttle.actuator import Throttles
from tuner.runtime.throttle.list_writer import ActObserver
from tuner.runtime.throttle.recorder import ThrottleRecorder

log = structlog.get_logger("tuner")

# Each cleanup needs about ten milliseconds for the journal, so one cycle carries out at most this number of cleanups. The others
# follow in the next cycle.
WRITES_PER_CYCLE_MAX = 50

D = TypeVar("D", bound=ClearLists | RestoreRate)


class ClusterLooker(Protocol):
    def snapshot(
        self, *, full: bool, extra_topics: Collection[str] = (), waiting_brokers: Collection[int] = ()
    ) -> LiveCluster | ClusterUnreadable:
        """Returns a snapshot of the cluster.

        Args:
            full: whether to read all brokers and topics, instead of only brokers and topics that take part in a move.
            extra_topics: topics to be read in any case.
            waiting_brokers: brokers whose producers wait for replicas that left the ISR.
        """


class Cleanup:
    def __init__(
        self,
        live: ClusterLooker,
        throttles: Throttles,
        recorder: ThrottleRecorder,
        observer: ActObserver,
        *,
        stop: Callable[[Mapping[BrokerSide, Failure]], None],
    ) -> None:
        """
        Args:
            stop: stops the ramps of the given sides, each with its reason.
        """
        self._live = live
        self._throttles = throttles
        self._stop = stop
        self._recorder = recorder
        self._observer = observer

    def carry_out(self, cleanups: Sequence[ClearLists | RestoreRate], decided_on: LiveCluster) -> None:
        """Carries out the cleanups that the current state of the cluster still allows.

        Args:
            decided_on: the snapshot that the decisions are based on.

        Raises:
            JournalError: the writes that are not in the journal were not made.
        """
        live = self._live.snapshot(full=False)
        if isinstance(live, ClusterUnreadable):
            return
        # While any partition moves, only throttles that an operator has released are cleaned up.
        cleanups = [c for c in cleanups if not live.moves or c.reason is Reason.RELEASED]
        # A cleanup that pauses after a failure does not count for ``WRITES_PER_CYCLE_MAX``.
        not_paused = [c for c in cleanups if not self._recorder.is_paused(c)]
        due = not_paused[:WRITES_PER_CYCLE_MAX]
        self._stop({(c.broker, c.side): f"interrupted: {c.text}" for c in due if isinstance(c, RestoreRate)})
        # A clear that fails below changes this to False.
        lists_are_cleared = not self._recorder.memory.listed and _count_clears(due) == _count_clears(cleanups)
        acts: list[ExecutedDecision] = []
        try:
            for decision in due:
                if isinstance(decision, ClearLists):
                    expected = decided_on.lists.get(decision.topic, TopicThrottle())
                    is_unchanged = live.lists.get(decision.topic, TopicThrottle()) == expected
                    clear = partial(self._clear, expected=expected)
                    lists_are_cleared &= is_unchanged and self._act(decision, clear, acts)
                    continue
                setting = live.rates.get((decision.broker, decision.side))
                # A rate is not restored if another tool has changed it, or while a list remains: its replicas would be unlimited.
                if lists_are_cleared and setting is not None and setting.bytes_per_s == decision.current_bytes_per_s:
                    self._act(decision, self._restore, acts)
        finally:  # If the journal has failed meanwhile, the writes made before the failure are still reported.
            if acts:
                self._observer.record_actions(acts)

    def _clear(self, decision: ClearLists, expected: TopicThrottle) -> Failure | None:
        return self._throttles.clear_lists(decision.topic, decision.sides, expected)

    def _restore(self, decision: RestoreRate) -> Failure | None:
        side = (decision.broker, decision.side)
        try:
            current = self._throttles.read_rates([side])[side]
        except ClusterError as error:
            current = error
        if isinstance(current, ClusterError):
            return f"not restored, because the current rate cannot be read: {current}"
        if current != decision.current_bytes_per_s:
            return CHANGED_EXTERNALLY
        rates = {side: decision.value_bytes_per_s}
        failure = next(iter(self._throttles.write_rates(rates).values()))
        return failure if failure is not None else next(iter(self._throttles.confirm_rates(rates).values()))

    def _act(self, decision: D, write: Callable[[D], Failure | None], acts: list[ExecutedDecision]) -> bool:
        """Journals a cleanup, carries it out, journals the outcome and appends it to ``acts``.

        Returns:
            Whether the write to Kafka succeeded.
        """
        memory = self._recorder.memory
        if isinstance(decision, RestoreRate):
            memory = record_restore_intent(memory, decision)
        self._recorder.record([self._recorder.intent(decision)], memory)
        failure = write(decision)
        acts.append((decision, failure))
        if failure is None:
            self._recorder.succeed(decision)
        else:
            log.error(f"not done: {decision.text}: {failure}")
            self._recorder.back_off(decision)
        settled = record_success(self._recorder.memory, decision) if failure is None else None
        side = (decision.broker, decision.side) if isinstance(decision, RestoreRate) else None
        self._recorder.add_outcome(self._recorder.outcome(decision, failure), settled, side)
        self._recorder.record(memory=self._recorder.memory)
        return failure is None


def _count_clears(cleanups: Sequence[ClearLists | RestoreRate]) -> int:
    return sum(isinstance(cleanup, ClearLists) for cleanup in cleanups)
