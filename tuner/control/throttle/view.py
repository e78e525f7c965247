"""Derives from one observation which throttles the running moves use, and what limits the moves.

The moves onto one broker use its own follower side and the leader side of every broker that it fetches from. Each of these
throttles can limit the moves, and after a raise of one throttle another one limits. So stalls are judged by destination
(``stall_states.py``) and answered on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from types import MappingProxyType

from streaming.shared.contract import BrokerSignal, MoveSignal, Side, ThrottledBy
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle import rescue_rate
from tuner.control.throttle.diagnosis.fetcher_bound import FetcherCollision, find_fetcher_collision
from tuner.control.throttle.diagnosis.signal_sanity import find_contradictions
from tuner.control.throttle.incremental.cycle_cache import CycleCache
from tuner.control.throttle.isr_recovery import sides_blocking_writes, sides_slowing_lost_replicas
from tuner.control.throttle.objective import with_max_rate
from tuner.control.throttle.operator_overrides import is_in_force, limit_override
from tuner.control.throttle.plan_moves import leader_margin_rate, plan_setpoints, select_moves_to_list, sides_of_move
from tuner.control.throttle.recovery import is_recovery, sides_at_min_isr, sides_of_recoveries
from tuner.control.throttle.state import RateSince
from tuner.core.cluster import BrokerSide, LiveCluster, Observation, PartitionMove, RateSetting
from tuner.core.drain_time import SideLoad
from tuner.core.freshness import Freshness, fresh_signals, freshness
from tuner.core.throttle_limits import ThrottleLimits

_NEVER_MS = float("-inf")


class MovesView:
    """One observation, indexed by side and by destination. Each value is computed once, some values only on request.

    Attributes:
        destinations: brokers that running moves copy onto.
        ramping: sides with a rate change in progress.
        empty_windows: sides whose quota window has to warm up.
        setpoints: the control law's setpoints, by side.
        plan_rates: the rate that plans allow each side that they copy through, in bytes/s.
        moves_to_list: the moves whose replicas belong on the throttled-replica lists.
        vetoes: the external checks that veto now.
        eta_ratios, deadline_forecasts: by side, as in ``Observation``.
        blocking_writes: sides whose throttle slows lost replicas that partitions need before they accept writes.
        sides: the sides that the running moves use, leaders first.
        contradictions: sides whose fresh signals contradict each other, with the explanation.
        loads: the measured load of each side with fresh signals.
        target_s: the time in which all moves can end together at the ceiling.
    """

    def __init__(
        self,
        observation: Observation,
        live: LiveCluster,
        limits: ThrottleLimits,
        cache: CycleCache | None = None,
        rates_since: Mapping[BrokerSide, RateSince] = MappingProxyType({}),
        listed: Mapping[str, TopicThrottle] = MappingProxyType({}),
    ) -> None:
        """
        Args:
            rates_since: the time of the last change of each throttle's rate, if the tuner observed it.
            listed: the entries that the tuner made in the throttled-replica lists, by topic.
        """
        cache = cache or CycleCache()
        cache.follow(live.moves)
        self.live, self.limits, self.now_ms = live, limits, observation.now_ms
        self.ramping, self.empty_windows = observation.ramping, observation.empty_windows
        self.setpoints = observation.setpoints
        self.orders = observation.orders
        self.vetoes = observation.vetoes
        self.eta_ratios = observation.eta_ratios
        self.deadline_forecasts = observation.deadline_forecasts
        self._plan_moves = observation.plan_moves
        self.moves_to_list = select_moves_to_list(live.moves, self._plan_moves, limits, listed)
        self.plan_rates = plan_setpoints(live.moves, self._plan_moves, limits)
        self._limiting_rates = plan_setpoints(live.moves, self._plan_moves, limits, may_lead=True)
        fresh_brokers = fresh_signals(observation.broker_signals, self.now_ms, limits.signal_age_s_max)
        self.blocking_writes = sides_blocking_writes(live, fresh_brokers)
        self._unmeasured_brokers = live.brokers - fresh_brokers.keys()
        self._signals = observation.move_signals
        self._brokers = observation.broker_signals
        self._paths = cache.paths
        self.destinations = frozenset(cache.paths.destinations)
        self.sides = cache.paths.sides()
        self.side_set = frozenset(self.sides)
        self.contradictions = find_contradictions(
            self.sides, live, observation.broker_signals, observation.move_signals, observation.now_ms, limits
        )
        # The next four mappings are filled on request.
        self._fresh_brokers: dict[int, BrokerSignal | None] = {}  # None: old or missing.
        self._sides_of: dict[int, list[BrokerSide]] = {}
        self._first_bound: dict[int, BrokerSide | None] = {}
        self._collisions: dict[int, FetcherCollision | None] = {}
        # The rest is computed in advance, once per side: each side is looked up for every broker that it copies to or from.
        self._freshness = {
            side: freshness(self._signals.get(side), self.now_ms, limits.signal_age_s_max) for side in self.sides
        }
        self._fresh_moves = {
            side: self._signals[side] for side, state in self._freshness.items() if state is Freshness.FRESH
        }
        self.loads: dict[BrokerSide, SideLoad] = {}
        for side, signal in self._fresh_moves.items():
            if signal.remaining_bytes is not None and signal.steady_state_bytes_per_s is not None:
                self.loads[side] = SideLoad(signal.remaining_bytes, signal.steady_state_bytes_per_s)
        setpoints = ((side, self.setpoints.get(side)) for side in self.sides)
        self._unsteered = {side for side, setpoint in setpoints if setpoint is None or setpoint.inputs_stale}
        self._unsteered_leaders = {broker for broker, direction in self._unsteered if direction is Side.LEADER}
        # The control law changes a rate every second; such a change is ignored.
        self._changed_ms = {
            side: since.since_ms
            for side, since in rates_since.items()
            if since.since_ms > 0 and (side not in self._freshness or side in self._unsteered)
        }
        self._unmeasured = {side for side in self.sides if not self._is_measured(side)}
        self._mean_rates = {side: self._mean_rate(side) for side in self.sides}
        self._surplus = {side: self._surplus_of(side) for side in self.sides}
        self._bound = {side: self._is_bound(side) for side in self.sides}
        self._surplus_shares = {
            leader: None if surplus is None else surplus / len(destinations)
            for leader, destinations in cache.paths.destinations_of.items()
            for surplus in (self._surplus[(leader, Side.LEADER)],)
        }
        self._measured_destinations = frozenset(d for d in self.destinations if (d, Side.FOLLOWER) in self._fresh_moves)
        self.target_s = rescue_rate.drain_target_s(self.loads, limits)

    def limits_of(self, side: BrokerSide) -> ThrottleLimits:
        """Returns the operator's limits, with the rate of the plans that copy through this side as its ceiling."""
        rate = self._limiting_rates.get(side)
        return self.limits if rate is None else with_max_rate(self.limits, rate)

    def is_limited_by_plan(self, side: BrokerSide) -> bool:
        """Whether a throttle that an operator gave a plan limits this side, rather than the ceiling."""
        rate = self._limiting_rates.get(side)
        return rate is not None and rate < leader_margin_rate(int(self.limits.rate_bytes_per_s_max), side, self.limits)

    def rate_for_plan(self, side: BrokerSide) -> int | None:
        """Returns the override in force on a side of a plan, else the plan's rate, in bytes/s; None without a plan."""
        rate, order = self.plan_rates.get(side), limit_override(self.orders.overrides.get(side), self.limits)
        if rate is None or order is None or not is_in_force(order, self.now_ms):
            return rate
        return order.bytes_per_s

    @cached_property
    def recovery_sides(self) -> Set[BrokerSide]:
        """The sides that carry recoveries, and no reassignment."""
        return sides_of_recoveries(self.live.moves)

    @cached_property
    def sides_at_min_isr(self) -> Set[BrokerSide]:
        """The sides that carry recoveries of partitions exactly at min.insync.replicas."""
        return sides_at_min_isr(self.live)

    @cached_property
    def sides_with_external_moves(self) -> Set[BrokerSide]:
        """The sides that carry a move of another tool."""
        external_moves = (
            m for m in self.live.moves if (m.topic, m.partition) not in self._plan_moves and not is_recovery(m)
        )
        return {side for move in external_moves for side in sides_of_move(move)}

    @cached_property
    def possibly_blocking_writes(self) -> frozenset[BrokerSide]:
        """Sides that slow lost replicas of leaders without a fresh signal: writes may wait for them."""
        return sides_slowing_lost_replicas(self.live, self._unmeasured_brokers)

    def destinations_through(self, side: BrokerSide) -> Set[int]:
        """Returns the brokers that copy through this side."""
        return {side[0]} if side[1] is Side.FOLLOWER else self._paths.destinations_of.get(side[0], frozenset())

    def measured_destinations(self, side: BrokerSide) -> Set[int]:
        """Returns the brokers that copy through this side and have a fresh signal."""
        destinations = self.destinations_through(side)
        if len(self._measured_destinations) == len(self.destinations):
            return destinations
        return destinations & self._measured_destinations

    def sides_of(self, destination: int) -> list[BrokerSide]:
        """Returns the sides that moves onto this broker use: its leaders', then its own."""
        sides = self._sides_of.get(destination)
        if sides is None:
            sides = [(leader, Side.LEADER) for leader in self._paths.leaders_of(destination)]
            sides.append((destination, Side.FOLLOWER))
            self._sides_of[destination] = sides
        return sides

    def surplus_shares_bytes_per_s(self, destination: int) -> list[float | None]:
        """Returns the surplus of each leader of this destination, divided by the number of the leader's destinations."""
        return [*map(self._surplus_shares.__getitem__, self._paths.leaders_of(destination))]

    def is_steered(self, destination: int) -> bool:
        """Whether the control law sets every throttle that moves onto this broker use."""
        if not self._unsteered:
            return True
        if (destination, Side.FOLLOWER) in self._unsteered:
            return False
        return self._unsteered_leaders.isdisjoint(self._paths.leaders_of(destination))

    def first_bound_side(self, destination: int) -> BrokerSide | None:
        """Returns the first side, in sorted order, whose throttle limits the moves onto this broker; None if none does."""
        if destination not in self._first_bound:
            self._first_bound[destination] = min(filter(self.is_bound, self.sides_of(destination)), default=None)
        return self._first_bound[destination]

    def first_unmeasured_side(self, destination: int) -> BrokerSide | None:
        """Returns the first side of the moves onto this broker whose throughput is unknown; None if all are known."""
        if not self._unmeasured:
            return None
        return min((side for side in self.sides_of(destination) if side in self._unmeasured), default=None)

    def awaiting_remote(self, destination: int) -> int:
        """Returns how many replicas of tiered topics on this broker have to read the state of the remote log before they copy."""
        signal = self.fresh_signal((destination, Side.FOLLOWER))
        return 0 if signal is None else signal.await_remote_partitions

    def is_held_by_remote_storage(self, destination: int) -> bool:
        """Returns whether each replica that moves onto this broker has to read the state of the remote log before its first byte.

        A throttle that is used up also keeps new replicas empty. Then the throttle is the cause.
        """
        signal = self.fresh_signal((destination, Side.FOLLOWER))
        if signal is None or not all_await_remote_state(signal):
            return False
        return all(self._is_measured_unused(side) for side in self.sides_of(destination))

    def _is_measured_unused(self, side: BrokerSide) -> bool:
        """Returns whether this side has no throttle, or one that is measured as not used up."""
        setting, measured = self.throttle(side), self.measured_bytes_per_s(side)
        if setting is None:
            return True
        return measured is not None and measured < self.limits.bound_ratio * setting.bytes_per_s

    def leaders_of(self, destination: int) -> Sequence[int]:
        """Returns the brokers that this one copies from, sorted."""
        return self._paths.leaders_of(destination)

    def idle_ratio(self, broker: int) -> float | None:
        """Returns the idle ratio of the broker's request handlers; None without a fresh signal."""
        signal = self._fresh_broker(broker)
        return None if signal is None else signal.request_handler_idle_ratio

    def fetcher_collision(self, destination: int) -> FetcherCollision | None:
        """Returns the fetcher collision that explains a stall of the moves onto this broker; None without one."""
        if destination not in self._collisions:
            signal = self.fresh_signal((destination, Side.FOLLOWER))
            self._collisions[destination] = find_fetcher_collision(
                destination, self._moves_onto.get(destination, ()), self.live.fetchers, signal
            )
        return self._collisions[destination]

    @cached_property
    def _moves_onto(self) -> Mapping[int, list[PartitionMove]]:
        moves: dict[int, list[PartitionMove]] = {}
        for move in self.live.moves:
            for destination in move.destinations:
                moves.setdefault(destination, []).append(move)
        return moves

    def signal(self, side: BrokerSide) -> MoveSignal | None:
        return self._signals.get(side)

    def freshness(self, side: BrokerSide) -> Freshness:
        """Returns the freshness of a side's move signal; MISSING for a side that no move uses."""
        return self._freshness.get(side, Freshness.MISSING)

    def has_fresh_signal(self, side: BrokerSide) -> bool:
        """Whether the side's move signal is fresh; for a side that no move uses, whether the broker's signal is."""
        if side in self._freshness:
            return self._freshness[side] is Freshness.FRESH
        return self._fresh_broker(side[0]) is not None

    def fresh_signal(self, side: BrokerSide) -> MoveSignal | None:
        return self._fresh_moves.get(side)

    def measured_bytes_per_s(self, side: BrokerSide) -> float | None:
        """Returns the bytes/s that count against this side's throttle; None if that is not measured.

        Kafka's quota metric is a mean over the quota window, so it is used only once a window has passed since the last change.
        Metrics that count other bytes too are not used: with them, a throttle would seem to limit a move that it does not limit.
        """
        signal, move = self._fresh_broker(side[0]), self._signals.get(side)
        if signal is None:
            return None
        changed_ms = self._changed_ms.get(side)
        if changed_ms is not None and signal.sampled_at_ms < changed_ms + self.live.quota_window_s(side[0]) * 1000:
            return None
        unlisted_moves = move is not None and move.moving_partitions > move.listed_partitions
        match signal.throttled_by:
            case ThrottledBy.REPLICATION:
                return None
            case ThrottledBy.REASSIGNMENT if unlisted_moves:
                return None
        return signal.leader_throttled_bytes_per_s if side[1] is Side.LEADER else signal.follower_throttled_bytes_per_s

    def last_change_ms(self, destination: int) -> float:
        """Returns the time of the last rate change on any side that moves onto this broker use; minus infinity without one.

        A rate that the control law sets is treated as unchanged.
        """
        if not self._changed_ms:
            return _NEVER_MS
        return max(self._changed_ms.get(side, _NEVER_MS) for side in self.sides_of(destination))

    def _fresh_broker(self, broker: int) -> BrokerSignal | None:
        if broker not in self._fresh_brokers:
            signal = self._brokers.get(broker)
            state = freshness(signal, self.now_ms, self.limits.signal_age_s_max)
            self._fresh_brokers[broker] = signal if state is Freshness.FRESH else None
        return self._fresh_brokers[broker]

    def throttle(self, side: BrokerSide) -> RateSetting | None:
        """Returns the rate in force on this side; None without one, or if no list makes a replica count against it."""
        setting = self.live.rates.get(side)
        signal = self._signals.get(side)
        if setting is None or (signal is not None and signal.listed_partitions > 0):
            return setting
        return setting if side in self._listed_sides else None

    @cached_property
    def _listed_sides(self) -> set[BrokerSide]:
        """Sides that the current lists name for moves which the tuner throttles. The signals may be older than the lists."""
        sides: set[BrokerSide] = set()
        for move in self.moves_to_list:
            lists = self.live.lists.get(move.topic)
            if lists is not None:
                if lists.leader.includes(move.partition, move.leader):
                    sides.add((move.leader, Side.LEADER))
                sides.update((b, Side.FOLLOWER) for b in move.adding if lists.follower.includes(move.partition, b))
        return sides

    def _mean_rate(self, side: BrokerSide) -> float | None:
        """Returns the mean rate that the throttle allows; on a steered side the setpoint, as the settings vary each second."""
        setting = self.throttle(side)
        if setting is None:
            return None
        setpoint = self.setpoints.get(side)
        # In a dry run, or with writes still queued, the setting is not the law's.
        if setpoint is None or not 0.5 <= setting.bytes_per_s / max(1.0, setpoint.bytes_per_s) <= 1.5:
            return float(setting.bytes_per_s)
        return setpoint.bytes_per_s

    def is_bound(self, side: BrokerSide) -> bool:
        """Whether this side's throttle limits its moves."""
        return self._bound[side]

    def _is_bound(self, side: BrokerSide) -> bool:
        rate, load = self._mean_rates[side], self.loads.get(side)
        if rate is None or load is None:
            return False
        return rescue_rate.is_throttle_bound(rate, load, self.measured_bytes_per_s(side), self.limits)

    def _is_measured(self, side: BrokerSide) -> bool:
        """Whether the measurements tell if this side's throttle limits its moves; without a throttle no measurement is needed."""
        if side[0] in self.live.unreadable or side[0] not in self.live.brokers:
            return False
        if side not in self.live.rates:
            return True
        signal = self.fresh_signal(side)
        return signal is not None and (signal.listed_partitions == 0 or side in self.loads)

    def surplus_bytes_per_s(self, side: BrokerSide) -> float | None:
        """Returns the throttle less steady-state replication; None without a throttle or a measured load."""
        return self._surplus[side]

    def _surplus_of(self, side: BrokerSide) -> float | None:
        rate, load = self._mean_rates[side], self.loads.get(side)
        return None if rate is None or load is None else rate - load.steady_state_bytes_per_s


def all_await_remote_state(signal: MoveSignal) -> bool:
    """Returns whether each moving replica of a follower side has to read the state of a remote log before its first byte."""
    return 0 < signal.moving_partitions == signal.await_remote_partitions
