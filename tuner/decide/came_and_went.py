"""What came into a long sequence and what went out of it since the one before, by identity.

Intuition: of tens of thousands of moves a few hundred are others than a look before, and what lies between them stands in the
order that it had. So the two are laid side by side and shifted where they part; a stretch in which all is the same is passed
over without a look at what is in it. What goes in one place and comes in another has only changed places.

Invariant: what is found is what two sets of the objects would tell, in the order of the sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import TypeVar

T = TypeVar("T")

_STRETCH = 512  # Where more than that goes or comes in one place, ever longer ones are laid beside each other.


def came_and_went(before: Sequence[T], now: Sequence[T]) -> tuple[list[T], list[T]]:
    """
    Args:
        before, now: no object is in one of them twice.
    """
    came: list[T] = []
    went: list[T] = []
    i = j = 0
    stretch = _STRETCH
    while i < len(before) or j < len(now):
        old, new = before[i : i + stretch], now[j : j + stretch]
        if (alike := _alike(old, new)) > 0:
            i, j, stretch = i + alike, j + alike, _STRETCH
            continue
        # They meet again at the first of the new ones that is among the old ones.
        places = {id(each): place for place, each in enumerate(old)}
        to = next((place for place, each in enumerate(new) if id(each) in places), len(new))
        if to == len(new) and (i + stretch < len(before) or j + stretch < len(now)):
            stretch *= 2
            continue
        out = places[id(new[to])] if to < len(new) else len(old)
        went += old[:out]
        came += new[:to]
        i, j = i + out, j + to
    moved = set(map(id, came)).intersection(map(id, went))
    if moved:
        came = [each for each in came if id(each) not in moved]
        went = [each for each in went if id(each) not in moved]
    return came, went


def _alike(some: Sequence[T], others: Sequence[T]) -> int:
    """How many are the same from the beginning on."""
    if len(some) == len(others) and all(map(is_, some, others)):
        return len(some)
    pairs = enumerate(zip(some, others, strict=False))
    return next((place for place, (one, other) in pairs if one is not other), min(len(some), len(others)))
