"""A mapping that remembers its difference to the mapping that it was made from.

The recorded moving replicas have tens of thousands of entries and grow by a few hundred per snapshot. The journal writes only the
difference, and with a ``DeltaMapping`` it need not compare the two mappings.

Invariant: a ``DeltaMapping`` equals the plain mapping with the same entries, and is never changed after its construction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class DeltaMapping(dict[K, V]):
    """An extended copy of a mapping that remembers which entries were added."""

    def __init__(self, before: Mapping[K, V], added: Mapping[K, V]) -> None:
        """
        Args:
            added: entries to add or replace; each differs from the entry in ``before``.
        """
        super().__init__(before)
        self.update(added)
        # A mark instead of a reference, because references would keep all earlier mappings alive.
        self._base_mark: object | None = before._mark if isinstance(before, DeltaMapping) else None
        self._mark: object = object()
        self._added = added

    def since(self, before: Mapping[K, V]) -> Mapping[K, V] | None:
        """Returns the entries that this mapping adds to ``before``; None if this mapping was made from another one."""
        return self._added if isinstance(before, DeltaMapping) and before._mark is self._base_mark else None


def added_since(before: Mapping[K, V], after: Mapping[K, V]) -> Mapping[K, V] | None:
    """Returns the entries that ``after`` adds to ``before``; None: not known without a comparison of all entries."""
    return after.since(before) if isinstance(after, DeltaMapping) else None
