"""What the decisions of one cycle stood on, as far as each is about one side, in the form in which it is on record.

A leader copies to fifty others on a large cluster, and each of those from fifty: what is said of one is made once, and stands in
the entries of all that it concerns.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from streaming.shared.contract import BrokerSignal, MoveSignal, MoveStep, MovingPartition, Side
from tuner.control.throttle.state import Memory, StallState
from tuner.core.cluster import BrokerSide, LiveCluster, Observation
from tuner.core.throttle_limits import Limits


class DecisionInputs:
    def __init__(self, observation: Observation, memory: Memory, limits: Limits) -> None:
        self._observation = observation
        self._stalls = memory.stalls
        self._limits = _row(limits)
        self._brokers: dict[int, dict[str, Any]] = {}
        self._states: dict[int, dict[str, Any]] = {}
        self._led: dict[int, set[int]] | None = None  # The destinations of each leader's moves.

    def is_about(self, observation: Observation, memory: Memory) -> bool:
        return observation is self._observation and memory.stalls is self._stalls

    def of(self, side: BrokerSide) -> dict[str, Any]:
        """Nobody changes what comes back: parts of it are in others."""
        signal = self._observation.moves.get(side)
        return {
            "move": _move(signal) if signal is not None else None,
            "broker": self._broker(side[0]),
            "stalls": {str(destination): self._state(destination) for destination in self._concerned(side)},
            "limits": self._limits,
        }

    def _broker(self, broker: int) -> dict[str, Any] | None:
        signal = self._observation.brokers.get(broker)
        if broker not in self._brokers and signal is not None:
            self._brokers[broker] = _row(signal)
        return self._brokers.get(broker)

    def _state(self, destination: int) -> dict[str, Any]:
        if destination not in self._states:
            self._states[destination] = _row(self._stalls[destination])
        return self._states[destination]

    def _concerned(self, side: BrokerSide) -> list[int]:
        """The destinations that a decision about this side is about."""
        live = self._observation.live
        onto: Collection[int] = (side[0],)
        if side[1] is Side.LEADER and isinstance(live, LiveCluster):
            if self._led is None:
                self._led = _led(live)
            onto = self._led.get(side[0], ())
        return sorted(destination for destination in onto if destination in self._stalls)


def _led(live: LiveCluster) -> dict[int, set[int]]:
    led: dict[int, set[int]] = {}
    for move in live.moves:
        led.setdefault(move.leader, set()).update(move.destinations)
    return led


def _move(signal: MoveSignal) -> dict[str, Any]:
    steps, largest = tuple(map(_row, signal.steps)), tuple(map(_row, signal.largest))
    return {**_row(signal), "steps": steps, "largest": largest}


def _row(value: StallState | BrokerSignal | MoveSignal | MoveStep | MovingPartition | Limits) -> dict[str, Any]:
    # Not asdict, which would copy all that json only reads.
    return {f.name: getattr(value, f.name) for f in fields(value)}
