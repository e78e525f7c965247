"""Builds the inputs of the decisions about one side (broker × leader or follower), as journal entries show them.

On a large cluster one leader copies to fifty followers, and each follower copies from fifty leaders. So the row of each broker and
of each stall state is built once per cycle, and all entries that need the row share it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from streaming.shared.contract import BrokerSignal, MoveSignal, MoveStep, MovingPartition, Side
from tuner.control.throttle.state import Memory, StallState
from tuner.core.cluster import BrokerSide, LiveCluster, Observation
from tuner.core.throttle_limits import ThrottleLimits
from tuner.core.vetoes import Veto


class DecisionInputs:
    """Builds the inputs of all sides of one cycle."""

    def __init__(self, observation: Observation, memory: Memory, limits: ThrottleLimits) -> None:
        self._observation = observation
        self._stalls = memory.stalls
        self._limits = _row(limits)
        self._vetoes = [_row(veto) for veto in observation.vetoes]
        self._broker_rows: dict[int, dict[str, Any]] = {}
        self._stall_items: dict[int, tuple[str, dict[str, Any]]] = {}
        self._destinations: dict[int, set[int]] | None = None  # By leader of the moves.

    def is_about(self, observation: Observation, memory: Memory) -> bool:
        """Returns whether the inputs were built from this observation and memory."""
        return observation is self._observation and memory.stalls is self._stalls

    def for_side(self, side: BrokerSide) -> dict[str, Any]:
        """Returns the inputs of one side. The caller must not change the result: sides share parts of it."""
        signal = self._observation.move_signals.get(side)
        return {
            "move": _move_row(signal) if signal is not None else None,
            "broker": self._broker_row(side[0]),
            "stalls": dict(map(self._stall_item, self._destinations_of(side))),
            "limits": self._limits,
            **({"vetoes": self._vetoes} if self._vetoes else {}),
            **self._latency_limit(side),
        }

    def _latency_limit(self, side: BrokerSide) -> dict[str, float]:
        """Returns the highest p99 that the control law allows on this broker; empty if the law steers no throttle of this side."""
        setpoint = self._observation.setpoints.get(side)
        limit = setpoint.latency_limit if setpoint is not None else None
        return {"p99_ms_max": limit.p99_ms_max} if limit is not None else {}

    def _broker_row(self, broker: int) -> dict[str, Any] | None:
        signal = self._observation.broker_signals.get(broker)
        if broker not in self._broker_rows and signal is not None:
            self._broker_rows[broker] = _row(signal)
        return self._broker_rows.get(broker)

    def _stall_item(self, destination: int) -> tuple[str, dict[str, Any]]:
        if destination not in self._stall_items:
            self._stall_items[destination] = (str(destination), _row(self._stalls[destination]))
        return self._stall_items[destination]

    def _destinations_of(self, side: BrokerSide) -> list[int]:
        """Returns the destinations with a stall state that a decision about this side concerns."""
        live = self._observation.live
        destinations: Collection[int] = (side[0],)
        if side[1] is Side.LEADER and isinstance(live, LiveCluster):
            if self._destinations is None:
                self._destinations = _destinations_by_leader(live)
            destinations = self._destinations.get(side[0], ())
        return sorted(destination for destination in destinations if destination in self._stalls)


def _destinations_by_leader(live: LiveCluster) -> dict[int, set[int]]:
    destinations: dict[int, set[int]] = {}
    for move in live.moves:
        destinations.setdefault(move.leader, set()).update(move.destinations)
    return destinations


def _move_row(signal: MoveSignal) -> dict[str, Any]:
    steps, largest = tuple(map(_row, signal.steps)), tuple(map(_row, signal.largest))
    return {**_row(signal), "steps": steps, "largest": largest}


def _row(
    value: StallState | BrokerSignal | MoveSignal | MoveStep | MovingPartition | ThrottleLimits | Veto,
) -> dict[str, Any]:
    # asdict is not used, because it copies every value, and json only reads the values.
    return {field.name: getattr(value, field.name) for field in fields(value)}
