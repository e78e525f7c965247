"""Predicts whether the moves miss their deadline (objective mode ``deadline``), and explains to the operator what can be done.

The control law already gives a late side the whole rate that clients and the ceiling leave. So only the operator can help: by
changing the deadline, the ceiling, the latency objective or the number of partitions. The moves end when their slowest side ends,
so the explanation names the slowest side.

Invariant: the prediction is only a message; no rate depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from streaming.shared.units import rate_text, size_text, span_text
from tuner.core.cluster import BrokerSide, Setpoint, side_name
from tuner.core.drain_time import SideLoad, drain_s, rate_for_time
from tuner.core.throttle_limits import ThrottleLimits
from tuner.core.value import value

# A side gets a prediction only after it was observed for this time: the first signals cover half a minute from before the tuner
# took the move over, and the first ramp takes ten seconds.
OBSERVED_S_MIN = 45.0
# The tuner knows the remaining bytes some seconds late. The control law plans to end this much before the deadline, so a smaller
# delay does not miss the deadline.
LATE_S_MIN = 15.0
_FORECAST_ERROR = 0.13  # 90 of 100 expected times have a smaller error (benchmarks.eta).
_NEVER_S = 366 * 86_400.0  # A longer time is reported as never.
# From this share of the ceiling on, a side is limited by the ceiling and not by its clients.
_AT_CEILING = 0.9


@value
class DeadlineMiss:
    """The slowest side, which ends after the deadline.

    Attributes:
        rate_bytes_per_s: the setpoint of the side.
        ends_s: seconds until the side ends at that rate; infinite: never.
        left_s: seconds until the deadline; negative if it has passed.
        eta_ratio: expected time ÷ time at the current rate; 1 without a forecast.
    """

    side: BrokerSide
    load: SideLoad
    rate_bytes_per_s: float
    ends_s: float
    left_s: float
    ceiling_bytes_per_s: float
    eta_ratio: float = 1.0

    @property
    def late_s(self) -> float:
        return self.ends_s - self.left_s

    def __str__(self) -> str:
        load = self.load
        steady_state = rate_text(load.steady_state_bytes_per_s)
        rate = f"{rate_text(self.rate_bytes_per_s)}, of which steady-state replication takes {steady_state}"
        due = f"is in {span_text(self.left_s)}" if self.left_s >= 0 else f"was {span_text(-self.left_s)} ago"
        remaining = size_text(load.remaining_bytes)
        if math.isinf(self.ends_s):
            return f"{remaining} remain, and the move never ends at {rate}; finish_at {due}; {self._remedies()}"
        forecast = "" if self.eta_ratio == 1.0 else " if loads and limits follow the forecast"
        return (
            f"{remaining} remain; at {rate}, the move ends in {span_text(self.ends_s)}{forecast}; "
            f"finish_at {due}, so the move ends {span_text(self.late_s)} late; {self._remedies()}"
        )

    def _remedies(self) -> str:
        rate = rate_for_time(self.load, self.left_s) if self.left_s > 0 else None
        required = (
            "no rate ends the move in time" if rate is None else f"to end in time the move needs {rate_text(rate)}"
        )
        later = "" if math.isinf(self.ends_s) else f", set finish_at at least {span_text(self.late_s)} later"
        if self.rate_bytes_per_s >= _AT_CEILING * self.ceiling_bytes_per_s:
            limit = f"the ceiling is {rate_text(self.ceiling_bytes_per_s)}: raise tuner.rate_bytes_per_s_max"
        else:
            limit = (
                "the capacity of the brokers and the load of clients permit no higher rate: raise the latency objective"
            )
        return f"{required}; {limit}{later}, or move fewer partitions"


def find_deadline_miss(
    loads: Mapping[BrokerSide, SideLoad],
    setpoints: Mapping[BrokerSide, Setpoint],
    observed: Iterable[BrokerSide],
    now_ms: int,
    limits: ThrottleLimits,
    eta_ratios: Mapping[BrokerSide, float] = MappingProxyType({}),
) -> DeadlineMiss | None:
    """Returns the slowest steered side if it misses the deadline; None without a deadline, or if it is met.

    Args:
        observed: sides that were observed for at least ``OBSERVED_S_MIN``.
        eta_ratios: by side, as in ``Observation``.
    """
    if limits.finish_at_ms is None:
        return None
    end_s = {
        side: time_to_end_s(loads[side], setpoints[side], eta_ratios.get(side, 1.0))
        for side in observed
        # A side with stale inputs decays, and its later rates are unknown.
        if side in loads and side in setpoints and not setpoints[side].inputs_stale
    }
    if not end_s:
        return None
    slowest = max(sorted(end_s), key=end_s.__getitem__)  # Of equally slow sides, the first in the sorted order.
    miss = DeadlineMiss(
        side=slowest,
        load=loads[slowest],
        rate_bytes_per_s=setpoints[slowest].bytes_per_s,
        ends_s=end_s[slowest],
        left_s=(limits.finish_at_ms - now_ms) / 1000,
        ceiling_bytes_per_s=limits.rate_bytes_per_s_max,
        eta_ratio=eta_ratios.get(slowest, 1.0),
    )
    return miss if miss.late_s >= _late_s_min(miss.ends_s, miss.eta_ratio) else None


def _late_s_min(ends_s: float, eta_ratio: float) -> float:
    return LATE_S_MIN if eta_ratio == 1.0 else max(LATE_S_MIN, _FORECAST_ERROR * ends_s)


def time_to_end_s(load: SideLoad, setpoint: Setpoint, eta_ratio: float = 1.0) -> float:
    """Returns the seconds until nothing remains at the setpoint; infinite if that takes more than a year.

    Args:
        eta_ratio: expected time ÷ time at the setpoint.
    """
    time_s = drain_s(load, setpoint.bytes_per_s)
    return math.inf if time_s is None or time_s > _NEVER_S else time_s * eta_ratio


def explain_deadline_miss(
    miss: DeadlineMiss, side: BrokerSide, load: SideLoad, setpoint: Setpoint, eta_ratio: float = 1.0
) -> str | None:
    """Returns the explanation for one side: the numbers, or which side is the slowest; None if this side is in time."""
    if side == miss.side:
        return f"too late for the deadline: {miss}"
    ends_s = time_to_end_s(load, setpoint, eta_ratio)
    if ends_s - miss.left_s < _late_s_min(ends_s, eta_ratio):
        return None
    end = "never end" if math.isinf(miss.ends_s) else f"end {span_text(miss.late_s)} after finish_at"
    return (
        f"too late for the deadline, because the copies through the {side_name(miss.side)} {end}: the decision about that "
        "throttle says what to change"
    )
