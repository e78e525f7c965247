"""What the journal knows under other names of the cluster than ours.

Intuition: the journal stands in the very cluster that it is about, so each name in it is a name of this one. Lease, fence and
memory go by the name; whoever changes ``cluster`` in the settings would be a second hand beside the first, or take what the first
has left for a stranger's, and it would stay.

Invariant: of another name nothing is read to be acted on. What it holds, as far as this program can read it, is told.

Vocabulary:
    holds  has on record as set by it and not taken back, or as asked for and not ended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tuner.journal.entries import RINGS
from tuner.journal.presence_records import KIND as PRESENCE
from tuner.journal.replayed_state import ReplayedState

_HOLD_NOTHING = (*RINGS, "orders", "holder")


class ClusterAliases:
    def __init__(self, cluster: str) -> None:
        self._ours = cluster
        self._by_name: dict[str, ReplayedState] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._by_name))

    def holding(self, brokers: Collection[int] | None = None) -> Mapping[str, str]:
        """What each name holds, in words; names that hold nothing are absent.

        Args:
            brokers: that are alive; what stands on others nobody can take back, and it hinders nobody. None: all may be.
        """
        found = {}
        for name, known in sorted(self._by_name.items()):
            unread = next((each for each in known.unreadable.values() if each.blocks), None)
            what = held(known, brokers)
            if unread is not None:
                what = (
                    f"what this version cannot read ({unread.text()}): the version that wrote it can; if none did, `rheostat "
                    "journal repair` mends it"
                )
            if what:
                found[name] = what
        return found

    def take(self, key: bytes, value: bytes | None, offset: int | None = None) -> None:
        kind, _, rest = key.decode(errors="replace").partition("|")
        name = rest.partition("|")[0]
        if not name or name == self._ours or kind in (*RINGS, PRESENCE):
            return
        known = self._by_name.setdefault(name, ReplayedState(name))
        if kind not in _HOLD_NOTHING:
            known.take(key, value, offset)


def held(known: ReplayedState, brokers: Collection[int] | None = None) -> str:
    """In words; nothing where it holds nothing."""
    memory = known.memory
    sides = [side for side in memory.owned if brokers is None or side[0] in brokers]
    to_clear = [broker for broker in memory.to_clear if brokers is None or broker in brokers]
    # One that no tuner has asked anything of has changed nothing.
    begun = [plan for plan in known.plans.plans if plan.state.ending is None and plan.requested]
    counts = (
        (len(sides), "throttle", "throttles"),
        (len(memory.listed), "topic's throttled replicas", "topics' throttled replicas"),
        (len(to_clear), "broker to be cleared", "brokers to be cleared"),
        (len(known.quotas.owned), "mutation quota", "mutation quotas"),
        (len(begun), "plan under way", "plans under way"),
        (len(known.plans.unread), "plan of another version", "plans of another version"),
    )
    return ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in counts if n)
