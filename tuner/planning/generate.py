"""Generates plans for four tasks: drain brokers, replace brokers, extend the cluster to new brokers, rebalance.

Copying bytes is the cost of a plan. A drain copies exactly what has to leave. A rebalance moves bytes once, straight from a broker
with too much to one with too little, and stops within a tolerance of the mean. Large partitions go first; small ones fill gaps.

Invariants: a partition keeps its number of replicas, and each replica its position in the list. No broker exceeds its partition
limit. A partition ends on fewer racks only if its replica must leave a broker and no broker keeps the racks, or if
the operator chose the successor; ``GeneratedPlan.on_fewer_racks`` lists it.

Not included: leaders, rates and topics are not balanced, only bytes (or replicas, if there are no bytes).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tuner.core.partition_limits import INTERNAL_TOPICS
from tuner.core.reassignment_plan import TopicPartition
from tuner.planning.broker_load import BrokerLoads, PlacedPartition
from tuner.planning.plan_file import Target
from tuner.planning.rebalance import even_out

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
        NoPlacementError: within the limits there is no room for all of it.
    """
    return _empty_brokers(loads, brokers, [b for b in loads.alive if b not in brokers], {})


def replace_brokers(loads: BrokerLoads, pairs: Mapping[int, int]) -> GeneratedPlan:
    """Returns a plan that moves each broker's replicas to its successor; if that hosts the partition already, to another.

    Args:
        pairs: old → new broker; no broker is both.

    Raises:
        NoPlacementError: within the limits there is no room for all of it.
    """
    assert pairs.keys().isdisjoint(pairs.values())
    return _empty_brokers(loads, pairs.keys(), [b for b in loads.alive if b not in pairs], pairs)


def extend_to_brokers(loads: BrokerLoads, brokers: Collection[int], tolerance: float = TOLERANCE) -> GeneratedPlan:
    """Returns a plan that gives ``brokers`` their share of all bytes, taken from brokers that hold more than theirs."""
    even_out(loads, [b for b in loads.alive if b not in brokers], list(brokers), tolerance, level_givers=False)
    return _make_plan(loads)


def rebalance(loads: BrokerLoads, tolerance: float = TOLERANCE) -> GeneratedPlan:
    """Returns a plan that brings every broker within ``tolerance`` of the mean, as far as whole partitions allow."""
    even_out(loads, loads.alive, loads.alive, tolerance, level_givers=True)
    return _make_plan(loads)


# -- draining and replacing ----------------------------------------------------------------------------------------------


def _empty_brokers(
    loads: BrokerLoads, leaving: Collection[int], remaining: list[int], successors: Mapping[int, int]
) -> GeneratedPlan:
    for p in _largest_first(loads.partitions.values()):
        for old in p.replicas:
            if old not in leaving:
                continue
            # A stable sort: the successor, which the operator chose, comes first, and is accepted even on fewer racks.
            choices = sorted(loads.choices(p.key, old, remaining), key=lambda b: b != successors.get(old))
            preferred = [b for b in choices if b == successors.get(old) or loads.keeps_racks(p.key, old, b)]
            if not (
                _place_replica(loads, p.key, old, preferred, remaining, set(), racks=True)
                or _place_replica(loads, p.key, old, choices, remaining, set(), racks=False)
            ):
                raise NoPlacementError(_no_placement_text(p, old, choices))
    return _make_plan(loads)


def _place_replica(
    loads: BrokerLoads,
    key: TopicPartition,
    old: int,
    choices: list[int],
    remaining: list[int],
    tried: set[int],
    *,
    racks: bool,
) -> bool:
    """Moves a replica to the first broker with room. If none has room, an earlier move of the plan is changed to make some.

    This is Kuhn's augmenting path: earlier moves never prevent a plan that exists.

    Args:
        choices: possible brokers, the best first.
        tried: brokers that turned out to have no room.
        racks: a changed move must not bring its partition to fewer racks.

    Returns:
        Whether the replica was moved.
    """
    for new in choices:
        if loads.has_room(key, new):
            loads.move(key, old, new)
            return True
    for full in choices:
        if full in tried:
            continue
        tried.add(full)
        for other in _find_moved_to(loads, full):
            away = [b for b in loads.choices(other, full, remaining) if not racks or loads.keeps_racks(other, full, b)]
            if _place_replica(loads, other, full, away, remaining, tried, racks=racks):
                loads.move(key, old, full)
                return True
    return False


def _no_placement_text(p: PlacedPartition, old: int, choices: list[int]) -> str:
    why = f"no room on {_listed(choices)}" if choices else "every other living broker has one"
    return f"{p.topic}-{p.partition}: its replica on broker {old} has no possible broker: {why}"


def _find_moved_to(loads: BrokerLoads, broker: int) -> list[TopicPartition]:
    """Returns the partitions that the plan has moved to the broker and that count against its limit."""
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
    on_fewer_racks = tuple(p.key for p in changed if not loads.is_spread_kept(p.key))
    return GeneratedPlan(
        tuple(Target(p.topic, p.partition, loads.replicas[p.key]) for p in changed),
        copied,
        dict(loads.held_bytes),
        dict(loads.hosted),
        on_fewer_racks,
    )


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
