"""Checks the tuner's invariants in randomly drawn simulations: at every write of the tuner, and once more at the end of the run.

bounds           A written rate lies between the minimum rate and the ceiling, or restores the earlier rate. It is above
                 steady-state replication, so that the move progresses.
write-ahead      A rate is recorded as managed before it is written.
external change  After an operator has overwritten a managed rate, the tuner does not write the rate of this side any more.
freshness        Without fresh signals no rate rises.
exact lists      An added entry (partition, broker) belongs to a running move, its side has a rate, and the entry was recorded as
                 managed before. A removed entry was managed.
no trace         At the end of the run, no list entry remains, and no rate except an operator's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import Pair, TopicThrottle
from tuner.control.throttle.replica_lists.list_rules import DRAIN_OVER_STEADY_STATE
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide
from tuner.core.freshness import Freshness, freshness
from tuner.core.outcome import Failure
from tuner.journal.entries import Entry, decode_memory, encode_memory
from tuner.journal.kafka_journal import JournalError
from tuner.runtime.throttle.actuator import CONFIRM_S_MAX
from tuner.simulation.policy import SimulatedEnvironment
from tuner.simulation.ports import MemoryJournal, SimulatedThrottles, moves_of
from tuner.simulation.swarm_draw import TICK_MS, DrawnRun
from tuner.simulation.world import OperatorWrite

CYCLE_S = 5.0
VISIBLE_AFTER_S = 1.0  # The tuner sees an external change at the latest after this time.
_ROUNDING = 1.001  # Written rates are rounded to whole bytes/s.


@dataclass(slots=True)
class Findings:
    """The violated invariants as lines of text, in order of time."""

    lines: list[str] = field(default_factory=list)

    def note(self, now_s: float, violation: str) -> None:
        self.lines.append(f"{now_s:7.2f} s  {violation}")


class SwarmJournal(MemoryJournal):
    """A journal that fails for a while. ``recovered`` returns the state that a starting tuner would read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False
        self.saw_move = False  # Some record named moving replicas.
        # The managed sides at the time of each operator's write.
        self.managed_at: dict[float, frozenset[BrokerSide]] = {}

    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        memory: Memory | None = None,
        owned: Mapping[BrokerSide, OwnedRate] | None = None,
        moving_replicas: Mapping[str, Mapping[int, frozenset[int]]] | None = None,
        listed: Mapping[str, TopicThrottle] | None = None,
    ) -> None:
        if self.is_down:
            raise JournalError("the brokers of the journal do not answer")
        super().write(entries, memory=memory, owned=owned, moving_replicas=moving_replicas, listed=listed)
        self.saw_move |= bool(self.memory.moving_replicas)

    def recovered(self) -> Memory:
        return decode_memory(encode_memory(self.memory))


class ProcessSuspended(BaseException):
    """The process is suspended in a write, for longer than its lease lasts."""


class WatchedThrottles(SimulatedThrottles):
    """The simulated port of throttles, which checks the invariants at every write of the tuner."""

    def __init__(
        self, simulated: SimulatedEnvironment, drawn: DrawnRun, journal: SwarmJournal, findings: Findings
    ) -> None:
        super().__init__(simulated.cluster)
        self._simulated = simulated
        self._drawn = drawn
        self._journal = journal
        self._findings = findings
        self.suspend_next_write = False
        self.suspended_writes: dict[BrokerSide, int | None] = {}  # The rates of the suspended write.
        self._written_at_s: dict[BrokerSide, list[float]] = {}
        self._initial_rates = {(s.broker, s.side): s.rate_bytes_per_s for s in drawn.world.rates}

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        for side, rate in rates.items():
            for violation in self._find_violations(side, rate):
                self._findings.note(self._simulated.cluster.now_s, f"broker {side[0]} {side[1]} → {rate}: {violation}")
            self._written_at_s.setdefault(side, []).append(self._simulated.cluster.now_s)
        if self.suspend_next_write:
            self.suspend_next_write, self.suspended_writes = False, dict(rates)
            raise ProcessSuspended
        return super().write_rates(rates)

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        cluster, now_s = self._simulated.cluster, self._simulated.cluster.now_s
        moving = {(m.topic, m.partition): m for m in moves_of(cluster)}
        for topic, side, (partition, broker) in _iterate_pairs(pairs):
            move = moving.get((topic, partition))
            expected_side = Side.FOLLOWER if move is not None and broker in move.adding else Side.LEADER
            if move is None or broker not in move.replicas or side is not expected_side:
                self._findings.note(now_s, f"{topic}-{partition} on broker {broker}: listed, and no part of a move")
            # It is no violation if another tool has removed all rates after the tuner's snapshot. It removes the lists next.
            tool_is_clearing = 0 <= now_s - self._drawn.mishaps.cleared_at_s < VISIBLE_AFTER_S
            if not tool_is_clearing and cluster.controller.expected((broker, side), now_s + CONFIRM_S_MAX) is None:
                self._findings.note(now_s, f"{topic}-{partition} on broker {broker} {side}: listed without a rate")
            if (partition, broker) not in self._journal.memory.listed.get(topic, TopicThrottle()).for_side(side).pairs:
                self._findings.note(
                    now_s, f"{topic}-{partition} on broker {broker}: listed, and not recorded as managed"
                )
        return super().add_pairs(pairs)

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        for topic, side, pair in _iterate_pairs(pairs):
            if pair not in self._journal.memory.listed.get(topic, TopicThrottle()).for_side(side).pairs:
                self._findings.note(
                    self._simulated.cluster.now_s, f"{topic} {pair}: removed from a list, and not managed"
                )
        return super().remove_pairs(pairs)

    def _find_violations(self, side: BrokerSide, rate: int | None) -> list[str]:
        now_s, limits = self._simulated.cluster.now_s, self._drawn.limits
        current, initial = self._simulated.cluster.controller.rates.get(side), self._initial_rates.get(side)
        owned_rate = self._journal.memory.owned.get(side)
        findings = []
        restores = rate == initial or (owned_rate is not None and rate == owned_rate.before_bytes_per_s)
        if rate is not None and not restores:
            signal = self._simulated.signals.moves.get(side)
            wall_ms = round(self._drawn.mishaps.wall_s(now_s) * 1000)  # By the tuner's clock.
            surely_stale = freshness(signal, wall_ms, limits.signal_age_s_max + CYCLE_S) is not Freshness.FRESH
            # The tuner decides up to one cycle before it writes. So if the signal is too old now by less than a cycle, it may have
            # been fresh or stale when the tuner decided.
            surely_fresh = freshness(signal, wall_ms, limits.signal_age_s_max) is Freshness.FRESH
            # Without a fresh signal the first rate of a side can only respect the minimum of the settings.
            is_first_without_signal = current is None and not surely_fresh
            min_rate = limits.rate_bytes_per_s_min if is_first_without_signal else self._min_rate_bytes_per_s(side)
            # A rate below the minimum may stay below: without fresh signals no rate rises, and a rescue raises a rate step by step.
            may_be_below = current is not None and (surely_stale or self._drawn.objective is None)
            lowest = min(min_rate, current) if may_be_below and current is not None else min_rate
            if not lowest / _ROUNDING <= rate <= max(limits.rate_bytes_per_s_max, current or 0) * _ROUNDING:
                findings.append(f"not within {lowest} and {limits.rate_bytes_per_s_max:.0f}")
            if owned_rate is None or rate not in owned_rate.possible_rates:
                findings.append("not recorded as managed")
            if (
                surely_stale
                and current is not None
                and rate > current * _ROUNDING
                and now_s < self._drawn.mishaps.clock_set_at_s
            ):
                findings.append(f"raised from {current} without fresh signals")
        for operator in self._drawn.operator_writes:
            if (
                (operator.broker, operator.side) == side
                and now_s > operator.at_s + VISIBLE_AFTER_S
                and self.is_overwritten(operator)
            ):
                findings.append(f"an operator had written {operator.rate_bytes_per_s} over a managed rate")
        return findings

    def _min_rate_bytes_per_s(self, side: BrokerSide) -> float:
        """Returns the lowest rate that the tuner may set: just above steady-state replication in the newest signal."""
        limits, signal = self._drawn.limits, self._simulated.signals.moves.get(side)
        # After a leader change the newest signal of the old leader still covers the partitions that it led.
        leads = side[1] is Side.FOLLOWER or any(move.leader == side[0] for move in moves_of(self._simulated.cluster))
        moves = leads and signal is not None and signal.moving_partitions > 0
        steady_state = (signal.steady_state_bytes_per_s or 0.0) if moves and signal is not None else 0.0
        draining_rate = DRAIN_OVER_STEADY_STATE * steady_state
        return min(limits.rate_bytes_per_s_max, max(limits.rate_bytes_per_s_min, draining_rate))

    def is_overwritten(self, operator: OperatorWrite) -> bool:
        """Returns whether an operator wrote over a managed rate.

        Returns False if the tuner wrote at the same time, because Kafka has no compare-and-set.
        """
        mishaps, now_s = self._drawn.mishaps, self._simulated.cluster.now_s
        if mishaps.clock_by_s > 0 and now_s >= mishaps.clock_set_at_s:
            return False  # The clock was set forward, so the tuner's hold after an external change may have ended.
        side = (operator.broker, operator.side)
        was_managed = side in self._journal.managed_at.get(operator.at_s, frozenset())
        return was_managed and not any(
            abs(at_s - operator.at_s) <= 2 * TICK_MS / 1000 for at_s in self._written_at_s.get(side, ())
        )


def find_leftovers(
    drawn: DrawnRun, throttles: WatchedThrottles, journal: SwarmJournal, simulated: SimulatedEnvironment
) -> list[str]:
    """Returns what the tuner left at the end of the run: rates, list entries, records, and operators' rates that are gone."""
    findings = []
    rates = simulated.cluster.controller.rates
    operator_writes = {(p.broker, p.side): p for p in drawn.operator_writes}
    for side, rate in rates.items():
        # An operator's rate may remain. If it was not written over a managed rate, the tuner may also have removed it later.
        if side not in operator_writes or operator_writes[side].rate_bytes_per_s != rate:
            findings.append(f"broker {side[0]} {side[1]}: {rate} is left behind")
    for side, operator in operator_writes.items():
        if throttles.is_overwritten(operator) and rates.get(side) != operator.rate_bytes_per_s:
            findings.append(f"broker {side[0]} {side[1]}: an operator's {operator.rate_bytes_per_s} is gone")
    for topic, lists in simulated.cluster.lists.items():
        if lists.leader or lists.follower:
            findings.append(f"topic {topic}: its lists are left behind")
    findings += [f"topic {topic}: its lists are still recorded as managed" for topic in journal.memory.listed]
    findings += [f"broker {b} {side}: still recorded as managed" for b, side in journal.memory.owned]
    return findings


def _iterate_pairs(pairs: Mapping[str, TopicThrottle]) -> Iterator[tuple[str, Side, Pair]]:
    for topic, throttle in pairs.items():
        for side in Side:
            for pair in throttle.for_side(side).pairs:
                yield topic, side, pair
