"""Computes the moves for a purpose: brokers join, are drained or replaced, or a plan names every replica.

Invariant: no partition gets two replicas on one broker. Each partition keeps its number of replicas, unless a plan changes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tuner.simulation.world import PartitionSpec

Partitions = Sequence[PartitionSpec]


class NoSuchMove(ValueError):
    """The move is impossible with these brokers."""


def join(partitions: Partitions, joining: Sequence[int]) -> list[PartitionSpec]:
    """Gives brokers without replicas an even share, taken from the brokers with most; followers move before leaders."""
    held: dict[int, list[int]] = {}
    for i, p in enumerate(partitions):
        for broker in p.replicas:
            held.setdefault(broker, []).append(i)
    if taken := sorted(set(joining) & held.keys()):
        raise NoSuchMove(
            f"expected brokers that hold nothing yet, found {_listed(taken)}, on which topics are laid out"
        )
    replicas = sum(map(len, held.values()))
    share = replicas // (len(held) + len(joining))
    counts = {broker: len(indices) for broker, indices in held.items()}
    for broker, indices in held.items():
        # Replicas are taken from the end of the list.
        indices[:] = [i for *_, i in sorted((partitions[i].replicas[0] != broker, -i, i) for i in indices)]
    moved: dict[int, tuple[int, int]] = {}
    for n in range(share * len(joining)):
        to = joining[n % len(joining)]
        while held:
            donor = max(held, key=lambda b: (counts[b], -b))
            while held[donor] and held[donor][-1] in moved:
                held[donor].pop()
            if held[donor]:
                moved[held[donor].pop()] = (donor, to)
                counts[donor] -= 1
                break
            del held[donor]
    return [_moved(p, {moved[i][0]: moved[i][1]}) if i in moved else p for i, p in enumerate(partitions)]


def drain(partitions: Partitions, leaving: Sequence[int], brokers: Sequence[int]) -> list[PartitionSpec]:
    """Moves all replicas off ``leaving``, each to the remaining broker with fewest replicas."""
    staying = [b for b in brokers if b not in leaving]
    counts = dict.fromkeys(staying, 0)
    for p in partitions:
        for broker in p.replicas:
            if broker in counts:
                counts[broker] += 1
    changed = []
    for p in partitions:
        new_by_old: dict[int, int] = {}
        for gone in (b for b in p.replicas if b in leaving):
            free = [b for b in staying if b not in p.replicas and b not in new_by_old.values()]
            if not free:
                raise NoSuchMove(
                    f"expected a broker that can take {p.topic}-{p.partition} from broker {gone}: it has "
                    f"{len(p.replicas)} replicas, and without {_listed(leaving)} there are only {len(staying)} brokers"
                )
            new_by_old[gone] = min(free, key=lambda b: (counts[b], b))
            counts[new_by_old[gone]] += 1
        changed.append(_moved(p, new_by_old))
    return changed


def replace_brokers(partitions: Partitions, new_of: Mapping[int, int]) -> list[PartitionSpec]:
    """Moves all replicas of each old broker to its new one."""
    changed = []
    for p in partitions:
        new_by_old = {old: new for old, new in new_of.items() if old in p.replicas}
        if both := set(new_by_old.values()) & set(p.replicas):
            raise NoSuchMove(f"expected a broker without a replica of {p.topic}-{p.partition}, found {_listed(both)}")
        changed.append(_moved(p, new_by_old))
    return changed


def apply_plan(partitions: Partitions, target: Mapping[tuple[str, int], tuple[int, ...]]) -> list[PartitionSpec]:
    """Applies the target replicas of a plan; other partitions stay."""
    changed = []
    for p in partitions:
        desired = target.get((p.topic, p.partition), p.replicas)
        adding = tuple(b for b in desired if b not in p.replicas)
        removing = tuple(b for b in p.replicas if b not in desired)
        # A partition that only loses replicas copies nothing, so it counts as done at the start.
        changed.append(
            replace(p, adding=adding, removing=removing)
            if adding
            else replace(p, replicas=tuple(b for b in p.replicas if b in desired))
        )
    return changed


def _moved(p: PartitionSpec, new_of: Mapping[int, int]) -> PartitionSpec:
    return replace(p, adding=tuple(new_of.values()), removing=tuple(new_of))


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
