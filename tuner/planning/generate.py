"""Generates plans for four tasks: drain brokers, replace brokers, extend the cluster to new brokers, rebalance.

The cost of a plan is the bytes that it copies. A drain copies only the replicas on the drained brokers. A rebalance moves each
replica at most once, from a broker above the mean to a broker below it, and stops within a tolerance of the mean. It moves large
partitions first, and then small ones for the remaining differences. It balances bytes, or the number of replicas if no partition
has bytes. It does not balance leaders, rates or topics.

Invariants:

- A partition keeps its number of replicas, and each replica keeps its position in the list.
- No broker exceeds its partition limit, and no cordoned broker gets a replica.
- A partition ends on fewer racks in two cases only: its replica must leave a broker and no possible broker keeps the number of
  racks, or the operator chose the successor. ``GeneratedPlan.on_fewer_racks`` lists these partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tuner.core.partition_limits import INTERNAL_TOPICS
from tuner.core.reassignment_plan import TopicPartition
from tuner.planning.broker_load import BrokerLoads, PlacedPartition
from tuner.planning.plan_file import Target
from tuner.planning.rebalance import balance_loads

TOLERANCE = 0.1


class NoPlacementError(ValueError):
    """A replica has no possible broker; the text says which replica and why."""


@dataclass(frozen=True, slots=True)
class GeneratedPlan:
    targets: tuple[Target, ...]  # Only partitions that change.
    copied_bytes: float
    held_bytes: Mapping[int, float]  # By broker, after the plan.
    hosted: Mapping[int, int]  # Partitions by broker, after the plan.
    on_fewer_racks: tuple[TopicPartition, ...]  # Changed partitions on fewer racks than before.


def drain_brokers(loads: BrokerLoads, brokers: Collection[int]) -> GeneratedPlan:
    """Returns a plan that moves all replicas of ``brokers`` to the other brokers.

    Raises:
        NoPlacementError: within the limits there is no room for all replicas.
    """
    return _empty_brokers(loads, brokers, [b for b in loads.takers if b not in brokers], {})


def replace_brokers(loads: BrokerLoads, pairs: Mapping[int, int]) -> GeneratedPlan:
    """Returns a plan that moves each broker's replicas to its successor.

    If the successor already hosts the partition, the replica moves to another broker.

    Args:
        pairs: old → new broker; no broker is both.

    Raises:
        NoPlacementError: within the limits there is no room for all replicas.
    """
    assert pairs.keys().isdisjoint(pairs.values())
    return _empty_brokers(loads, pairs.keys(), [b for b in loads.takers if b not in pairs], pairs)


def extend_to_brokers(loads: BrokerLoads, brokers: Collection[int], tolerance: float = TOLERANCE) -> GeneratedPlan:
    """Returns a plan that gives ``brokers`` an equal share of all bytes, taken from brokers above the mean.

    Args:
        brokers: none of them is cordoned.
    """
    assert loads.cordoned.isdisjoint(brokers)
    others = [b for b in loads.alive if b not in brokers]
    balance_loads(loads, givers=others, takers=list(brokers), tolerance=tolerance, limits_givers=False)
    return _make_plan(loads)


def rebalance(loads: BrokerLoads, tolerance: float = TOLERANCE) -> GeneratedPlan:
    """Returns a plan that brings every broker within ``tolerance`` of the mean, or as close as moves of whole partitions allow."""
    balance_loads(loads, givers=loads.alive, takers=loads.takers, tolerance=tolerance, limits_givers=True)
    return _make_plan(loads)


# -- draining and replacing ----------------------------------------------------------------------------------------------


def _empty_brokers(
    loads: BrokerLoads, leaving: Collection[int], remaining: list[int], successors: Mapping[int, int]
) -> GeneratedPlan:
    """Returns a plan that moves all replicas from ``leaving`` to ``remaining`` brokers, if possible to the successors."""
    for p in _largest_first(loads.partitions.values()):
        for old in p.replicas:
            if old not in leaving:
                continue
            candidates = loads.candidate_brokers(p.key, old, remaining)
            # The operator chose the successor, so it comes first, and is accepted even if it means fewer racks.
            successor = successors.get(old)
            if successor in candidates:
                candidates = [successor, *(b for b in candidates if b != successor)]
            preferred = [b for b in candidates if b == successor or loads.keeps_racks(p.key, old, b)]
            is_placed = _place_replica(loads, p.key, old, preferred, remaining, set(), keeps_racks=True)
            if not is_placed:
                is_placed = _place_replica(loads, p.key, old, candidates, remaining, set(), keeps_racks=False)
            if not is_placed:
                raise NoPlacementError(_no_placement_text(p, old, candidates, loads.cordoned))
    return _make_plan(loads)


def _place_replica(
    loads: BrokerLoads,
    key: TopicPartition,
    old: int,
    candidates: list[int],
    remaining: list[int],
    tried: set[int],
    *,
    keeps_racks: bool,
) -> bool:
    """Moves a replica to the first candidate with room. If none has room, redirects an earlier move of the plan to make room.

    This is the augmenting path of Kuhn's algorithm: if a plan within the limits exists, the algorithm finds one.

    Args:
        candidates: possible brokers, the best first.
        tried: full brokers for which no earlier move could be redirected.
        keeps_racks: a redirected move must not leave its partition on fewer racks.

    Returns:
        Whether the replica was moved.
    """
    for new in candidates:
        if loads.has_room(key, new):
            loads.move(key, old, new)
            return True
    for full_broker in candidates:
        if full_broker in tried:
            continue
        tried.add(full_broker)
        for moved_key in _find_moved_to(loads, full_broker):
            alternatives = [
                b
                for b in loads.candidate_brokers(moved_key, full_broker, remaining)
                if not keeps_racks or loads.keeps_racks(moved_key, full_broker, b)
            ]
            if _place_replica(loads, moved_key, full_broker, alternatives, remaining, tried, keeps_racks=keeps_racks):
                loads.move(key, old, full_broker)
                return True
    return False


def _no_placement_text(p: PlacedPartition, old: int, candidates: list[int], cordoned: Collection[int]) -> str:
    why = f"no room on {_join_brokers(candidates)}" if candidates else "every other living broker has one"
    if cordoned:
        why = f"{why if candidates else f'{why} or is cordoned'} (cordoned: {_join_brokers(cordoned)})"
    return f"{p.topic}-{p.partition}: its replica on broker {old} has no possible broker: {why}"


def _find_moved_to(loads: BrokerLoads, broker: int) -> list[TopicPartition]:
    """Returns the partitions that the plan has moved to the broker. Internal topics are left out, because no limit counts them."""
    return [
        key
        for key, replicas in loads.replicas.items()
        if broker in replicas and broker not in loads.partitions[key].replicas and key[0] not in INTERNAL_TOPICS
    ]


# -- shared ----------------------------------------------------------------------------------------------------------------


def _largest_first(partitions: Iterable[PlacedPartition]) -> list[PlacedPartition]:
    return sorted(partitions, key=lambda p: (-p.size_bytes, p.key))


def _make_plan(loads: BrokerLoads) -> GeneratedPlan:
    changed = [p for p in loads.partitions.values() if loads.replicas[p.key] != p.replicas]
    changed.sort(key=lambda p: p.key)
    copied = sum(p.size_bytes * len(set(loads.replicas[p.key]) - set(p.replicas)) for p in changed)
    on_fewer_racks = tuple(p.key for p in changed if not loads.keeps_rack_count(p.key))
    return GeneratedPlan(
        targets=tuple(Target(p.topic, p.partition, loads.replicas[p.key]) for p in changed),
        copied_bytes=copied,
        held_bytes=dict(loads.held_bytes),
        hosted=dict(loads.hosted),
        on_fewer_racks=on_fewer_racks,
    )


def _join_brokers(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
