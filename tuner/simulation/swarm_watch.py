"""What must hold in each world of the swarm whatever befalls it, watched where we write and once more in the end.

stay inside      a rate we write lies between floor and ceiling, or stood there before: none sinks below what still drains, W
                 included, and while nothing is stale the law lets none stand below it
write before     a rate we write was on record as ours
yield            what an operator wrote over ours is not touched any more
no good news     without fresh signals no rate rises
exact lists      a pair we list belongs to what moves, has a rate, and was on record as ours; one we take off is ours
leave no trace   in the end what stood before stands, or what an operator wrote
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import Pair, TopicThrottle
from tuner.control.throttle.objective import LawLimits
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide
from tuner.core.freshness import Freshness, freshness
from tuner.core.outcome import Failure
from tuner.journal.entries import Entry, decode_memory, encode_memory
from tuner.journal.kafka_journal import JournalError
from tuner.runtime.throttle.actuator import CONFIRM_S_MAX
from tuner.simulation.policy import SimulatedCluster
from tuner.simulation.ports import MemoryJournal, SimulatedThrottles, moves_of
from tuner.simulation.swarm_draw import TICK_MS, DrawnRun
from tuner.simulation.world import OperatorWrite

CYCLE_S = 5.0
SHOWN_S = 1.0  # An operator's write has been shown by then.
_ROUND = 1.001


@dataclass(slots=True)
class Findings:
    """What did not hold, in words, in the order in which it was seen."""

    lines: list[str] = field(default_factory=list)

    def note(self, now_s: float, what: str) -> None:
        self.lines.append(f"{now_s:7.2f} s  {what}")


class SwarmJournal(MemoryJournal):
    """Takes nothing for a while; gives back what a tuner that starts would read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False
        self.saw_move = False
        self.managed_at: dict[float, frozenset[BrokerSide]] = {}  # When an operator wrote: what was ours.

    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        memory: Memory | None = None,
        owned: Mapping[BrokerSide, OwnedRate] | None = None,
        seen: Mapping[str, Mapping[int, frozenset[int]]] | None = None,
        listed: Mapping[str, TopicThrottle] | None = None,
    ) -> None:
        if self.is_down:
            raise JournalError("the brokers of the journal do not answer")
        super().write(entries, memory=memory, owned=owned, seen=seen, listed=listed)
        self.saw_move |= bool(self.memory.seen)

    def recovered(self) -> Memory:
        return decode_memory(encode_memory(self.memory))


class ProcessSuspended(BaseException):
    """The process stands still in a write, for longer than its lease lasts."""


class WatchedThrottles(SimulatedThrottles):
    """The simulated port, with an eye on everything that we write."""

    def __init__(self, simulated: SimulatedCluster, drawn: DrawnRun, journal: SwarmJournal, findings: Findings) -> None:
        super().__init__(simulated.cluster)
        self._simulated = simulated
        self._drawn = drawn
        self._journal = journal
        self._findings = findings
        self.suspends = False  # In the next write.
        self.suspended_writes: dict[BrokerSide, int | None] = {}  # That write.
        self._written_at_s: dict[BrokerSide, list[float]] = {}
        self._before = {(s.broker, s.side): s.rate_bytes_per_s for s in drawn.world.rates}

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        for side, rate in rates.items():
            for what in self._find_violations(side, rate):
                self._findings.note(self._simulated.cluster.now_s, f"broker {side[0]} {side[1]} → {rate}: {what}")
            self._written_at_s.setdefault(side, []).append(self._simulated.cluster.now_s)
        if self.suspends:
            self.suspends, self.suspended_writes = False, dict(rates)
            raise ProcessSuspended
        return super().write_rates(rates)

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        cluster, now_s = self._simulated.cluster, self._simulated.cluster.now_s
        moving = {(m.topic, m.partition): m for m in moves_of(cluster)}
        for topic, side, (partition, broker) in _each(pairs):
            move = moving.get((topic, partition))
            if move is None or broker not in move.replicas or (broker in move.adding) is (side is Side.LEADER):
                self._findings.note(now_s, f"{topic}-{partition} on broker {broker}: listed, and no part of a move")
            # What a tool is just sweeping away may have been there at the look: the tool takes the lists as well, a moment later.
            sweeps = 0 <= now_s - self._drawn.mishaps.cleared_at_s < SHOWN_S
            if not sweeps and cluster.controller.expected((broker, side), now_s + CONFIRM_S_MAX) is None:
                self._findings.note(now_s, f"{topic}-{partition} on broker {broker} {side}: listed without a rate")
            if (partition, broker) not in self._journal.memory.listed.get(topic, TopicThrottle()).for_side(side).pairs:
                self._findings.note(now_s, f"{topic}-{partition} on broker {broker}: listed, and not on record as ours")
        return super().add_pairs(pairs)

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        for topic, side, pair in _each(pairs):
            if pair not in self._journal.memory.listed.get(topic, TopicThrottle()).for_side(side).pairs:
                self._findings.note(self._simulated.cluster.now_s, f"{topic} {pair}: taken off, and not ours")
        return super().remove_pairs(pairs)

    def _find_violations(self, side: BrokerSide, rate: int | None) -> list[str]:
        now_s, limits = self._simulated.cluster.now_s, self._drawn.limits
        stands, before = self._simulated.cluster.controller.rates.get(side), self._before.get(side)
        ours = self._journal.memory.owned.get(side)
        found = []
        put_back = rate == before or (ours is not None and rate == ours.before_bytes_per_s)
        if rate is not None and not put_back:
            signal = self._simulated.signals.moves.get(side)
            wall_ms = round(self._drawn.mishaps.wall_s(now_s) * 1000)  # As the tuner has it.
            blind = freshness(signal, wall_ms, limits.signal_age_s_max + CYCLE_S) is not Freshness.FRESH
            # What is put where nothing stood is for a tuner that may not have heard of W, or not lately.
            heard = freshness(signal, wall_ms, limits.signal_age_s_max) is Freshness.FRESH
            floor = self._floor_bytes_per_s(side) if heard or stands is not None else limits.rate_bytes_per_s_min
            # A rescue goes up from below the floor step by step.
            may_be_below = stands is not None and (blind or self._drawn.objective is None)
            least = min(floor, stands) if may_be_below and stands is not None else floor
            if not least / _ROUND <= rate <= max(limits.rate_bytes_per_s_max, stands or 0) * _ROUND:
                found.append(f"not within {least} and {limits.rate_bytes_per_s_max:.0f}")
            if ours is None or rate not in ours.may_stand:
                found.append("not on record as ours")
            if blind and stands is not None and rate > stands * _ROUND and now_s < self._drawn.mishaps.clock_set_at_s:
                found.append(f"raised from {stands} without fresh signals")
        for operator in self._drawn.operator_writes:
            if (
                (operator.broker, operator.side) == side
                and now_s > operator.at_s + SHOWN_S
                and self.is_overwritten(operator)
            ):
                found.append(f"an operator had written {operator.rate_bytes_per_s} over ours")
        return found

    def _floor_bytes_per_s(self, side: BrokerSide) -> float:
        """What drains at the least, by the newest that was told of W; clients can bring the law down to it."""
        limits, signal = self._drawn.limits, self._simulated.signals.moves.get(side)
        # After a change of leaders the newest signal of the old one is still of what it led.
        leads = side[1] is Side.FOLLOWER or any(move.leader == side[0] for move in moves_of(self._simulated.cluster))
        moves = leads and signal is not None and signal.moving_partitions > 0
        steady_state = (signal.steady_state_bytes_per_s or 0.0) if moves and signal is not None else 0.0
        drains = LawLimits().min_rate_over_steady_state_low_headroom * steady_state
        return min(limits.rate_bytes_per_s_max, max(limits.rate_bytes_per_s_min, drains))

    def is_overwritten(self, operator: OperatorWrite) -> bool:
        """Whether an operator wrote over ours, and not in the very moment in which we wrote: Kafka has no compare-and-set."""
        mishaps, now_s = self._drawn.mishaps, self._simulated.cluster.now_s
        if mishaps.clock_by_s > 0 and now_s >= mishaps.clock_set_at_s:
            return False  # By that clock the time for which an operator's value is left alone may be over.
        side = (operator.broker, operator.side)
        ours = side in self._journal.managed_at.get(operator.at_s, frozenset())
        return ours and not any(
            abs(at_s - operator.at_s) <= 2 * TICK_MS / 1000 for at_s in self._written_at_s.get(side, ())
        )


def find_leftovers(
    drawn: DrawnRun, throttles: WatchedThrottles, journal: SwarmJournal, simulated: SimulatedCluster
) -> list[str]:
    found = []
    rates = simulated.cluster.controller.rates
    operator_writes = {(p.broker, p.side): p for p in drawn.operator_writes}
    for side, rate in rates.items():
        # What an operator wrote may stand; where it was theirs alone it may also have gone with the move.
        if side not in operator_writes or operator_writes[side].rate_bytes_per_s != rate:
            found.append(f"broker {side[0]} {side[1]}: {rate} is left behind")
    for side, operator in operator_writes.items():
        if throttles.is_overwritten(operator) and rates.get(side) != operator.rate_bytes_per_s:
            found.append(f"broker {side[0]} {side[1]}: an operator's {operator.rate_bytes_per_s} is gone")
    for topic, lists in simulated.cluster.lists.items():
        if lists.leader or lists.follower:
            found.append(f"topic {topic}: its lists are left behind")
    found += [f"topic {topic}: its lists are still said to be ours" for topic in journal.memory.listed]
    found += [f"broker {b} {side}: still said to be ours" for b, side in journal.memory.owned]
    return found


def _each(pairs: Mapping[str, TopicThrottle]) -> Iterator[tuple[str, Side, Pair]]:
    for topic, throttle in pairs.items():
        for side in Side:
            for pair in throttle.for_side(side).pairs:
                yield topic, side, pair
