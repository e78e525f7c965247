"""Simulates the controller's event queue, and the delay until brokers show a written setting.

The controller handles operations one after the other. A broker shows a setting one propagation delay after the controller
handled it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from tuner.core.cluster import BrokerSide
from tuner.simulation.world import ControllerModel, ControllerStorm, World


@dataclass(order=True, slots=True)
class _Pending:
    """A written rate that the broker does not show yet."""

    at_s: float  # When the broker will show the rate.
    order: int  # Number of the write. If a broker shows two writes at the same time, the later write counts.
    side: BrokerSide = field(compare=False)
    rate_bytes_per_s: int | None = field(compare=False)


class Controller:
    """The controller's queue, and the throttle rates that the brokers show."""

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        self._model: ControllerModel = world.controller
        self._storms = [d for d in world.disturbances if isinstance(d, ControllerStorm)]
        self._rng = rng
        self._free_at_s = 0.0  # When the controller will have handled all operations in its queue.
        self._pending: list[_Pending] = []
        self._written = 0
        # For each call of ``submit``: its time, its work in seconds, and the time at which that work is done.
        self.submissions: list[tuple[float, float, float]] = []
        self.rates: dict[BrokerSide, int] = {
            (start.broker, start.side): start.rate_bytes_per_s for start in world.rates
        }

    def submit(self, now_s: float, operations: int = 1) -> float:
        """Adds operations to the end of the queue. Returns the time at which the controller will have handled them."""
        work_s = operations * self._model.operation_s
        self._free_at_s = max(self._free_at_s, now_s) + work_s
        self.submissions.append((now_s, work_s, self._free_at_s))
        return self._free_at_s

    def write(self, now_s: float, side: BrokerSide, rate_bytes_per_s: int | None) -> float:
        """Sets or removes (None) a rate. Returns the time at which the broker will show the change."""
        model = self._model
        done_s = self.submit(now_s)
        shown_s = done_s + float(self._rng.uniform(model.propagation_s_min, model.propagation_s_max))
        self._written += 1
        heapq.heappush(self._pending, _Pending(shown_s, self._written, side, rate_bytes_per_s))
        return shown_s

    def expected(self, side: BrokerSide, until_s: float) -> int | None:
        """Returns the rate that the side will show at ``until_s`` without further writes."""
        pending = [p for p in self._pending if p.side == side and p.at_s <= until_s]
        last_shown = max(pending, default=None)
        return self.rates.get(side) if last_shown is None else last_shown.rate_bytes_per_s

    def advance(self, now_s: float, dt_s: float) -> bool:
        """Advances by ``dt_s`` to ``now_s``. Returns whether any broker shows another rate than before."""
        for storm in self._storms:
            if storm.at_s <= now_s < storm.until_s:
                self._free_at_s = max(self._free_at_s, now_s) + storm.operations_per_s * dt_s * self._model.operation_s
        changed = False
        while self._pending and self._pending[0].at_s <= now_s:
            shown = heapq.heappop(self._pending)
            changed = True
            if shown.rate_bytes_per_s is None:
                self.rates.pop(shown.side, None)
            else:
                self.rates[shown.side] = shown.rate_bytes_per_s
        return changed
