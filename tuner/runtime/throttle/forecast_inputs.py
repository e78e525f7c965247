"""Provides the inputs of forecasts for running moves: usable profiles, capacities, and the limits of the schedule.

A profile is what rheostat has learned about a broker: its loads, latency and capacities (``BrokerProfile``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streaming.shared.contract import BrokerProfile
from tuner.core.cluster import BrokerSide
from tuner.core.forecast import why_unusable
from tuner.planning.copy_forecast import CopyLimits, LinkSpeed
from tuner.planning.side_forecast import AHEAD_MS_MAX, SideForecast
from tuner.runtime.throttle.side_values import KEEP_MS
from tuner.settings.copy_limits import capacities_of, schedule_limits
from tuner.settings.tuner import TunerSettings


class ForecastInputs:
    """Reads the profiles, and computes the limits of the schedule once a minute."""

    def __init__(
        self, profiles: Callable[[], Mapping[int, BrokerProfile]], link_speed: LinkSpeed, settings: TunerSettings
    ) -> None:
        """
        Args:
            profiles: returns the newest profile of each broker, usable or not. Called only while a long move runs.
            settings: the settings of the file, without the changes of the schedule.
        """
        self._profiles = profiles
        self._link_speed = link_speed
        self._settings = settings
        self._limits: CopyLimits | None = None
        self._limits_ms = 0

    def usable_profile(self, broker: int, now_ms: int) -> BrokerProfile | None:
        """Returns the profile of a broker if it can be used now (epoch)."""
        profile = self._profiles().get(broker)
        return profile if why_unusable(profile, now_ms) is None else None

    def side_forecast(
        self, side: BrokerSide, steady_state_bytes_per_s: float, profile: BrokerProfile | None, now_ms: int
    ) -> SideForecast:
        """Returns the forecast of a side with its present steady-state replication.

        Args:
            profile: the usable profile of the side's broker; None if there is none.
        """
        profiles = {} if profile is None else {side[0]: profile}
        capacity = capacities_of(self._settings, [side], profiles, self._link_speed).get(side)
        limits = self.limits_at(now_ms)
        return SideForecast(side[1], steady_state_bytes_per_s, profile, capacity, limits, now_ms)

    def limits_at(self, now_ms: int) -> CopyLimits:
        """Returns the limits of the schedule from now (epoch) on."""
        if self._limits is None or abs(now_ms - self._limits_ms) >= KEEP_MS:
            settings = self._settings
            self._limits = schedule_limits(
                settings,
                lambda period: period.rate_bytes_per_s_max,
                now_ms,
                now_ms + AHEAD_MS_MAX,
                leader_ratio=settings.effective_leader_ratio(),
            )
            self._limits_ms = now_ms
        return self._limits
