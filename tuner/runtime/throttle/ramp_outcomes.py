"""Continues and stops ramps, and records their ends in the journal, in the log and for the observer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from streaming.shared.short_lists import join_names
from tuner.control.throttle.ownership import may_be_cleared_by_tool
from tuner.control.throttle.write_intents import narrow_possible_rates, record_success
from tuner.core.cluster import BrokerSide
from tuner.core.outcome import Failure
from tuner.journal.event_lines import NAMED_MAX, log_fields
from tuner.journal.kafka_journal import JournalError
from tuner.runtime.throttle.list_writer import ActObserver
from tuner.runtime.throttle.ramp_executor import RampEnd, RampExecutor
from tuner.runtime.throttle.recorder import ThrottleRecorder
from tuner.runtime.throttle.window_warmup import WindowWarmup

log = structlog.get_logger("tuner")

_JOURNAL_REFUSED = (
    "the journal does not accept the outcome of a change yet; the tuner adds the outcome to the next record"
)


class RampOutcomes:
    """Runs the ramps on behalf of the throttle controller, in its thread, and records their outcomes."""

    def __init__(
        self,
        ramps: RampExecutor,
        windows: WindowWarmup,
        recorder: ThrottleRecorder,
        observer: ActObserver,
    ) -> None:
        self._ramps = ramps
        self._windows = windows
        self._recorder = recorder
        self._observer = observer

    def step(self, now_s: float, *, throttles_moves: bool) -> None:
        """Writes the ramp steps that are due, and records the ramps that have ended.

        Args:
            throttles_moves: whether the tuner throttles a move. If it does, another tool that ends its own move may have removed a
                rate.
        """
        ramp_ends = self._ramps.step(now_s)
        if not ramp_ends:
            return
        self._windows.note_ended(ramp_ends)
        self._report(ramp_ends)
        for end in ramp_ends:
            self._record_end(end, throttles_moves=throttles_moves)
        try:
            # Writes the outcomes that add_outcome has collected, and the memory that it has updated.
            self._recorder.record(memory=self._recorder.memory)
        except JournalError as error:
            # Until the journal has the outcomes, it names all rates of the ramp as possible, which is correct but less exact.
            log.error(_JOURNAL_REFUSED, error=str(error))

    def stop(self, stops: Mapping[BrokerSide, Failure], *, intended: bool = False) -> None:
        """Stops ramps at their current rate and records their outcomes. Sides without a ramp are skipped.

        Args:
            stops: the reason for each side.
            intended: whether the stop is planned, so that it is not recorded as a failure.

        Raises:
            JournalError: the ramps have stopped, but the outcomes are not in the journal yet.
        """
        stopped = [end for side, why in stops.items() if (end := self._ramps.drop(side, why)) is not None]
        if not stopped:
            return
        self._windows.note_ended(stopped)
        if not intended:
            self._observer.record_actions([(end.decision, end.failure) for end in stopped])
        for end in stopped:
            if intended:
                log.info(f"stopped before the target: {end.decision.text.split(':')[0]}: {end.failure}")
            else:
                log.warning(f"not done: {end.decision.text.split(':')[0]}: {end.failure}")
            side = (end.decision.broker, end.decision.side)
            memory = narrow_possible_rates(self._recorder.memory, side, end.possible_rates)
            self._recorder.add_outcome(self._recorder.outcome(end.decision, end.failure), memory, side)
        self._recorder.record(memory=self._recorder.memory)

    def try_stop(self, stops: Mapping[BrokerSide, Failure]) -> None:
        """Stops ramps like ``stop``. If the journal refuses the outcomes, they wait in the outbox."""
        try:
            self.stop(stops)
        except JournalError as error:
            log.error(_JOURNAL_REFUSED, error=str(error))

    def _report(self, ramp_ends: Sequence[RampEnd]) -> None:
        self._observer.record_actions([(end.decision, end.failure) for end in ramp_ends])
        succeeded = [end.decision for end in ramp_ends if end.failure is None]
        if succeeded:
            entries = [self._recorder.outcome(decision, None) for decision in succeeded]
            names = join_names([decision.text.split(":")[0] for decision in succeeded], NAMED_MAX)
            log.info(f"done: {names}", **log_fields(entries))

    def _record_end(self, end: RampEnd, *, throttles_moves: bool) -> None:
        recorder, decision, failure = self._recorder, end.decision, end.failure
        side = (decision.broker, decision.side)
        if failure is None:
            recorder.succeed(decision)
            memory = record_success(recorder.memory, decision)
        else:
            log.error(f"not done: {decision.text.split(':')[0]}: {failure}", broker=side[0], side=side[1])
            recorder.back_off(decision)
            memory = recorder.memory
            if end.possible_rates:
                memory = narrow_possible_rates(memory, side, end.possible_rates)
        recorder.add_outcome(recorder.outcome(decision, failure), memory, side)
        # A tool may have cleared this rate together with all other throttles. Only a snapshot of all sides can tell, so such a rate
        # is not relinquished here.
        if end.external_change and not may_be_cleared_by_tool(end.found, throttles=throttles_moves):
            recorder.relinquish(side, end.found)
