"""Estimates the end of a plan for a given start, and finds the start with the shortest move.

Each side copies its bytes B at the forecast rate (copy_rates.py), and the plan ends with its slowest side:

    end = the first time at which ∫ (q(t) − W(t)) dt from the start on has reached B

where q is the throttle of the side, and W the part of q that the replication of new writes uses. With a constant load, the copy
takes B ÷ (q − W), as in tuner/core/drain_time.py.

A plan that starts earlier never ends later than one that starts later. So the best start is not the one with the earliest end, but
the one with the shortest move, because the move then disturbs clients for the shortest time. Of nearly equal starts, the earliest
is the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streaming.shared.contract import BrokerProfile
from tuner.core.cluster import BrokerSide
from tuner.core.drain_time import SideLoad
from tuner.core.side_load import PlannedPartition, side_loads
from tuner.planning.copy_forecast import CopyLimits, CopyPeriod, LoadCase
from tuner.planning.copy_rates import CopyRates, forecast_rates

_CANDIDATES_EVERY_MS = 30 * 60 * 1000
_CANDIDATES_WITHIN_MS = 24 * 3600 * 1000
# Starts whose moves differ by no more than this are equally good.
_NEARLY_RATIO = 1.05
_EQUAL_DURATIONS_MS = 1_000  # Rounding.
# Forecasts cover this time. For a longer move no end is reported.
MOVE_S_MAX = 7 * 86_400
START_AHEAD_S_MAX = 7 * 86_400


@dataclass(frozen=True, slots=True)
class BindingPeriod:
    """The slowest side of a move, and the period of the move in which it copies slowest."""

    side: BrokerSide
    period: CopyPeriod


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """The estimate for one start. All times are epoch ms.

    Attributes:
        end_ms: the end with the expected load; None: the move does not end within ``MOVE_S_MAX``.
        end_low_ms: the end if the load of each hour is lower than the forecast, by the forecast's mean error; or None.
        end_high_ms: the end if the load of each hour is higher than the forecast, by the forecast's mean error; or None.
        binding: the slowest side and its slowest period; None: nothing is copied.
    """

    start_ms: int
    end_ms: int | None
    end_low_ms: int | None
    end_high_ms: int | None
    binding: BindingPeriod | None

    @property
    def duration_s(self) -> float | None:
        return None if self.end_ms is None else (self.end_ms - self.start_ms) / 1000


class MoveForecast:
    """The forecast of one plan, for any start within ``START_AHEAD_S_MAX``."""

    def __init__(
        self,
        partitions: Sequence[PlannedPartition],
        profiles: Mapping[int, BrokerProfile],
        limits: CopyLimits,
        now_ms: int,
        *,
        time_ratio: float = 1.0,
    ) -> None:
        """
        Args:
            profiles: usable profiles by broker.
            time_ratio: factor on the time of the move, for example because few partitions move at a time.
        """
        self.now_ms = now_ms
        self.loads: dict[BrokerSide, SideLoad] = {
            side: SideLoad(time_ratio * load.remaining_bytes, load.steady_state_bytes_per_s)
            for side, load in side_loads(partitions).items()
        }
        self.limits = limits
        self._partitions, self._profiles = partitions, profiles
        self._rates: dict[LoadCase, CopyRates] = {}
        self._remaining_bytes = np.array([load.remaining_bytes for load in self.loads.values()])

    def periods(self, side: BrokerSide, case: LoadCase = LoadCase.EXPECTED) -> tuple[CopyPeriod, ...]:
        """Returns the forecast of one side from now on."""
        return self._rates_of(case).periods(side)

    def estimate(self, start_ms: int, case: LoadCase = LoadCase.EXPECTED) -> StartEstimate:
        """Returns the estimate for a start between now and ``START_AHEAD_S_MAX`` later.

        Args:
            case: the assumed load. ``PRESENT`` assumes that the load does not change.
        """
        slowest, end_ms = self._slowest(start_ms, case)
        low_ms = high_ms = end_ms
        if case is LoadCase.EXPECTED:
            low_ms = self._slowest(start_ms, LoadCase.LOW)[1]
            high_ms = self._slowest(start_ms, LoadCase.HIGH)[1]
        binding = None
        if slowest is not None:
            until_ms = start_ms + MOVE_S_MAX * 1000 if end_ms is None else end_ms
            binding = BindingPeriod(slowest, self._rates_of(case).slowest_period(slowest, start_ms, until_ms))
        return StartEstimate(start_ms=start_ms, end_ms=end_ms, end_low_ms=low_ms, end_high_ms=high_ms, binding=binding)

    def candidates_ms(self) -> list[int]:
        """Returns the candidates for the best start: now, and each half hour of the next day."""
        first = self.now_ms - self.now_ms % _CANDIDATES_EVERY_MS + _CANDIDATES_EVERY_MS
        return [self.now_ms, *range(first, self.now_ms + _CANDIDATES_WITHIN_MS + 1, _CANDIDATES_EVERY_MS)]

    def best_start_ms(self) -> int:
        """Returns the earliest start whose move takes hardly longer than the shortest move; the current time if no move ends."""
        ending_ms = {start_ms: ms for start_ms, ms in self._durations_ms.items() if ms is not None}
        if not ending_ms:
            return self.now_ms
        longest_ms = _NEARLY_RATIO * min(ending_ms.values())
        return next(start_ms for start_ms, duration_ms in ending_ms.items() if duration_ms <= longest_ms)

    def starts_differ(self) -> bool:
        """Returns whether the move takes longer from one candidate than from another."""
        durations_ms = self._durations_ms.values()
        known_ms = [ms for ms in durations_ms if ms is not None]
        return 0 < len(known_ms) < len(durations_ms) or (
            bool(known_ms) and max(known_ms) - min(known_ms) > _EQUAL_DURATIONS_MS
        )

    @cached_property
    def _durations_ms(self) -> dict[int, int | None]:
        """Returns the duration of the move from each candidate; None: it does not end within ``MOVE_S_MAX``."""
        ends_ms = {start_ms: self._slowest(start_ms, LoadCase.EXPECTED)[1] for start_ms in self.candidates_ms()}
        return {start_ms: None if end_ms is None else end_ms - start_ms for start_ms, end_ms in ends_ms.items()}

    def _slowest(self, start_ms: int, case: LoadCase) -> tuple[BrokerSide | None, int | None]:
        """Returns the side that ends last, and its end; the end is None if the side does not end within ``MOVE_S_MAX``."""
        slowest: BrokerSide | None = None
        latest_ms = start_ms
        ends_ms = self._rates_of(case).ends_ms(self._remaining_bytes, start_ms, start_ms + 1000 * MOVE_S_MAX)
        for side, end_ms in zip(self.loads, ends_ms, strict=True):
            if end_ms is None:
                return side, None
            if slowest is None or end_ms > latest_ms:
                slowest, latest_ms = side, end_ms
        return slowest, latest_ms

    def _rates_of(self, case: LoadCase) -> CopyRates:
        if case not in self._rates:
            until_ms = self.now_ms + 1000 * (START_AHEAD_S_MAX + MOVE_S_MAX)
            self._rates[case] = forecast_rates(
                self._partitions, self._profiles, self.limits, self.now_ms, until_ms, case
            )
        return self._rates[case]


def remaining_at(remaining_bytes: float, periods: Sequence[CopyPeriod], start_ms: int, at_ms: int) -> float:
    """Returns the bytes that remain at a time, if copying begins at ``start_ms``."""
    for period in periods:
        span_ms = min(period.until_ms, at_ms) - max(period.from_ms, start_ms)
        remaining_bytes -= period.surplus_bytes_per_s * max(0, span_ms) / 1000
    return max(0.0, remaining_bytes)
