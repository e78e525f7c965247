"""The windows of the quotas, as far as the loop has to know them: which are empty, which are being filled, how old the others are.

Intuition: a quota counts over twelve seconds, and what it does right after a change depends on what it has counted before. An
idle one lets twelve seconds' worth through at once, and producers wait behind that. So before something begins where nothing has
moved, its throttle is lowered, and brought up again to what stood as its window fills: it *fills*.

Invariant: what fills comes to what stood, unless somebody has meant something else since. What was *cut short* while it filled is
gone on with for half a minute; later only news of now raises a throttle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tuner.control.throttle.decision import Reason, SetRate
from tuner.control.throttle.policy import RESCUES
from tuner.control.throttle.quota_window.age import QuotaAges
from tuner.control.throttle.quota_window.ramp import FILLS_S, RampStep, plan_fill, plan_ramp
from tuner.control.throttle.replica_lists.prepared_moves import sides_of
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, LiveCluster, PartitionMove
from tuner.core.throttle_limits import Limits
from tuner.runtime.throttle.ramp_executor import RampEnd, RampExecutor

# Ways up that do not wait for their move to be older. What is judged to have stalled is not in its first seconds, though its
# leader may be new; where partitions take no writes, that a young move gets a burst through is the lesser harm; and what was cut
# short while it was brought up has its window half full.
_AT_ONCE = RESCUES | {Reason.ISR_RECOVERY, Reason.WINDOW_WARMUP}
# So long a way up that was cut short is gone on with as if it had not been: what stood was right half a minute ago.
_RESUMES_S_MAX = 30.0
# What did not pass for so long passes at once, and again with every window: of a window no more than its slack.
_IDLE_S_MIN = 1.5
# Until the replicas of a step are made and their fetchers run. What does not flow meanwhile would pass at once, and again with
# every window. The law looks at what passes and corrects that; without it a rate stands as it is.
_STARTS_S = 3.0


class WindowWarmup:
    def __init__(
        self, slewing: RampExecutor, limits: Limits, *, monotonic: Callable[[], float], writes_per_s_max: float
    ) -> None:
        self._slewing = slewing
        self._limits = limits
        self._monotonic = monotonic
        self._writes_per_s_max = writes_per_s_max
        self._ages = QuotaAges()
        self._idle_s: Mapping[BrokerSide, float] = {}  # Of the sides where steps of plans are about to begin.
        self._begun: frozenset[BrokerSide] = frozenset()  # Where one has begun since the last look.
        # Throttles that are still to be brought up to what stood, and since when.
        self._cut_short: dict[BrokerSide, float] = {}

    def seen(self, live: LiveCluster, carrying: Collection[BrokerSide]) -> None:
        """One more look at the cluster, in which these sides carry something."""
        self._ages = self._ages.with_snapshot(carrying, self._monotonic(), lists_set=bool(live.lists))

    def filling(self) -> dict[BrokerSide, SetRate]:
        """The changes under way that do it."""
        return {s: change for s, change in self._slewing.changes.items() if change.reason is Reason.WINDOW_WARMUP}

    def in_question(self, memory: Memory) -> frozenset[BrokerSide]:
        """The sides that fill, and those that were cut short a moment ago of which nobody has meant anything else since."""
        owned, since_s = memory.owned, self._monotonic() - _RESUMES_S_MAX
        ceiling = int(self._limits.rate_bytes_per_s_max)
        self._cut_short = {
            side: at_s
            for side, at_s in self._cut_short.items()
            if at_s >= since_s
            and (ours := owned.get(side)) is not None
            and ours.goes_back_to_bytes_per_s is not None
            and ours.setpoint_bytes_per_s == min(ours.goes_back_to_bytes_per_s, ceiling)
        }
        return frozenset(self.filling()) | self._cut_short.keys()

    def begun_empty(
        self,
        live: LiveCluster,
        announced: Sequence[PartitionMove],
        urgent: Sequence[PartitionMove],
        throttled: Collection[PartitionMove],
        carried_at_s: Mapping[BrokerSide, float],
    ) -> frozenset[BrokerSide]:
        """The sides where something is about to begin, or has begun since the last look, and whose window is not full.

        Args:
            live: as the cluster is, without what is announced.
            announced: the steps that are about to begin.
            urgent: those of them that do not wait for a window.
            throttled: the moves that run and that the tuner throttles.
            carried_at_s: when the executor of plans saw its steps run there last.
        """
        begin = sides_of(announced) - sides_of(urgent)
        if self._limits.steers:
            return self.empty(live, begin) if announced else frozenset()
        return self.idle(live, begin, sides_of(throttled), carried_at_s)

    def empty(self, live: LiveCluster, begin: Collection[BrokerSide]) -> frozenset[BrokerSide]:
        """Of the sides where something is to begin now, those where it would find nothing in the window."""
        if live.lists:  # Who is on one has counted, whether anything moved or not.
            return frozenset()
        found = self._ages.empty_windows(begin, self._monotonic())
        # Somebody may have begun to move something there since the last look.
        return found - sides_of(live.moves) if found else found

    def idle(
        self,
        live: LiveCluster,
        begin: Collection[BrokerSide],
        moving: Collection[BrokerSide],
        carried_at_s: Mapping[BrokerSide, float],
    ) -> frozenset[BrokerSide]:
        """The sides that are about to carry a plan, or have begun to since the last look, and whose window is not full.

        A window of which nothing is known counts as empty: to fill it once too often takes some seconds, and not to fill it would
        let twice the rate pass within a window.

        Args:
            begin: where steps of plans are about to begin.
            moving: where steps of plans run.
            carried_at_s: when the executor of plans saw its steps run there last; it looks more often than the tuner.
        """
        now_s, ages = self._monotonic(), self._ages
        # At a first look what runs has run before.
        self._begun = (
            frozenset() if ages.looked_at_s is None else frozenset(s for s in moving if not ages.is_carrying(s))
        )
        begins = (*({*begin} - sides_of(live.moves)), *self._begun)
        idle_s = {s: now_s - max(ages.carried_at_s(s), carried_at_s.get(s, -math.inf)) for s in begins}
        self._idle_s = {side: idle for side, idle in idle_s.items() if idle >= _IDLE_S_MIN}
        return frozenset(self._idle_s)

    def that_fill(
        self, changes: Sequence[SetRate], empty: frozenset[BrokerSide], begin: Iterable[PartitionMove]
    ) -> list[SetRate]:
        """Without the fillings of sides where nothing begins after all, whose windows are as empty the next time.

        Args:
            empty: as this cycle's observation has it.
            begin: what does, of all that was to.
        """
        idle = empty - sides_of(begin) - self._cut_short.keys() - self._begun
        self._ages = self._ages.without(idle - self.filling().keys())
        return [c for c in changes if c.reason is not Reason.WINDOW_WARMUP or (c.broker, c.side) not in idle]

    def steps(self, change: SetRate, together: int) -> tuple[RampStep, ...]:
        """
        Args:
            together: so many changes share the budget of writes.
        """
        side, now_s, budget = (change.broker, change.side), self._monotonic(), self._writes_per_s_max
        if change.reason is Reason.WINDOW_WARMUP and side not in self._cut_short:
            held = max(0.0, 1.0 - self._idle_s.get(side, math.inf) / FILLS_S)  # Of the window, what is still counted.
            least = max(self._limits.fill_from_bytes_per_s, held * change.setpoint_bytes_per_s)
            starts_s = 0.0 if self._limits.steers else _STARTS_S
            return plan_fill(
                change.setpoint_bytes_per_s, least, sides=together, writes_per_s_max=budget, starts_s=starts_s
            )
        return plan_ramp(
            change.current_bytes_per_s,
            change.setpoint_bytes_per_s,
            sides=together,
            writes_per_s_max=budget,
            age_s=self._ages.age_s(side, now_s),
            move_age_s=math.inf if change.reason in _AT_ONCE else self._ages.move_age_s(side, now_s),
        )

    def go_on(self, changes: Iterable[SetRate]) -> frozenset[BrokerSide]:
        """These begin: of the sides that were cut short, all that were until now."""
        resumed = frozenset(self._cut_short)
        for change in changes:
            self._cut_short.pop((change.broker, change.side), None)
        return resumed

    def too_late(self, resumed: frozenset[BrokerSide]) -> list[BrokerSide]:
        """Sides that have not been lowered yet, and were to be before what begins there begins."""
        waiting = self._slewing.waiting.items()
        return [side for side, c in waiting if c.reason is Reason.WINDOW_WARMUP and side not in resumed]

    def ended(self, ended: Iterable[RampEnd]) -> None:
        """Of those, the fillings that have been lowered and have not come to what stood are cut short."""
        for each in ended:
            decision = each.decision
            stood = decision.current_bytes_per_s if decision.own else None
            if decision.reason is Reason.WINDOW_WARMUP and each.failure is not None and {*each.may_stand} - {stood}:
                self._cut_short[(decision.broker, decision.side)] = self._monotonic()
