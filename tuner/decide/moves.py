"""While moves run: which are stalled, what holds them, and what each throttle should do about it.

A move onto a broker passes two throttles: the leader side of every broker it is fetched from, and its own follower side.
Either can be the one that binds, and raising one alone only hands the stall to the other, so a stall is judged by
destination and answered on both sides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from streaming.contract import MoveSignal, Side, ThrottledBy
from tuner.decide import replication_rate, stall, words
from tuner.decide.freshness import Freshness, age_s, freshness
from tuner.decide.orders import overridden
from tuner.model.cluster import BrokerSide, LiveCluster, Observation, RateSetting, side_name
from tuner.model.decision import Decision, Hold, Reason, SetRate, Steer
from tuner.model.limits import Limits, StallLimits
from tuner.model.memory import Memory, StallState
from tuner.plan.move_time import SideLoad


class MovesView:
    """What the observation says about the running moves, looked up once."""

    def __init__(self, observation: Observation, live: LiveCluster, limits: Limits) -> None:
        self.now_ms = observation.now_ms
        self.busy = observation.busy
        self.courses = observation.courses
        self.orders = observation.orders
        self.live = live
        self.limits = limits
        self._signals = observation.moves
        self._brokers = observation.brokers
        self.leaders_of: defaultdict[int, set[int]] = defaultdict(set)  # Destination → the leaders it fetches from.
        self._destinations_of_leader: defaultdict[int, set[int]] = defaultdict(set)
        for move in live.moves:
            leader = move.leader
            for destination in move.adding:
                if leader >= 0 and destination != leader:
                    self.leaders_of[destination].add(leader)
                    self._destinations_of_leader[leader].add(destination)
        self.destinations = frozenset(self.leaders_of)
        leaders: list[BrokerSide] = [(b, Side.LEADER) for b in sorted(self._destinations_of_leader)]
        self.sides: list[BrokerSide] = leaders + [(b, Side.FOLLOWER) for b in sorted(self.destinations)]
        self._sides_of: dict[int, list[BrokerSide]] = {}  # Made where they are asked for.
        # A side is asked about for every broker that it copies to or from: each answer is found once, or where it is asked for.
        self._freshness = {
            side: freshness(self._signals.get(side), self.now_ms, limits.signal_age_s_max) for side in self.sides
        }
        self.loads: dict[BrokerSide, SideLoad] = {}
        for side in self.sides:
            signal = self.fresh_signal(side)
            if signal is not None and signal.remaining_bytes is not None and signal.keep_up_bytes_per_s is not None:
                self.loads[side] = SideLoad(signal.remaining_bytes, signal.keep_up_bytes_per_s)
        self._unknown = {side for side in self.sides if not self._is_known(side)}
        self._surplus = {side: self._surplus_of(side) for side in self.sides}
        self._bound = {side: self._is_bound(side) for side in self.sides}
        self._share = {
            leader: None if surplus is None else surplus / len(found)
            for leader, found in self._destinations_of_leader.items()
            for surplus in (self._surplus[(leader, Side.LEADER)],)
        }
        self.heard = frozenset(d for d in self.destinations if self.fresh_signal((d, Side.FOLLOWER)) is not None)
        self._first_bound: dict[int, BrokerSide | None] = {}
        self.target_s = replication_rate.drain_target_s(self.loads, limits)

    def destinations_of(self, side: BrokerSide) -> set[int]:
        return {side[0]} if side[1] is Side.FOLLOWER else self._destinations_of_leader.get(side[0], set())

    def sides_of(self, destination: int) -> list[BrokerSide]:
        sides = self._sides_of.get(destination)
        if sides is None:
            sides = [(leader, Side.LEADER) for leader in sorted(self.leaders_of[destination])]
            sides.append((destination, Side.FOLLOWER))
            self._sides_of[destination] = sides
        return sides

    def surplus_shares_bytes_per_s(self, destination: int) -> list[float | None]:
        """What each leader's throttle leaves for this destination: the same as for each of the leader's others."""
        return [self._share[leader] for leader in sorted(self.leaders_of[destination])]

    def first_bound(self, destination: int) -> BrokerSide | None:
        """A side that binds, of those that a move onto this broker passes."""
        if destination not in self._first_bound:
            self._first_bound[destination] = min(filter(self.bound, self.sides_of(destination)), default=None)
        return self._first_bound[destination]

    def first_unknown(self, destination: int) -> BrokerSide | None:
        """A side of which it cannot be said what it lets through, of the same."""
        if not self._unknown:
            return None
        return min((side for side in self.sides_of(destination) if side in self._unknown), default=None)

    def signal(self, side: BrokerSide) -> MoveSignal | None:
        return self._signals.get(side)

    def freshness(self, side: BrokerSide) -> Freshness:
        return self._freshness[side]

    def fresh_signal(self, side: BrokerSide) -> MoveSignal | None:
        return self._signals[side] if self.freshness(side) is Freshness.FRESH else None

    def measured_bytes_per_s(self, side: BrokerSide) -> float | None:
        """What passes under this side's throttle. Of the measures that take Kafka's place only one that is not too much:
        by the others a throttle would seem to bind that does not, and be raised for nothing."""
        signal, move = self._brokers.get(side[0]), self._signals.get(side)
        if signal is None or freshness(signal, self.now_ms, self.limits.signal_age_s_max) is not Freshness.FRESH:
            return None
        unlisted_moves = move is not None and move.moving_partitions > move.listed_partitions
        match signal.throttled_by:
            case ThrottledBy.REPLICATION:
                return None
            case ThrottledBy.REASSIGNMENT if unlisted_moves:
                return None
        return signal.leader_throttled_bytes_per_s if side[1] is Side.LEADER else signal.follower_throttled_bytes_per_s

    def throttle(self, side: BrokerSide) -> RateSetting | None:
        """The rate in force on this side, if it counts any replica at all: a rate without a list throttles nothing."""
        setting = self.live.rates.get(side)
        signal = self._signals.get(side)
        return setting if setting is not None and signal is not None and signal.listed_partitions > 0 else None

    def allowed_bytes_per_s(self, side: BrokerSide) -> float | None:
        """What the throttle lets through in the mean. Under the law the setting plays around it from second to second."""
        setting = self.throttle(side)
        if setting is None:
            return None
        course = self.courses.get(side)
        # In a dry run, or where writes wait for their turn, what is meant is not what stands.
        if course is None or not 0.5 <= setting.bytes_per_s / max(1.0, course.meant_bytes_per_s) <= 1.5:
            return float(setting.bytes_per_s)
        return course.meant_bytes_per_s

    def bound(self, side: BrokerSide) -> bool:
        return self._bound[side]

    def _is_bound(self, side: BrokerSide) -> bool:
        allowed, load = self.allowed_bytes_per_s(side), self.loads.get(side)
        if allowed is None or load is None:
            return False
        return replication_rate.throttle_bound(allowed, load, self.measured_bytes_per_s(side), self.limits)

    def known(self, side: BrokerSide) -> bool:
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
        allowed, load = self.allowed_bytes_per_s(side), self.loads.get(side)
        return None if allowed is None or load is None else allowed - load.keep_up_bytes_per_s


def judge_destinations(view: MovesView, memory: Memory, limits: StallLimits) -> Mapping[int, StallState]:
    """The judge's word on every broker that something moves onto; others are forgotten."""
    states = {}
    for destination in sorted(view.destinations):
        state = memory.stalls.get(destination, StallState())
        signal = view.fresh_signal((destination, Side.FOLLOWER))
        # What a throttle lets through is not known, so neither is what could be expected. The steps wait.
        if view.first_unknown(destination) is not None:
            states[destination] = state
            continue
        # A stall that is being answered is not held against the new rate: once the ramp is over, the count starts anew.
        if view.busy and not view.busy.isdisjoint(view.sides_of(destination)):
            seen_until_ms = max(
                [state.judged_until_ms, *(step.at_ms for step in signal.steps)] if signal else [state.judged_until_ms]
            )
            states[destination] = StallState(judged_until_ms=seen_until_ms)
            continue
        leaders = view.surplus_shares_bytes_per_s(destination)
        expected = stall.expected_drain_bytes_per_s(
            view.surplus_bytes_per_s((destination, Side.FOLLOWER)), leaders, limits
        )
        states[destination] = state if signal is None else stall.judge(state, signal.steps, expected, limits)
    return states


def decide_side(side: BrokerSide, view: MovesView, memory: Memory, stall_limits: StallLimits) -> Decision:
    """One throttle. A ladder: safety first, then patience, then the diagnosis, and only then a higher rate."""
    limits = view.limits

    # The broker is not there. Nothing can be read or written, and nothing comes from or to it.
    if side[0] not in view.live.brokers:
        return _hold(
            side,
            Reason.BROKER_DOWN,
            f"broker {side[0]} is not alive: bring it back, or cancel its part of the move",
        )
    # It did not tell its settings: what stands there now is not known, so nothing is written over it.
    if side[0] in view.live.unreadable:
        return _hold(side, Reason.SETTINGS_UNREADABLE, f"broker {side[0]} does not tell its settings")
    # A person wants it to stand at a rate for a while; a ramp under way is let end first.
    order = view.orders.overrides.get(side)
    if order is not None and side not in view.busy:
        ordered = overridden(side, order, view.live.rates.get(side), view.now_ms)
        if ordered is not None:
            return ordered
    # Somebody changed it after us: theirs.
    if side in memory.theirs_until_ms:
        minutes = (memory.theirs_until_ms[side] - view.now_ms) / 60_000
        return _hold(side, Reason.SOMEBODY_ELSES, f"somebody else set it; left alone for another {minutes:.0f} min")
    # It stood before the move came, and the operator wants such throttles left as they are.
    standing = memory.standing.get(side)
    if not limits.adopts and side not in memory.owned and standing is not None:
        found = view.live.rates.get(side)
        if found is not None and found.bytes_per_s == standing:
            return _hold(
                side, Reason.RESPECTED, f"{words.rate(standing)} stood here before the move, and is left as it is"
            )
    # Without fresh measurements there is no judgement, and old ones never raise a throttle.
    if (blind := _blind(side, side, view)) is not None:
        return blind
    # A destination that is down or silent holds only itself up, not the others of its leader.
    every = view.destinations_of(side)
    destinations = sorted(every & view.heard)
    if not destinations:
        return _blind(side, (min(every), Side.FOLLOWER), view) or _hold(
            side, Reason.SIGNALS_MISSING, "no destination is measured"
        )
    stalled = [d for d in destinations if memory.stalls[d].stalled]
    bound = min((s for d in stalled if (s := view.first_bound(d)) is not None), default=None)
    unknown = min((s for d in stalled if (s := view.first_unknown(d)) is not None), default=None)

    setting, load = view.throttle(side), view.loads.get(side)
    # No throttle here: nothing of ours to turn. A stall has another cause.
    if setting is None:
        if not stalled or bound:
            elsewhere = f"; {side_name(bound)} is what binds" if bound else ""
            return _hold(side, Reason.NOT_THROTTLED, f"no throttle on this side, nothing to turn{elsewhere}")
        if unknown:
            return _blind(side, unknown, view) or _hold(
                side, Reason.SIGNALS_MISSING, f"{side_name(unknown)} is not measured"
            )
        return _hold(
            side, Reason.STALLED_UNTHROTTLED,
            f"the move onto {words.brokers(stalled)} has stalled, and no throttle holds it on this side: look at the "
            "disks, the network and the fetchers of both brokers",
        )  # fmt: skip
    if load is None:
        return _hold(
            side, Reason.SIGNALS_MISSING, "log sizes or write rates are not measured yet: that takes two scrapes"
        )
    # No permitted rate can end it: a person has to decide, and is told the numbers.
    # The law would lower what stands above the ceiling, and must not where only that keeps the move going.
    if replication_rate.infeasible(0 if limits.steers else setting.bytes_per_s, load, limits):
        return _hold(
            side, Reason.INFEASIBLE,
            f"keeping up alone takes {words.rate(load.keep_up_bytes_per_s)}, the ceiling is "
            f"{words.rate(limits.rate_bytes_per_s_max)}: no permitted throttle ends this move. Raise "
            "tuner.rate_bytes_per_s_max, or move fewer partitions at a time",
        )  # fmt: skip
    # A ramp is under way: what is measured now is neither the old rate nor the new one.
    if side in view.busy:
        return _hold(side, Reason.RATE_IS_CHANGING, "its rate is changing, in steps over the quota's window")
    if limits.steers:
        return _steer(side, setting, load, view, stalled, nobody_binds=bool(stalled) and not bound and not unknown)
    if not stalled:
        rescued = any(d in memory.rescued for d in destinations)
        observed_s = min(memory.stalls[d].observed_s for d in destinations)
        if observed_s < stall_limits.observed_s_min and not rescued:
            return _hold(
                side,
                Reason.WATCHING,
                f"judged after {stall_limits.observed_s_min:.0f} s, {observed_s:.0f} s seen so far",
            )
        # Well enough; and after a rescue a throttle that does not bind is high enough, too.
        if not rescued or not view.bound(side):
            remain = f"{words.size(load.remaining_bytes)} remain"
            return _hold(side, Reason.PROGRESSING, f"progressing under {words.rate(setting.bytes_per_s)}: {remain}")
    elif not bound and unknown:
        return _blind(side, unknown, view) or _hold(
            side, Reason.SIGNALS_MISSING, f"{side_name(unknown)} is not measured"
        )
    # Stalled, but the throttle is not what holds it: a higher one would only be dangerous later.
    elif not bound:
        return _hold(side, Reason.STALLED_NOT_THROTTLE_BOUND, _not_bound(side, setting.bytes_per_s, stalled, view))
    return _raise(side, setting, load, stalled, view, memory)


def _steer(
    side: BrokerSide, setting: RateSetting, load: SideLoad, view: MovesView, stalled: list[int], *, nobody_binds: bool
) -> Steer:
    """The law has it: it knows the clients, the ladder above what it must not be given."""
    course = view.courses.get(side)
    live = setting.bytes_per_s

    def steer(reason: Reason, text: str) -> Steer:
        return Steer(*side, live, reason, f"{side_name(side)}: {text}", setting.own)

    # The law goes on, as its ceiling is what clients can bear; but a person should look.
    if nobody_binds:
        return steer(Reason.STALLED_NOT_THROTTLE_BOUND, _not_bound(side, live, stalled, view))
    # Its clients come first; the move goes on with the least that drains.
    if course is not None and course.no_headroom:
        return steer(
            Reason.NO_HEADROOM,
            f"clients leave less than the {words.rate(load.keep_up_bytes_per_s)} that keeping up takes, so it runs at its "
            f"least, {words.rate(course.meant_bytes_per_s)}: move fewer partitions at a time, or at a quieter hour",
        )
    meant = f"{words.rate(course.meant_bytes_per_s)} meant" if course is not None else f"from {words.rate(live)} on"
    return steer(
        Reason.FOLLOWS_CLIENTS,
        f"follows its clients, {meant}: {words.size(load.remaining_bytes)} remain and "
        f"{words.rate(load.keep_up_bytes_per_s)} go to keeping up",
    )


def _blind(side: BrokerSide, needed: BrokerSide, view: MovesView) -> Hold | None:
    """A hold for ``side`` when what it needs to know of ``needed`` is old or was never measured."""
    match view.freshness(needed):
        case Freshness.MISSING:
            return _hold(side, Reason.SIGNALS_MISSING, f"no measurements of broker {needed[0]} ({needed[1]} side) yet")
        case Freshness.STALE:
            signal = view.signal(needed)
            age = age_s(signal, view.now_ms) if signal is not None else 0.0
            return _hold(side, Reason.SIGNALS_STALE, f"last measurements of broker {needed[0]} are {age:.0f} s old")
        case Freshness.FRESH:
            return None


def _raise(
    side: BrokerSide,
    setting: RateSetting,
    load: SideLoad,
    stalled: list[int],
    view: MovesView,
    memory: Memory,
) -> Decision:
    limits, live, own = view.limits, setting.bytes_per_s, setting.own
    wanted = replication_rate.wanted_bytes_per_s(side[1], load, live, view.target_s, limits)
    # A small change is not worth a write, unless it is the one that takes the throttle above what keeping up takes.
    crosses = live <= load.keep_up_bytes_per_s < wanted
    if wanted <= live * (1 + limits.deadband_ratio) and not crosses:
        if live >= limits.rate_bytes_per_s_max * (1 - limits.deadband_ratio):
            return _hold(
                side,
                Reason.AT_CEILING,
                f"at the ceiling ({words.rate(live)}), {words.size(load.remaining_bytes)} remain",
            )
        return _hold(
            side, Reason.WITHIN_DEADBAND, f"{words.rate(live)} is enough: {words.size(load.remaining_bytes)} remain"
        )
    head = f"{side_name(side)} {words.rate(live)} → {words.rate(wanted)}"
    need = f"{words.size(load.remaining_bytes)} remain and {words.rate(load.keep_up_bytes_per_s)} go to keeping up"
    if not stalled:
        return SetRate(*side, live, wanted, Reason.RESCUE_NEEDS_MORE, f"{head}: {need}", own)
    lost = max(memory.stalls[d].lost_s for d in stalled)
    story = f"the move onto {words.brokers(stalled)} has stalled ({lost:.0f} s of progress lost)"
    if live <= load.keep_up_bytes_per_s:
        why = (
            f"{words.rate(live)} is not above the {words.rate(load.keep_up_bytes_per_s)} that keeping up takes"
            + (", in-sync followers included" if side[1] is Side.LEADER else "")
            + f", so it would never end; {words.size(load.remaining_bytes)} remain"
        )
        return SetRate(*side, live, wanted, Reason.STALLED_BELOW_KEEP_UP, f"{head}: {story}; {why}", own)
    role = "this throttle binds" if view.bound(side) else "so that this side does not bind next"
    return SetRate(*side, live, wanted, Reason.STALLED_THROTTLE_BOUND, f"{head}: {story}; {role}; {need}", own)


def _not_bound(side: BrokerSide, live: int, stalled: list[int], view: MovesView) -> str:
    measured = view.measured_bytes_per_s(side)
    used = (
        "how much of it is used is not measured" if measured is None else f"only {words.rate(measured)} of it is used"
    )
    return (
        f"the move onto {words.brokers(stalled)} has stalled, but not by the throttle ({words.rate(live)}, {used}): "
        "look at the source's disk, the network, the fetchers, and whether the destination is alive"
    )


def _hold(side: BrokerSide, reason: Reason, text: str) -> Hold:
    return Hold(*side, reason, f"{side_name(side)}: {text}")
