"""Computes KIP-73's own formulas: its rule of thumb for the time of a move, and its rule for the size of fetch responses.

    MoveRatio = #partitions-to-be-moved ÷ #total-partition-count
    MoveTime  = MoveRatio × TotalLogSizePerBroker × #Brokers ÷ (replication-quota − max(BytesInPerSec))

The rule of thumb needs no data about single partitions, but makes three approximations (core/side_load.py makes none of them):

1. The share of bytes to move equals the share of partitions to move.
2. The whole cluster is one side with one throttle.
3. Steady-state replication uses as much as producers write to the busiest broker.

The response rule (KIP-73, question 5): the leaders must be able to send the first responses to all followers within one quota
window. Otherwise the first burst alone exceeds the quota:

    #brokers × replica.fetch.response.max.bytes ÷ min(QuotaLeader × #brokers, NetworkSpeed) < total-window-size

Terms:
    log bytes per broker  mean of the bytes that brokers hold; × #brokers gives the bytes of all replicas.
    bytes in              bytes/s that producers write to the partitions a broker leads (BytesInPerSec).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tuner.core.drain_time import SideLoad

RESPONSE_BYTES_MAX = 10 * 1024 * 1024  # replica.fetch.response.max.bytes at its default.


@dataclass(frozen=True, slots=True)
class Kip73Figures:
    """The four inputs of the formula; ``move_ratio`` is from 0 to 1."""

    move_ratio: float
    log_bytes_per_broker: float
    brokers: int
    bytes_in_per_s_max: float

    @property
    def bytes_to_move(self) -> float:
        return self.move_ratio * self.log_bytes_per_broker * self.brokers

    def load(self) -> SideLoad:
        """Returns the whole cluster as one side."""
        return SideLoad(self.bytes_to_move, self.bytes_in_per_s_max)


def kip73_figures(
    partitions_to_move: int, partitions: int, log_bytes: Iterable[float], bytes_in_per_s: Iterable[float]
) -> Kip73Figures:
    """Returns the inputs of the formula.

    Args:
        partitions: number of partitions in the cluster, including ``partitions_to_move``; at least one.
        log_bytes: bytes that each broker holds, with 0 for empty brokers; at least one broker.
        bytes_in_per_s: bytes/s that producers write to each broker that leads partitions.
    """
    held = list(log_bytes)
    return Kip73Figures(
        move_ratio=partitions_to_move / partitions,
        log_bytes_per_broker=sum(held) / len(held),
        brokers=len(held),
        bytes_in_per_s_max=max(bytes_in_per_s, default=0.0),
    )


@dataclass(frozen=True, slots=True)
class ResponseRule:
    """The response rule for one cluster.

    Attributes:
        brokers: number of brokers.
        response_bytes_max: replica.fetch.response.max.bytes.
        window_s: length of the quota window.
        network_bytes_per_s: speed of the network; None: the network is never the limit.
    """

    brokers: int
    response_bytes_max: float
    window_s: float
    network_bytes_per_s: float | None = None

    def first_responses_s(self, rate_bytes_per_s: float) -> float:
        """Returns the seconds that the first responses to all followers take. The rule holds below ``window_s``."""
        return self.brokers * self.response_bytes_max / self._speed_bytes_per_s(rate_bytes_per_s)

    def holds(self, rate_bytes_per_s: float) -> bool:
        return self.first_responses_s(rate_bytes_per_s) < self.window_s

    def response_bytes_bound(self, rate_bytes_per_s: float) -> float:
        """Returns the number of bytes below which replica.fetch.response.max.bytes must stay at this rate."""
        return self.window_s * self._speed_bytes_per_s(rate_bytes_per_s) / self.brokers

    def rate_bytes_per_s_min(self) -> int | None:
        """Returns the smallest whole rate at which the rule holds; None: the network is too slow at any rate."""
        if self.network_bytes_per_s is not None:
            at_network_s = self.brokers * self.response_bytes_max / self.network_bytes_per_s
            if at_network_s >= self.window_s:
                return None
        return math.floor(self.response_bytes_max / self.window_s) + 1

    def _speed_bytes_per_s(self, rate_bytes_per_s: float) -> float:
        leaders = rate_bytes_per_s * self.brokers
        return leaders if self.network_bytes_per_s is None else min(leaders, self.network_bytes_per_s)
