"""Warms up quota windows: tracks how full Kafka's quota windows are, and lowers a throttle before a step begins on an idle side.

A side is a broker in its role as leader or as follower of the replicas that move. Kafka averages the throttle of a side over a
window, 11 samples of one second by default. On an idle side this window is empty, so a first burst passes unthrottled, and
producers wait behind the burst. The tuner therefore lowers the throttle before a step begins on an idle side, and raises it to
the previous rate while the window fills.

Invariants:
    A warm-up ends at the previous rate, unless the tuner has chosen another setpoint meanwhile.
    A warm-up that was cut short may be resumed within 30 s. After that, only fresh signals can raise the throttle.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from tuner.control.throttle.decision import Reason, SetRate
from tuner.control.throttle.policy import RESCUE_REASONS
from tuner.control.throttle.quota_window.age import QuotaAges
from tuner.control.throttle.quota_window.ramp import FILL_S, WINDOW_S, RampStep, plan_fill, plan_ramp
from tuner.control.throttle.replica_lists.prepared_moves import sides_of
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide, LiveCluster, PartitionMove
from tuner.core.throttle_limits import ThrottleLimits
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.ramp_executor import RampEnd, RampExecutor

# In the first seconds of a move, a raise is delayed because its quota window is not full. Raises for these reasons are not delayed:
# a stalled move is older than a few seconds; for ISR recovery a burst does less harm than partitions that accept no writes; and an
# interrupted warm-up has filled a part of the window.
_NOT_DELAYED = RESCUE_REASONS | {Reason.ISR_RECOVERY, Reason.WINDOW_WARMUP}
# A resumed warm-up ends at the rate before the warm-up. After a longer time, that rate may no longer be right.
_RESUMES_S_MAX = 30.0
_IDLE_S_MIN = 1.5  # A shorter pause leaves no more unused quota in the window than usual fluctuation.
# Time until the replicas of a step exist and fetch. The quota that is unused in this time would pass as a burst. The control law
# measures and corrects this; without the law, the rate has to stay low for this additional time.
_STARTS_S = 3.0


class WindowWarmup:
    def __init__(self, ramps: RampExecutor, limits: ThrottleLimits, clock: Clock, *, writes_per_s_max: float) -> None:
        self._ramps = ramps
        self.limits = limits
        self._clock = clock
        self._writes_per_s_max = writes_per_s_max
        self._ages = QuotaAges()
        self._live = LiveCluster(frozenset())  # The last snapshot.
        # How long each side was idle on which a step of a plan is about to begin.
        self._idle_s: Mapping[BrokerSide, float] = {}
        # Sides on which a step has begun since the last snapshot.
        self._just_started: frozenset[BrokerSide] = frozenset()
        self._cut_short_at_s: dict[BrokerSide, float] = {}  # End of each warm-up that ended below the previous rate.

    def update(self, live: LiveCluster, carrying: Collection[BrokerSide]) -> None:
        """Updates the ages of the quota windows from a new snapshot.

        Args:
            carrying: sides through which partitions move.
        """
        self._live = live
        window_s = max(map(live.quota_window_s, live.brokers), default=WINDOW_S)
        self._ages = self._ages.with_snapshot(
            carrying, self._clock.monotonic_s(), lists_set=bool(live.lists), window_s=window_s
        )

    def active(self) -> dict[BrokerSide, SetRate]:
        """Returns the warm-ups that are under way."""
        return {s: change for s, change in self._ramps.changes.items() if change.reason is Reason.WINDOW_WARMUP}

    def pending_sides(self, memory: Memory) -> frozenset[BrokerSide]:
        """Returns the sides that warm up, and the sides whose warm-up was cut short and can be resumed."""
        since_s = self._clock.monotonic_s() - _RESUMES_S_MAX
        self._cut_short_at_s = {
            side: at_s
            for side, at_s in self._cut_short_at_s.items()
            if at_s >= since_s and self._ends_at_rate_before(memory.owned.get(side))
        }
        return frozenset(self.active()) | self._cut_short_at_s.keys()

    def _ends_at_rate_before(self, managed: OwnedRate | None) -> bool:
        """Returns whether a side's warm-up would still end at the rate before it: no other setpoint was chosen meanwhile."""
        if managed is None or managed.restore_to_bytes_per_s is None:
            return False
        return managed.setpoint_bytes_per_s == min(
            managed.restore_to_bytes_per_s, int(self.limits.rate_bytes_per_s_max)
        )

    def find_unfilled(
        self,
        live: LiveCluster,
        prepared: Sequence[PartitionMove],
        urgent: Sequence[PartitionMove],
        throttled: Collection[PartitionMove],
        carried_at_s: Mapping[BrokerSide, float],
    ) -> frozenset[BrokerSide]:
        """Returns the sides with a quota window that is not full, on which a step begins or has begun since the last snapshot.

        Args:
            live: the snapshot, without the prepared steps.
            prepared: the steps that are about to begin.
            urgent: the prepared steps that do not wait for a warm-up.
            throttled: the moves under way that the tuner throttles.
            carried_at_s: when the reassignment executor last saw its steps copy through a side, in monotonic seconds.
        """
        starting = sides_of(prepared) - sides_of(urgent)
        if self.limits.closed_loop:
            return self.find_empty(live, starting) if prepared else frozenset()
        return self.find_idle(live, starting, sides_of(throttled), carried_at_s)

    def find_empty(self, live: LiveCluster, starting: Collection[BrokerSide]) -> frozenset[BrokerSide]:
        """Returns the sides of ``starting`` whose quota window is empty."""
        if live.lists:
            # Kafka counts the traffic of all listed replicas, even of replicas that do not move, so no window is certainly empty.
            return frozenset()
        empty = self._ages.empty_windows(starting, self._clock.monotonic_s())
        # Another tool may have begun a move on some of these sides since the last snapshot.
        return empty - sides_of(live.moves) if empty else empty

    def find_idle(
        self,
        live: LiveCluster,
        starting: Collection[BrokerSide],
        moving: Collection[BrokerSide],
        carried_at_s: Mapping[BrokerSide, float],
    ) -> frozenset[BrokerSide]:
        """Returns the sides that were idle, and on which a plan's step begins or has begun since the last snapshot.

        A side without a history is treated as idle. A needless warm-up costs only some seconds, but without a necessary warm-up up
        to twice the rate passes within a window.

        Args:
            starting: sides where steps of plans are about to begin.
            moving: sides where steps of plans run.
            carried_at_s: when the reassignment executor last saw its steps copy through a side. The executor reads the cluster
                more often than the throttle controller.
        """
        now_s, ages = self._clock.monotonic_s(), self._ages
        # Steps in the first snapshot were running before, so they have not just started.
        self._just_started = (
            frozenset() if ages.snapshot_at_s is None else frozenset(s for s in moving if not ages.is_carrying(s))
        )
        beginning = (*({*starting} - sides_of(live.moves)), *self._just_started)
        idle_s = {s: now_s - max(ages.carried_at_s(s), carried_at_s.get(s, -math.inf)) for s in beginning}
        self._idle_s = {side: idle for side, idle in idle_s.items() if idle >= _IDLE_S_MIN}
        return frozenset(self._idle_s)

    def drop_unneeded(
        self, changes: Sequence[SetRate], empty: frozenset[BrokerSide], starting: Iterable[PartitionMove]
    ) -> list[SetRate]:
        """Returns ``changes`` without the warm-ups of sides on which no step begins after all. Such sides keep an empty window.

        Args:
            empty: sides with a window that is not full, from this cycle's observation.
            starting: the prepared steps that do begin.
        """
        idle = empty - sides_of(starting) - self._cut_short_at_s.keys() - self._just_started
        self._ages = self._ages.without(idle - self.active().keys())
        return [c for c in changes if c.reason is not Reason.WINDOW_WARMUP or (c.broker, c.side) not in idle]

    def ramp_steps(self, change: SetRate, ramp_count: int) -> tuple[RampStep, ...]:
        """Returns the steps of a rate change: a warm-up or an ordinary ramp.

        Args:
            ramp_count: number of ramps that share the write budget.
        """
        side, now_s, budget = (change.broker, change.side), self._clock.monotonic_s(), self._writes_per_s_max
        if change.reason is Reason.WINDOW_WARMUP and side not in self._cut_short_at_s:
            # The window holds the traffic of the last ``FILL_S`` seconds. The side was idle for a part of this time.
            filled_ratio = max(0.0, 1.0 - self._idle_s.get(side, math.inf) / FILL_S)
            first_rate = max(self.limits.warmup_start_bytes_per_s, filled_ratio * change.setpoint_bytes_per_s)
            starts_s = 0.0 if self.limits.closed_loop else _STARTS_S
            return plan_fill(
                change.setpoint_bytes_per_s, first_rate, sides=ramp_count, writes_per_s_max=budget, starts_s=starts_s
            )
        return plan_ramp(
            change.current_bytes_per_s,
            change.setpoint_bytes_per_s,
            sides=ramp_count,
            writes_per_s_max=budget,
            age_s=self._ages.age_s(side, now_s),
            move_age_s=math.inf if change.reason in _NOT_DELAYED else self._ages.move_age_s(side, now_s),
            window_s=self._live.quota_window_s(change.broker),
        )

    def resume(self, changes: Iterable[SetRate]) -> frozenset[BrokerSide]:
        """Notes that ``changes`` begin. Returns the sides whose warm-up had been cut short before."""
        resumed = frozenset(self._cut_short_at_s)
        for change in changes:
            self._cut_short_at_s.pop((change.broker, change.side), None)
        return resumed

    def find_late(self, resumed: frozenset[BrokerSide]) -> list[BrokerSide]:
        """Returns the sides whose warm-up has not lowered the rate in time, before a step begins.

        Args:
            resumed: sides whose warm-up is resumed, so that their rate is low already.
        """
        waiting = self._ramps.waiting.items()
        return [side for side, c in waiting if c.reason is Reason.WINDOW_WARMUP and side not in resumed]

    def note_ended(self, ends: Iterable[RampEnd]) -> None:
        """Records warm-ups that were cut short: they may have lowered the rate, but have not raised it again."""
        for end in ends:
            decision = end.decision
            rate_before = decision.current_bytes_per_s if decision.is_set_on_broker else None
            may_be_lowered = any(rate != rate_before for rate in end.possible_rates)
            if decision.reason is Reason.WINDOW_WARMUP and end.failure is not None and may_be_lowered:
                self._cut_short_at_s[(decision.broker, decision.side)] = self._clock.monotonic_s()
