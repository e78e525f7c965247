"""Keeps, for each side of the running moves, how the load forecast changes the rate that their deadline needs.

tuner/planning/deadline_forecast.py computes the forecasts.
"""

from __future__ import annotations

from collections.abc import Mapping

from streaming.shared.contract import MoveSignal
from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.steering.target_rate import deadline_left_s
from tuner.core.cluster import BrokerSide
from tuner.core.deadline_forecast import DeadlineForecast
from tuner.core.drain_time import SideLoad
from tuner.planning.deadline_forecast import deadline_time_ratio
from tuner.runtime.throttle.forecast_inputs import ForecastInputs
from tuner.runtime.throttle.side_values import SIDES_PER_CALL, SideValues


class DeadlineForecasts:
    """Computes the forecasts of the sides in turn."""

    def __init__(
        self, inputs: ForecastInputs, control_limits: ControlLimits, *, sides_per_call: int | None = SIDES_PER_CALL
    ) -> None:
        """
        Args:
            inputs: the inputs of forecasts. They are read only while moves have a deadline.
            sides_per_call: how many forecasts one call computes at most; None means all.
        """
        self._inputs = inputs
        self._sides_per_call = sides_per_call
        self._control_limits = control_limits
        self._finish_at_ms: int | None = None
        self._forecasts: SideValues[DeadlineForecast] = SideValues(sides_per_call)

    def forecasts(
        self, moves: Mapping[BrokerSide, MoveSignal], now_ms: int, finish_at_ms: int | None
    ) -> Mapping[BrokerSide, DeadlineForecast]:
        """Returns the forecasts of the sides that have one: with a usable profile, or if the schedule changes the limits.

        Args:
            moves: the newest signal of each side, with the bytes that plans have not begun to copy.
            finish_at_ms: the deadline; None if there is no deadline, so that the result is empty.
        """
        if finish_at_ms != self._finish_at_ms:
            self._finish_at_ms, self._forecasts = finish_at_ms, SideValues(self._sides_per_call)
        if finish_at_ms is None:
            return {}
        left_s = deadline_left_s(finish_at_ms, now_ms, self._control_limits)
        return self._forecasts.update(moves, now_ms, lambda side, signal: self._forecast(side, signal, now_ms, left_s))

    def _forecast(self, side: BrokerSide, signal: MoveSignal, now_ms: int, left_s: float) -> DeadlineForecast | None:
        remaining, steady_state = signal.remaining_bytes, signal.steady_state_bytes_per_s
        if remaining is None or steady_state is None or left_s <= 0.0:
            return None
        profile = self._inputs.usable_profile(side[0], now_ms)
        until_ms = now_ms + 1000 * left_s
        changes = any(now_ms < period.from_ms < until_ms for period in self._inputs.limits_at(now_ms).periods)
        if profile is None and not changes:
            return None
        forecast = self._inputs.side_forecast(side, steady_state, profile, now_ms)
        ratio = deadline_time_ratio(SideLoad(remaining, steady_state), forecast, now_ms, left_s)
        # Three digits: a smaller change is not worth a record of the inputs.
        return DeadlineForecast(float(f"{ratio:.3g}"), has_profile=profile is not None)
