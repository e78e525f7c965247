"""Connects the throttle cycle with the control law: the cycle hands over sides, and each second their new rates are written.

A side is a broker in its role as leader or as follower of the replicas that move; each side has a throttle of its own.

Each second follows the same order as a cycle: compare Kafka's current rate with the expected rate, journal the change, write it. If
a write fails, its side pauses before the next attempt. If an operator or a tool has changed a rate, its side is relinquished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import structlog

from streaming.shared.contract import BrokerSignal, MoveSignal
from tuner.control.throttle.decision import AllowSteering, Decision, ExecutedDecision, Hold, Reason
from tuner.control.throttle.isr_recovery import sides_blocking_writes, sides_of_stalled_moves
from tuner.control.throttle.ownership import may_be_cleared_by_tool
from tuner.control.throttle.plan_moves import plan_rates
from tuner.control.throttle.recovery import sides_at_min_isr
from tuner.control.throttle.write_intents import record_change_intents
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.cluster import BrokerSide, LiveCluster, Observation
from tuner.core.freshness import fresh_signals
from tuner.core.plan_backlog import add_pending_bytes
from tuner.core.throttle_limits import ThrottleLimits
from tuner.core.vetoes import lowest_rate_bytes_per_s
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.list_writer import ActObserver
from tuner.runtime.throttle.recorder import ThrottleRecorder
from tuner.runtime.throttle.steering_controller import SteeringController, WriteRefused

log = structlog.get_logger("tuner")

# The cycle holds a side for one of these reasons if its signals cannot be trusted, or if an external check vetoes. The law may then
# lower its rate, but not raise it. BROKER_DOWN holds the sides of a destination that is down and the sides of its sources; the law
# can lower only the sources, because they are alive.
_LOWER_ONLY = {
    Reason.SIGNALS_MISSING,
    Reason.SIGNALS_STALE,
    Reason.SIGNALS_CONTRADICT,
    Reason.BROKER_DOWN,
    Reason.VETOED,
}


class LatestSignals(Protocol):
    """The latest signal of each broker and of each side through which partitions move, and the brokers' baselines."""

    @property
    def brokers(self) -> Mapping[int, BrokerSignal]: ...

    @property
    def moves(self) -> Mapping[BrokerSide, MoveSignal]: ...

    @property
    def baselines(self) -> Mapping[int, BrokerBaseline]: ...

    def poll(self) -> int:
        """Reads new signals. Returns their number."""


class SteeringTick:
    def __init__(
        self,
        steering: SteeringController,
        signals: LatestSignals,
        recorder: ThrottleRecorder,
        observer: ActObserver,
        limits: ThrottleLimits,
        clock: Clock,
        *,
        dry_run: bool,
    ) -> None:
        self._steering = steering
        self._signals = signals
        self._recorder = recorder
        self._observer = observer
        self.limits = limits
        self._clock = clock
        self._dry_run = dry_run
        # Returns the bytes per side that plans have not begun to copy: none, until the reassignment executor replaces this
        # function.
        self.pending_bytes: Callable[[], Mapping[BrokerSide, float]] = dict
        self._throttles_moves = limits.throttles_all_moves  # Until the first cycle reports what it throttles.
        # Brokers whose signals contradict each other, from the last cycle.
        self._ignored_brokers: set[int | None] = set()

    def next_due_s(self) -> float | None:
        return self._steering.next_due_s()

    def hand_over(self, decisions: Sequence[Decision], observation: Observation, *, throttles_moves: bool) -> None:
        """Hands over to the law the sides that it may steer until the next cycle.

        Args:
            throttles_moves: the tuner throttles at least one move of the last snapshot.
        """
        self._throttles_moves = throttles_moves
        # By side: the current rate, and whether this rate is set on the broker itself (else it is inherited).
        steerable = {
            (d.broker, d.side): (d.current_bytes_per_s, d.is_set_on_broker)
            for d in decisions
            if isinstance(d, AllowSteering) and not self._recorder.is_paused(d)
        }
        live = observation.live if isinstance(observation.live, LiveCluster) else LiveCluster(frozenset())
        self._ignored_brokers = {
            d.broker for d in decisions if isinstance(d, Hold) and d.reason is Reason.SIGNALS_CONTRADICT
        }
        owned = self._recorder.memory.owned
        # A side has a setpoint if the law has steered it since the last cycle.
        managed_sides = owned.keys() | observation.setpoints.keys()
        for d in decisions:
            # A late write of the previous tuner has replaced the law's rate. ``drop`` makes the law continue from Kafka's rate.
            if (
                isinstance(d, Hold)
                and d.reason is Reason.LATE_PREDECESSOR_WRITE
                and d.broker is not None
                and d.side is not None
            ):
                self._steering.drop((d.broker, d.side))
        self._steering.assign_sides(
            steerable,
            held=_held_sides(decisions, live, managed_sides),
            quota_samples=live.quota_samples,
            now_s=self._clock.monotonic_s(),
            stalled=sides_of_stalled_moves(live, self._recorder.memory),
            recovering=sides_blocking_writes(
                live, fresh_signals(observation.broker_signals, observation.now_ms, self.limits.signal_age_s_max)
            ),
            at_min_isr=sides_at_min_isr(live),
            # 0 if there was no rate before.
            restore_rates={side: managed.before_bytes_per_s or 0 for side, managed in owned.items()},
            plan_max_rates=_max_rates(decisions, live, observation, self.limits),
            deadline_ratios={side: found.time_ratio for side, found in observation.deadline_forecasts.items()},
        )

    def withdraw_sides(self) -> None:
        """Takes all sides from the law until the next ``hand_over``."""
        self._steering.assign_sides(steerable={}, held={}, quota_samples={}, now_s=self._clock.monotonic_s())

    def remaining_moves(self, pending: Mapping[BrokerSide, float]) -> Mapping[BrokerSide, MoveSignal]:
        """Returns the newest signals of all sides, with the ``pending`` bytes of steps that have not begun.

        A side has work until the whole plan has ended.
        """
        return add_pending_bytes(self._signals.moves, pending)

    def run(self) -> None:
        """Runs one second of the law: computes new rates, checks that Kafka has the expected rates, journals and writes.

        Raises:
            JournalError: nothing was written to Kafka.
        """
        steering = self._steering
        self._signals.poll()
        brokers: Mapping[int, BrokerSignal] = self._signals.brokers
        if self._ignored_brokers:
            brokers = {broker: signal for broker, signal in brokers.items() if broker not in self._ignored_brokers}
        pending = self.pending_bytes()
        moves = self.remaining_moves(pending)
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        baselines = self._signals.baselines
        changes = steering.next_changes(now_s, now_ms, brokers, moves, planned=pending.keys(), baselines=baselines)
        if self._dry_run or not changes:
            return
        # A change is refused if the rate in Kafka is not the expected rate. A broker under load may still show the rate before the
        # last write. The law keeps the side after such a late answer.
        refused = steering.find_refused(changes)
        self._give_up([refusal for refusal in refused if not refusal.late])
        refused_sides = {(refusal.decision.broker, refusal.decision.side) for refusal in refused}
        changes = [change for change in changes if (change.broker, change.side) not in refused_sides]
        if not changes:
            return
        intents = ((change, [change.setpoint_bytes_per_s]) for change in changes)
        memory = record_change_intents(self._recorder.memory, intents)
        sides = [(change.broker, change.side) for change in changes]
        self._recorder.record_owned([self._recorder.steering_intent(changes)], memory, sides)
        # Kafka's rates are read again: an operator may have changed one while the intent was journaled.
        changes = steering.filter_unchanged(changes)
        failures = steering.write(changes)
        failed: list[WriteRefused] = []
        written: list[ExecutedDecision] = []
        for change in changes:
            failure = failures[(change.broker, change.side)]
            if failure is not None:
                failed.append(WriteRefused(change, failure))
                continue
            written.append((change, None))
            self._recorder.succeed(change)
        if written:
            self._observer.record_actions(written)
        self._give_up(failed)

    def _give_up(self, refused: Sequence[WriteRefused]) -> None:
        """Removes the sides whose write failed from the law. A side returns after a pause, or, after an external change, when the
        hold has ended.

        The law stops at once, before the journal has a record of the failure, because the journal may be unreachable.
        """
        for refusal in refused:
            self._steering.drop((refusal.decision.broker, refusal.decision.side))
        # A tool that ends its own move clears the rate. This is neither a failure nor an external change.
        failures = [
            refusal
            for refusal in refused
            if not (refusal.external_change and may_be_cleared_by_tool(refusal.found, throttles=self._throttles_moves))
        ]
        for refusal in failures:
            decision, side = refusal.decision, (refusal.decision.broker, refusal.decision.side)
            log.error(f"not done: {decision.text.split(':')[0]}: {refusal.failure}", broker=side[0], side=side[1])
            self._recorder.back_off(decision)
            self._recorder.add_outcome(self._recorder.outcome(decision, refusal.failure))
            if refusal.external_change:
                self._recorder.relinquish(side, refusal.found)
        if failures:
            self._observer.record_actions([(refusal.decision, refusal.failure) for refusal in failures])
            self._recorder.record(memory=self._recorder.memory)


def _max_rates(
    decisions: Sequence[Decision], live: LiveCluster, observation: Observation, limits: ThrottleLimits
) -> dict[BrokerSide, int]:
    """Returns the highest rate of each side, in bytes/s, that plans and lowering vetoes allow."""
    max_rates, veto_rate = (
        plan_rates(live.moves, observation.plan_moves, limits),
        lowest_rate_bytes_per_s(observation.vetoes),
    )
    if veto_rate is None:
        return max_rates
    vetoed = [(d.broker, d.side) for d in decisions if isinstance(d, Hold) and d.reason is Reason.VETOED]
    sides = [(broker, side) for broker, side in vetoed if broker is not None and side is not None]
    return max_rates | {side: min(veto_rate, max_rates.get(side, veto_rate)) for side in sides}


def _held_sides(
    decisions: Sequence[Decision], live: LiveCluster, managed: frozenset[BrokerSide] | set[BrokerSide]
) -> dict[BrokerSide, tuple[int, bool]]:
    """Returns the rates of managed sides that the law may only lower, and whether each is set on the broker itself."""
    held = {}
    for d in decisions:
        if not isinstance(d, Hold) or d.reason not in _LOWER_ONLY or d.broker is None or d.side is None:
            continue
        side = (d.broker, d.side)
        # The law also lowers a rate that another tool has set, because without the veto the law would steer that rate.
        may_lower = side in managed or d.reason is Reason.VETOED
        if may_lower and side in live.rates and d.broker in live.brokers:
            held[side] = (live.rates[side].bytes_per_s, live.rates[side].is_set_on_broker)
    return held
