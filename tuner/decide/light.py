"""Which replicas that plans add do without a place on the follower's list, as so little is left to copy onto them.

Intuition: where a step takes a replica away, its end raises the leader's epoch, and every follower fetches anew. Until the first
answer comes its own broker does not know the new replica to be in sync. If it is listed, and the broker's quota is used up, it is
not fetched: it is in the ISR by then, so whoever writes there waits for all replicas until the quota has room, half a second to
a second and a half at nearly every end (measured, tests/integration/test_light.py). The leader's side never does that, as the
leader knows its ISR. So it paces these to their end, and the follower's side counts the others.

Invariant: what is not counted on a broker is together no more than an idle window of its quota would let through at once.

Vocabulary:
    light  of a replica that is being added: not to be on the follower's list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from tuner.model.cluster import LiveCluster
from tuner.model.reassigning import Key
from tuner.plan.slew import WINDOW_S

Light = Mapping[Key, tuple[int, ...]]  # By partition, the brokers onto which it is.


class Lacking(NamedTuple):
    """A replica that is being added, or is about to be."""

    key: Key
    broker: int
    left_bytes: float  # At most.


def light(
    lacking: Iterable[Lacking], rates_bytes_per_s: Mapping[int, float], before: Light
) -> dict[Key, tuple[int, ...]]:
    """
    Args:
        rates_bytes_per_s: of the follower's side, by broker; where none is known nothing is light.
        before: what was, which stays so first: a list is not to be written back and forth.
    """
    room = {broker: WINDOW_S * rate for broker, rate in rates_bytes_per_s.items()}
    found: dict[Key, list[int]] = {}
    for one in sorted(lacking, key=lambda one: (one.broker not in before.get(one.key, ()), one.left_bytes, one)):
        left = room.get(one.broker, 0.0)
        if one.left_bytes <= left:
            room[one.broker] = left - one.left_bytes
            found.setdefault(one.key, []).append(one.broker)
    return {key: tuple(brokers) for key, brokers in found.items()}


def with_light(live: LiveCluster, light: Light) -> LiveCluster:
    """The moves that are, marked."""
    if not light or not any((move.topic, move.partition) in light for move in live.moves):
        return live
    moves = tuple(
        move if (brokers := light.get((move.topic, move.partition))) is None else replace(move, light=brokers)
        for move in live.moves
    )
    return replace(live, moves=moves)
