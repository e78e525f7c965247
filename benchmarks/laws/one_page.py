"""A control law of one page, to compare with rheostat's: rates for an end at the same time on all brokers, and a replayed window.

Each sample gives a forecast of the clients' load. Each side gets W + B/T: its steady-state replication, and its share of the
remaining bytes for the earliest end T that all brokers allow. Each second the law computes what Kafka's quota window holds, from
the last measured bytes and its own rates since then, and writes the rate at which the wanted bytes pass in the next second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from streaming.shared.contract import BrokerSignal, MoveSignal, Side
from tuner.control.throttle.objective import Capacity
from tuner.core.cluster import BrokerSide
from tuner.simulation.policy import EPOCH_MS, RuleInput, capacities
from tuner.simulation.world import World

MB = 1e6
_RATE_MIN = 5 * MB
_UTILISATION = 0.9  # Of a link, less the margin.
_MARGIN_START, _MARGIN_MAX = 0.03, 0.3
_LEVEL_GAIN, _SLOPE_GAIN, _SPREAD_GAIN = 0.5, 0.1, 0.2
_AHEAD_S = 5.0
_HOLD_S, _DECAY_S = 15.0, 30.0


@dataclass(slots=True)
class _Load:
    """Forecast of what one direction of a link carries beside the throttled bytes."""

    level: float
    slope: float = 0.0
    spread: float = 0.0
    at_ms: int = 0

    def add(self, value: float, at_ms: int) -> None:
        step_s = max(0.5, (at_ms - self.at_ms) / 1000)
        expected = self.level + self.slope * step_s
        error = value - expected
        self.level = expected + _LEVEL_GAIN * error
        self.slope += _SLOPE_GAIN * error / step_s
        self.spread += _SPREAD_GAIN * (abs(error) - self.spread)
        self.at_ms = at_ms

    def ahead(self, now_ms: int) -> float:
        return max(0.0, self.level + self.slope * ((now_ms - self.at_ms) / 1000 + _AHEAD_S) + self.spread)


@dataclass(slots=True)
class _SideState:
    began_s: float
    wanted: float
    passed: deque[float]  # Bytes of each of the last seconds, the newest last.
    load: _Load | None = None
    measured_ms: int = 0


@dataclass(slots=True)
class OnePage:
    """The law; each cluster needs a new instance."""

    world: World
    sides: dict[BrokerSide, _SideState] = field(default_factory=dict)
    margins: dict[int, float] = field(default_factory=dict)
    sampled_ms: dict[int, int] = field(default_factory=dict)

    def rates(self, now_s: float, view: RuleInput) -> Mapping[BrokerSide, int | None]:
        now_ms = EPOCH_MS + round(now_s * 1000)
        told, samples = capacities(self.world), self.world.fetch.quota_samples
        self._update_margins(view.brokers)
        free: dict[BrokerSide, tuple[float, MoveSignal]] = {}
        for side, stands in view.live.rates.items():
            state = self.sides.get(side)
            if state is None:
                rate = float(stands.bytes_per_s)
                state = self.sides[side] = _SideState(now_s, rate, deque([rate] * samples, maxlen=samples))
            signal, move, capacity = view.brokers.get(side[0]), view.moves.get(side), told.get(side[0])
            if signal is None or move is None or capacity is None or move.steady_state_bytes_per_s is None:
                continue
            _measure(state, side[1], signal, move, now_ms)
            if state.load is not None:
                free[side] = self._free(side, state.load, capacity, now_ms), move
        ends_s = max([10.0, *(_ends_s(*found) for found in free.values())])
        changes: dict[BrokerSide, int | None] = {}
        for side, stands in view.live.rates.items():
            state = self.sides[side]
            age_s = (now_ms - state.measured_ms) / 1000 if state.measured_ms else 0.0
            if side in free and age_s <= _HOLD_S:
                state.wanted = _wanted(side[1], *free[side], ends_s) * (
                    0.5 + 0.5 * min(1.0, (now_s - state.began_s) / 60.0)
                )
            elif age_s > _DECAY_S:
                state.wanted = max(_RATE_MIN, 0.99 * state.wanted)
            bound = (sum(list(state.passed)[1:]) + state.wanted) / samples
            state.passed.append(min(state.wanted, max(0.0, samples * stands.bytes_per_s - sum(list(state.passed)[1:]))))
            if abs(bound - stands.bytes_per_s) > 0.03 * stands.bytes_per_s:
                changes[side] = max(1, round(bound))
        return changes

    def _update_margins(self, brokers: Mapping[int, BrokerSignal]) -> None:
        for broker, signal in brokers.items():
            if signal.produce_p99_ms is None or signal.sampled_at_ms == self.sampled_ms.get(broker):
                continue
            self.sampled_ms[broker] = signal.sampled_at_ms
            excess = float(np.clip(signal.produce_p99_ms / self.world.latency.objective_ms - 0.75, -0.5, 1.0))
            margin = self.margins.get(broker, _MARGIN_START) + 0.01 * excess
            self.margins[broker] = min(_MARGIN_MAX, max(0.0, margin))

    def _free(self, side: BrokerSide, load: _Load, capacity: Capacity, now_ms: int) -> float:
        link = capacity.out_bytes_per_s if side[1] is Side.LEADER else capacity.in_bytes_per_s
        return (_UTILISATION - self.margins.get(side[0], _MARGIN_START)) * link - load.ahead(now_ms)


def _measure(state: _SideState, direction: Side, signal: BrokerSignal, move: MoveSignal, now_ms: int) -> None:
    """Adds the newest step of a side: the other load of its link, and the bytes that passed its throttle."""
    sends = direction is Side.LEADER
    network = signal.step_network_out_bytes_per_s if sends else signal.step_network_in_bytes_per_s
    copied = signal.step_reassignment_out_bytes_per_s if sends else signal.step_reassignment_in_bytes_per_s
    if network is None or copied is None or signal.step_s is None or signal.sampled_at_ms == state.measured_ms:
        return
    throttled = copied + (move.steady_state_bytes_per_s or 0.0)
    other = max(0.0, network - throttled)
    if state.load is None:
        state.load = _Load(other, at_ms=signal.sampled_at_ms)
    else:
        state.load.add(other, signal.sampled_at_ms)
    state.measured_ms = signal.sampled_at_ms
    age_s = round((now_ms - signal.sampled_at_ms) / 1000)
    for ago_s in range(max(0, age_s), min(len(state.passed), age_s + round(signal.step_s))):
        state.passed[-1 - ago_s] = throttled


def _ends_s(free: float, move: MoveSignal) -> float:
    remaining, steady_state = move.remaining_bytes or 0.0, move.steady_state_bytes_per_s or 0.0
    return remaining / max(1 * MB, free - steady_state)


def _wanted(direction: Side, free: float, move: MoveSignal, ends_s: float) -> float:
    steady_state, share = move.steady_state_bytes_per_s or 0.0, (move.remaining_bytes or 0.0) / ends_s
    lowest = max(_RATE_MIN, 1.2 * steady_state)
    if direction is Side.FOLLOWER:
        return max(steady_state + 1.3 * share, lowest)
    return max(lowest, min(free, steady_state + 1.03 * share))
