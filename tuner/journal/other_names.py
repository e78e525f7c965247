"""What the journal knows under other names of the cluster than ours.

Intuition: the journal stands in the very cluster that it is about, so each name in it is a name of this one. Lease, fence and
memory go by the name; whoever changes ``cluster`` in the settings would be a second hand beside the first, or take what the first
has left for a stranger's, and it would stay.

Invariant: of another name nothing is read to be acted on. What it holds, as far as this program can read it, is told.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.journal.entries import RINGS
from tuner.journal.remembered import Remembered


class OtherNames:
    def __init__(self, cluster: str) -> None:
        self._ours = cluster
        self._by_name: dict[str, Remembered] = {}
        self._unread: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._by_name))

    @property
    def holding(self) -> Mapping[str, str]:
        """What is on record as set, or under way, in words, by name; names of which nothing is are absent."""
        found = {name: self._unread.get(name) or _held(known) for name, known in sorted(self._by_name.items())}
        return {name: what for name, what in found.items() if what}

    def take(self, key: bytes, value: bytes | None) -> None:
        kind, _, rest = key.decode(errors="replace").partition("|")
        name = rest.partition("|")[0]
        if not name or name == self._ours or kind in RINGS:
            return
        known = self._by_name.setdefault(name, Remembered(name))
        try:
            known.take(key, value)
        except ValueError as error:
            self._unread[name] = f"what this version cannot read ({error})"


def _held(known: Remembered) -> str:
    going = sum(plan.state.ending is None for plan in known.plans.plans)
    counts = (
        (len(known.memory.owned), "throttle", "throttles"),
        (len(known.memory.listed), "topic's throttled replicas", "topics' throttled replicas"),
        (len(known.quotas.owned), "mutation quota", "mutation quotas"),
        (going, "plan under way", "plans under way"),
    )
    return ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in counts if n)
