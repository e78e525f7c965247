"""Changes of rate that are under way: which step is due, and whether the way is still free.

Before each step the live value is read: if it is not the one we left there, somebody else has spoken, and the change stops
where it is. Between that read and the write there are some milliseconds in which Kafka offers no compare-and-set; whoever
writes exactly then is overwritten, once.

A step that comes late delays those after it: to skip steps would be the jump that the slew is there to avoid. Lateness of less
than half a step is made up for, or a way of many steps would become longer than the quota's window.

Invariant: in no stretch are there more writes than the budget has for it, and a second's worth. Steps are as small as those that
begin together leave them; where others begin meanwhile, some come late, and what leads down comes first.
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

_LATES_MAX = 10
_LATE_PAUSE_S = 1.0
_REQUEST_SHARE = 0.1  # Of a second's writes.
_ROUNDING = 1e-6


@dataclass(slots=True)
class _Change:
    decision: SetRate
    steps: tuple[RampStep, ...]
    stands: int | None
    next_at_s: float
    done: int = 0
    stood: int | None = None  # Before our last write.
    lates: int = 0  # So many times in a row the broker has shown that.
    # Beside ``stands``, before the first step: a change before this one ended there.
    may_stand: frozenset[int | None] = frozenset()

    def following_at_s(self, now_s: float) -> float:
        """When the step after the one that is due comes, which is written now."""
        following = min(self.done + 1, len(self.steps) - 1)
        pause_s = self.steps[following].after_s - self.steps[following - 1].after_s if following else 0.0
        return pause_s + (self.next_at_s if now_s - self.next_at_s <= pause_s / 2 else now_s)


@dataclass(frozen=True, slots=True)
class RampEnd:
    decision: SetRate
    failure: Failure | None
    external_change: bool = False  # Somebody else's value stands there now ...
    found: int | None = None  # ... this one; None: none.
    may_stand: tuple[int | None, ...] = ()  # What a change that failed may have left there.


class RampExecutor:
    def __init__(self, throttles: Throttles, *, writes_per_s_max: float = math.inf) -> None:
        self._throttles = throttles
        self._changes: dict[BrokerSide, _Change] = {}
        self._writes_per_s_max = writes_per_s_max
        self._left = self._most = max(1.0, writes_per_s_max)  # Writes that may be made at once, now and at the most.
        self._left_at_s = -math.inf

    @property
    def busy(self) -> frozenset[BrokerSide]:
        return frozenset(self._changes)

    @property
    def changes(self) -> dict[BrokerSide, SetRate]:
        return {side: change.decision for side, change in self._changes.items()}

    @property
    def waiting(self) -> dict[BrokerSide, SetRate]:
        """What no step has been written of yet."""
        return {side: change.decision for side, change in self._changes.items() if not change.done}

    def start(
        self,
        decision: SetRate,
        steps: Sequence[RampStep],
        now_s: float,
        *,
        may_stand: Collection[int | None] = (),
    ) -> None:
        """
        Args:
            may_stand: what is ours there until now; a broker may show a step late that a change before this one had written.
        """
        stands = decision.current_bytes_per_s if decision.own else None
        self._changes[(decision.broker, decision.side)] = _Change(
            decision, tuple(steps), stands, now_s + steps[0].after_s, may_stand=frozenset(may_stand)
        )

    def drop(self, side: BrokerSide, failure: Failure) -> RampEnd | None:
        """Stops a change where it is; None when there is none."""
        change = self._changes.get(side)
        if change is None:
            return None
        # The broker may not show the last step yet.
        return self._end(side, failure, attempted=(change.stood,) if change.done else ())

    def next_due_s(self) -> float | None:
        due_s = min((change.next_at_s for change in self._changes.values()), default=None)
        return due_s if due_s is None or self._left >= 1.0 - _ROUNDING else max(due_s, self._left_at_s + self._rest_s)

    @property
    def _rest_s(self) -> float:
        """Until the budget has a write again, and as many as make a request worth its while."""
        return (max(1.0, _REQUEST_SHARE * self._most) - self._left) / self._writes_per_s_max

    def _within_budget(self, due: list[BrokerSide], now_s: float) -> list[BrokerSide]:
        if math.isinf(self._writes_per_s_max):
            return due
        self._left = min(self._most, self._left + max(0.0, now_s - self._left_at_s) * self._writes_per_s_max)
        self._left_at_s = now_s
        if len(due) > self._left:
            due.sort(key=lambda side: (not self._leads_down(side), self._changes[side].next_at_s))
            due = due[: int(self._left + _ROUNDING)]
        self._left = max(0.0, self._left - len(due))
        return due

    def _leads_down(self, side: BrokerSide) -> bool:
        change = self._changes[side]
        to = change.decision.setpoint_bytes_per_s if change.done else change.steps[0].rate_bytes_per_s
        return min(to, change.decision.setpoint_bytes_per_s) < change.decision.current_bytes_per_s

    def step(self, now_s: float) -> list[RampEnd]:
        """Writes every step that is due and within the budget, all sides together; what ended, well or not."""
        due = [side for side, change in self._changes.items() if change.next_at_s <= now_s]
        due = self._within_budget(due, now_s) if due else due
        if not due:
            return []
        ended = self._stopped(due, now_s)
        wanted: dict[BrokerSide, int | None] = {
            side: change.steps[change.done].rate_bytes_per_s
            for side in due
            if (change := self._changes.get(side)) is not None and change.next_at_s <= now_s
        }
        last: dict[BrokerSide, int | None] = {}
        for side, failure in self._throttles.write_rates(wanted).items() if wanted else ():
            change = self._changes[side]
            if failure is not None:
                ended.append(self._end(side, failure, attempted=(wanted[side],)))
                continue
            change.next_at_s = change.following_at_s(now_s)
            change.done += 1
            change.stood, change.stands = change.stands, wanted[side]
            if change.done == len(change.steps):
                last[side] = change.stands
        for side, failure in self._throttles.confirm_rates(last).items() if last else ():
            # What is not shown yet may be taken all the same, and what stood before it still shows.
            ended.append(
                self._end(side, failure, attempted=(self._changes[side].stood,) if failure is not None else ())
            )
        return ended

    def _stopped(self, due: Sequence[BrokerSide], now_s: float) -> list[RampEnd]:
        """The changes that cannot go on, because what stands there is not what we left."""
        ended: list[RampEnd] = []
        try:
            found = self._throttles.read_rates(due)
        except ClusterError as error:
            return [self._end(side, f"stopped on the way: {error}") for side in due]
        # A broker under load may show our last step late: only what still stands there after a while is somebody's.
        found |= self._again(
            {side: self._changes[side].stands for side, value in found.items() if self._is_news(side, value)}
        )
        for side, value in found.items():
            change = self._changes[side]
            left = change.stands
            if isinstance(value, ClusterError):
                ended.append(self._end(side, f"stopped on the way: {value}"))
            elif value == left or (not change.done and value in change.may_stand):
                change.stands, change.lates = value, 0
            # One that is behind with the cluster's metadata shows it for longer. In the end it is what somebody wants.
            elif change.done and value == change.stood and change.lates < _LATES_MAX:
                change.lates += 1
                change.next_at_s = now_s + _LATE_PAUSE_S
            else:
                failure = f"stopped on the way: {_said(left)} was left there, {_said(value)} stands there now"
                ended.append(RampEnd(self._changes.pop(side).decision, failure, external_change=True, found=value))
        return ended

    def _is_news(self, side: BrokerSide, value: int | ClusterError | None) -> bool:
        """Not what we left, and not what was waited for already."""
        change = self._changes[side]
        return not isinstance(value, ClusterError) and value != change.stands and not change.lates

    def _again(self, left: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, int | ClusterError | None]:
        """What stands there when they had time to show it, all of them together."""
        if not left or not any(self._throttles.confirm_rates(left).values()):
            return dict(left)
        try:
            return self._throttles.read_rates(left)
        except ClusterError as error:
            return dict.fromkeys(left, error)

    def _end(self, side: BrokerSide, failure: Failure | None, attempted: tuple[int | None, ...] = ()) -> RampEnd:
        change = self._changes.pop(side)
        late = (change.stood,) if change.lates else ()  # It shows that, and may go on to for a while.
        return RampEnd(change.decision, failure, may_stand=(change.stands, *late, *attempted))


def _said(value: int | None) -> str:
    return "nothing" if value is None else f"{value} bytes/s"
