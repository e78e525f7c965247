"""Compares a long sequence with the previous one and returns the objects that were added and removed, by identity.

Between two snapshots only a few hundred of tens of thousands of moves differ, and the others keep their order. So the function
walks through the two sequences in parallel. It skips equal stretches as a whole. At a difference, it searches in both sequences for
the next object that they have in common. An object that is removed at one place and added at another has only changed its position,
and is in neither result.

Invariant: the result equals the difference of the two sets of objects, in the order of the sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import TypeVar

T = TypeVar("T")

_STRETCH = 512  # Longest stretch that is compared at once. After a difference the stretch is _NEAR, and then doubles.
# Number of objects in the first search for the next common object. It doubles until a common object is found.
_NEAR = 8


def diff_sequences(before: Sequence[T], after: Sequence[T]) -> tuple[list[T], list[T]]:
    """Returns the added and the removed objects.

    Args:
        before, after: sequences without duplicates.
    """
    added: list[T] = []
    removed: list[T] = []
    i = j = 0  # The positions in ``before`` and ``after``.
    stretch, reach = _STRETCH, _NEAR
    while i < len(before) or j < len(after):
        if (equal := _equal_length(before[i : i + stretch], after[j : j + stretch])) > 0:
            i, j, stretch = i + equal, j + equal, min(2 * stretch, _STRETCH)
            continue
        old, new = before[i : i + reach], after[j : j + reach]
        # The next common object is the first object of ``new`` that is also in ``old``.
        old_positions = {id(item): position for position, item in enumerate(old)}
        new_end = next((position for position, item in enumerate(new) if id(item) in old_positions), len(new))
        if new_end == len(new) and (i + reach < len(before) or j + reach < len(after)):
            reach *= 2
            continue
        stretch = reach = _NEAR
        old_end = old_positions[id(new[new_end])] if new_end < len(new) else len(old)
        removed += old[:old_end]
        added += new[:new_end]
        i, j = i + old_end, j + new_end
    moved = set(map(id, added)).intersection(map(id, removed))
    if moved:
        added = [item for item in added if id(item) not in moved]
        removed = [item for item in removed if id(item) not in moved]
    return added, removed


def _equal_length(first: Sequence[T], second: Sequence[T]) -> int:
    """Returns how many objects at the beginning are identical."""
    if len(first) == len(second) and all(map(is_, first, second)):
        return len(first)
    for position, (one, other) in enumerate(zip(first, second, strict=False)):
        if one is not other:
            return position
    return min(len(first), len(second))
