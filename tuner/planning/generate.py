"""Plans for the four moves that operators make: bring a broker in, take one out, put one in another's place, even out.

Intuition: a move costs what it copies. What has to leave a broker is copied once and nothing else is; where brokers are evened
out, bytes go straight from who has too much to who has too little, never twice, and stop within a tolerance of the mean,
as the last bytes to perfect evenness help nobody. Largest partitions go first: small ones fill the gaps that they leave.

Invariant: a partition keeps its number of replicas, and its leader's place in the list; no broker gets above its limit; a
partition is on fewer racks than before only where what leaves a broker found no other place, and is then named.

Not a goal optimiser: leaders, rates and topics are not evened out, only bytes (or, where there are none, replicas).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tuner.core.partition_limits import INTERNAL_TOPICS
from tuner.planning.broker_load import BrokerLoads, Placed
from tuner.planning.plan_file import Target, TopicPartition
from tuner.planning.rebalance import even_out

TOLERANCE = 0.1


class NoPlace(ValueError):
    """A replica has nowhere to go; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class GeneratedPlan:
    targets: tuple[Target, ...]  # Only partitions that change.
    copied_bytes: float
    held_bytes: Mapping[int, float]  # By broker, once it is done.
    hosted: Mapping[int, int]
    together: tuple[TopicPartition, ...]  # Of those, partitions on fewer racks than before.


def drained(ground: BrokerLoads, brokers: Collection[int]) -> GeneratedPlan:
    """Nothing stays on these brokers; it goes to all others.

    Raises:
        NoPlace: within the limits there is no room for all of it.
    """
    return _cleared(ground, brokers, [b for b in ground.alive if b not in brokers], {})


def replaced(ground: BrokerLoads, pairs: Mapping[int, int]) -> GeneratedPlan:
    """Each broker's replicas go to the one that takes its place; of a partition that is there already, to another.

    Args:
        pairs: old → new; nobody is both.

    Raises:
        NoPlace: within the limits there is no room for all of it.
    """
    assert pairs.keys().isdisjoint(pairs.values())
    return _cleared(ground, pairs.keys(), [b for b in ground.alive if b not in pairs], pairs)


def extended(ground: BrokerLoads, brokers: Collection[int], tolerance: float = TOLERANCE) -> GeneratedPlan:
    """These brokers get their share of all bytes, from those that hold more than theirs."""
    even_out(ground, [b for b in ground.alive if b not in brokers], list(brokers), tolerance, both=False)
    return _plan(ground)


def rebalanced(ground: BrokerLoads, tolerance: float = TOLERANCE) -> GeneratedPlan:
    """Every broker gets within ``tolerance`` of the mean of all, as near as whole partitions allow."""
    even_out(ground, ground.alive, ground.alive, tolerance, both=True)
    return _plan(ground)


# -- taking out ------------------------------------------------------------------------------------------------------------


def _cleared(
    ground: BrokerLoads, leaving: Collection[int], among: list[int], heirs: Mapping[int, int]
) -> GeneratedPlan:
    for p in _largest_first(ground.partitions.values()):
        for old in p.replicas:
            if old not in leaving:
                continue
            # A stable sort: whoever takes the broker's place comes before all others.
            choices = sorted(ground.choices(p.key, old, among), key=lambda b: b != heirs.get(old))
            apart = [b for b in choices if b == heirs.get(old) or ground.keeps_racks(p.key, old, b)]
            if not (
                _settled(ground, p.key, old, apart, among, set(), racks=True)
                or _settled(ground, p.key, old, choices, among, set(), racks=False)
            ):
                raise NoPlace(_nowhere(p, old, choices))
    return _plan(ground)


def _settled(
    ground: BrokerLoads,
    key: TopicPartition,
    old: int,
    choices: list[int],
    among: list[int],
    asked: set[int],
    *,
    racks: bool,
) -> bool:
    """Moves the replica to the first that has room; where none has, one that has moved there before makes some.

    Kuhn's augmenting path: a plan that is begun never stands in the way of one that could be finished.

    Args:
        choices: where it may go, the best first.
        asked: brokers that can't make room.
        racks: what makes room may not bring its partition to fewer racks.
    """
    for new in choices:
        if ground.has_room(key, new):
            ground.move(key, old, new)
            return True
    for full in choices:
        if full in asked:
            continue
        asked.add(full)
        for other in _came_to(ground, full):
            away = [b for b in ground.choices(other, full, among) if not racks or ground.keeps_racks(other, full, b)]
            if _settled(ground, other, full, away, among, asked, racks=racks):
                ground.move(key, old, full)
                return True
    return False


def _nowhere(p: Placed, old: int, choices: list[int]) -> str:
    why = f"no room on {_listed(choices)}" if choices else "every other broker that is alive has one"
    return f"{p.topic}-{p.partition}: its replica on broker {old} can go nowhere: {why}"


def _came_to(ground: BrokerLoads, broker: int) -> list[TopicPartition]:
    """Partitions that the plan has brought there, and that take room."""
    return [
        key
        for key, replicas in ground.replicas.items()
        if broker in replicas and broker not in ground.partitions[key].replicas and key[0] not in INTERNAL_TOPICS
    ]


# -- both ------------------------------------------------------------------------------------------------------------------


def _largest_first(partitions: Iterable[Placed]) -> list[Placed]:
    return sorted(partitions, key=lambda p: (-p.size_bytes, p.key))


def _plan(ground: BrokerLoads) -> GeneratedPlan:
    changed = [p for p in ground.partitions.values() if ground.replicas[p.key] != p.replicas]
    changed.sort(key=lambda p: p.key)
    copied = sum(p.size_bytes * len(set(ground.replicas[p.key]) - set(p.replicas)) for p in changed)
    together = tuple(p.key for p in changed if not ground.still_apart(p.key))
    return GeneratedPlan(
        tuple(Target(p.topic, p.partition, ground.replicas[p.key]) for p in changed),
        copied,
        dict(ground.held_bytes),
        dict(ground.hosted),
        together,
    )


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
