"""Finds the steps of plans that must not begin yet, because no throttle would limit them to the rate of their plan.

Invariant: from its first byte on, a step copies at most at its plan's rate. While its throttle is being changed, the step waits. If
the throttle is too high and is not being changed, the step fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from streaming.shared.units import rate_text
from tuner.control.throttle.decision import Decision, Reason, SetRate, StartRate
from tuner.control.throttle.operator_overrides import is_in_force, limit_override
from tuner.control.throttle.plan_moves import PlanMoves, plan_rates, sides_of_move
from tuner.core.cluster import (
    BrokerSide,
    LiveCluster,
    Observation,
    PartitionMove,
    RateSetting,
    side_name,
)
from tuner.core.operator_orders import Orders
from tuner.core.reassignment_plan import TopicPartition
from tuner.core.throttle_limits import ThrottleLimits


def find_steps_above_plan_rate(
    prepared: Sequence[PartitionMove],
    decisions: Sequence[Decision],
    observation: Observation,
    limits: ThrottleLimits,
    *,
    not_set: Collection[BrokerSide],
    warming_up: Collection[BrokerSide],
    ramping: Collection[BrokerSide],
) -> tuple[dict[TopicPartition, str], dict[TopicPartition, str]]:
    """Returns the steps that fail, and the steps that wait, because they would exceed the rate of their plan; each with the cause.

    Args:
        decisions: the decisions of this cycle, all carried out except the rates of the sides in ``not_set``.
        observation: the observation of this cycle, with a readable cluster.
        not_set: sides whose rate could not be set in this cycle.
        warming_up: sides where a window warm-up has begun, so that their rate is low.
        ramping: sides with a rate change in progress.
    """
    assert isinstance(observation.live, LiveCluster)
    started = {(d.broker, d.side): d.value_bytes_per_s for d in decisions if isinstance(d, StartRate)}
    started_rates = {side: RateSetting(rate) for side, rate in started.items() if side not in not_set}
    causes_above = find_sides_above_plan_rate(
        prepared,
        observation.plan_moves,
        {**observation.live.rates, **started_rates},
        warming_up,
        observation.orders,
        limits,
        observation.now_ms,
    )
    # A warm-up first lowers the rate, so a step waits until the warm-up has begun. A throttle that has just been set is low
    # already. With an objective the control law keeps to the plan's rate, so no step waits for a warm-up.
    not_lowered = set[BrokerSide]()
    if not limits.closed_loop:
        warmups = {(d.broker, d.side) for d in decisions if isinstance(d, SetRate) and d.reason is Reason.WINDOW_WARMUP}
        not_lowered = warmups - {*warming_up} - started.keys()
    failed: dict[TopicPartition, str] = {}
    waiting: dict[TopicPartition, str] = {}
    for move in prepared:
        key = (move.topic, move.partition)
        for side in sides_of_move(move):
            if side in not_lowered:
                waiting[key] = (
                    f"not begun yet: the tuner first has to lower the {side_name(side)}, because its quota window is empty, and "
                    "Kafka would let a whole window's bytes pass at once"
                )
            elif side in causes_above:
                causes = waiting if side in ramping else failed
                causes[key] = f"not begun: {causes_above[side]}"
    return failed, {key: why for key, why in waiting.items() if key not in failed}


def find_sides_above_plan_rate(
    prepared: Iterable[PartitionMove],
    plan_moves: PlanMoves,
    rates: Mapping[BrokerSide, RateSetting],
    warming_up: Collection[BrokerSide],
    orders: Orders,
    limits: ThrottleLimits,
    now_ms: int,
) -> dict[BrokerSide, str]:
    """Returns the sides whose throttle does not limit a step to the rate of its plan, with the cause.

    Args:
        rates: the rate in force on each side now.
        warming_up: sides where a window warm-up has begun. At most the plan's rate passes through them from the start.
    """
    causes: dict[BrokerSide, str] = {}
    for side, plan_rate in plan_rates(prepared, plan_moves, limits).items():
        order = limit_override(orders.overrides.get(side), limits)
        ordered = order.bytes_per_s if order is not None and is_in_force(order, now_ms) else 0
        max_rate = max(plan_rate, ordered)
        setting = rates.get(side)
        if setting is None:
            causes[side] = f"no rate is set on the {side_name(side)}"
        elif setting.bytes_per_s > max_rate and side not in warming_up:
            current = rate_text(setting.bytes_per_s)
            causes[side] = f"the {side_name(side)} is at {current}, but the plan may use only {rate_text(max_rate)}"
    return causes
