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

# What is the same is passed over by so many at most, and by few after a parting, then ever more.
_STRETCH = 512
_NEAR = 8  # So far the two are looked through for where they meet again, then ever further.


def diff_sequences(before: Sequence[T], now: Sequence[T]) -> tuple[list[T], list[T]]:
    """
    Args:
        before, now: no object is in one of them twice.
    """
    came: list[T] = []
    went: list[T] = []
    i = j = 0
    stretch, reach = _STRETCH, _NEAR
    while i < len(before) or j < len(now):
        if (alike := _alike(before[i : i + stretch], now[j : j + stretch])) > 0:
            i, j, stretch = i + alike, j + alike, min(2 * stretch, _STRETCH)
            continue
        old, new = before[i : i + reach], now[j : j + reach]
        # They meet again at the first of the new ones that is among the old ones.
        places = {id(each): place for place, each in enumerate(old)}
        to = next((place for place, each in enumerate(new) if id(each) in places), len(new))
        if to == len(new) and (i + reach < len(before) or j + reach < len(now)):
            reach *= 2
            continue
        stretch = reach = _NEAR
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
