"""The order in which partitions are copied, for reassignment plans and for recoveries: a sort key, and the sentence about it. Pure.

    1. Partitions that have lost replicas and are below or at min.insync.replicas: producers wait, or one more failure stops them.
    2. Partitions of the topics that the operator names (``tuner.first_topics``), in the order of this list.
    3. All others, by bytes.

The callers sort by bytes within each class. A plan keeps its slowest side busy and begins with large partitions. A recovery begins
with the partitions that lack the fewest bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from fnmatch import fnmatchcase


class IsrStanding(IntEnum):
    """The number of in-sync replicas of a partition, compared with min.insync.replicas."""

    BELOW = -1
    AT = 0
    ABOVE = 1


def isr_standing(in_sync: int, min_in_sync: int | None) -> IsrStanding:
    """Returns the standing of a partition that has lost replicas. An unknown minimum counts as not reached."""
    if min_in_sync is None or in_sync < min_in_sync:
        return IsrStanding.BELOW
    return IsrStanding.AT if in_sync == min_in_sync else IsrStanding.ABOVE


def move_class(
    topic: str, in_sync: int, replicas: int, min_in_sync: int | None, first_topics: Sequence[str] = ()
) -> tuple[IsrStanding, int]:
    """Returns the class of a partition as a sort key, the first to copy first.

    Args:
        in_sync: the number of its in-sync replicas.
        replicas: the number of its replicas, without adding replicas. A partition that has lost no replica is not in danger,
            even if its minimum equals their number.
        first_topics: the topics that the operator names; a name may contain ``*``.
    """
    standing = isr_standing(in_sync, min_in_sync) if in_sync < replicas else IsrStanding.ABOVE
    return standing, topic_rank(topic, first_topics)


def topic_rank(topic: str, first_topics: Sequence[str]) -> int:
    """Returns the position of a topic in the operator's list; the length of the list if the topic is not in the list."""
    return next((n for n, name in enumerate(first_topics) if fnmatchcase(topic, name)), len(first_topics))


def goes_first(key: tuple[IsrStanding, int], first_topics: Sequence[str]) -> bool:
    """Returns whether partitions of this class are copied before the partitions that are only sorted by bytes."""
    standing, rank = key
    return standing is not IsrStanding.ABOVE or rank < len(first_topics)


def order_text(first_topics: Sequence[str]) -> str:
    """Returns the order as a sentence for operators."""
    named = f", then partitions of {', '.join(first_topics)} (tuner.first_topics)" if first_topics else ""
    return f"Order: partitions that have out-of-sync replicas and are at or below min.insync.replicas first{named}, then by bytes."
