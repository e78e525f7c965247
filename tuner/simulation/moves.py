"""Computes the moves of a simulation: brokers join, brokers are drained or replaced, or a plan sets the replicas of its partitions.

Invariant: no partition gets two replicas on one broker. Each partition keeps its number of replicas, unless a plan changes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tuner.simulation.world import PartitionSpec

Partitions = Sequence[PartitionSpec]


class NoSuchMove(ValueError):
    """The move is impossible with these brokers."""


def join(partitions: Partitions, joining: Sequence[int]) -> list[PartitionSpec]:
    """Gives each joining broker an even share of the replicas.

    The replicas are taken from the brokers with the most replicas; followers move before leaders. A partition moves at most once.
    """
    partitions_on: dict[int, list[int]] = {}  # Indexes of partitions, by broker.
    for i, p in enumerate(partitions):
        for broker in p.replicas:
            partitions_on.setdefault(broker, []).append(i)
    if occupied := sorted(set(joining) & partitions_on.keys()):
        raise NoSuchMove(
            f"expected brokers that hold nothing yet, found {_listed(occupied)}: they already have replicas of topics"
        )
    counts = {broker: len(indices) for broker, indices in partitions_on.items()}
    share = sum(counts.values()) // (len(counts) + len(joining))
    candidates: dict[int, deque[int]] = {}  # By donor: the partitions that it may still give away, in this order.
    for broker, indices in partitions_on.items():
        followed = [i for i in indices if partitions[i].replicas[0] != broker]
        led = [i for i in indices if partitions[i].replicas[0] == broker]
        candidates[broker] = deque(followed + led)
    moves: dict[int, dict[int, int]] = {}  # By index of the partition: {donor: joining broker}.
    while candidates and len(moves) < share * len(joining):
        donor = max(sorted(candidates), key=counts.__getitem__)  # Of equal counts, the broker with the lowest id.
        while candidates[donor] and candidates[donor][0] in moves:
            candidates[donor].popleft()
        if not candidates[donor]:
            del candidates[donor]  # All its partitions already move.
            continue
        new_broker = joining[len(moves) % len(joining)]
        moves[candidates[donor].popleft()] = {donor: new_broker}
        counts[donor] -= 1
    return [_with_move(p, moves[i]) if i in moves else p for i, p in enumerate(partitions)]


def drain(partitions: Partitions, leaving: Sequence[int], brokers: Sequence[int]) -> list[PartitionSpec]:
    """Moves all replicas from ``leaving`` to other brokers, each replica to the broker that then has the fewest replicas."""
    staying = [b for b in brokers if b not in leaving]
    counts = dict.fromkeys(staying, 0)
    for p in partitions:
        for broker in p.replicas:
            if broker in counts:
                counts[broker] += 1
    changed = []
    for p in partitions:
        new_by_old: dict[int, int] = {}
        for old in (b for b in p.replicas if b in leaving):
            free = [b for b in staying if b not in p.replicas and b not in new_by_old.values()]
            if not free:
                raise NoSuchMove(
                    f"expected a broker that can take {p.topic}-{p.partition} from broker {old}: the partition has "
                    f"{len(p.replicas)} replicas, and without {_listed(leaving)} there are only {len(staying)} brokers"
                )
            new_by_old[old] = min(free, key=lambda b: (counts[b], b))
            counts[new_by_old[old]] += 1
        changed.append(_with_move(p, new_by_old))
    return changed


def replace_brokers(partitions: Partitions, replacements: Mapping[int, int]) -> list[PartitionSpec]:
    """Moves all replicas of each old broker to the new broker that replaces it (``replacements``: old → new)."""
    changed = []
    for p in partitions:
        new_by_old = {old: new for old, new in replacements.items() if old in p.replicas}
        if conflicts := set(new_by_old.values()) & set(p.replicas):
            raise NoSuchMove(
                f"expected a broker without a replica of {p.topic}-{p.partition}, found {_listed(conflicts)}"
            )
        changed.append(_with_move(p, new_by_old))
    return changed


def apply_plan(partitions: Partitions, target: Mapping[tuple[str, int], tuple[int, ...]]) -> list[PartitionSpec]:
    """Moves each partition of ``target`` to its target replicas. Other partitions stay."""
    changed = []
    for p in partitions:
        desired = target.get((p.topic, p.partition), p.replicas)
        adding = tuple(b for b in desired if b not in p.replicas)
        removing = tuple(b for b in p.replicas if b not in desired)
        if adding:
            changed.append(replace(p, adding=adding, removing=removing))
        else:
            # A partition that only loses replicas copies nothing. So the simulation starts without these replicas.
            changed.append(replace(p, replicas=tuple(b for b in p.replicas if b in desired)))
    return changed


def _with_move(p: PartitionSpec, new_by_old: Mapping[int, int]) -> PartitionSpec:
    """Returns the partition with a move that replaces each old broker by the new one."""
    return replace(p, adding=tuple(new_by_old.values()), removing=tuple(new_by_old))


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
