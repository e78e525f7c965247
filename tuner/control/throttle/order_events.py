"""What people have ordered since the last look, in sentences: orders are a state, and a state does not say who has ended it.

Invariant: it is only ever a word; what follows from an order is decided elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

from streaming.shared.contract import Side
from streaming.shared.units import rate_text
from tuner.core.cluster import BrokerSide, side_name
from tuner.core.operator_orders import Orders, Override


class OrderEvent(NamedTuple):
    text: str
    broker: int | None = None
    side: Side | None = None


def list_order_events(before: Orders, after: Orders, told_ms: int, now_ms: int) -> list[OrderEvent]:
    """In a row, what makes ``after`` of ``before``, and by whom; nothing where they are the same.

    Args:
        told_ms: until when it was told what has expired.
    """
    if before == after:
        return []
    by = after.by or "somebody"
    told = []
    if after.pause is not None and after.pause != before.pause:
        what = "everything is released" if after.pause.released else "rheostat is paused"
        told.append(OrderEvent(f"{what}, by order of {after.pause.by}"))
    elif before.pause is not None and after.pause is None:
        told.append(OrderEvent(f"rheostat goes on, by order of {by}: the pause of {before.pause.by} is over"))
    elif after.resumed_at_ms > before.resumed_at_ms:
        told.append(OrderEvent(f"what others have set is rheostat's to turn again, by order of {by}"))
    for side in sorted({*before.overrides, *after.overrides}):
        was, is_now = before.overrides.get(side), after.overrides.get(side)
        if is_now is not None and is_now != was:
            told.append(_side_event(side, f"{rate_text(is_now.bytes_per_s)} by order of {is_now.by}"))
        elif is_now is None and was is not None and was.until_ms > now_ms:
            told.append(_side_event(side, f"{_order_text(was)} is taken back, by order of {by}"))
        elif is_now is None and was is not None and was.until_ms > told_ms:
            told.append(_expiry_event(side, was))
    return told


def list_expired_orders(orders: Orders, told_ms: int, now_ms: int) -> list[OrderEvent]:
    """What has run out since ``told_ms``, though nobody has said a word since."""
    return [
        _expiry_event(side, order)
        for side, order in sorted(orders.overrides.items())
        if told_ms < order.until_ms <= now_ms
    ]


def _expiry_event(side: BrokerSide, order: Override) -> OrderEvent:
    return _side_event(side, f"{_order_text(order)} has expired")


def _order_text(order: Override) -> str:
    return f"the order of {order.by} for {rate_text(order.bytes_per_s)}"


def _side_event(side: BrokerSide, text: str) -> OrderEvent:
    return OrderEvent(f"{side_name(side)}: {text}", *side)
