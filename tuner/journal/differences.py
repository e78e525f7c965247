"""What is different in two long values of which most is the same: sequences by identity, successive signals by their steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from streaming.contract import MoveSignal, MoveStep
from tuner.journal.shapes import Stepless
from tuner.model.cluster import BrokerSide

_END = object()
# How many of the last steps are kept, what comes after them, and all of the signal but its steps.
Slid = Mapping[BrokerSide, tuple[int, tuple[MoveStep, ...], Stepless]]


def other_items(before: Sequence[Any], value: Sequence[Any]) -> tuple[list[int], list[tuple[int, Any]]]:
    """Places that are left out of the first, and what comes in at places of the second; by identity, in order.

    Both are gone through side by side, until nothing is left over at the end of either.
    """
    now = set(map(id, value))
    out: list[int] = []
    came: list[tuple[int, Any]] = []
    old, new = iter(before), iter(value)
    i = j = -1
    while True:
        passed = 0
        for passed, (a, b) in enumerate(zip_longest(old, new, fillvalue=_END), start=1):  # noqa: B007 - looked at below
            if a is not b:
                break
        else:
            break
        i, j = i + passed, j + passed
        while a is not _END and (b is _END or (a is not b and id(a) not in now)):
            out.append(i)
            i, a = i + 1, next(old, _END)
        while b is not _END and a is not b:
            came.append((j, b))
            j, b = j + 1, next(new, _END)
        while b is _END and a is not _END:
            out.append(i)
            i, a = i + 1, next(old, _END)
    return out, came


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
