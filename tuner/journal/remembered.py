"""What the journal's records say, taken one after the other: what a tuner that starts has to know."""

from __future__ import annotations

from dataclasses import replace

from tuner.journal.entries import (
    RINGS,
    decode_entry,
    decode_memory,
    decode_owned,
    decode_seen,
    entry_prefix,
    memory_key,
    owned_prefix,
    seen_prefix,
)
from tuner.journal.list_records import decode_listed, listed_prefix
from tuner.journal.order_records import decode_orders, orders_key
from tuner.journal.plan_book import PlanBook
from tuner.journal.quota_records import Recovered
from tuner.model.memory import Memory
from tuner.model.mutation_memory import MutationMemory
from tuner.model.orders import Orders


class Remembered:
    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._quotas = Recovered(cluster)
        self.memory = Memory()
        self._given: list[Orders] = []  # By people, as far as the journal still has them, the oldest first.
        self.plans = PlanBook(cluster)
        self.seqs = dict.fromkeys(RINGS, 0)  # The newest entry's number in each ring.

    @property
    def quotas(self) -> MutationMemory:
        return self._quotas.memory

    @property
    def orders(self) -> Orders:
        return self._given[-1] if self._given else Orders()

    @property
    def overtaken(self) -> tuple[Orders, ...]:
        """What was given since the journal has last told of orders, and is not the newest; the oldest first."""
        return tuple(given for given in self._given[:-1] if given.at_ms > self.memory.ordered.at_ms)

    def take(self, key: bytes, value: bytes | None) -> None:
        """
        Raises:
            ValueError: not a record of a version we read. To act without knowing what is ours would be to forget it.
        """
        if value is None:
            self._quotas.take(key, None)
            self.plans.take(key, None)
            return
        if self.plans.take_on_start(key, value):
            return
        if key == memory_key(self._cluster):
            self.memory = decode_memory(value)
        elif key.startswith(owned_prefix(self._cluster)):
            side, owned = decode_owned(value)
            self.memory = replace(self.memory, owned=self.memory.with_owned(side, owned))
        elif key == orders_key(self._cluster):
            self._given.append(decode_orders(value))
        elif key.startswith(seen_prefix(self._cluster)):
            self.memory = replace(self.memory, seen={**self.memory.seen, **decode_seen(value)})
        elif key.startswith(listed_prefix(self._cluster)):
            self.memory = replace(self.memory, listed=self.memory.with_listed(*decode_listed(value)))
        else:
            self._quotas.take(key, value)
        for ring in RINGS:
            if key.startswith(entry_prefix(ring, self._cluster)) and (entry := decode_entry(value)) is not None:
                self.seqs[ring] = max(self.seqs[ring], entry.seq)
