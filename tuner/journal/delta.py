"""What is different in two long values of which most is the same: sequences by identity, successive signals by their
steps, and by whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from streaming.shared.contract import MoveSignal, MoveStep, TenantSignal
from tuner.core.cluster import BrokerSide
from tuner.journal.type_codec import Nameless, Stepless

_STRETCH = 256
# How many of the last steps are kept, what comes after them, and all of the signal but its steps.
Slid = Mapping[BrokerSide, tuple[int, tuple[MoveStep, ...], Stepless]]
Books = tuple[int, str | None, str | None]  # Of which controller, user, client-id.
Heard = Mapping[int, Nameless]  # By place among those before.


def other_items(before: Sequence[Any], value: Sequence[Any]) -> tuple[list[int], list[tuple[int, Any]]]:
    """Places that are left out of the first, and what comes in at places of the second; by identity, in order.

    Both are gone through side by side, until nothing is left over at the end of either.
    """
    now = set(map(id, value))
    out: list[int] = []
    came: list[tuple[int, Any]] = []
    i = j = 0
    while i < len(before) or j < len(value):
        # A stretch in which all is the same is passed over at once, as most are.
        while len(ahead := before[i : i + _STRETCH]) > 0 and _same(ahead, value[j : j + _STRETCH]):
            i, j = i + len(ahead), j + len(ahead)
        for _ in range(_STRETCH):
            if i < len(before) and j < len(value) and before[i] is value[j]:
                i, j = i + 1, j + 1
            elif i < len(before) and (j == len(value) or id(before[i]) not in now):
                out.append(i)
                i += 1
            elif j < len(value):
                came.append((j, value[j]))
                j += 1
            else:
                break
    return out, came


def _same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def slid(before: Mapping[BrokerSide, MoveSignal], new: Mapping[BrokerSide, MoveSignal]) -> Slid:
    """Of successive signals the newer one has the older one's steps but for the oldest, and is written without them."""
    rows: dict[BrokerSide, tuple[int, tuple[MoveStep, ...], Stepless]] = {}
    for side, signal in new.items():
        old, steps = before.get(side), signal.steps
        kept = len(steps) - 1
        if old is None or kept <= 0 or steps[:kept] != old.steps[-kept:]:
            kept = 0
        rows[side] = (kept, steps[kept:], Stepless(signal))
    return rows


def joined(before: Mapping[BrokerSide, MoveSignal], rows: Slid) -> dict[BrokerSide, MoveSignal]:
    return {
        side: replace(signal, steps=(*before[side].steps[-kept:], *steps) if kept else steps)
        for side, (kept, steps, signal) in rows.items()
    }


def heard(
    before: Mapping[Books, TenantSignal], value: Mapping[Books, TenantSignal]
) -> tuple[list[Books], dict[int, Nameless], dict[Books, TenantSignal]] | None:
    """Who is gone, new signals of those who are left by their place among these, and of whom there was none.

    Names are most of what it takes to write a tenant's signal, and a place says as much. None where they stand in another order
    than these three would leave them in.
    """
    left = [books for books in before if books in value]
    new = {books: signal for books, signal in value.items() if books not in before}
    if [*left, *new] != list(value):
        return None
    gone = [books for books in before if books not in value] if len(left) < len(before) else []
    rows = {place: Nameless(value[b]) for place, b in enumerate(left) if value[b] is not before[b]}
    return gone, rows, new


def named(before: Mapping[Books, TenantSignal], rows: Heard) -> dict[Books, TenantSignal]:
    whose = list(before)
    found: dict[Books, TenantSignal] = {}
    for place, signal in rows.items():
        node, user, client_id = whose[place]
        found[whose[place]] = replace(signal, node=node, user=user, client_id=client_id)
    return found
