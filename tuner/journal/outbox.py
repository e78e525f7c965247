"""What has happened and is not on record yet, the oldest first.

It is so, whatever the journal takes, and it outlives the term in which it happened: what one could not record the next one does.
So does what our rates have become by it: put back, somebody else's, or where a change has stopped. On record each may still be
all that a change might have left, and who goes back to one of those values would be taken for us.

Invariant: nothing of it is on record twice; and where another tuner has acted since, what is ours is for that one's record to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide
from tuner.journal.entries import Entry, encode_entry


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What a rate of ours is now."""

    setpoint_bytes_per_s: int  # As it is on record.
    owned: OwnedRate | None  # None: it is not ours any more.
    externally_owned_until_ms: int | None  # Whether it is somebody else's.


class Outbox:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        # Rates that somebody else has changed: on record only together with the memory of it, without which they would be ours.
        self.given_up: list[Entry] = []
        self.rates: dict[BrokerSide, WriteOutcome] = {}

    @property
    def times_ms(self) -> frozenset[int]:
        """Of all its entries; what has none of these on record is something else."""
        return frozenset(entry.at_ms for entry in (*self.entries, *self.given_up))

    def became(self, side: BrokerSide, before: Memory, after: Memory) -> None:
        """Of a rate that was ours; of others there is nothing to say."""
        if (ours := before.owned.get(side)) is not None:
            became = WriteOutcome(
                ours.setpoint_bytes_per_s, after.owned.get(side), after.externally_owned_until_ms.get(side)
            )
            self.rates[side] = became

    def strike(self, on_record: Iterable[Entry]) -> None:
        """What is there already: nobody may have heard how a write ended."""
        there = {_body(entry) for entry in on_record}
        self.entries = [entry for entry in self.entries if _body(entry) not in there]
        self.given_up = [entry for entry in self.given_up if _body(entry) not in there]

    def another_acted(self) -> None:
        """Since then, and may have set the same again: to take that for what was given up would leave it there for ever. That it
        was given up then has happened all the same."""
        self.entries, self.given_up = [*self.entries, *self.given_up], []
        self.rates.clear()

    def as_it_is(self, memory: Memory) -> Memory:
        """What is on record, as it were, had the journal taken all of this."""
        owned, theirs = dict(memory.owned), dict(memory.externally_owned_until_ms)
        for side, became in self.rates.items():
            if side not in owned or owned[side].setpoint_bytes_per_s != became.setpoint_bytes_per_s:
                continue
            if became.owned is not None:
                owned[side] = became.owned
                continue
            del owned[side]
            if became.externally_owned_until_ms is not None:
                theirs[side] = became.externally_owned_until_ms
        return replace(memory, owned=owned, externally_owned_until_ms=theirs)


def _body(entry: Entry) -> bytes:
    # As it is read back, and without its number: that it gets when it is written.
    return encode_entry(replace(entry, seq=0))
