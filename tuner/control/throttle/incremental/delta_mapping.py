"""A mapping that tells what it has over the one that it was made from, so that nobody has to look for it.

Intuition: what is seen moving grows by a few hundred partitions a look, and is tens of thousands long. Who puts it on record
wants the difference, and whoever made it had that in hand.

Invariant: it is equal to the plain mapping with the same entries, and nobody changes it once it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class DeltaMapping(dict[K, V]):
    def __init__(self, before: Mapping[K, V], more: Mapping[K, V]) -> None:
        """``more`` has no entry that ``before`` has alike."""
        super().__init__(before)
        self.update(more)
        # Not the mapping before itself, which would keep every one that ever was.
        self._made_from: object | None = before._mark if isinstance(before, DeltaMapping) else None
        self._mark: object = object()
        self._more = more

    def since(self, before: Mapping[K, V]) -> Mapping[K, V] | None:
        """What it has over ``before``, of which nothing is gone; None where it was made from something else."""
        return self._more if isinstance(before, DeltaMapping) and before._mark is self._made_from else None


def added_since(before: Mapping[K, V], after: Mapping[K, V]) -> Mapping[K, V] | None:
    """What ``after`` has over ``before``; None where that takes a search."""
    return after.since(before) if isinstance(after, DeltaMapping) else None
