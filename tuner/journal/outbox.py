"""Keeps entries and outcomes of writes that the journal has not recorded yet, the oldest first.

A write to the cluster has happened even if the journal refuses its outcome. The outbox outlives a leadership term: the next term
records the outcomes that the last term could not record.

The outbox also keeps the new state of each managed rate: restored, externally owned, or with a change that stopped half-way. Until
this state is recorded, the journal lists every value that the change may have left. If an operator set one of these values, the
tuner would treat it as its own.

Invariant: no entry is recorded twice. If another tuner has acted since, only that tuner's records say which rates are managed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide
from tuner.journal.entries import Entry, encode_entry


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The state of a managed rate after a write.

    Attributes:
        recorded_setpoint_bytes_per_s: the setpoint that the journal has.
        owned: the managed rate now; None if the rate is no longer managed.
        externally_owned_until_ms: until when the rate is externally owned; None if it is not externally owned.
    """

    recorded_setpoint_bytes_per_s: int
    owned: OwnedRate | None
    externally_owned_until_ms: int | None


class Outbox:
    """The pending journal writes of this process.

    Attributes:
        entries: entries that any write may record.
        relinquished: entries about rates that another tool has changed. They are recorded only together with the whole memory:
            otherwise the recorded memory would still have the rates as managed.
        outcomes: the new states of managed rates since the last recorded memory.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.relinquished: list[Entry] = []
        self.outcomes: dict[BrokerSide, WriteOutcome] = {}

    @property
    def times_ms(self) -> frozenset[int]:
        """The times of all pending entries. A recorded entry with another time is not a pending entry."""
        return frozenset(entry.at_ms for entry in (*self.entries, *self.relinquished))

    def record_outcome(self, side: BrokerSide, before: Memory, after: Memory) -> None:
        """Keeps the new state of a managed rate. A rate that was not managed before is ignored."""
        if (owned := before.owned.get(side)) is not None:
            self.outcomes[side] = WriteOutcome(
                owned.setpoint_bytes_per_s, after.owned.get(side), after.externally_owned_until_ms.get(side)
            )

    def remove_recorded(self, recorded: Iterable[Entry]) -> None:
        """Removes entries that the journal already has: their write may have succeeded without an acknowledgement."""
        bodies = {_body(entry) for entry in recorded}
        self.entries = [entry for entry in self.entries if _body(entry) not in bodies]
        self.relinquished = [entry for entry in self.relinquished if _body(entry) not in bodies]

    def reset_for_other_tuner(self) -> None:
        """Forgets the outcomes, as another tuner has acted since and may have set the same rates again.

        If the outcomes were applied, these rates would count as not managed and stay in the cluster for ever. The entries are kept,
        and any later write may record them.
        """
        self.entries, self.relinquished = [*self.entries, *self.relinquished], []
        self.outcomes.clear()

    def apply_to(self, memory: Memory) -> Memory:
        """Returns the memory as it would be if the journal had recorded all outcomes."""
        owned, external = dict(memory.owned), dict(memory.externally_owned_until_ms)
        for side, outcome in self.outcomes.items():
            # If the journal has a different setpoint, that setpoint is newer than the outcome.
            if side not in owned or owned[side].setpoint_bytes_per_s != outcome.recorded_setpoint_bytes_per_s:
                continue
            if outcome.owned is not None:
                owned[side] = outcome.owned
                continue
            del owned[side]
            if outcome.externally_owned_until_ms is not None:
                external[side] = outcome.externally_owned_until_ms
        return replace(memory, owned=owned, externally_owned_until_ms=external)


def _body(entry: Entry) -> bytes:
    """Returns the encoded entry without its sequence number, which an entry gets only when it is written."""
    return encode_entry(replace(entry, seq=0))
