"""Keeps, for each side of the running moves, how the load forecast changes their expected time.

tuner/planning/eta_forecast.py computes the forecasts.
"""

from __future__ import annotations

from collections.abc import Mapping

from streaming.shared.contract import MoveSignal
from tuner.core.cluster import BrokerSide
from tuner.core.plan_progress import move_eta_s
from tuner.planning.eta_forecast import eta_ratio
from tuner.runtime.throttle.forecast_inputs import ForecastInputs
from tuner.runtime.throttle.side_values import SIDES_PER_CALL, SideValues

_SHORT_S = 600.0  # Loads hardly change during a shorter move.
_NOTABLE = 0.02  # A smaller relative difference is less than the usual variation of the current rate.


class EtaForecasts:
    """Computes the ratios of the sides in turn. A side that has no ratio yet is assumed to keep its current rate."""

    def __init__(self, inputs: ForecastInputs, *, sides_per_call: int | None = SIDES_PER_CALL) -> None:
        """
        Args:
            inputs: the inputs of forecasts. They are read only while a long move runs.
            sides_per_call: how many ratios one call computes at most; None means all.
        """
        self._inputs = inputs
        self._ratios: SideValues[float] = SideValues(sides_per_call)

    def ratios(self, moves: Mapping[BrokerSide, MoveSignal], now_ms: int) -> Mapping[BrokerSide, float]:
        """Returns the expected time ÷ the time at the current rate, for the sides where they differ.

        Args:
            moves: the newest signal of each side.
        """
        return self._ratios.update(moves, now_ms, lambda side, signal: self._ratio(side, signal, now_ms))

    def _ratio(self, side: BrokerSide, signal: MoveSignal, now_ms: int) -> float | None:
        eta_s = move_eta_s(signal)
        steady_state = signal.steady_state_bytes_per_s
        if eta_s is None or eta_s < _SHORT_S or steady_state is None:
            return None
        forecast = self._inputs.side_forecast(side, steady_state, self._inputs.usable_profile(side[0], now_ms), now_ms)
        ratio = eta_ratio(signal, forecast, now_ms)
        return None if abs(ratio - 1.0) < _NOTABLE else round(ratio, 2)
