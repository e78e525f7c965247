"""What a move's end asks for: lists cleared, then rates put back, each as far as it still is what it was decided to be.

A new move may have begun since the look, or somebody may have been quicker, so the cluster is looked at once more before the
first write, and each value right before its own: there may be many, each with its place in the journal before and after it.
Lists come before rates: while a list stands, a rate removed would leave its replicas unlimited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

import structlog

from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.decision import Acted, ClearLists, Reason, RestoreRate
from tuner.control.throttle.policy import intend_put_back, settle
from tuner.core.cluster import BrokerSide, LiveCluster, NotSeen
from tuner.core.outcome import CHANGED_SINCE, Failure
from tuner.runtime.throttle.actuator import Throttles
from tuner.runtime.throttle.list_writer import ActObserver
from tuner.runtime.throttle.recorder import ThrottleRecorder

log = structlog.get_logger("tuner")

WRITES_PER_CYCLE_MAX = 50  # Each takes some ten milliseconds of the journal; the rest comes with the next look.

D = TypeVar("D", bound=ClearLists | RestoreRate)


class ClusterLooker(Protocol):
    def look(self, *, full: bool, also: Collection[str] = (), waits: Collection[int] = ()) -> LiveCluster | NotSeen: ...


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
        """``stop`` ends the changes of rate that are under way on some sides, for a reason each."""
        self._live = live
        self._throttles = throttles
        self._stop = stop
        self._recorder = recorder
        self._observer = observer

    def carry_out(self, endings: Sequence[ClearLists | RestoreRate], decided_on: LiveCluster) -> None:
        """
        Args:
            decided_on: the look that they were decided on.

        Raises:
            JournalError: what is not on record is not done.
        """
        live = self._live.look(full=False)
        if isinstance(live, NotSeen):
            return
        # Only what a person has released is taken back while something moves.
        endings = [e for e in endings if not live.moves or e.reason is Reason.RELEASED]
        # What rests after a failure takes no other's place.
        resting = {id(e) for e in endings if self._recorder.is_paused(e)}
        lists_rest = any(isinstance(e, ClearLists) for e in endings if id(e) in resting)
        due = [e for e in endings if id(e) not in resting]
        lists_wait = any(isinstance(e, ClearLists) for e in due[WRITES_PER_CYCLE_MAX:])
        due = due[:WRITES_PER_CYCLE_MAX]
        self._stop({(e.broker, e.side): f"stopped on the way: {e.text}" for e in due if isinstance(e, RestoreRate)})
        lists_went = not (self._recorder.memory.listed or lists_rest or lists_wait)
        acts: list[Acted] = []
        try:
            for decision in due:
                if isinstance(decision, ClearLists):
                    stands = decided_on.lists.get(decision.topic, TopicThrottle())
                    same = live.lists.get(decision.topic, TopicThrottle()) == stands
                    lists_went &= same and self._act(decision, partial(self._clear, stands=stands), acts)
                    continue
                setting = live.rates.get((decision.broker, decision.side))
                # Somebody was quicker; and while a list still stands, so do the rates: its replicas would be unlimited.
                if lists_went and setting is not None and setting.bytes_per_s == decision.current_bytes_per_s:
                    self._act(decision, self._put_back, acts)
        finally:  # The journal may be away by now; what was done before that is told.
            if acts:
                self._observer.acted(acts)

    def _clear(self, decision: ClearLists, stands: TopicThrottle) -> Failure | None:
        return self._throttles.clear_lists(decision.topic, decision.sides, stands)

    def _put_back(self, decision: RestoreRate) -> Failure | None:
        side = (decision.broker, decision.side)
        try:
            found = self._throttles.read_rates([side])[side]
        except ClusterError as error:
            found = error
        if isinstance(found, ClusterError):
            return f"not read before it was to be put back: {found}"
        if found != decision.current_bytes_per_s:
            return CHANGED_SINCE
        wanted = {side: decision.value_bytes_per_s}
        refused = next(iter(self._throttles.write_rates(wanted).values()))
        return refused if refused is not None else next(iter(self._throttles.confirm_rates(wanted).values()))

    def _act(self, decision: D, write: Callable[[D], Failure | None], acts: list[Acted]) -> bool:
        """On record, done, on record again; whether it went well. Adds it to ``acts``."""
        memory = self._recorder.memory
        if isinstance(decision, RestoreRate):
            memory = intend_put_back(memory, decision)
        self._recorder.record([self._recorder.intent(decision)], memory)
        failure = write(decision)
        acts.append((decision, failure))
        if failure is None:
            self._recorder.succeed(decision)
        else:
            log.error(f"not done: {decision.text}: {failure}")
            self._recorder.back_off(decision)
        settled = settle(self._recorder.memory, decision) if failure is None else None
        side = (decision.broker, decision.side) if isinstance(decision, RestoreRate) else None
        self._recorder.add_outcome(self._recorder.outcome(decision, failure), settled, side)
        self._recorder.record(memory=self._recorder.memory)
        return failure is None
