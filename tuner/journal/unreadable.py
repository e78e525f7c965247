"""Records of the journal that this version cannot read: which they are, and what follows from each.

A client that may write to the journal's topic may write anything there, and a newer rheostat writes what an older one does not
know. So an unreadable record is a kind of record: it is told, passed over where that is safe, and the next readable record of its
key takes its place. It is not safe where only the record says what is rheostat's own in the cluster: a tuner that acted without it
would leave throttles behind for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streaming.shared.short_lists import more_text

KEY_BYTES_SHOWN = 80

_PLAN_WAITS = "this plan is not carried out; what is under way keeps its throttle and ends by itself"

# What follows while the newest record of a key cannot be read, by the kind that the key begins with.
EFFECTS = {
    "memory": "no tuner acts: what is rheostat's own in the cluster is not known",
    "owned": "no tuner acts: whether this throttle is rheostat's own is not known",
    "seen": "no tuner acts: which moves its throttles were for is not known",
    "listed": "no tuner acts: which throttled replicas are rheostat's own is not known",
    "quota": "no tuner acts: whether this mutation quota is rheostat's own is not known",
    "quotas": "no tuner acts: which mutation quotas others hold is not known",
    "orders": "passed over: the orders before it hold",
    "plan": _PLAN_WAITS,
    "plan-part": _PLAN_WAITS,
    "plan-requested": _PLAN_WAITS,
    "plan-state": _PLAN_WAITS,
    "entry": "passed over: history shows one decision less",
    "turn": "passed over: history shows one second of the law less",
    "quotas-entry": "passed over: history shows one change of quotas less",
    "plan-entry": "passed over: history shows steps of plans less",
    "tuner": "passed over: this tuner is not seen by commands",
}
BLOCKING = frozenset({"memory", "owned", "seen", "listed", "quota", "quotas"})


@dataclass(frozen=True, slots=True)
class Unreadable:
    key: bytes
    offset: int | None  # None where it is not known.
    size: int  # Bytes of its value.
    why: str
    partition: int = 0  # The journal has one.
    topic: str | None = None  # None where it is not known.

    @property
    def kind(self) -> str:
        return kind_of(self.key)

    @property
    def cluster(self) -> str:
        """The cluster that its key names."""
        return self.key.decode(errors="replace").split("|")[1] if b"|" in self.key else ""

    @property
    def blocks(self) -> bool:
        """Whether no tuner of its cluster may act."""
        return self.kind in BLOCKING

    @property
    def effect(self) -> str:
        return EFFECTS.get(self.kind, "passed over")

    def text(self) -> str:
        """In words, for one line; the key as Python writes bytes, as it may hold control characters."""
        key = repr(self.key[:KEY_BYTES_SHOWN]) + ("..." if len(self.key) > KEY_BYTES_SHOWN else "")
        return f"key {key}, partition {self.partition}, offset {self.offset}, {self.size} bytes ({self.why:.200})"


def kind_of(key: bytes) -> str:
    """The kind that a key begins with."""
    return key.partition(b"|")[0].decode(errors="replace")


def blocking(unreadable: Iterable[Unreadable], topic: str) -> str | None:
    """Why no tuner may act, and what to do; None where nothing keeps one from it."""
    found = [each for each in unreadable if each.blocks]
    if not found:
        return None
    more = f", {more_text(len(found) - 1)}" if len(found) > 1 else ""
    return (
        f"the journal {topic} has a record that this version cannot read: {found[0].text()}{more}. {found[0].effect.capitalize()}. "
        "Run the version of rheostat that wrote it; or, if none did, look with `rheostat journal check` and mend it with `rheostat "
        "journal repair`"
    )
