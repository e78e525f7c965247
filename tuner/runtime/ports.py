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
    """A journal of decisions, with records beside them that replace older ones of the same key."""

    def write(
        self, entries: Sequence[Entry] = (), *, other_records: Mapping[bytes, bytes | None] | None = None
    ) -> None:
        """Writes all of it or nothing.

        Args:
            beside: record values by key; None deletes the record.

        Raises:
            JournalError: nothing was written.
        """
