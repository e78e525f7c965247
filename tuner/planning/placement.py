"""Where the partitions of a topic go so that no limit breaks (KIP-578), or that they can't all go anywhere.

Intuition: P partitions of R replicas fit iff what the brokers can take, nobody more than one replica of each partition, adds
up to P × R. How many each gets is decided first, as evenly as the limits allow, and which partitions afterwards: whoever has
most left to take takes part in the next one, so that nobody is left with more than there are partitions.

Invariant: nothing that fits is refused. Racks never cost a partition its place: as in Kafka, replicas are on as many racks as
possible, and where limits leave fewer, on fewer.

Both halves are exact. Limits of brokers within limits of racks are nested, so giving one replica at a time to whoever has
least reaches as many as any way could; and drawing from the fullest is Havel's and Hakimi's proof that the draw ends well.

Vocabulary:
    quota   how many of the topic's replicas a broker, or a rack, is given.
    level   how many replicas of one partition a rack may have: 1 while that is enough, else 2, and so on.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.core.partition_limits import PartitionCounts, PartitionLimits, set_or_none


class PolicyViolation(ValueError):
    """It can't be had within the limits; the text names both, as KIP-578 asks of Kafka's POLICY_VIOLATION."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    topic: str
    partitions: int
    replication: int

    def __post_init__(self) -> None:
        assert self.partitions >= 1
        assert self.replication >= 1

    @property
    def replicas(self) -> int:
        return self.partitions * self.replication


def place(
    wanted: PlacementRequest, racks: Mapping[int, str | None], counts: PartitionCounts, limits: PartitionLimits
) -> tuple[tuple[int, ...], ...]:
    """The replicas of each partition, the preferred leader first.

    Args:
        racks: of the brokers that may take some, alive and at least as many as the replication factor. Where one has
            none, racks are not looked at.

    Raises:
        PolicyViolation: there is no place for all of it.
    """
    assert wanted.replication <= len(racks)
    room = {b: min(wanted.partitions, counts.headroom(b, limits)) for b in racks}
    if sum(room.values()) < wanted.replicas or counts.cluster_headroom(limits) < wanted.replicas:
        raise PolicyViolation(_refusal(wanted, sum(room.values()), racks, counts, limits))
    rack_of = _racks(racks)
    return _dealt(wanted, rack_of, _quotas(wanted, rack_of, room, counts))


def _racks(racks: Mapping[int, str | None]) -> dict[int, str]:
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    return known if len(known) == len(racks) else dict.fromkeys(racks, "")


def _quotas(
    wanted: PlacementRequest, rack_of: Mapping[int, str], room: Mapping[int, int], counts: PartitionCounts
) -> dict[int, int]:
    """How many replicas each broker gets: as even as limits and racks allow, the one with fewest partitions first."""
    quota = dict.fromkeys(rack_of, 0)
    of_rack = dict.fromkeys(rack_of.values(), 0)
    left, level = wanted.replicas, 0
    while left:
        level += 1
        heap = [(quota[b], counts.of(b), b) for b in rack_of if quota[b] < room[b]]
        heapq.heapify(heap)
        while heap and left:
            given, hosted, broker = heapq.heappop(heap)
            rack = rack_of[broker]
            if of_rack[rack] >= level * wanted.partitions:
                continue
            quota[broker] = given + 1
            of_rack[rack] += 1
            left -= 1
            if quota[broker] < room[broker]:
                heapq.heappush(heap, (given + 1, hosted + 1, broker))
    return quota


def _dealt(wanted: PlacementRequest, rack_of: Mapping[int, str], quota: dict[int, int]) -> tuple[tuple[int, ...], ...]:
    """Which partitions each broker's replicas are of."""
    members: dict[str, list[int]] = {}
    for broker, rack in sorted(rack_of.items()):
        members.setdefault(rack, []).append(broker)
    totals = {rack: sum(quota[b] for b in brokers) for rack, brokers in members.items()}
    every = {rack: total // wanted.partitions for rack, total in totals.items()}
    extra = {rack: total % wanted.partitions for rack, total in totals.items()}
    extras = wanted.replication - sum(every.values())
    met: dict[tuple[int, int], int] = {}
    leads = dict.fromkeys(rack_of, 0)
    whole = dict(quota)
    made = []
    for _ in range(wanted.partitions):
        chosen: list[int] = []
        more = heapq.nsmallest(extras, extra, key=lambda rack: (-extra[rack], rack))
        for rack, brokers in members.items():
            for _ in range(every[rack] + (rack in more)):
                chosen.append(_next(brokers, chosen, quota, met))
        for rack in more:
            extra[rack] -= 1
        for broker in chosen:
            quota[broker] -= 1
            for other in chosen:
                met[(broker, other)] = met.get((broker, other), 0) + 1
        made.append(_led(chosen, leads, whole))
    return tuple(made)


def _next(
    brokers: Sequence[int], chosen: Sequence[int], left: Mapping[int, int], met: Mapping[tuple[int, int], int]
) -> int:
    """Who has most left to take; of equals who has met the others least, so that one broker's failure falls on many."""
    free = [b for b in brokers if b not in chosen]
    return min(free, key=lambda b: (-left[b], sum(met.get((b, other), 0) for other in chosen), b))


def _led(chosen: Sequence[int], leads: dict[int, int], whole: Mapping[int, int]) -> tuple[int, ...]:
    """Led by whoever leads the smallest part of what it is given."""
    order = sorted(chosen, key=lambda b: (leads[b] / whole[b], b))
    leads[order[0]] += 1
    return tuple(order)


def _refusal(
    wanted: PlacementRequest,
    room: int,
    racks: Mapping[int, str | None],
    counts: PartitionCounts,
    limits: PartitionLimits,
) -> str:
    each = ", ".join(f"{b}: {counts.of(b)} of {_shown(limits.of(b))}" for b in sorted(racks))
    return (
        f"POLICY_VIOLATION: {wanted.partitions} partitions of topic {wanted.topic} with replication factor {wanted.replication} "
        f"need room for {wanted.replicas} replicas within max.broker.partitions={_shown(limits.broker_partitions_max)} and "
        f"max.partitions={_shown(limits.partitions_max)}. The brokers can take {room}, one of each partition at most ({each}); "
        f"the cluster {_shown(counts.cluster_headroom(limits))} ({counts.total} of {_shown(limits.partitions_max)})."
    )


def _shown(limit: int) -> str:
    return "unlimited" if set_or_none(limit) is None else str(limit)
