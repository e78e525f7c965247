"""Returns the limits of copying under the settings and their schedule, for forecasts of moves (tuner/planning)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice

from streaming.shared.contract import BrokerProfile, Side
from tuner.control.throttle.objective import Mode
from tuner.core.cluster import BrokerSide
from tuner.planning.copy_forecast import CopyLimits, KnownCapacity, LimitPeriod, LinkSpeed, known_capacities
from tuner.settings.schedule_periods import SettingsPeriod, periods
from tuner.settings.tuner import TunerSettings

# A schedule that changes more often is cut, and its last period stays: two weeks have 1,000 periods of 20 minutes.
LIMIT_PERIODS_MAX = 1_000


def schedule_limits(
    settings: TunerSettings,
    throttle_of: Callable[[TunerSettings], float],
    now_ms: int,
    until_ms: int,
    *,
    leader_ratio: float = 1.0,
) -> CopyLimits:
    """Returns the limits of all throttles from ``now_ms`` to ``until_ms`` (epoch), without capacities.

    Args:
        settings: the settings of the file, without the changes of the schedule.
        throttle_of: returns the highest throttle (bytes/s) under the settings of a period.
    """
    schedule = list(islice(periods(settings, now_ms, until_ms), LIMIT_PERIODS_MAX))
    cut_ms = schedule[-1].until_ms
    return CopyLimits(
        tuple(_limit_period(period, throttle_of(period.settings)) for period in schedule),
        settings.rate_bytes_per_s_min,
        leader_ratio=leader_ratio,
        cut_ms=None if cut_ms is None or cut_ms >= until_ms else cut_ms,
    )


def capacities_of(
    settings: TunerSettings,
    sides: Collection[BrokerSide],
    profiles: Mapping[int, BrokerProfile],
    link_speed: LinkSpeed,
) -> dict[BrokerSide, KnownCapacity]:
    """Returns the known capacity of each side. Without an objective it is empty, as throttles then do not follow the clients.

    Args:
        profiles: usable profiles by broker.
    """
    if settings.objective is None:
        return {}
    return known_capacities(sides, _configured_capacities(settings, sides), profiles, link_speed)


def _limit_period(period: SettingsPeriod, ceiling_bytes_per_s: float) -> LimitPeriod:
    objective = period.settings.control_objective()
    if objective is None:
        return LimitPeriod(period.from_ms, ceiling_bytes_per_s)
    return LimitPeriod(
        period.from_ms,
        ceiling_bytes_per_s,
        headroom_ratio=objective.gentle_ratio if objective.mode is Mode.GENTLE else 1.0,
        share_max=objective.share_max,
    )


def _configured_capacities(settings: TunerSettings, sides: Iterable[BrokerSide]) -> dict[BrokerSide, float]:
    if settings.capacity is None:
        return {}
    configured: dict[BrokerSide, float] = {}
    for broker, side in sides:
        capacity = settings.capacity.of(broker)
        configured[(broker, side)] = capacity.out_bytes_per_s if side is Side.LEADER else capacity.in_bytes_per_s
    return configured
