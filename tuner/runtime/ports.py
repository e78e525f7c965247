"""Ports that more than one controller needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tuner.core.operator_orders import Orders
from tuner.journal.entries import Entry


class CurrentOrders(Protocol):
    """The operator orders that are in force."""

    @property
    def latest(self) -> Orders: ...


class RecordJournal(Protocol):
    """A journal of decisions (entries). It also holds keyed records, each of which replaces the older record of its key."""

    def write(
        self, entries: Sequence[Entry] = (), *, other_records: Mapping[bytes, bytes | None] | None = None
    ) -> None:
        """Writes all entries and records, or nothing.

        Args:
            other_records: value of each record by key; None deletes the record.

        Raises:
            JournalError: nothing was written.
        """
