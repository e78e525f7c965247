"""Keeps for each side of the running moves how the forecast changes their expected time (tuner/planning/eta_forecast.py).

A forecast changes slowly, so a ratio is computed again after a minute. Each call computes a few sides only, because a large cluster
has thousands. A side that has no ratio yet is assumed to keep its current rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from streaming.shared.contract import BrokerProfile, MoveSignal
from tuner.core.cluster import BrokerSide
from tuner.core.forecast import why_unusable
from tuner.core.plan_progress import move_eta_s
from tuner.planning.copy_forecast import CopyLimits
from tuner.planning.eta_forecast import AHEAD_MS_MAX, eta_ratio
from tuner.settings.copy_limits import capacities_of, schedule_limits
from tuner.settings.tuner import TunerSettings

_KEEP_MS = 60_000
_SIDES_PER_CALL = 40
_SHORT_S = 600.0  # Loads hardly change during a shorter move.
_NOTABLE = 0.02  # A smaller difference is within the noise of the current rate.


class EtaForecasts:
    """Computes the ratios of the sides in turn."""

    def __init__(
        self,
        profiles: Callable[[], Mapping[int, BrokerProfile]],
        settings: TunerSettings,
        *,
        sides_per_call: int | None = _SIDES_PER_CALL,
    ) -> None:
        """
        Args:
            profiles: returns the newest profile of each broker, usable or not. Called only while a long move runs.
            settings: the settings of the file, without the changes of the schedule.
            sides_per_call: the most ratios that one call computes; None: all.
        """
        self._profiles = profiles
        self._settings = settings
        self._sides_per_call = sides_per_call
        self._limits: CopyLimits | None = None
        self._limits_ms = 0
        self._ratios: Mapping[BrokerSide, float] = {}
        self._computed_ms: dict[BrokerSide, int] = {}

    def ratios(self, moves: Mapping[BrokerSide, MoveSignal], now_ms: int) -> Mapping[BrokerSide, float]:
        """Returns the expected time ÷ the time at the current rate, for the sides where they differ.

        Args:
            moves: the newest signal of each side.
        """
        # ``abs``: a clock that is set back must not stop the computation.
        due = (side for side in moves if abs(now_ms - self._computed_ms.get(side, now_ms - _KEEP_MS)) >= _KEEP_MS)
        changed = {side: self._ratio(side, moves[side], now_ms) for side in islice(due, self._sides_per_call)}
        if changed or len(self._computed_ms) > len(moves):
            self._computed_ms.update(dict.fromkeys(changed, now_ms))
            self._computed_ms = {side: at_ms for side, at_ms in self._computed_ms.items() if side in moves}
            ratios = {**self._ratios, **changed}
            # A new mapping only for new values: the recording of inputs compares the mappings of two cycles.
            self._ratios = {side: ratio for side, ratio in ratios.items() if side in moves and ratio != 1.0}
        return self._ratios

    def _ratio(self, side: BrokerSide, signal: MoveSignal, now_ms: int) -> float:
        eta_s = move_eta_s(signal)
        if eta_s is None or eta_s < _SHORT_S:
            return 1.0
        profile = self._profiles().get(side[0])
        usable = {side[0]: profile} if profile is not None and why_unusable(profile, now_ms) is None else {}
        capacity = capacities_of(self._settings, [side], usable).get(side)
        ratio = eta_ratio(signal, usable.get(side[0]), capacity, self._limits_at(now_ms), now_ms)
        return 1.0 if abs(ratio - 1.0) < _NOTABLE else round(ratio, 2)

    def _limits_at(self, now_ms: int) -> CopyLimits:
        if self._limits is None or abs(now_ms - self._limits_ms) >= _KEEP_MS:
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
