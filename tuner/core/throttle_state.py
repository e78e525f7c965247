"""Computes the current setpoint and the maximum rate of each throttle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.shared.contract import Side
from tuner.core.cluster import BrokerSide, LiveCluster, Setpoint
from tuner.core.throttle_limits import ThrottleLimits


@dataclass(frozen=True, slots=True)
class ThrottleState:
    """Setpoints and maximum rates in bytes/s, by side. A side without an entry has no throttle."""

    setpoints: Mapping[BrokerSide, float] = field(default_factory=dict)
    max_rates: Mapping[BrokerSide, float] = field(default_factory=dict)


NO_WARMUP_RATES: Mapping[BrokerSide, float] = {}
NO_RATES: Mapping[BrokerSide, int] = {}


def throttle_state_of(
    live: LiveCluster | None,
    setpoints: Mapping[BrokerSide, Setpoint],
    limits: ThrottleLimits,
    warmup_rates: Mapping[BrokerSide, float] = NO_WARMUP_RATES,
    plan_rates: Mapping[BrokerSide, int] = NO_RATES,
    highest_plan_rate_bytes_per_s: float | None = None,
) -> ThrottleState:
    """Returns the setpoint and the maximum rate of each side.

    Args:
        live: the newest snapshot; None: there is none yet.
        setpoints: the control law's setpoints.
        warmup_rates: final rates of the sides whose window warm-up is running. A final rate counts as the side's rate from the
            first second, although the current rate in Kafka is still lower.
        plan_rates: the highest rate that plans allow, by side through which they copy now; bytes/s.
        highest_plan_rate_bytes_per_s: the highest rate of all plans that have started; None: no plan, or a plan is unthrottled.
    """
    if live is None:
        return ThrottleState()
    current = {side: float(setting.bytes_per_s) for side, setting in live.rates.items()}
    current |= warmup_rates
    all_sides = [(b, side) for b in live.brokers for side in Side]
    setpoint_rates = current | {side: setpoint.bytes_per_s for side, setpoint in setpoints.items()}
    max_rates: Mapping[BrokerSide, float] = {}
    if highest_plan_rate_bytes_per_s is not None:
        max_rates = dict.fromkeys(all_sides, highest_plan_rate_bytes_per_s)
    if not limits.closed_loop:
        # A side without copies gets the plan's rate as soon as a plan copies through it. Until then its current rate is at most a
        # twelfth of the plan's rate, so the current rate is not used.
        idle_rates = {side: rate for side, rate in max_rates.items() if side not in plan_rates}
        return ThrottleState({**setpoint_rates, **idle_rates}, {**current, **max_rates, **plan_rates})
    # The control law may raise a rate up to the ceiling, also on a side without a throttle if it throttles all moves.
    ceilings = dict.fromkeys(all_sides if limits.throttles_all_moves else current, limits.rate_bytes_per_s_max)
    return ThrottleState(setpoint_rates, {**ceilings, **max_rates, **plan_rates})
