"""The data of a single cycle, from which all API views are built."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from streaming.shared.contract import MoveSignal
from tuner.api.history import RemainingPeaks
from tuner.api.latency_limits import latency_limits
from tuner.api.observers import CycleSnapshot
from tuner.control.throttle.decision import Decision
from tuner.control.throttle.objective import Objective
from tuner.control.throttle.rescue_rate import is_infeasible
from tuner.core.cluster import BrokerSide, Observation, RateSetting
from tuner.core.drain_time import SideLoad
from tuner.core.latency_limit import LatencyLimit
from tuner.core.operator_orders import Orders


@dataclass(frozen=True)
class StatusSnapshot:
    """The last cycle, and the values with which progress is computed. Values that several views need are computed once.

    Attributes:
        peaks: the highest number of remaining bytes of each destination so far; progress is measured from it.
    """

    cycle: CycleSnapshot
    peaks: RemainingPeaks
    objective: Objective | None
    dry_run: bool

    @property
    def observation(self) -> Observation | None:
        return self.cycle.result.observation

    @property
    def orders(self) -> Orders:
        return self.observation.orders if self.observation is not None else Orders()

    @cached_property
    def latency_limits(self) -> Mapping[int, LatencyLimit]:
        return latency_limits(self.objective, self.observation)

    @cached_property
    def rates(self) -> Mapping[BrokerSide, RateSetting]:
        live = self.cycle.result.live
        return live.rates if live is not None else {}

    @cached_property
    def moves(self) -> Mapping[BrokerSide, MoveSignal]:
        return self.cycle.result.moves()

    @cached_property
    def loads(self) -> Mapping[BrokerSide, SideLoad]:
        return self.cycle.result.loads()

    @cached_property
    def destinations(self) -> Mapping[int, MoveSignal]:
        return self.cycle.result.destinations()

    @cached_property
    def brokers(self) -> list[int]:
        """All known brokers: first brokers with a stalled move, then by remaining bytes, then brokers with a throttle."""
        live = self.cycle.result.live
        known = set(self.observation.broker_signals if self.observation is not None else ()) | set(
            live.brokers if live is not None else ()
        )
        remaining_bytes: dict[int, float] = {}
        for (broker, _), signal in self.moves.items():
            remaining_bytes[broker] = max(remaining_bytes.get(broker, 0.0), signal.remaining_bytes or 0.0)
        throttled = {broker for broker, _ in self.rates}
        known |= throttled | set(remaining_bytes)
        stalled = {b for b, state in self.cycle.result.memory.stalls.items() if state.stalled}

        def sort_key(broker: int) -> tuple[bool, float, bool, int]:
            # A broker without a move comes after a broker with nothing left to copy. False sorts before True.
            left_bytes = remaining_bytes.get(broker, -1.0)
            return broker not in stalled, -left_bytes, broker not in throttled, broker

        return sorted(known, key=sort_key)

    @cached_property
    def participating_brokers(self) -> list[int]:
        """The brokers that take part in a move or have a throttle, in the order of ``brokers``."""
        participants = {broker for sides in (self.rates, self.moves) for broker, _ in sides}
        return [broker for broker in self.brokers if broker in participants]

    @cached_property
    def last_decisions(self) -> Mapping[BrokerSide, Decision]:
        """The last cycle's decision about each side."""
        decisions: dict[BrokerSide, Decision] = {}
        for decision in self.cycle.decisions:
            broker, side = getattr(decision, "broker", None), getattr(decision, "side", None)
            if broker is not None and side is not None:
                decisions[(broker, side)] = decision
        return decisions

    @cached_property
    def infeasible(self) -> Collection[BrokerSide]:
        """The sides whose moves can end neither at the current rate nor at the maximum rate; sorted."""
        limits, rates = self.cycle.result.limits, self.rates
        throttled = [(side, load, rates[side]) for side, load in self.loads.items() if side in rates]
        # The keys of a dictionary keep their order and are quick to look up.
        return dict.fromkeys(
            sorted(side for side, load, rate in throttled if is_infeasible(rate.bytes_per_s, load, limits))
        )
