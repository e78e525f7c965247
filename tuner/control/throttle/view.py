"""What an observation says about the running moves, and what the judge makes of it.

A move onto a broker passes two throttles: the leader side of every broker it is fetched from, and its own follower side.
Either can be the one that binds, and raising one alone only hands the stall to the other, so a stall is judged by
destination and answered on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from types import MappingProxyType

from streaming.shared.contract import BrokerSignal, MoveSignal, Side, ThrottledBy
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle import rescue_rate
from tuner.control.throttle.diagnosis import stall_detector
from tuner.control.throttle.diagnosis.fetcher_bound import FetcherCollision, find_fetcher_collision
from tuner.control.throttle.diagnosis.signal_sanity import find_contradictions
from tuner.control.throttle.incremental.cycle_cache import CycleCache
from tuner.control.throttle.isr_recovery import sides_blocking_writes, sides_holding_lost_replicas
from tuner.control.throttle.objective import with_max_rate
from tuner.control.throttle.operator_overrides import is_in_force, limit_override
from tuner.control.throttle.plan_moves import leader_margin_rate, plan_setpoints, select_moves_to_list, sides_of_move
from tuner.control.throttle.quota_window.ramp import WINDOW_S
from tuner.control.throttle.state import Memory, RateSince, StallState
from tuner.core.cluster import BrokerSide, LiveCluster, Observation, PartitionMove, RateSetting
from tuner.core.drain_time import SideLoad
from tuner.core.freshness import Freshness, fresh_signals, freshness
from tuner.core.throttle_limits import Limits, StallLimits


class MovesView:
    """What the observation says about the running moves, looked up once."""

    def __init__(
        self,
        observation: Observation,
        live: LiveCluster,
        limits: Limits,
        kept: CycleCache | None = None,
        rates_since: Mapping[BrokerSide, RateSince] = MappingProxyType({}),
        listed: Mapping[str, TopicThrottle] = MappingProxyType({}),
    ) -> None:
        """
        Args:
            rates_since: when the rate of each throttle changed last, as far as that was seen.
            listed: what the tuner has put on the throttled-replica lists of each topic.
        """
        kept = kept or CycleCache()
        kept.follow(live.moves)
        self.now_ms = observation.now_ms
        self.busy, self.empty = observation.ramping, observation.empty_windows
        self.courses = observation.setpoints
        self.orders = observation.orders
        self.moves_to_list = select_moves_to_list(live.moves, observation.plan_moves, limits, listed)
        self.plan_rates = plan_setpoints(live.moves, observation.plan_moves, limits)
        self._limiting_rates = plan_setpoints(live.moves, observation.plan_moves, limits, may_lead=True)
        self._plan_moves = observation.plan_moves
        self.live = live
        self.limits = limits
        told = fresh_signals(observation.brokers, self.now_ms, limits.signal_age_s_max)
        self.recovering = sides_blocking_writes(live, told)
        self._untold = live.brokers - told.keys()
        self._rates_since = rates_since
        self._signals = observation.moves
        self._brokers = observation.brokers
        self._paths = kept.paths
        self.destinations = frozenset(kept.paths.destinations)
        self.sides = kept.paths.sides()
        self.sides_now = frozenset(self.sides)
        self.contradictions = find_contradictions(
            self.sides, live, observation.brokers, observation.moves, observation.now_ms, limits
        )
        self._fresh_brokers: dict[int, BrokerSignal | None] = {}  # None: old or missing. Made where they are asked for.
        self._sides_of: dict[int, list[BrokerSide]] = {}  # Made where they are asked for.
        # A side is asked about for every broker that it copies to or from: each answer is found once, or where it is asked for.
        self._freshness = {
            side: freshness(self._signals.get(side), self.now_ms, limits.signal_age_s_max) for side in self.sides
        }
        self._fresh = {side: self._signals[side] for side, found in self._freshness.items() if found is Freshness.FRESH}
        self.loads: dict[BrokerSide, SideLoad] = {}
        for side, signal in self._fresh.items():
            if signal.remaining_bytes is not None and signal.steady_state_bytes_per_s is not None:
                self.loads[side] = SideLoad(signal.remaining_bytes, signal.steady_state_bytes_per_s)
        courses = ((side, self.courses.get(side)) for side in self.sides)
        self._unsteered = {side for side, course in courses if course is None or course.inputs_stale}
        self._unknown = {side for side in self.sides if not self._is_known(side)}
        self._allowed = {side: self._allowed_on(side) for side in self.sides}
        self._surplus = {side: self._surplus_of(side) for side in self.sides}
        self._bound = {side: self._is_bound(side) for side in self.sides}
        self._unsteered_leaders = {broker for broker, which in self._unsteered if which is Side.LEADER}
        self._share = {
            leader: None if surplus is None else surplus / len(found)
            for leader, found in kept.paths.destinations_of.items()
            for surplus in (self._surplus[(leader, Side.LEADER)],)
        }
        self._heard = frozenset(d for d in self.destinations if (d, Side.FOLLOWER) in self._fresh)
        self._first_bound: dict[int, BrokerSide | None] = {}
        self._crowds: dict[int, FetcherCollision | None] = {}
        self.target_s = rescue_rate.drain_target_s(self.loads, limits)

    def limits_of(self, side: BrokerSide) -> Limits:
        """The operator's limits, with the rate of the plans that copy through this side as its ceiling."""
        rate = self._limiting_rates.get(side)
        return self.limits if rate is None else with_max_rate(self.limits, rate)

    def is_limited_by_plan(self, side: BrokerSide) -> bool:
        """Whether a throttle that an operator gave a plan limits this side, rather than the ceiling."""
        rate = self._limiting_rates.get(side)
        return rate is not None and rate < leader_margin_rate(int(self.limits.rate_bytes_per_s_max), side, self.limits)

    def rate_for_plan(self, side: BrokerSide) -> int | None:
        """The rate of a side that plans copy through: of an override as long as it lasts, else of the plans; None of others."""
        rate, order = self.plan_rates.get(side), limit_override(self.orders.overrides.get(side), self.limits)
        ordered = rate is not None and order is not None and is_in_force(order, self.now_ms)
        return order.bytes_per_s if ordered and order is not None else rate

    @cached_property
    def sides_with_other_moves(self) -> Set[BrokerSide]:
        """The sides that carry moves which are of no plan."""
        others = (m for m in self.live.moves if (m.topic, m.partition) not in self._plan_moves)
        return {side for move in others for side in sides_of_move(move)}

    @cached_property
    def possibly_recovering(self) -> frozenset[BrokerSide]:
        """They hold back lost replicas of brokers that have not said of late whether writes wait for them."""
        return sides_holding_lost_replicas(self.live, self._untold)

    def destinations_through(self, side: BrokerSide) -> Set[int]:
        return {side[0]} if side[1] is Side.FOLLOWER else self._paths.destinations_of.get(side[0], frozenset())

    def measured_destinations(self, side: BrokerSide) -> Set[int]:
        """Of those the ones that are measured."""
        every = self.destinations_through(side)
        return every if len(self._heard) == len(self.destinations) else every & self._heard

    def sides_of(self, destination: int) -> list[BrokerSide]:
        sides = self._sides_of.get(destination)
        if sides is None:
            sides = [(leader, Side.LEADER) for leader in self._paths.leaders_of(destination)]
            sides.append((destination, Side.FOLLOWER))
            self._sides_of[destination] = sides
        return sides

    def surplus_shares_bytes_per_s(self, destination: int) -> list[float | None]:
        """What each leader's throttle leaves for this destination: the same as for each of the leader's others."""
        return [*map(self._share.__getitem__, self._paths.leaders_of(destination))]

    def is_steered(self, destination: int) -> bool:
        """Whether the law means every side that a move onto this broker passes to be as it is."""
        if (destination, Side.FOLLOWER) in self._unsteered:
            return False
        return self._unsteered_leaders.isdisjoint(self._paths.leaders_of(destination))

    def first_bound(self, destination: int) -> BrokerSide | None:
        """A side that binds, of those that a move onto this broker passes."""
        if destination not in self._first_bound:
            self._first_bound[destination] = min(filter(self.is_bound, self.sides_of(destination)), default=None)
        return self._first_bound[destination]

    def first_unknown(self, destination: int) -> BrokerSide | None:
        """A side of which it cannot be said what it lets through, of the same."""
        if not self._unknown:
            return None
        return min((side for side in self.sides_of(destination) if side in self._unknown), default=None)

    def leaders_of(self, destination: int) -> Sequence[int]:
        """Sorted."""
        return self._paths.leaders_of(destination)

    def idle_ratio(self, broker: int) -> float | None:
        """Of its request handlers; None where it is not measured now."""
        signal = self._fresh_broker(broker)
        return None if signal is None else signal.request_handler_idle_ratio

    def fetcher_collision(self, destination: int) -> FetcherCollision | None:
        """The fetcher threads' part in it that a move onto this broker has stalled and no throttle binds."""
        if destination not in self._crowds:
            signal = self.fresh_signal((destination, Side.FOLLOWER))
            self._crowds[destination] = find_fetcher_collision(
                destination, self._moves_onto.get(destination, ()), self.live.fetchers, signal
            )
        return self._crowds[destination]

    @cached_property
    def _moves_onto(self) -> Mapping[int, list[PartitionMove]]:
        found: dict[int, list[PartitionMove]] = {}
        for move in self.live.moves:
            for destination in move.destinations:
                found.setdefault(destination, []).append(move)
        return found

    def signal(self, side: BrokerSide) -> MoveSignal | None:
        return self._signals.get(side)

    def freshness(self, side: BrokerSide) -> Freshness:
        return self._freshness.get(side, Freshness.MISSING)  # Where nothing moves now.

    def has_fresh_signal(self, side: BrokerSide) -> bool:
        """Whether there is news of it: of its move, or where nothing moves of its broker."""
        if side in self._freshness:
            return self._freshness[side] is Freshness.FRESH
        return self._fresh_broker(side[0]) is not None

    def fresh_signal(self, side: BrokerSide) -> MoveSignal | None:
        return self._fresh.get(side)

    def measured_bytes_per_s(self, side: BrokerSide) -> float | None:
        """What passes under this side's throttle. Of the measures that take Kafka's place only one that is not too much:
        by the others a throttle would seem to bind that does not, and be raised for nothing."""
        signal, move = self._fresh_broker(side[0]), self._signals.get(side)
        # Kafka's measure is a mean of its quota's window, and tells of the rate before the last change as long as that is in it.
        if signal is None or signal.sampled_at_ms < self._changed_ms(side) + WINDOW_S * 1000:
            return None
        unlisted_moves = move is not None and move.moving_partitions > move.listed_partitions
        match signal.throttled_by:
            case ThrottledBy.REPLICATION:
                return None
            case ThrottledBy.REASSIGNMENT if unlisted_moves:
                return None
        return signal.leader_throttled_bytes_per_s if side[1] is Side.LEADER else signal.follower_throttled_bytes_per_s

    def _changed_ms(self, side: BrokerSide) -> float:
        """When the rate of this side changed last; minus infinity where it has not, or where the control law sets it."""
        known = self._rates_since.get(side)
        if known is None or known.since_ms == 0 or (side in self._freshness and side not in self._unsteered):
            return float("-inf")
        return known.since_ms

    def changed_ms(self, destination: int) -> float:
        """When a rate changed last that a move onto this broker passes; minus infinity where none has."""
        return max(map(self._changed_ms, self.sides_of(destination)))

    def _fresh_broker(self, broker: int) -> BrokerSignal | None:
        if broker not in self._fresh_brokers:
            signal = self._brokers.get(broker)
            found = freshness(signal, self.now_ms, self.limits.signal_age_s_max)
            self._fresh_brokers[broker] = signal if found is Freshness.FRESH else None
        return self._fresh_brokers[broker]

    def throttle(self, side: BrokerSide) -> RateSetting | None:
        """The rate in force on this side, if it counts any replica at all: a rate without a list throttles nothing."""
        setting = self.live.rates.get(side)
        signal = self._signals.get(side)
        if setting is None or (signal is not None and signal.listed_partitions > 0):
            return setting
        return setting if side in self._listed_now else None

    @cached_property
    def _listed_now(self) -> set[BrokerSide]:
        """Where we throttle what moves, and the signals may not tell of it yet: the sides that the lists name as they stand."""
        found: set[BrokerSide] = set()
        for move in self.moves_to_list:
            lists = self.live.lists.get(move.topic)
            if lists is not None:
                if lists.leader.includes(move.partition, move.leader):
                    found.add((move.leader, Side.LEADER))
                found.update((b, Side.FOLLOWER) for b in move.adding if lists.follower.includes(move.partition, b))
        return found

    def _allowed_on(self, side: BrokerSide) -> float | None:
        """What the throttle lets through in the mean. Under the law the setting plays around it from second to second."""
        setting = self.throttle(side)
        if setting is None:
            return None
        course = self.courses.get(side)
        # In a dry run, or where writes wait for their turn, what is meant is not what stands.
        if course is None or not 0.5 <= setting.bytes_per_s / max(1.0, course.bytes_per_s) <= 1.5:
            return float(setting.bytes_per_s)
        return course.bytes_per_s

    def is_bound(self, side: BrokerSide) -> bool:
        return self._bound[side]

    def _is_bound(self, side: BrokerSide) -> bool:
        allowed, load = self._allowed[side], self.loads.get(side)
        if allowed is None or load is None:
            return False
        return rescue_rate.is_throttle_bound(allowed, load, self.measured_bytes_per_s(side), self.limits)

    def is_known(self, side: BrokerSide) -> bool:
        """Whether it can be said what this side lets through: no throttle is an answer, no measurement is none."""
        return side not in self._unknown

    def _is_known(self, side: BrokerSide) -> bool:
        if side[0] in self.live.unreadable or side[0] not in self.live.brokers:
            return False
        if side not in self.live.rates:
            return True
        signal = self.fresh_signal(side)
        return signal is not None and (signal.listed_partitions == 0 or side in self.loads)

    def surplus_bytes_per_s(self, side: BrokerSide) -> float | None:
        """Throttle less keep-up; None where nothing limits, or where it is not known."""
        return self._surplus[side]

    def _surplus_of(self, side: BrokerSide) -> float | None:
        allowed, load = self._allowed[side], self.loads.get(side)
        return None if allowed is None or load is None else allowed - load.steady_state_bytes_per_s


def judge_stalls(view: MovesView, memory: Memory, limits: StallLimits) -> Mapping[int, StallState]:
    """The judge's word on every broker that something moves onto; others are forgotten."""
    states = {}
    for destination in sorted(view.destinations):
        state = memory.stalls.get(destination, StallState())
        signal = view.fresh_signal((destination, Side.FOLLOWER))
        changed_ms = view.changed_ms(destination)
        # What was lost under another rate is not held against this one: after each change the count starts anew.
        if changed_ms >= view.now_ms or (view.busy and not view.busy.isdisjoint(view.sides_of(destination))):
            states[destination] = StallState(judged_until_ms=max(state.judged_until_ms, view.now_ms))
            continue
        # What a throttle lets through is not known, so neither is what could be expected. The steps wait.
        if view.first_unknown(destination) is not None:
            states[destination] = state
            continue
        leaders = view.surplus_shares_bytes_per_s(destination)
        expected = stall_detector.expected_drain_bytes_per_s(
            view.surplus_bytes_per_s((destination, Side.FOLLOWER)),
            leaders,
            limits,
            steered=view.is_steered(destination),
        )
        steps = [step for step in signal.steps if step.at_ms - 1000 * step.dt_s >= changed_ms] if signal else []
        states[destination] = stall_detector.judge_steps(state, steps, expected, limits) if steps else state
    return states
