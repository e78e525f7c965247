"""Between the loop and the law: what a cycle gives it to turn, and how what it wants in a second is done.

The order of a second is that of a cycle: what is wanted is checked against what stands, on record, and only then written. A side
that could not be written rests until it is worth another try; one that somebody changed is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import structlog

from streaming.shared.contract import BrokerSignal, MoveSignal
from tuner.control.throttle.decision import Acted, AllowSteering, Decision, Hold, Reason
from tuner.control.throttle.isr_recovery import recovering, stalled_ends
from tuner.control.throttle.ownership import may_be_swept
from tuner.control.throttle.plan_moves import plan_rates
from tuner.control.throttle.policy import intend
from tuner.core.cluster import BrokerSide, LiveCluster, Observation
from tuner.core.freshness import fresh
from tuner.core.plan_backlog import with_pending
from tuner.core.throttle_limits import Limits
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.list_writer import ActObserver
from tuner.runtime.throttle.recorder import ThrottleRecorder
from tuner.runtime.throttle.steering_controller import SteeringController, WriteRefused

log = structlog.get_logger("tuner")

# What the law steers stays with it, but may only sink; so does the source of a destination that is down.
_HELD = {Reason.SIGNALS_MISSING, Reason.SIGNALS_STALE, Reason.SIGNALS_CONTRADICT, Reason.BROKER_DOWN}


class LatestSignals(Protocol):
    @property
    def brokers(self) -> Mapping[int, BrokerSignal]: ...

    @property
    def moves(self) -> Mapping[BrokerSide, MoveSignal]: ...

    def poll(self) -> int: ...


class SteeringTick:
    def __init__(
        self,
        steering: SteeringController,
        signals: LatestSignals,
        recorder: ThrottleRecorder,
        observer: ActObserver,
        limits: Limits,
        clock: Clock,
        *,
        dry_run: bool,
    ) -> None:
        self._steering = steering
        self._signals = signals
        self._recorder = recorder
        self._observer = observer
        self._limits = limits
        self._clock = clock
        self._dry_run = dry_run
        self.pending_bytes: Callable[[], Mapping[BrokerSide, float]] = dict  # What plans still have to begin.
        self._throttles_moves = limits.throttles_moves
        self._doubted: set[int | None] = set()  # Brokers whose signals the law does without until the next cycle.

    def next_due_s(self) -> float | None:
        return self._steering.next_due_s()

    def hand_over(self, decisions: Sequence[Decision], observation: Observation, *, throttles_moves: bool) -> None:
        """What the law may turn until the next cycle.

        Args:
            throttles_moves: the tuner throttles any of what moved at the last look.
        """
        self._throttles_moves = throttles_moves
        free = {
            (d.broker, d.side): (d.current_bytes_per_s, d.own)
            for d in decisions
            if isinstance(d, AllowSteering) and not self._recorder.is_paused(d)
        }
        live = observation.live if isinstance(observation.live, LiveCluster) else LiveCluster(frozenset())
        self._doubted = {d.broker for d in decisions if isinstance(d, Hold) and d.reason is Reason.SIGNALS_CONTRADICT}
        ours = self._recorder.memory.owned.keys() | observation.courses.keys()
        held = {
            (d.broker, d.side): (live.rates[(d.broker, d.side)].bytes_per_s, live.rates[(d.broker, d.side)].own)
            for d in decisions
            if isinstance(d, Hold) and d.reason in _HELD and d.broker is not None and d.side is not None
            if (d.broker, d.side) in ours and (d.broker, d.side) in live.rates and d.broker in live.brokers
        }
        for d in decisions:
            # The law goes on from what stands, and not from what it had written itself.
            if (
                isinstance(d, Hold)
                and d.reason is Reason.LATE_PREDECESSOR_WRITE
                and d.broker is not None
                and d.side is not None
            ):
                self._steering.drop((d.broker, d.side))
        self._steering.steer(
            free,
            held,
            live.quota_samples,
            self._clock.monotonic_s(),
            stalled=stalled_ends(live, self._recorder.memory),
            recovering=recovering(live, fresh(observation.brokers, observation.now_ms, self._limits.signal_age_s_max)),
            ours={side: owned.before_bytes_per_s or 0 for side, owned in self._recorder.memory.owned.items()},
            most=plan_rates(live.moves, observation.plan_moves, self._limits),
        )

    def hold(self) -> None:
        """Lets the law turn nothing until the next ``hand_over``."""
        self._steering.steer({}, {}, {}, self._clock.monotonic_s())

    def run(self) -> None:
        """One second of the law: what it wants is checked, on record, and written.

        Raises:
            JournalError: what is not on record is not done.
        """
        steering = self._steering
        self._signals.poll()
        brokers: Mapping[int, BrokerSignal] = self._signals.brokers
        if self._doubted:
            brokers = {broker: signal for broker, signal in brokers.items() if broker not in self._doubted}
        # A side is done when the plan is, not when that is done which runs now.
        pending = self.pending_bytes()
        moves, now_ms = with_pending(self._signals.moves, pending), self._clock.now_ms()
        changes = steering.turn(self._clock.monotonic_s(), now_ms, brokers, moves, pending.keys())
        if self._dry_run or not changes:
            return
        refused = steering.refused(changes)
        self._not_steered([each for each in refused if not each.late])
        no = {(each.decision.broker, each.decision.side) for each in refused}
        free = [change for change in changes if (change.broker, change.side) not in no]
        if not free:
            return
        memory = self._recorder.memory
        for change in free:
            memory = intend(memory, change, [change.setpoint_bytes_per_s])
        self._recorder.record_owned(
            [self._recorder.steering_intent(free)], memory, [(change.broker, change.side) for change in free]
        )
        free = steering.still_free(free)
        answers = steering.write(free)
        failed = []
        written: list[Acted] = []
        for change in free:
            failure = answers[(change.broker, change.side)]
            if failure is not None:
                failed.append(WriteRefused(change, failure))
                continue
            written.append((change, None))
            self._recorder.succeed(change)
        if written:
            self._observer.acted(written)
        self._not_steered(failed)

    def _not_steered(self, refused: Sequence[WriteRefused]) -> None:
        """Sides that could not be written rest until they are worth another try; those that somebody changed are theirs. All of
        them are left alone before any of it is on record: the journal may be away."""
        for each in refused:
            self._steering.drop((each.decision.broker, each.decision.side))
        told = [
            each
            for each in refused
            if not (each.external_change and may_be_swept(each.found, throttles=self._throttles_moves))
        ]
        for each in told:
            decision, side = each.decision, (each.decision.broker, each.decision.side)
            log.error(f"not done: {decision.text.split(':')[0]}: {each.failure}", broker=side[0], side=side[1])
            self._recorder.back_off(decision)
            self._recorder.add_outcome(self._recorder.outcome(decision, each.failure))
            if each.external_change:
                self._recorder.relinquish(side, each.found)
        if told:
            self._observer.acted([(each.decision, each.failure) for each in told])
            self._recorder.record(memory=self._recorder.memory)
