"""What the journal's records say, taken one after the other: what a tuner that starts has to know."""

from __future__ import annotations

from dataclasses import replace

from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.state import Memory
from tuner.core.operator_orders import Orders
from tuner.journal.entries import (
    RINGS,
    Entry,
    decode_entry,
    decode_memory,
    decode_owned,
    decode_seen,
    entry_prefix,
    memory_key,
    owned_prefix,
    seen_prefix,
    seq_of,
    written_by,
)
from tuner.journal.list_records import decode_listed, listed_prefix
from tuner.journal.order_records import decode_orders, orders_key
from tuner.journal.plan_book import PlanBook
from tuner.journal.quota_records import RecoveredQuotas
from tuner.journal.unreadable import Unreadable


class ReplayedState:
    def __init__(self, cluster: str, times_ms: frozenset[int] = frozenset()) -> None:
        """Of ``times_ms`` the entries themselves are kept, too."""
        self.cluster = self._cluster = cluster
        self._times_ms = times_ms
        self._quotas = RecoveredQuotas(cluster)
        self.memory = Memory()
        self._memory_record: bytes | None = None  # The newest.
        self.given: list[Orders] = []  # By people, as far as the journal still has them, the oldest first.
        self.entries: list[Entry] = []
        self.plans = PlanBook(cluster)
        self.seqs = dict.fromkeys(RINGS, 0)  # The newest entry's number in each ring.
        # By key: the newest record of a key, where this version cannot read it.
        self.unreadable: dict[bytes, Unreadable] = {}
        self._rings = {entry_prefix(ring, cluster): ring for ring in RINGS}

    @property
    def quotas(self) -> MutationMemory:
        return self._quotas.memory

    @property
    def orders(self) -> Orders:
        # Where the orders' topic was emptied, what a tuner has told of holds: nobody has taken it back.
        return self.given[-1] if self.given else self.memory.ordered

    @property
    def overtaken(self) -> tuple[Orders, ...]:
        """What was given since the journal has last told of orders, and is not the newest; the oldest first."""
        told = self._told
        if told in self.given:
            return tuple(self.given[self.given.index(told) + 1 : -1])
        return tuple(given for given in self.given[:-1] if given.at_ms > told.at_ms)

    @property
    def whole_memory(self) -> Memory:
        return replace(self.memory, ordered=self._told)

    @property
    def known_memory(self) -> Memory | None:
        """The memory; None where a record of it cannot be read, so that what is the tuner's own is not known."""
        return None if any(each.blocks for each in self.unreadable.values()) else self.memory

    @property
    def memory_by(self) -> str:
        """Who wrote the memory: whoever acts writes one first."""
        return written_by(self._memory_record) if self._memory_record is not None else ""

    @property
    def _told(self) -> Orders:
        told = self.memory.ordered
        if told != Orders(told.at_ms):
            return told
        # Before rheostat kept what it had told of orders it kept only of when they were: what they said stands beside it.
        return next((given for given in self.given if given.at_ms == told.at_ms), told)

    def take(self, key: bytes, value: bytes | None, offset: int | None = None) -> None:
        """Take in one record. One that this version cannot read is in ``unreadable``, until a readable one of its key comes."""
        self.unreadable.pop(key, None)
        try:
            self._take(key, value)
        except ValueError as error:
            self.unreadable[key] = Unreadable(key, offset, len(value or b""), str(error))

    def _take(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._quotas.take(key, None)
            self.plans.take(key, None)
            return
        # Nearly all of a journal that is some days old.
        ring = self._rings.get(key[: key.rfind(b"|") + 1])
        if ring is not None:
            self._take_entry(ring, value)
            return
        if self.plans.take(key, value):
            return
        if key == memory_key(self._cluster):
            self.memory, self._memory_record = decode_memory(value), value
            # It holds all that these would have said before it.
            before = (owned_prefix(self._cluster), seen_prefix(self._cluster), listed_prefix(self._cluster))
            self.unreadable = {k: each for k, each in self.unreadable.items() if not k.startswith(before)}
        elif key.startswith(owned_prefix(self._cluster)):
            side, owned = decode_owned(value)
            self.memory = replace(self.memory, owned=self.memory.with_owned(side, owned))
        elif key == orders_key(self._cluster):
            self.given.append(decode_orders(value))
        elif key.startswith(seen_prefix(self._cluster)):
            self.memory = replace(self.memory, seen={**self.memory.seen, **decode_seen(value)})
        elif key.startswith(listed_prefix(self._cluster)):
            self.memory = replace(self.memory, listed=self.memory.with_listed(*decode_listed(value)))
        else:
            self._quotas.take(key, value)

    def _take_entry(self, ring: str, value: bytes) -> None:
        seq = seq_of(value)
        if seq is None:
            return
        self.seqs[ring] = max(self.seqs[ring], seq)
        if self._times_ms and (entry := decode_entry(value)) is not None and entry.at_ms in self._times_ms:
            self.entries.append(entry)
