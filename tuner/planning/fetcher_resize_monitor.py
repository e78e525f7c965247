"""Has a change of the fetcher threads done harm? Looked at again and again after every step.

Intuition: threads begin anew, and for a moment followers are late; then they must be as near as they were. Two things tell of
harm: followers that leave the in-sync sets, and messages that stay longer on their way to those that are in them. One look may
have met a burst of writes, or a broker that has not heard yet; several in a row have not.

Invariant: what was bad before the change is no fault of it.

Vocabulary:
    behind   messages that their leaders have and not all in-sync replicas do, of the whole cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Looks in a row: a broker whose metadata are late, or one burst, is not harm.
OUT_OF_SYNC_LOOKS = 2
BEHIND_LOOKS = 3
# Twice of what it was before, and what is written in ten seconds: a fetch takes half a second at most, where a thread has room.
BEHIND_RATIO = 2.0
BEHIND_WRITTEN_S = 10.0
BEHIND_MESSAGES_MIN = 1_000  # Batches that are just being written.


@dataclass(frozen=True, slots=True)
class FollowerSample:
    at_s: float
    out_of_sync: int  # Partitions with a replica that is not in sync.
    behind: int
    end_offsets: int  # Of all leaders: what they grow by is what is written.
    moving: int = 0  # Partitions that are being reassigned.


@dataclass(frozen=True, slots=True)
class ResizeBaseline:
    """How it was while nothing was changed."""

    out_of_sync: int
    behind: int
    messages_per_s: float

    @property
    def behind_max(self) -> float:
        return max(BEHIND_MESSAGES_MIN, BEHIND_RATIO * self.behind + BEHIND_WRITTEN_S * self.messages_per_s)


def before(looks: Sequence[FollowerSample]) -> ResizeBaseline:
    """
    Args:
        looks: at least two, in order.
    """
    took_s = max(looks[-1].at_s - looks[0].at_s, 1e-3)
    written = max(0, looks[-1].end_offsets - looks[0].end_offsets)
    return ResizeBaseline(max(one.out_of_sync for one in looks), max(one.behind for one in looks), written / took_s)


def worse(was: ResizeBaseline, looks: Sequence[FollowerSample]) -> str | None:
    """What has become worse, for people; None while nothing has.

    Args:
        looks: since the step, in order.
    """
    late = looks[-OUT_OF_SYNC_LOOKS:]
    if len(late) == OUT_OF_SYNC_LOOKS and all(one.out_of_sync > was.out_of_sync for one in late):
        return f"{late[-1].out_of_sync} partitions have a replica that is not in sync, {was.out_of_sync} had before the change"
    late = looks[-BEHIND_LOOKS:]
    # Where it shrinks already, the threads are working off what their beginning anew left.
    grows = len(late) == BEHIND_LOOKS and late[-1].behind >= late[0].behind
    if grows and all(one.behind > was.behind_max for one in late):
        return f"{late[-1].behind} messages wait for in-sync replicas to copy them, {was.behind} did before the change"
    return None
