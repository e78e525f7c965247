"""A person's word comes before the tuner's own thinking, and after what cannot be seen.

pause     nothing is changed, neither up nor down, and nothing is ended either
release   everything that is ours becomes what it was, and then as paused
resume    both are over, and so are the holds for values that somebody else had set
override  one throttle stands at a rate until a moment, then at what it stood at before, and is tuned again

Invariant: an order is acknowledged within a cycle or its reason is said; one that has expired changes nothing.
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
from tuner.core.throttle_limits import Limits


def apply_new_orders(
    orders: Orders, memory: Memory, limits: Limits, now_ms: int
) -> tuple[Memory, frozenset[BrokerSide]]:
    """What is remembered of other people's values after ``resume`` and ``override``, and of which sides there is a new order.

    The newer word counts, whoever's it is. Which one that is says the order in which they were heard: the clocks of those who
    give orders may be off. Only where it was never told what was ordered before, clocks have to do.
    """
    before = memory.recorded_orders if memory.orders_recorded_until_ms is not None else None
    if before is not None:
        over = orders.resumed_at_ms != before.resumed_at_ms
        theirs = {} if over else memory.externally_owned_until_ms
    else:
        yield_ms = round(limits.external_change_hold_s * 1000)
        theirs = {
            side: until_ms
            for side, until_ms in memory.externally_owned_until_ms.items()
            if until_ms - yield_ms > orders.resumed_at_ms
        }
    news = frozenset(
        side
        for side, order in orders.overrides.items()
        if is_in_force(order, now_ms) and (before is None or order != before.overrides.get(side))
    )
    return _holding(memory, {side: until_ms for side, until_ms in theirs.items() if side not in news}), news


def drop_external_holds(memory: Memory, sides: Collection[BrokerSide]) -> Memory:
    theirs = memory.externally_owned_until_ms
    return _holding(memory, {side: until_ms for side, until_ms in theirs.items() if side not in sides})


def _holding(memory: Memory, externally_owned_until_ms: Mapping[BrokerSide, int]) -> Memory:
    return (
        memory
        if externally_owned_until_ms == memory.externally_owned_until_ms
        else replace(memory, externally_owned_until_ms=externally_owned_until_ms)
    )


def limit_override(order: Override | None, limits: Limits) -> Override | None:
    """Return the order with its rate between 1 B/s and the ceiling that holds now.

    It may have been given while the ceiling was higher. A throttle of 0 would stop what moves, and Kafka takes no rate below 0.
    """
    if order is None:
        return None
    rate = max(1, min(order.bytes_per_s, int(limits.rate_bytes_per_s_max)))
    return order if rate == order.bytes_per_s else replace(order, bytes_per_s=rate)


def decide_while_paused(pause: Pause, live: LiveCluster, memory: Memory) -> Sequence[Decision]:
    if not pause.released:
        return [Hold(None, None, Reason.PAUSED, f"paused by {pause.by}: nothing is changed until `rheostat resume`")]
    why = f"released by {pause.by}"
    readable = live.brokers - live.unreadable
    left = [side_name(side) for side in sorted(memory.owned) if side[0] not in readable]
    rest = f"; still to come, as they cannot be reached: {', '.join(left)}" if left else ""
    text = f"{why}: all that was ours is taken back, and nothing is changed until `rheostat resume`{rest}"
    return [*restore_all(live, memory, Reason.RELEASED, why), Hold(None, None, Reason.RELEASED, text)]


def decide_override(side: BrokerSide, order: Override, setting: RateSetting | None, now_ms: int) -> Decision | None:
    """What an override wants of one side; None when it has expired."""
    if now_ms >= order.until_ms:
        return None
    head = f"{side_name(side)}: {rate_text(order.bytes_per_s)} by order of {order.by}"
    if setting is None:
        return Hold(*side, Reason.OVERRIDDEN, f"{head}, but no throttle stands here, and none is put where none was")
    if setting.bytes_per_s == order.bytes_per_s:
        return Hold(*side, Reason.OVERRIDDEN, head)
    return SetRate(*side, setting.bytes_per_s, order.bytes_per_s, Reason.OVERRIDDEN, head, setting.is_own)


def decide_restore(
    side: BrokerSide, ours: OwnedRate | None, setting: RateSetting | None, drains_bytes_per_s: float, limits: Limits
) -> SetRate | None:
    """To what stood before a change for a while that is over now; None where there was none, or that stands.

    Args:
        drains_bytes_per_s: the least that does by now: down it goes no further than that, as the move would only stall.
    """
    if ours is None or ours.restore_to_bytes_per_s is None or setting is None:
        return None
    live, wanted = setting.bytes_per_s, min(ours.restore_to_bytes_per_s, int(limits.rate_bytes_per_s_max))
    if wanted < live:
        wanted = max(wanted, round(min(live, drains_bytes_per_s)))
        if wanted > ours.restore_to_bytes_per_s and wanted >= live * (1 - limits.deadband_ratio):
            return None
    if live == wanted:
        return None
    text = (
        f"{side_name(side)} {rate_text(setting.bytes_per_s)} → {rate_text(wanted)}: what it was changed for is over, and that "
        "is what stood before it"
    )
    return SetRate(*side, setting.bytes_per_s, wanted, Reason.RESTORED, text, setting.is_own)


def is_in_force(order: Override | None, now_ms: int) -> bool:
    return order is not None and now_ms < order.until_ms


def is_still_ordered(change: SetRate, order: Override | None, limits: Limits, now_ms: int) -> bool:
    """Whether a change of rate is what somebody wants now."""
    order = limit_override(order, limits)
    return order is not None and is_in_force(order, now_ms) and order.bytes_per_s == change.setpoint_bytes_per_s


def hold_during_override_ramp(
    side: BrokerSide, order: Override, ours: OwnedRate | None, now_ms: int
) -> Decision | None:
    """A change of rate is under way here: nothing but to let it go on, if it is what the override wants; else None."""
    if now_ms >= order.until_ms or ours is None or ours.setpoint_bytes_per_s != order.bytes_per_s:
        return None
    text = f"{side_name(side)}: {rate_text(order.bytes_per_s)} by order of {order.by}, in steps over the quota's window"
    return Hold(*side, Reason.RATE_IS_CHANGING, text)
