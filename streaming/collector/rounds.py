"""Plans when each node is scraped within a round. Pure.

Each node has a fixed offset within the round, which depends only on its id. So a thousand agents are not asked at the same moment,
and the time between two scrapes of a node is constant.

A node whose scrapes time out is scraped less often, because each timeout occupies a slot. The node is still due at least once in
``PAUSE_ROUNDS_MAX`` rounds. A node that was due and got no slot comes before nodes that became due later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

PAUSE_ROUNDS_MAX = 6  # Half a minute at the default interval: the longest delay until a recovered node is scraped.
# Consecutive timeouts without a delay: a starting broker or a full garbage collection can cause this many.
_TIMEOUTS_FREE = 3
_GOLDEN = 0.6180339887498949  # Its multiples modulo 1 are spread evenly, for any number of ids.


@dataclass(frozen=True, slots=True)
class ScrapeStart:
    """A planned scrape."""

    at_s: float  # Seconds after the start of the round.
    node: int
    slow: bool  # The node's last scrape timed out, so it may only use the slots reserved for such nodes.


@dataclass(slots=True)
class TimeoutBackoff:
    """Counts consecutive timeouts of each node, and delays its next scrape."""

    _timeouts: dict[int, int] = field(default_factory=dict)  # By node: consecutive timeouts.
    _due: dict[int, int] = field(default_factory=dict)  # By node: number of the round from which it is scraped again.

    def add_timeout(self, node: int, round_number: int) -> None:
        timeouts = self._timeouts[node] = self._timeouts.get(node, 0) + 1
        self._due[node] = round_number + min(PAUSE_ROUNDS_MAX, 2 ** max(0, timeouts - _TIMEOUTS_FREE))

    def reset(self, node: int) -> None:
        """Ends the delay of a node that answered, or failed at once and so occupied no slot."""
        self._timeouts.pop(node, None)
        self._due.pop(node, None)

    def is_due(self, node: int, round_number: int) -> bool:
        return round_number >= self.due_round(node)

    def due_round(self, node: int) -> int:
        """Returns the number of the round from which the node is scraped again."""
        return self._due.get(node, 0)

    def is_slow(self, node: int) -> bool:
        """Returns whether the node's last scrape timed out."""
        return node in self._timeouts

    def keep_only(self, nodes: Collection[int]) -> None:
        for node in self._timeouts.keys() - set(nodes):
            self.reset(node)


def offset_s(node: int, spread_s: float) -> float:
    """Returns the node's offset within the round, from 0 to ``spread_s``."""
    return (node * _GOLDEN) % 1.0 * spread_s


def plan_round(
    nodes: Iterable[int], round_number: int, spread_s: float, backoff: TimeoutBackoff, missed: Collection[int]
) -> list[ScrapeStart]:
    """Returns the scrapes of one round, ordered by start.

    Args:
        missed: nodes that got no slot in the last round; they start at once.
    """
    due = [node for node in nodes if backoff.is_due(node, round_number)]
    # Slow nodes share few slots. The node that has been due longest comes first; otherwise the same nodes would miss every round.
    due.sort(key=lambda node: (backoff.due_round(node), node))
    starts = []
    for node in due:
        slow = backoff.is_slow(node)
        starts_at_once = slow or node in missed
        starts.append(ScrapeStart(0.0 if starts_at_once else offset_s(node, spread_s), node, slow))
    return sorted(starts, key=lambda start: start.at_s)  # Keeps the order of nodes that start at once.
