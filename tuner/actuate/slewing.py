"""Changes of rate that are under way: which step is due, and whether the way is still free.

Before each step the live value is read: if it is none that we left there, somebody else has spoken, and the change stops
where it is. Between that read and the write there are some milliseconds in which Kafka offers no compare-and-set; whoever
writes exactly then is noticed by the next look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streaming.kafka.cluster import ClusterError
from tuner.actuate.throttles import Failure, Throttles
from tuner.model.cluster import BrokerSide
from tuner.model.decision import SetRate
from tuner.plan.slew import SlewStep


@dataclass(slots=True)
class _Change:
    decision: SetRate
    steps: tuple[SlewStep, ...]
    started_s: float
    done: int = 0
    stands: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    decision: SetRate
    failure: Failure | None


class Slewing:
    def __init__(self, throttles: Throttles, *, check: bool = True) -> None:
        """``check`` False: do not look for others' values, as in a dry run, where ours never stand there."""
        self._throttles = throttles
        self._check = check
        self._changes: dict[BrokerSide, _Change] = {}

    @property
    def busy(self) -> frozenset[BrokerSide]:
        return frozenset(self._changes)

    def start(self, decision: SetRate, steps: Sequence[SlewStep], now_s: float) -> None:
        self._changes[(decision.broker, decision.side)] = _Change(
            decision, tuple(steps), now_s, stands=decision.live_bytes_per_s
        )

    def drop(self, side: BrokerSide) -> None:
        self._changes.pop(side, None)

    def next_due_s(self) -> float | None:
        return min((c.started_s + c.steps[c.done].after_s for c in self._changes.values()), default=None)

    def step(self, now_s: float) -> list[Ended]:
        """Writes every step that is due, all sides together; what ended, well or not. A late step skips what it missed."""
        due: dict[BrokerSide, int] = {}
        for side, change in self._changes.items():
            passed = sum(1 for s in change.steps if change.started_s + s.after_s <= now_s)
            if passed > change.done:
                due[side] = passed
        if not due:
            return []
        ended: list[Ended] = []
        if self._check:
            try:
                found = self._throttles.read_rates(due)
            except ClusterError as error:
                found = dict.fromkeys(due, error)
            for side, value in found.items():
                change = self._changes[side]
                if isinstance(value, ClusterError):
                    ended.append(self._end(side, f"stopped at {change.stands} bytes/s: {value}"))
                elif value != change.stands:
                    ended.append(
                        self._end(side, f"stopped: {change.stands} bytes/s was left there, {value} stands there now")
                    )
        going = {side: passed for side, passed in due.items() if side in self._changes}
        wanted = {side: self._changes[side].steps[passed - 1].rate_bytes_per_s for side, passed in going.items()}
        last: dict[BrokerSide, int | None] = {}
        for side, failure in self._throttles.write_rates(wanted).items() if wanted else ():
            change = self._changes[side]
            if failure is not None:
                ended.append(self._end(side, failure))
                continue
            change.done, change.stands = going[side], wanted[side]
            if change.done == len(change.steps):
                last[side] = change.stands
        for side, failure in self._throttles.confirm_rates(last).items() if last else ():
            ended.append(self._end(side, failure))
        return ended

    def _end(self, side: BrokerSide, failure: Failure | None) -> Ended:
        return Ended(self._changes.pop(side).decision, failure)
