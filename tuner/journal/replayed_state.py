"""Rebuilds the state of a tuner from the journal's records, one record after the other."""

from __future__ import annotations

from dataclasses import replace

from tuner.control.cordon.model import CordonMemory
from tuner.control.log_dir.model import LogDirMemory
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.state import Memory
from tuner.core.operator_orders import Orders
from tuner.journal.bodies import OlderRecordError
from tuner.journal.cordon_records import RecoveredCordons
from tuner.journal.entries import (
    RINGS,
    Entry,
    decode_memory,
    decode_moving,
    decode_owned,
    entry_or_none,
    entry_prefix,
    memory_key,
    memory_writer,
    moving_prefix,
    owned_prefix,
    seq_of,
)
from tuner.journal.list_records import decode_listed, listed_prefix
from tuner.journal.log_dir_records import RecoveredLogDirs
from tuner.journal.order_records import decode_orders, orders_key
from tuner.journal.plan_book import PlanBook
from tuner.journal.quota_records import RecoveredQuotas
from tuner.journal.unreadable import UnreadableRecord


class ReplayedState:
    """The state of one cluster name.

    Attributes:
        memory: the throttle memory.
        orders_history: the operators' orders that the topics still have, the oldest first.
        entries: the entries of the times ``times_ms``.
        plans: the reassignment plans.
        seqs: the newest sequence number of each ring.
        unreadable: by key, the newest record if this version cannot read it.
    """

    def __init__(self, cluster: str, times_ms: frozenset[int] = frozenset()) -> None:
        """
        Args:
            times_ms: entries of these times are kept in ``entries``.
        """
        self.cluster = cluster
        self._times_ms = times_ms
        self._quotas = RecoveredQuotas(cluster)
        self._log_dirs = RecoveredLogDirs(cluster)
        self._cordons = RecoveredCordons(cluster)
        self.memory = Memory()
        self._memory_record: bytes | None = None
        self.orders_history: list[Orders] = []
        self.entries: list[Entry] = []
        self.plans = PlanBook(cluster)
        self.seqs = dict.fromkeys(RINGS, 0)
        self.unreadable: dict[bytes, UnreadableRecord] = {}
        self._rings = {entry_prefix(ring, cluster): ring for ring in RINGS}

    @property
    def quotas(self) -> MutationMemory:
        return self._quotas.memory

    @property
    def log_dirs(self) -> LogDirMemory:
        return self._log_dirs.memory

    @property
    def cordons(self) -> CordonMemory:
        return self._cordons.memory

    @property
    def orders(self) -> Orders:
        """The newest orders. If the orders topic was emptied, the acknowledged orders stay in force: no operator has ended them."""
        return self.orders_history[-1] if self.orders_history else self.memory.recorded_orders

    @property
    def superseded_orders(self) -> tuple[Orders, ...]:
        """The orders after the last acknowledged orders and before the newest orders, the oldest first."""
        acknowledged = self._acknowledged_orders
        if acknowledged in self.orders_history:
            return tuple(self.orders_history[self.orders_history.index(acknowledged) + 1 : -1])
        return tuple(orders for orders in self.orders_history[:-1] if orders.at_ms > acknowledged.at_ms)

    @property
    def whole_memory(self) -> Memory:
        """The throttle memory with the content of the acknowledged orders; ``memory`` may have only their time."""
        return replace(self.memory, recorded_orders=self._acknowledged_orders)

    @property
    def memory_if_known(self) -> Memory | None:
        """The throttle memory; None if a record of it cannot be read, so that the managed throttles are not known."""
        return None if any(record.blocks for record in self.unreadable.values()) else self.memory

    @property
    def memory_writer(self) -> str:
        """The tuner that wrote the memory. Every tuner that acts writes it first."""
        return memory_writer(self._memory_record) if self._memory_record is not None else ""

    @property
    def _acknowledged_orders(self) -> Orders:
        acknowledged = self.memory.recorded_orders
        if acknowledged != Orders(acknowledged.at_ms):
            return acknowledged
        # The memory has only the time of the acknowledged orders. The history may have their content.
        return next((orders for orders in self.orders_history if orders.at_ms == acknowledged.at_ms), acknowledged)

    def apply(self, key: bytes, value: bytes | None, offset: int | None = None) -> None:
        """Applies one record. An unreadable record stays in ``unreadable`` until a readable record of the same key follows."""
        self.unreadable.pop(key, None)
        try:
            self._apply(key, value)
        except ValueError as error:
            self.unreadable[key] = UnreadableRecord(
                key, offset, len(value or b""), str(error), is_older=isinstance(error, OlderRecordError)
            )

    def _apply(self, key: bytes, value: bytes | None) -> None:
        if value is None:  # Only records of quotas, log directory throttles, cordons and plans get tombstones.
            self._quotas.apply(key, None)
            self._log_dirs.apply(key, None)
            self._cordons.apply(key, None)
            self.plans.apply(key, None)
            return
        # Entries first: they are nearly all of an old journal.
        ring = self._rings.get(key[: key.rfind(b"|") + 1])
        if ring is not None:
            self._apply_entry(ring, value)
            return
        if self.plans.apply(key, value):
            return
        if key == memory_key(self.cluster):
            self.memory, self._memory_record = decode_memory(value), value
            # The memory record already contains the content of the earlier records of these kinds.
            replaced = (owned_prefix(self.cluster), moving_prefix(self.cluster), listed_prefix(self.cluster))
            self.unreadable = {k: record for k, record in self.unreadable.items() if not k.startswith(replaced)}
        elif key.startswith(owned_prefix(self.cluster)):
            side, owned = decode_owned(value)
            self.memory = replace(self.memory, owned=self.memory.with_owned(side, owned))
        elif key == orders_key(self.cluster):
            self.orders_history.append(decode_orders(value))
        elif key.startswith(moving_prefix(self.cluster)):
            self.memory = replace(self.memory, moving_replicas={**self.memory.moving_replicas, **decode_moving(value)})
        elif key.startswith(listed_prefix(self.cluster)):
            self.memory = replace(self.memory, listed=self.memory.with_listed(*decode_listed(value)))
        elif not self._log_dirs.apply(key, value) and not self._cordons.apply(key, value):
            self._quotas.apply(key, value)

    def _apply_entry(self, ring: str, value: bytes) -> None:
        seq = seq_of(value)
        if seq is None:
            return
        self.seqs[ring] = max(self.seqs[ring], seq)
        if self._times_ms and (entry := entry_or_none(value)) is not None and entry.at_ms in self._times_ms:
            self.entries.append(entry)
