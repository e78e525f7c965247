"""What each throttle carries now, and the most that it may be given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.shared.contract import Side
from tuner.core.cluster import BrokerSide, LiveCluster, Setpoint
from tuner.core.throttle_limits import Limits


@dataclass(frozen=True, slots=True)
class ThrottleState:
    """Bytes/s by side; a side that isn't named has no throttle."""

    setpoints: Mapping[BrokerSide, float] = field(default_factory=dict)  # What it should carry now.
    max_rates: Mapping[BrokerSide, float] = field(default_factory=dict)  # What it may be given at most.


NO_WARMUP_RATES: Mapping[BrokerSide, float] = {}


NO_RATES: Mapping[BrokerSide, int] = {}


def throttle_state_of(
    live: LiveCluster | None,
    setpoints: Mapping[BrokerSide, Setpoint],
    limits: Limits,
    warmup_rates: Mapping[BrokerSide, float] = NO_WARMUP_RATES,
    plan_rates: Mapping[BrokerSide, int] = NO_RATES,
    highest_plan_rate_bytes_per_s: float | None = None,
) -> ThrottleState:
    """What each side carries and may be given.

    Args:
        live: as seen last; None: not yet.
        courses: of what the law steers now.
        filling: what is brought up as its window fills lets that through from the first second on, whatever stands there.
        plan_rates: the most that plans allow the sides that they copy through now, bytes/s.
        loosest_bytes_per_s: the most that any plan allows a side; None: a plan is unthrottled, or there is none.
    """
    if live is None:
        return ThrottleState()
    stands = {side: float(setting.bytes_per_s) for side, setting in live.rates.items()}
    stands |= warmup_rates
    every = [(b, side) for b in live.brokers for side in Side]
    meant = stands | {side: course.bytes_per_s for side, course in setpoints.items()}
    most: Mapping[BrokerSide, float] = {}
    # Every side that a plan comes to is throttled.
    if highest_plan_rate_bytes_per_s is not None:
        most = dict.fromkeys(every, highest_plan_rate_bytes_per_s)
    if not limits.closed_loop:
        # A side that no plan copies through yet is given the plan's rate as soon as one does. Until then a replica that only may
        # lead has a twelfth of it.
        idle = {side: rate for side, rate in most.items() if side not in plan_rates}
        return ThrottleState({**meant, **idle}, {**stands, **most, **plan_rates})
    # The law raises to the ceiling what it needs, also where nothing stands yet if it puts throttles on by itself.
    ceilings = dict.fromkeys(every if limits.throttles_all_moves else stands, limits.rate_bytes_per_s_max)
    return ThrottleState(meant, {**ceilings, **most, **plan_rates})
