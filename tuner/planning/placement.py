"""Places the partitions of a new topic within all partition limits (KIP-578), or shows that they do not fit.

Terms:
    quota  number of the topic's replicas that a broker or a rack gets.
    room   number of the topic's replicas that a broker can take: min(number of partitions P, what the partition limits allow).
    level  number of replicas of one partition that a rack may have: 1 while this is enough, then 2, and so on.

P partitions with R replicas each fit if and only if the room of all brokers adds up to P × R or more. There are two steps:

1. Each broker gets a quota. The quotas are as equal as the limits allow.
2. Partition by partition, the replicas go to the brokers with the largest remaining quota. So a broker's remaining quota never
   exceeds the number of remaining partitions.

Both steps are exact. Step 1 adds one replica at a time to the broker with the lowest quota. This reaches the highest sum, because
each broker belongs to one rack only. Step 2 always succeeds, as Havel and Hakimi have proved for this choice.

Invariant: a topic that fits is never refused. As in Kafka, replicas are on as many racks as possible; limits may require fewer
racks.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.core.partition_limits import PartitionCounts, PartitionLimits, limit_or_none


class PolicyViolation(ValueError):
    """The topic does not fit. The text names both limits, as KIP-578 requires for Kafka's error POLICY_VIOLATION."""


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
    request: PlacementRequest, racks: Mapping[int, str | None], counts: PartitionCounts, limits: PartitionLimits
) -> tuple[tuple[int, ...], ...]:
    """Returns the replicas of each partition, the preferred leader first.

    Args:
        racks: rack of each broker that is alive; at least as many brokers as the replication factor. If a broker has no rack, racks
            are ignored.

    Raises:
        PolicyViolation: the limits leave no room for the topic.
    """
    assert request.replication <= len(racks)
    room = {b: min(request.partitions, counts.headroom(b, limits)) for b in racks}
    if sum(room.values()) < request.replicas or counts.cluster_headroom(limits) < request.replicas:
        raise PolicyViolation(_refusal_text(request, sum(room.values()), racks, counts, limits))
    rack_of = _known_racks(racks)
    return _assign(request, rack_of, _broker_quotas(request, rack_of, room, counts))


def _known_racks(racks: Mapping[int, str | None]) -> dict[int, str]:
    """Returns the rack of each broker; one common rack for all brokers if the rack of any broker is unknown."""
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    return known if len(known) == len(racks) else dict.fromkeys(racks, "")


def _broker_quotas(
    request: PlacementRequest, rack_of: Mapping[int, str], room: Mapping[int, int], counts: PartitionCounts
) -> dict[int, int]:
    """Returns the number of replicas that each broker gets, as equal as limits and racks allow.

    If several brokers have the same quota, the one that hosts the fewest partitions gets the next replica.
    """
    quota = dict.fromkeys(rack_of, 0)
    rack_quota = dict.fromkeys(rack_of.values(), 0)
    remaining, level = request.replicas, 0
    while remaining:
        level += 1
        # The heap's first broker has the lowest quota so far. Of equal quotas it has the fewest partitions.
        heap = [(quota[b], counts.on_broker(b), b) for b in rack_of if quota[b] < room[b]]
        heapq.heapify(heap)
        while heap and remaining:
            count, hosted, broker = heapq.heappop(heap)
            rack = rack_of[broker]
            if rack_quota[rack] >= level * request.partitions:  # The rack is full at this level.
                continue
            quota[broker] = count + 1
            rack_quota[rack] += 1
            remaining -= 1
            if quota[broker] < room[broker]:
                heapq.heappush(heap, (count + 1, hosted + 1, broker))
    return quota


def _assign(
    request: PlacementRequest, rack_of: Mapping[int, str], quota: dict[int, int]
) -> tuple[tuple[int, ...], ...]:
    """Returns the replicas of each partition.

    Args:
        quota: number of replicas that each broker gets.
    """
    brokers_by_rack: dict[str, list[int]] = {}
    for broker, rack in sorted(rack_of.items()):
        brokers_by_rack.setdefault(rack, []).append(broker)
    totals = {rack: sum(quota[b] for b in brokers) for rack, brokers in brokers_by_rack.items()}
    # Each rack gets ``base`` replicas of every partition. A rack also gets one more replica of ``extra`` of the partitions.
    base = {rack: total // request.partitions for rack, total in totals.items()}
    extra = {rack: total % request.partitions for rack, total in totals.items()}
    extra_racks_count = request.replication - sum(base.values())
    shared_partitions: dict[tuple[int, int], int] = {}
    leads = dict.fromkeys(rack_of, 0)
    broker_totals = dict(quota)
    placed = []
    for _ in range(request.partitions):
        chosen: list[int] = []
        extra_racks = heapq.nsmallest(extra_racks_count, extra, key=lambda rack: (-extra[rack], rack))
        for rack, brokers in brokers_by_rack.items():
            replicas = base[rack] + 1 if rack in extra_racks else base[rack]
            for _ in range(replicas):
                chosen.append(_choose_broker(brokers, chosen, quota, shared_partitions))
        for rack in extra_racks:
            extra[rack] -= 1
        for broker in chosen:
            quota[broker] -= 1
            for other in chosen:
                shared_partitions[(broker, other)] = shared_partitions.get((broker, other), 0) + 1
        placed.append(_with_leader(chosen, leads, broker_totals))
    return tuple(placed)


def _choose_broker(
    brokers: Sequence[int],
    chosen: Sequence[int],
    remaining: Mapping[int, int],
    shared_partitions: Mapping[tuple[int, int], int],
) -> int:
    """Returns the broker with the largest remaining quota.

    Of several such brokers, returns the one that shares the fewest partitions with ``chosen``. So if a broker fails, many other
    brokers share its load.
    """
    free = [b for b in brokers if b not in chosen]
    largest = max(remaining[b] for b in free)
    candidates = [b for b in free if remaining[b] == largest]
    return min(candidates, key=lambda b: (sum(shared_partitions.get((b, other), 0) for other in chosen), b))


def _with_leader(chosen: Sequence[int], leads: dict[int, int], broker_totals: Mapping[int, int]) -> tuple[int, ...]:
    """Returns the replicas. The first, the preferred leader, is the broker that leads the smallest share of its replicas so far."""
    order = sorted(chosen, key=lambda b: (leads[b] / broker_totals[b], b))
    leads[order[0]] += 1
    return tuple(order)


def _refusal_text(
    request: PlacementRequest,
    room: int,
    racks: Mapping[int, str | None],
    counts: PartitionCounts,
    limits: PartitionLimits,
) -> str:
    brokers = ", ".join(f"{b}: {counts.on_broker(b)} of {_limit_text(limits.for_broker(b))}" for b in sorted(racks))
    broker_limit, cluster_limit = _limit_text(limits.broker_partitions_max), _limit_text(limits.partitions_max)
    return (
        f"POLICY_VIOLATION: {request.partitions} partitions of topic {request.topic} with replication factor {request.replication} "
        f"need room for {request.replicas} replicas within max.broker.partitions={broker_limit} and "
        f"max.partitions={cluster_limit}. The brokers can take {room}, one of each partition at most ({brokers}); "
        f"the cluster {_limit_text(counts.cluster_headroom(limits))} ({counts.total} of {cluster_limit})."
    )


def _limit_text(limit: int) -> str:
    return "unlimited" if limit_or_none(limit) is None else str(limit)
