"""How num.replica.fetchers gets from what stands to another value: where it is written, through which values, and whose it is.

Intuition: a setting of many brokers is changed where it was set. What they all inherit is changed once, in the cluster's default,
so that a broker that comes later has it too; what stands on a broker itself is changed there. A broker that differs from the
others differs because somebody wanted it to.

Invariant: every value on the way is at most double and at least half of the one before, there and back: Kafka takes no other.

Vocabulary:
    place    where a value is written: a broker, or the cluster's default (``DEFAULT``).
    stands   the value that most brokers have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.core.fetchers import resize_steps

DEFAULT = -1

Place = int


@dataclass(frozen=True, slots=True)
class Setting:
    """What is in force on one broker."""

    value: int
    own: bool = (
        False  # Set on this broker, at runtime; else it is inherited from the default, its file, or Kafka itself.
    )


@dataclass(frozen=True, slots=True)
class Change:
    stands: int
    wanted: int
    brokers: tuple[int, ...]  # That change.
    places: Mapping[Place, int | None]  # What stood there before; None: nothing did, and that is what is put back.
    left_alone: Mapping[int, int]  # Brokers that somebody set otherwise, with their values.

    @property
    def steps(self) -> tuple[int, ...]:
        """The values to set one after another; none where it stands already."""
        return resize_steps(self.stands, self.wanted)

    def way_back(self, reached: int) -> tuple[int, ...]:
        """The values that lead back, ending with the one that stood."""
        return resize_steps(reached, self.stands)


def change(settings: Mapping[int, Setting], default: int | None, wanted: int) -> Change:
    """
    Args:
        settings: of every broker that is alive, at least one.
        default: the cluster's, where one was set at runtime.
    """
    counts = Counter(one.value for one in settings.values())
    stands = min(counts, key=lambda value: (-counts[value], value))
    same = tuple(sorted(b for b, one in settings.items() if one.value == stands))
    alone = {b: one.value for b, one in sorted(settings.items()) if one.value not in (stands, wanted)}
    inheriting = {one.value for one in settings.values() if not one.own}
    if inheriting <= {stands}:
        own = {b: stands for b in same if settings[b].own}
        places: dict[Place, int | None] = {DEFAULT: default} if inheriting else {}
        return Change(stands, wanted, same, {**places, **own}, alone)
    # What brokers inherit differs from one file to the next: the default would change all of it.
    return Change(stands, wanted, same, {b: stands if settings[b].own else None for b in same}, alone)
