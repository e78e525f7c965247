"""Carries out ramps: gradual rate changes, written step by step.

Before each step, the rate in Kafka is read. If it differs from the rate that the last step wrote, an operator or a tool has changed
it, and the ramp stops. Kafka offers no compare-and-set, so the ramp overwrites a change that an operator makes in the milliseconds
between the read and the write.

A late step delays all following steps, because skipping steps would cause the jump that a ramp avoids. A delay of less than half a
step is caught up, so that many small delays do not make a ramp longer than the quota window.

Invariant: the number of writes exceeds the budget by at most the writes of one second. The size of steps depends on the number of
ramps that begin together. If more ramps begin later, some steps are late; steps that lower a rate then go first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from streaming.shared.kafka.cluster import ClusterError
from tuner.control.throttle.decision import SetRate
from tuner.control.throttle.quota_window.ramp import RampStep
from tuner.core.cluster import BrokerSide
from tuner.core.outcome import Failure
from tuner.runtime.throttle.actuator import Throttles

_LATE_READS_MAX = 10  # Number of late reads in a row until an old rate is treated as an external change.
_LATE_PAUSE_S = 1.0  # Pause after a late read.
_REQUEST_SHARE = 0.1  # A request has to carry at least this share of a second's writes.
_ROUNDING = 1e-6  # Tolerance for sums of fractions of writes.


@dataclass(slots=True)
class _Ramp:
    """A ramp under way.

    Attributes:
        expected_rate: the rate that the last step has written; None if no rate is set.
        rate_before_step: the rate before the last step.
        late_reads: number of reads in a row in which the broker still showed ``rate_before_step``.
        possible_rates: further rates that the broker may have before the first step, because an earlier ramp has written them.
    """

    decision: SetRate
    steps: tuple[RampStep, ...]
    expected_rate: int | None
    next_at_s: float
    done: int = 0
    rate_before_step: int | None = None
    late_reads: int = 0
    possible_rates: frozenset[int | None] = frozenset()

    def following_at_s(self, now_s: float) -> float:
        """Returns the due time of the step that follows the step written now."""
        following = min(self.done + 1, len(self.steps) - 1)
        pause_s = self.steps[following].after_s - self.steps[following - 1].after_s if following else 0.0
        return pause_s + (self.next_at_s if now_s - self.next_at_s <= pause_s / 2 else now_s)


@dataclass(frozen=True, slots=True)
class RampEnd:
    """The end of a ramp.

    Attributes:
        failure: why the ramp ended before its last step; None if the ramp is complete.
        external_change: an operator or a tool has changed the rate to ``found`` (None means removed).
        possible_rates: the rates that the broker may have after a failed ramp.
    """

    decision: SetRate
    failure: Failure | None
    external_change: bool = False
    found: int | None = None
    possible_rates: tuple[int | None, ...] = ()


class RampExecutor:
    def __init__(self, throttles: Throttles, *, writes_per_s_max: float = math.inf) -> None:
        self._throttles = throttles
        self._ramps: dict[BrokerSide, _Ramp] = {}
        self._writes_per_s_max = writes_per_s_max
        self._budget = self._budget_max = max(1.0, writes_per_s_max)  # Writes that may be made at once.
        self._budget_at_s = -math.inf

    @property
    def busy(self) -> frozenset[BrokerSide]:
        """The sides with a ramp."""
        return frozenset(self._ramps)

    @property
    def changes(self) -> dict[BrokerSide, SetRate]:
        """The rate changes that ramps carry out."""
        return {side: ramp.decision for side, ramp in self._ramps.items()}

    @property
    def waiting(self) -> dict[BrokerSide, SetRate]:
        """The rate changes whose first step is not written yet."""
        return {side: ramp.decision for side, ramp in self._ramps.items() if not ramp.done}

    def start(
        self,
        decision: SetRate,
        steps: Sequence[RampStep],
        now_s: float,
        *,
        possible_rates: Collection[int | None] = (),
    ) -> None:
        """Starts a ramp.

        Args:
            possible_rates: rates of earlier ramps, which a broker that lags behind may still show.
        """
        rate = decision.current_bytes_per_s if decision.is_set_on_broker else None
        self._ramps[(decision.broker, decision.side)] = _Ramp(
            decision, tuple(steps), rate, now_s + steps[0].after_s, possible_rates=frozenset(possible_rates)
        )

    def drop(self, side: BrokerSide, failure: Failure) -> RampEnd | None:
        """Stops a ramp at its current rate. Returns None if the side has no ramp."""
        ramp = self._ramps.get(side)
        if ramp is None:
            return None
        # The broker may not show the last step yet.
        return self._end(side, failure, attempted=(ramp.rate_before_step,) if ramp.done else ())

    def next_due_s(self) -> float | None:
        """Returns when a step can be written next, in monotonic seconds; None if there is no ramp."""
        due_s = min((ramp.next_at_s for ramp in self._ramps.values()), default=None)
        if due_s is None or self._budget >= 1.0 - _ROUNDING:
            return due_s
        return max(due_s, self._budget_at_s + self._budget_wait_s)

    @property
    def _budget_wait_s(self) -> float:
        """Seconds until the budget allows enough writes for a request."""
        return (max(1.0, _REQUEST_SHARE * self._budget_max) - self._budget) / self._writes_per_s_max

    def _within_budget(self, due: list[BrokerSide], now_s: float) -> list[BrokerSide]:
        """Spends the budget on due sides and returns them: first sides whose rate falls, then the sides that have been due
        longest."""
        if math.isinf(self._writes_per_s_max):
            return due
        gained = max(0.0, now_s - self._budget_at_s) * self._writes_per_s_max
        self._budget = min(self._budget_max, self._budget + gained)
        self._budget_at_s = now_s
        if len(due) > self._budget:
            by_due_time = sorted(due, key=lambda side: self._ramps[side].next_at_s)
            lowering = [side for side in by_due_time if self._is_lowering(side)]
            raising = [side for side in by_due_time if not self._is_lowering(side)]
            due = [*lowering, *raising][: int(self._budget + _ROUNDING)]
        self._budget = max(0.0, self._budget - len(due))
        return due

    def _is_lowering(self, side: BrokerSide) -> bool:
        """Returns whether the ramp lowers the rate: at its end or, like a warm-up, with its first step if that step is due."""
        ramp = self._ramps[side]
        rate = ramp.decision.setpoint_bytes_per_s if ramp.done else ramp.steps[0].rate_bytes_per_s
        return min(rate, ramp.decision.setpoint_bytes_per_s) < ramp.decision.current_bytes_per_s

    def step(self, now_s: float) -> list[RampEnd]:
        """Writes every step that is due and within the budget, all sides together. Returns the ramps that ended."""
        due = [side for side, ramp in self._ramps.items() if ramp.next_at_s <= now_s]
        due = self._within_budget(due, now_s) if due else due
        if not due:
            return []
        ended = self._stop_changed(due, now_s)
        # ``_stop_changed`` has removed some ramps and delayed others.
        rates: dict[BrokerSide, int | None] = {
            side: ramp.steps[ramp.done].rate_bytes_per_s
            for side in due
            if (ramp := self._ramps.get(side)) is not None and ramp.next_at_s <= now_s
        }
        last: dict[BrokerSide, int | None] = {}  # The rates of last steps, which have to be confirmed.
        for side, failure in self._throttles.write_rates(rates).items() if rates else ():
            ramp = self._ramps[side]
            if failure is not None:
                ended.append(self._end(side, failure, attempted=(rates[side],)))
                continue
            ramp.next_at_s = ramp.following_at_s(now_s)
            ramp.done += 1
            ramp.rate_before_step, ramp.expected_rate = ramp.expected_rate, rates[side]
            if ramp.done == len(ramp.steps):
                last[side] = ramp.expected_rate
        for side, failure in self._throttles.confirm_rates(last).items() if last else ():
            # Kafka may have accepted the write although the broker still shows the rate before it. So both rates are possible.
            attempted = (self._ramps[side].rate_before_step,) if failure is not None else ()
            ended.append(self._end(side, failure, attempted=attempted))
        return ended

    def _stop_changed(self, due: Sequence[BrokerSide], now_s: float) -> list[RampEnd]:
        """Stops ramps if the rate in Kafka is not the expected rate or cannot be read. Delays ramps whose broker may be late."""
        ended: list[RampEnd] = []
        try:
            rates = self._throttles.read_rates(due)
        except ClusterError as error:
            return [self._end(side, f"interrupted: {error}") for side in due]
        # A broker under load may show the last write late. Only a rate that stays unexpected for a while is an external change.
        unexpected = {
            side: self._ramps[side].expected_rate for side, rate in rates.items() if self._is_unexpected(side, rate)
        }
        rates |= self._read_again(unexpected)
        for side, rate in rates.items():
            ramp = self._ramps[side]
            if isinstance(rate, ClusterError):
                ended.append(self._end(side, f"interrupted: {rate}"))
            elif rate == ramp.expected_rate or (not ramp.done and rate in ramp.possible_rates):
                ramp.expected_rate, ramp.late_reads = rate, 0
            # A broker whose metadata lag behind shows the old rate for longer. After ``_LATE_READS_MAX`` reads it is an external
            # change.
            elif ramp.done and rate == ramp.rate_before_step and ramp.late_reads < _LATE_READS_MAX:
                ramp.late_reads += 1
                ramp.next_at_s = now_s + _LATE_PAUSE_S
            else:
                failure = (
                    f"interrupted: expected {_rate_text(ramp.expected_rate)}, but the broker has {_rate_text(rate)}"
                )
                ended.append(RampEnd(self._ramps.pop(side).decision, failure, external_change=True, found=rate))
        return ended

    def _is_unexpected(self, side: BrokerSide, rate: int | ClusterError | None) -> bool:
        """Returns whether the rate is unexpected for the first time. Later reads of a late broker do not wait again."""
        ramp = self._ramps[side]
        return not isinstance(rate, ClusterError) and rate != ramp.expected_rate and not ramp.late_reads

    def _read_again(self, expected: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, int | ClusterError | None]:
        """Waits until the brokers show the expected rates, for a limited time. Returns the rates that they show then."""
        if not expected or not any(self._throttles.confirm_rates(expected).values()):
            return dict(expected)
        try:
            return self._throttles.read_rates(expected)
        except ClusterError as error:
            return dict.fromkeys(expected, error)

    def _end(self, side: BrokerSide, failure: Failure | None, attempted: tuple[int | None, ...] = ()) -> RampEnd:
        """Removes a ramp.

        Args:
            attempted: rates that Kafka may have besides the expected rate, because of a write that failed or is not confirmed.
        """
        ramp = self._ramps.pop(side)
        # A late broker may still show the rate before the last step for a while.
        late = (ramp.rate_before_step,) if ramp.late_reads else ()
        return RampEnd(ramp.decision, failure, possible_rates=(ramp.expected_rate, *late, *attempted))


def _rate_text(value: int | None) -> str:
    return "no rate" if value is None else f"{value} bytes/s"
