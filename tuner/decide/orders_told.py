"""What people have ordered since the last look, in sentences: orders are a state, and a state does not say who has ended it.

Invariant: it is only ever a word; what follows from an order is decided elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

from streaming.contract import Side
from tuner.decide import words
from tuner.model.cluster import BrokerSide, side_name
from tuner.model.orders import Orders, Override


class Ordered(NamedTuple):
    text: str
    broker: int | None = None
    side: Side | None = None


def ordered(before: Orders, after: Orders, now_ms: int) -> list[Ordered]:
    """In a row, what makes ``after`` of ``before``, and by whom; nothing where they are the same."""
    if before == after:
        return []
    by = after.by or "somebody"
    told = []
    if after.pause is not None and after.pause != before.pause:
        what = "everything is released" if after.pause.released else "rheostat is paused"
        told.append(Ordered(f"{what}, by order of {after.pause.by}"))
    elif before.pause is not None and after.pause is None:
        told.append(Ordered(f"rheostat goes on, by order of {by}: the pause of {before.pause.by} is over"))
    elif after.resumed_at_ms > before.resumed_at_ms:
        told.append(Ordered(f"what others have set is rheostat's to turn again, by order of {by}"))
    for side in sorted({*before.overrides, *after.overrides}):
        told.extend(_of_side(side, before.overrides.get(side), after.overrides.get(side), by, now_ms))
    return told


def _of_side(side: BrokerSide, before: Override | None, after: Override | None, by: str, now_ms: int) -> list[Ordered]:
    if before == after:
        return []
    if after is not None:
        text = f"{words.rate(after.bytes_per_s)} by order of {after.by}"
    elif before is not None and before.until_ms <= now_ms:
        text = f"the order of {before.by} for {words.rate(before.bytes_per_s)} has expired"
    elif before is not None:
        text = f"the order of {before.by} for {words.rate(before.bytes_per_s)} is taken back, by order of {by}"
    return [Ordered(f"{side_name(side)}: {text}", *side)]
