"""Finds the partitions that their preferred replica does not lead. The preferred replica is the first in the list of replicas."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from streaming.shared.contract import TopicPartition

GROUP_MAX = 500  # The controller elects this many leaders well within a second.


class LedPartition(Protocol):
    """A partition as Kafka describes it. The leader is −1 if there is none."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def leader(self) -> int: ...
    @property
    def replicas(self) -> Sequence[int]: ...
    @property
    def isr(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class LeaderSurvey:
    """The leaders of all partitions at one reading.

    Attributes:
        displaced: by broker, the number of partitions whose leadership an election would give back to the broker. The broker's
            replica of these partitions is the preferred replica and in sync, but another replica leads. Partitions that are being
            reassigned are left out, because their first replica may still change.
        next_partitions: the first ``GROUP_MAX`` partitions of ``displaced``, by broker, in order.
        preferred: the number of partitions whose preferred replica is on the broker.
        out_of_sync: the number of replicas outside the ISR, by broker.
    """

    displaced: Mapping[int, int] = field(default_factory=dict)
    next_partitions: Mapping[int, tuple[TopicPartition, ...]] = field(default_factory=dict)
    preferred: Mapping[int, int] = field(default_factory=dict)
    out_of_sync: Mapping[int, int] = field(default_factory=dict)

    @property
    def displaced_count(self) -> int:
        return sum(self.displaced.values())


def survey_leaders(states: Iterable[LedPartition], adding: Mapping[TopicPartition, Collection[int]]) -> LeaderSurvey:
    """Returns the survey of all partitions.

    Args:
        adding: the replicas that reassignments add, by partition. They are not expected to be in sync.
    """
    displaced: dict[int, list[TopicPartition]] = {}
    preferred: Counter[int] = Counter()
    out_of_sync: Counter[int] = Counter()
    for state in states:
        if not state.replicas:
            continue
        first = state.replicas[0]
        preferred[first] += 1
        if len(state.isr) < len(state.replicas):
            out_of_sync.update(
                set(state.replicas).difference(state.isr, adding.get((state.topic, state.partition), ()))
            )
        key = (state.topic, state.partition)
        if state.leader not in (first, -1) and first in state.isr and key not in adding:
            displaced.setdefault(first, []).append(key)
    return LeaderSurvey(
        {broker: len(keys) for broker, keys in displaced.items()},
        {broker: tuple(heapq.nsmallest(GROUP_MAX, keys)) for broker, keys in displaced.items()},
        dict(preferred),
        dict(out_of_sync),
    )
