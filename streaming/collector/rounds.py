"""Which node is scraped when. Pure.

Intuition: a thousand agents asked in one millisecond answer badly, and a node asked at another moment in each round gives
steps of uneven length. So each node has a moment of its own within the round, made from nothing but its id and how many
seconds the round is spread over. One that hangs is asked less and less often, up to once in ``PAUSE_ROUNDS_MAX``: it would
hold a slot for its whole timeout each time.

Invariant: a node is due at least once in ``PAUSE_ROUNDS_MAX`` rounds, however long it hung. A node that was due and not
reached comes before those that became due later, so each has its turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

PAUSE_ROUNDS_MAX = 6  # Half a minute at the default interval: that much later, at most, a healed node is back.
_HANGS_FREE = 3  # So many in a row may be a broker that starts, or a full collection of its heap.
_GOLDEN = 0.6180339887498949  # Multiples of it spread evenly over 0..1, however many ids there are.


@dataclass(frozen=True, slots=True)
class ScrapeStart:
    at_s: float  # After the begin of the round.
    node: int
    slow: bool  # It hung last time: it may take only what is kept for such nodes.


@dataclass(slots=True)
class Patience:
    """How often each node hung in a row, and until when it is left alone."""

    _hangs: dict[int, int] = field(default_factory=dict)
    _again: dict[int, int] = field(default_factory=dict)

    def hung(self, node: int, round_number: int) -> None:
        hangs = self._hangs[node] = self._hangs.get(node, 0) + 1
        self._again[node] = round_number + min(PAUSE_ROUNDS_MAX, 2 ** max(0, hangs - _HANGS_FREE))

    def moved(self, node: int) -> None:
        """It answered, or failed at once, which costs nobody anything."""
        self._hangs.pop(node, None)
        self._again.pop(node, None)

    def asks(self, node: int, round_number: int) -> bool:
        return round_number >= self.due(node)

    def due(self, node: int) -> int:
        """The round from which on it is asked again."""
        return self._again.get(node, 0)

    def hanging(self, node: int) -> bool:
        return node in self._hangs

    def forget_all_but(self, nodes: Collection[int]) -> None:
        for node in self._hangs.keys() - set(nodes):
            self.moved(node)


def offset_s(node: int, spread_s: float) -> float:
    return (node * _GOLDEN) % 1.0 * spread_s


def plan(
    nodes: Iterable[int], round_number: int, spread_s: float, patience: Patience, missed: Collection[int]
) -> list[ScrapeStart]:
    """The scrapes of one round, in order."""
    due = [node for node in nodes if patience.asks(node, round_number)]
    # Those that hang queue for few slots: who is due longest comes first, or the same ones would be left over each time.
    due.sort(key=lambda node: (patience.due(node), node))
    starts = [
        ScrapeStart(0.0 if slow or node in missed else offset_s(node, spread_s), node, slow)
        for node in due
        for slow in (patience.hanging(node),)
    ]
    return sorted(starts, key=lambda start: start.at_s)
