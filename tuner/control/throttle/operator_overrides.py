"""Carries out operator orders. They have priority over the tuner's own rules, but not over the checks whether a broker can be read.

pause     the tuner changes nothing
release   the tuner restores every rate that it manages, and is paused
resume    ends a pause or release, and the holds for rates that other clients had set
override  one throttle has a given rate until a given time; then the tuner restores the earlier rate and tunes it again

Invariant: an order is acknowledged within a cycle, or the reason is given. An expired order changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from streaming.shared.units import rate_text
from tuner.control.throttle.cleanup_rules import restore_all
from tuner.control.throttle.decision import Decision, Hold, Reason, SetRate
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide, LiveCluster, RateSetting, side_name
from tuner.core.operator_orders import Orders, Override, Pause
from tuner.core.throttle_limits import ThrottleLimits


def apply_new_orders(
    orders: Orders, memory: Memory, limits: ThrottleLimits, now_ms: int
) -> tuple[Memory, frozenset[BrokerSide]]:
    """Returns the state without the external holds that new orders end, and the sides with a new override.

    An order is new if it differs from the recorded orders. Times are compared only if no orders were recorded yet, because the
    clock of an operator may be wrong.
    """
    before = memory.recorded_orders if memory.orders_recorded_until_ms is not None else None
    if before is not None:
        is_resumed = orders.resumed_at_ms != before.resumed_at_ms
        external = {} if is_resumed else memory.externally_owned_until_ms
    else:
        hold_ms = round(limits.external_change_hold_s * 1000)  # A hold began this long before its end.
        external = {
            side: until_ms
            for side, until_ms in memory.externally_owned_until_ms.items()
            if until_ms - hold_ms > orders.resumed_at_ms
        }
    newly_ordered = frozenset(
        side
        for side, order in orders.overrides.items()
        if is_in_force(order, now_ms) and (before is None or order != before.overrides.get(side))
    )
    external = {side: until_ms for side, until_ms in external.items() if side not in newly_ordered}
    return _with_external_holds(memory, external), newly_ordered


def drop_external_holds(memory: Memory, sides: Collection[BrokerSide]) -> Memory:
    """Returns the state without the holds of these sides for rates that other clients had set."""
    external = memory.externally_owned_until_ms
    return _with_external_holds(memory, {side: until_ms for side, until_ms in external.items() if side not in sides})


def _with_external_holds(memory: Memory, externally_owned_until_ms: Mapping[BrokerSide, int]) -> Memory:
    if externally_owned_until_ms == memory.externally_owned_until_ms:
        return memory
    return replace(memory, externally_owned_until_ms=externally_owned_until_ms)


def limit_override(order: Override | None, limits: ThrottleLimits) -> Override | None:
    """Returns the order with its rate limited to 1 B/s and the highest ceiling, which may be lower now than at the order.

    A throttle of 0 would stop the move. The ceiling that a rule of the schedule sets for now does not limit an order.
    """
    if order is None:
        return None
    rate = max(1, min(order.bytes_per_s, int(limits.override_bytes_per_s_max)))
    return order if rate == order.bytes_per_s else replace(order, bytes_per_s=rate)


def decide_while_paused(pause: Pause, live: LiveCluster, memory: Memory) -> Sequence[Decision]:
    """Returns a hold; after a release also the restore of every rate that the tuner manages."""
    if not pause.released:
        return [Hold(None, None, Reason.PAUSED, f"paused by {pause.by}: nothing is changed until `rheostat resume`")]
    why = f"released by {pause.by}"
    readable = live.brokers - live.unreadable
    unreachable = [side_name(side) for side in sorted(memory.owned) if side[0] not in readable]
    absent = (
        f"; not restored yet, because the brokers cannot be reached: {', '.join(unreachable)}" if unreachable else ""
    )
    text = f"{why}: every managed rate is restored to its earlier value, and nothing is changed until `rheostat resume`{absent}"
    return [*restore_all(live, memory, Reason.RELEASED, why), Hold(None, None, Reason.RELEASED, text)]


def decide_override(side: BrokerSide, order: Override, setting: RateSetting | None, now_ms: int) -> Decision | None:
    """Returns the change or the hold that an override requires of one side; None if the override has expired."""
    if now_ms >= order.until_ms:
        return None
    head = f"{side_name(side)}: {rate_text(order.bytes_per_s)} by order of {order.by}"
    if setting is None:
        return Hold(*side, Reason.OVERRIDDEN, f"{head}, but no throttle is set here, and an override does not add one")
    if setting.bytes_per_s == order.bytes_per_s:
        return Hold(*side, Reason.OVERRIDDEN, head)
    return SetRate(*side, setting.bytes_per_s, order.bytes_per_s, Reason.OVERRIDDEN, head, setting.is_set_on_broker)


def decide_restore(
    side: BrokerSide, owned: OwnedRate, setting: RateSetting, min_draining_bytes_per_s: float, limits: ThrottleLimits
) -> SetRate | None:
    """Returns the change that restores the rate from before a temporary change; None if there is nothing to restore.

    Args:
        min_draining_bytes_per_s: the lowest rate at which the move progresses. The restored rate is not lower, so that the move
            does not stall again.
    """
    if owned.restore_to_bytes_per_s is None:
        return None
    current, setpoint = setting.bytes_per_s, min(owned.restore_to_bytes_per_s, int(limits.rate_bytes_per_s_max))
    if setpoint < current:
        setpoint = max(setpoint, round(min(current, min_draining_bytes_per_s)))
        # The rate can be restored only in part, and this part is too small to be worth a write.
        if setpoint > owned.restore_to_bytes_per_s and setpoint >= current * (1 - limits.deadband_ratio):
            return None
    if current == setpoint:
        return None
    head = f"{side_name(side)} {rate_text(current)} → {rate_text(setpoint)}"
    text = f"{head}: the temporary rate is no longer needed, so the tuner restores the earlier rate"
    return SetRate(*side, current, setpoint, Reason.RESTORED, text, setting.is_set_on_broker)


def is_in_force(order: Override | None, now_ms: int) -> bool:
    return order is not None and now_ms < order.until_ms


def is_still_ordered(change: SetRate, order: Override | None, limits: ThrottleLimits, now_ms: int) -> bool:
    """Whether an override in force orders the setpoint of this change."""
    order = limit_override(order, limits)
    return order is not None and is_in_force(order, now_ms) and order.bytes_per_s == change.setpoint_bytes_per_s


def hold_during_override_ramp(
    side: BrokerSide, order: Override, owned: OwnedRate | None, now_ms: int
) -> Decision | None:
    """Returns a hold if the ramp in progress leads to the ordered rate; else None."""
    if now_ms >= order.until_ms or owned is None or owned.setpoint_bytes_per_s != order.bytes_per_s:
        return None
    text = f"{side_name(side)}: {rate_text(order.bytes_per_s)} by order of {order.by}, in steps over the quota window"
    return Hold(*side, Reason.RATE_IS_CHANGING, text)
