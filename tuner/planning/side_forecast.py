"""Forecasts the surplus of one side hour by hour: the rate at which it can copy. The rules are those of copy_rates.py.

    surplus = throttle that the ceiling, the clients and the capacity allow − steady-state replication (W)

A tuner computes only a few sides per second, so this module works without arrays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from streaming.shared.contract import STEP_S, BrokerProfile, Side
from tuner.core.forecast import filled_values, step_of
from tuner.planning.copy_forecast import CopyLimits, KnownCapacity

_STEP_MS = STEP_S * 1000
# The forecast reaches a week ahead.
AHEAD_MS_MAX = 7 * 24 * _STEP_MS
# The throttle of a side is at least this multiple of W, as in the control law.
_MIN_RATE_OVER_STEADY_STATE = 1.2


class SurplusPeriod(NamedTuple):
    """A period (epoch) with a constant surplus; the surplus is negative if the ceiling is below W."""

    from_ms: int
    until_ms: int
    surplus_bytes_per_s: float


class SideForecast:
    """The forecast of one side."""

    def __init__(
        self,
        side: Side,
        steady_state_bytes_per_s: float,
        profile: BrokerProfile | None,
        capacity: KnownCapacity | None,
        limits: CopyLimits,
        now_ms: int,
    ) -> None:
        """
        Args:
            steady_state_bytes_per_s: W now.
            profile: the usable profile of the broker; None: its load is assumed to stay constant.
            capacity: of this side; None: not known, so only the ceiling limits the throttle.
        """
        leads = side is Side.LEADER
        self._capacity, self._limits, self._now_ms = capacity, limits, now_ms
        self._ceiling_ratio = limits.leader_ratio if leads else 1.0
        self._steady_state = steady_state_bytes_per_s
        self._start_ms = 0
        self._clients: list[float] = []
        self._replication: list[float] = []
        if profile is not None:
            self._start_ms = profile.start_ms
            self._clients = filled_values(profile.client_out if leads else profile.client_in)
            self._replication = filled_values(profile.steady_out if leads else profile.steady_in)
        self._replication_now = self._at(self._replication, now_ms)

    def periods(self, until_ms: int) -> Iterator[SurplusPeriod]:
        """Yields the periods from now on, without gaps, up to ``until_ms`` and at most a week ahead."""
        changes_ms = [period.from_ms for period in self._limits.periods]
        at_ms, last_ms = self._now_ms, min(until_ms, self._now_ms + AHEAD_MS_MAX)
        while at_ms < last_ms:
            next_change_ms = changes_ms[bisect_right(changes_ms, at_ms) :][:1]
            end_ms = min([(at_ms // _STEP_MS + 1) * _STEP_MS, *next_change_ms, last_ms])
            yield SurplusPeriod(at_ms, end_ms, self.surplus_bytes_per_s(at_ms))
            at_ms = end_ms

    def surplus_bytes_per_s(self, at_ms: int) -> float:
        """Returns the throttle at a time (epoch) minus W; negative if the ceiling is below W."""
        period = self._limits.at(at_ms)
        ceiling = period.ceiling_bytes_per_s * self._ceiling_ratio
        replication, clients = self._at(self._replication, at_ms), self._at(self._clients, at_ms)
        steady_state = self._steady_state
        if self._replication_now and replication is not None:
            steady_state *= replication / self._replication_now
        if self._capacity is None:
            return ceiling - steady_state
        if period.share_max is not None:
            ceiling = min(ceiling, period.share_max * self._capacity.bytes_per_s)
        if clients is None:
            return ceiling - steady_state
        used = clients + max(replication or 0.0, steady_state)
        left = steady_state + period.headroom_ratio * max(0.0, self._capacity.allowed_bytes_per_s - used)
        lowest = max(self._limits.rate_bytes_per_s_min, _MIN_RATE_OVER_STEADY_STATE * steady_state)
        return min(ceiling, max(left, lowest)) - steady_state

    def _at(self, values: list[float], at_ms: int) -> float | None:
        """Returns the load of clients or of replication without reassignments; None: not known."""
        return values[step_of(len(values), self._start_ms, at_ms)] if values else None
