"""Which replicas outside the ISR count as recovering, and which as absent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from rheostat.throttles.cluster_settings import read_throttle_settings
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import Endpoint, PartitionState
from tuner.control.throttle.audit import AbsentReplicas, LostReplicas


class Cluster:
    """Brokers 1 and 2 are alive. No throttle is set."""

    def __init__(self, state: PartitionState, *, moves: bool = False) -> None:
        self._state, self._moves = state, moves

    def brokers(self) -> list[Endpoint]:
        return [Endpoint(1, "a", 1), Endpoint(2, "b", 1)]

    def partitions(self) -> list[PartitionState]:
        return [self._state]

    def reassignments(self) -> list[Any]:
        return [self._state] if self._moves else []

    def broker_configs(self, brokers: Iterable[int], _: Iterable[str]) -> dict[int, Any]:
        return {broker: {} for broker in brokers}

    def default_config(self, _: str) -> None:
        return None

    def topic_configs(self, *_: Any) -> dict[str, Any]:
        return {}


def uses(state: PartitionState, *, moves: bool = False) -> tuple[Any, Any]:
    settings = read_throttle_settings(cast("ClusterClient", Cluster(state, moves=moves)))
    return settings.lost, settings.absent


@pytest.mark.parametrize(
    ("isr", "offline", "lost", "absent"),
    [
        ((1, 2, 3), (), (), ()),
        ((1, 3), (), (2,), ()),
        ((1, 2), (3,), (), (3,)),
        ((1, 2), (), (), (3,)),  # The brokers may learn later than the list of brokers that a replica is offline.
        ((1, 3), (2,), (), (2,)),  # Broker 2 is alive, and its disk has failed.
        ((1,), (3,), (2,), (3,)),
    ],
)
def test_replica_outside_isr_is_lost_or_absent(
    isr: tuple[int, ...], offline: tuple[int, ...], lost: tuple[int, ...], absent: tuple[int, ...]
) -> None:
    state = PartitionState("logs", 0, leader=1, replicas=(1, 2, 3), isr=isr, offline=offline)
    expected_lost = (LostReplicas("logs", 0, 1, lost),) if lost else ()
    expected_absent = (AbsentReplicas("logs", 0, (1, 2, 3), absent),) if absent else ()
    assert uses(state) == (expected_lost, expected_absent)


def test_replicas_of_a_moving_partition_count_for_the_move() -> None:
    state = PartitionState("logs", 0, leader=1, replicas=(1, 2, 3), isr=(1,), offline=(3,), adding=(2,))
    assert uses(state, moves=True) == ((), ())
