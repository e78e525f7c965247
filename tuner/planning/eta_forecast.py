"""Forecasts how the rate of a running move will change: its expected time as a multiple of its time at the current rate.

A move whose throttle limits it follows the forecast of its throttle, under the rules of a plan's forecast (copy_rates.py):

    rate in a later hour = current rate × surplus of that hour ÷ surplus of this hour
    surplus              = what the ceiling and the clients leave − steady-state replication

So an error that the forecast has in this hour changes nothing. If a move is clearly slower than its throttle allows, something else
limits it. A larger surplus does not speed it up then, and a surplus below its rate slows it down.

A tuner computes a few sides per second, so no arrays are needed.
"""

from __future__ import annotations

from bisect import bisect_right

from streaming.shared.contract import STEP_S, BrokerProfile, LoadForecast, MoveSignal, Side
from tuner.core.forecast import forecast_at
from tuner.core.plan_progress import move_eta_s
from tuner.planning.copy_forecast import CopyLimits, KnownCapacity

_STEP_MS = STEP_S * 1000
# The forecast reaches a week ahead. The current rate is assumed for a longer move.
AHEAD_MS_MAX = 7 * 24 * _STEP_MS
# A move at a smaller share of the surplus is not limited by its throttle.
_THROTTLED_RATIO_MIN = 0.7
# The range of the rate of one hour, as a multiple of the current rate: a forecast far outside it is not plausible.
_FACTOR_MIN, _FACTOR_MAX = 0.01, 100.0
# As in the control law, a side gets at least this multiple of W.
_MIN_RATE_OVER_STEADY_STATE = 1.2


def eta_ratio(
    signal: MoveSignal,
    profile: BrokerProfile | None,
    capacity: KnownCapacity | None,
    limits: CopyLimits,
    now_ms: int,
) -> float:
    """Returns the expected time of a side's moves ÷ their time at the current rate. 1 if no end is known, or nothing changes.

    Args:
        profile: the usable profile of the broker; None: its load is assumed to stay constant.
        capacity: of this side; None: not known, so only the ceiling limits.
    """
    eta_s = move_eta_s(signal)
    if not eta_s or signal.steady_state_bytes_per_s is None:
        return 1.0
    side = _SideForecast(signal.side, signal.steady_state_bytes_per_s, profile, capacity, limits, now_ms)
    present_bytes_per_s = (signal.remaining_bytes or 0.0) / eta_s
    surplus_now = side.surplus_bytes_per_s(now_ms)
    if surplus_now <= 0.0:
        return 1.0
    is_throttled = present_bytes_per_s >= _THROTTLED_RATIO_MIN * surplus_now
    changes_ms = [period.from_ms for period in limits.periods]
    left_ms, at_ms = 1000.0 * eta_s, now_ms  # The remaining work, as milliseconds at the current rate.
    while at_ms < now_ms + AHEAD_MS_MAX:
        surplus = side.surplus_bytes_per_s(at_ms)
        factor = surplus / surplus_now if is_throttled else min(1.0, surplus / present_bytes_per_s)
        factor = min(_FACTOR_MAX, max(_FACTOR_MIN, factor))
        until_ms = min([(at_ms // _STEP_MS + 1) * _STEP_MS, *changes_ms[bisect_right(changes_ms, at_ms) :][:1]])
        if factor * (until_ms - at_ms) >= left_ms:
            return (at_ms - now_ms + left_ms / factor) / (1000.0 * eta_s)
        left_ms -= factor * (until_ms - at_ms)
        at_ms = until_ms
    return (at_ms - now_ms + left_ms) / (1000.0 * eta_s)


class _SideForecast:
    """The forecast of what one side can copy."""

    def __init__(
        self,
        side: Side,
        steady_state_bytes_per_s: float,
        profile: BrokerProfile | None,
        capacity: KnownCapacity | None,
        limits: CopyLimits,
        now_ms: int,
    ) -> None:
        self._leads = side is Side.LEADER
        self._profile, self._capacity, self._limits = profile, capacity, limits
        self._steady_state = steady_state_bytes_per_s
        self._replication_now = self._forecast(now_ms, clients=False)

    def surplus_bytes_per_s(self, at_ms: int) -> float:
        """Returns the throttle at a time (epoch) minus W; negative if the ceiling is below W."""
        period = self._limits.at(at_ms)
        ceiling = period.ceiling_bytes_per_s * (self._limits.leader_ratio if self._leads else 1.0)
        replication, clients = self._forecast(at_ms, clients=False), self._forecast(at_ms, clients=True)
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

    def _forecast(self, at_ms: int, *, clients: bool) -> float | None:
        """Returns the load of clients or of replication without reassignments; None: not known."""
        if self._profile is None:
            return None
        return forecast_at(_load(self._profile, leads=self._leads, clients=clients), self._profile.start_ms, at_ms)


def _load(profile: BrokerProfile, *, leads: bool, clients: bool) -> LoadForecast:
    if clients:
        return profile.client_out if leads else profile.client_in
    return profile.steady_out if leads else profile.steady_in
