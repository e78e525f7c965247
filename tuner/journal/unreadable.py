"""Describes records of the journal that this version cannot read, and the effect of each.

Any client with write access may write anything to the journal's topic, and other versions of rheostat write records that this
version does not know. The tuner reports an unreadable record, and skips the record if that is safe. The next readable record of the
same key replaces it. A record that names a setting which rheostat manages must not be skipped: without the record, the tuner would
leave that setting in the cluster for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streaming.shared.short_lists import more_text

KEY_BYTES_SHOWN = 80

OLDER_VERSION = "records of an earlier version of rheostat"
UPGRADE_STEPS = (
    "Let that version end its moves, or run `rheostat release` with that version. Then stop that version, and delete the "
    "topics: docs/how-to/upgrade.md"
)

_PLAN_WAITS = "this plan is not executed; steps in progress keep their throttle and end by themselves"
_PLAN_AGAIN = "this plan is not executed: submit it again with this version"

# The effect of an unreadable newest record, by the kind that its key begins with.
EFFECTS = {
    "memory": "no tuner acts: the settings that rheostat manages in the cluster are not known",
    "owned": "no tuner acts: it is not known whether rheostat manages this throttle",
    "seen": "no tuner acts: it is not known for which moves rheostat has set throttles",
    "listed": "no tuner acts: it is not known which throttled replicas rheostat manages",
    "log-dir": "no tuner acts: it is not known whether rheostat manages this log directory throttle",
    "cordon": "no tuner acts: it is not known whether rheostat manages this broker's cordon",
    "quota": "no tuner acts: it is not known whether rheostat manages this mutation quota",
    "quotas": "no tuner acts: it is not known which mutation quotas are externally owned",
    "orders": "skipped: the previous orders stay in effect",
    "plan": _PLAN_WAITS,
    "plan-part": _PLAN_WAITS,
    "plan-requested": _PLAN_WAITS,
    "plan-state": _PLAN_WAITS,
    "entry": "skipped: the history lacks one decision",
    "steering": "skipped: the history lacks one steering tick",
    "quotas-entry": "skipped: the history lacks one change of quotas",
    "plan-entry": "skipped: the history lacks some steps of plans",
    "tuner": "skipped: commands do not see this tuner",
}
# The effect if an earlier version wrote the record, where it differs.
_EFFECTS_OLDER = {
    "orders": "skipped: give the order again with this version",
    "plan": _PLAN_AGAIN,
    "plan-part": _PLAN_AGAIN,
}
BLOCKING = frozenset({"memory", "owned", "seen", "listed", "log-dir", "cordon", "quota", "quotas"})


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record that this version cannot read.

    Attributes:
        offset: the offset of the record; None if it is not known.
        size: the number of bytes of its value.
        why: why the record cannot be read.
        topic: the topic of the record; None if it is not known.
        is_older: whether an earlier version of rheostat wrote the record, so that it is not damaged.
    """

    key: bytes
    offset: int | None
    size: int
    why: str
    partition: int = 0  # The journal has one partition.
    topic: str | None = None
    is_older: bool = False

    @property
    def kind(self) -> str:
        return kind_of(self.key)

    @property
    def cluster(self) -> str:
        """The cluster that the key of the record names."""
        return cluster_of(self.key)

    @property
    def blocks(self) -> bool:
        """Whether the record keeps every tuner of its cluster from acting."""
        return self.kind in BLOCKING

    @property
    def effect(self) -> str:
        default = EFFECTS.get(self.kind, "skipped")
        return _EFFECTS_OLDER.get(self.kind, default) if self.is_older else default

    def text(self) -> str:
        """Returns a description for one line. The key is escaped, as it may hold control characters."""
        key = repr(self.key[:KEY_BYTES_SHOWN]) + ("..." if len(self.key) > KEY_BYTES_SHOWN else "")
        return f"key {key}, partition {self.partition}, offset {self.offset}, {self.size} bytes ({self.why:.200})"


def kind_of(key: bytes) -> str:
    """Returns the kind that a key begins with."""
    return key.partition(b"|")[0].decode(errors="replace")


def cluster_of(key: bytes) -> str:
    """Returns the cluster that a key names; empty if the key names none."""
    return key.decode(errors="replace").split("|")[1] if b"|" in key else ""


def blocking_text(records: Iterable[UnreadableRecord], topic: str) -> str | None:
    """Returns one line: why no tuner may act, and what to do. Returns None if no record keeps a tuner from acting.

    Args:
        topic: the name of the journal's topic.
    """
    blocking = [record for record in records if record.blocks]
    if not blocking:
        return None
    first, more = blocking[0], f", {more_text(len(blocking) - 1)}" if len(blocking) > 1 else ""
    if first.is_older:
        return f"the journal {topic} has {OLDER_VERSION}: {first.text()}{more}. No tuner acts. {UPGRADE_STEPS}"
    return (
        f"the journal {topic} has a record that this version cannot read: {first.text()}{more}. {first.effect.capitalize()}. "
        "Run the version of rheostat that wrote the record; if no version wrote it, look with `rheostat journal check` and "
        "repair it with `rheostat journal repair`"
    )


def unreadable_texts(records: Iterable[UnreadableRecord]) -> tuple[str, ...]:
    """Returns a line per unreadable record; one line for all blocking records of an earlier version together."""
    records = list(records)
    older = [record for record in records if record.is_older and record.blocks]
    texts = [
        record.text() if not record.is_older else f"{record.text()}: {record.effect}"
        for record in records
        if record not in older
    ]
    if older:
        more = f", {more_text(len(older) - 1)}" if len(older) > 1 else ""
        texts.insert(0, f"{OLDER_VERSION}: {older[0].text()}{more}. {UPGRADE_STEPS}")
    return tuple(texts)
