"""Which steps of plans must not begin yet, as no throttle would hold them to the rate of their plan.

Invariant: a step that begins copies at most at its plan's rate from its first byte on. One whose throttle is just being changed
waits; one whose throttle stays as it is has failed.
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
from tuner.core.throttle_limits import Limits


def find_steps_above_plan_rate(
    announced: Sequence[PartitionMove],
    decisions: Sequence[Decision],
    observation: Observation,
    limits: Limits,
    *,
    not_set: Collection[BrokerSide],
    lowered: Collection[BrokerSide],
    busy: Collection[BrokerSide],
) -> tuple[dict[TopicPartition, str], dict[TopicPartition, str]]:
    """The announced steps that would not be held to the rate of their plan: those that have failed, and those that only wait.

    Args:
        decisions: of this cycle, all of them carried out but for rates in ``not_set``.
        observation: of this cycle; the cluster was seen.
        not_set: sides whose rate could not be set in this cycle.
        lowered: sides where a change has begun that fills the window of the quota.
        busy: sides whose rate is being changed now.
    """
    assert isinstance(observation.live, LiveCluster)
    started = {(d.broker, d.side): RateSetting(d.value_bytes_per_s) for d in decisions if isinstance(d, StartRate)}
    rates = {**observation.live.rates, **{side: rate for side, rate in started.items() if side not in not_set}}
    above = find_sides_above_plan_rate(
        announced, observation.plan_moves, rates, lowered, observation.orders, limits, observation.now_ms
    )
    late = set[BrokerSide]()
    if not limits.closed_loop:
        to_fill = {(d.broker, d.side) for d in decisions if isinstance(d, SetRate) and d.reason is Reason.WINDOW_WARMUP}
        late = to_fill - {*lowered} - started.keys()
    failed: dict[TopicPartition, str] = {}
    waits: dict[TopicPartition, str] = {}
    for move in announced:
        key = (move.topic, move.partition)
        for side in sides_of_move(move):
            if side in late:
                waits[key] = (
                    f"not begun yet: the {side_name(side)} has still to be lowered, as its quota's window is empty"
                )
            elif side in above:
                (waits if side in busy else failed)[key] = f"not begun: {above[side]}"
    return failed, {key: why for key, why in waits.items() if key not in failed}


def find_sides_above_plan_rate(
    announced: Iterable[PartitionMove],
    plan_moves: PlanMoves,
    rates: Mapping[BrokerSide, RateSetting],
    lowered: Collection[BrokerSide],
    orders: Orders,
    limits: Limits,
    now_ms: int,
) -> dict[BrokerSide, str]:
    """The sides on which a step of a plan must not begin yet, as no throttle holds it to the plan's rate; and why.

    Args:
        rates: what is in force on each side now.
        lowered: sides where a change has begun that fills the window of the quota; what passes there is right from the start.
    """
    found: dict[BrokerSide, str] = {}
    for side, most in plan_rates(announced, plan_moves, limits).items():
        order = limit_override(orders.overrides.get(side), limits)
        if order is not None and is_in_force(order, now_ms):
            most = max(most, order.bytes_per_s)
        setting = rates.get(side)
        if setting is None:
            found[side] = f"no rate is set on the {side_name(side)}"
        elif setting.bytes_per_s > most and side not in lowered:
            found[side] = (
                f"the {side_name(side)} is at {rate_text(setting.bytes_per_s)}, and the plan may use {rate_text(most)}"
            )
    return found
