"""KIP-73's own figures: its rule of thumb for the time of a move, and its rule for the size of fetch responses.

    MoveRatio = #partitions-to-be-moved ÷ #total-partition-count
    MoveTime  = MoveRatio × TotalLogSizePerBroker × #Brokers ÷ (replication-quota − max(BytesInPerSec))

Intuition: the share of all partitions that moves is taken for the share of all bytes, everything is thought to pass one
throttle, and what keeping up takes of it is what clients write to the busiest broker. Each of the three errs: side_loads.py
counts instead. It needs no look at single partitions, which is what the rule of thumb is for.

The response rule (KIP-73, question 5): the first response to every follower should pass within the quota's window, else the
first burst alone breaks the quota:

    #brokers × replica.fetch.response.max.bytes ÷ min(QuotaLeader × #brokers, NetworkSpeed) < total-window-size

Vocabulary:
    log bytes per broker   mean over the brokers of what their replicas hold; × #brokers it is all replicas' bytes.
    bytes in               what producers write to the partitions a broker leads, bytes/s: BytesInPerSec.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tuner.core.drain_time import SideLoad

RESPONSE_BYTES_MAX = 10 * 1024 * 1024  # replica.fetch.response.max.bytes at its default.


@dataclass(frozen=True, slots=True)
class Kip73:
    """The four figures of the formula."""

    move_ratio: float  # 0 to 1.
    log_bytes_per_broker: float
    brokers: int
    bytes_in_per_s_max: float

    @property
    def bytes_to_move(self) -> float:
        return self.move_ratio * self.log_bytes_per_broker * self.brokers

    def load(self) -> SideLoad:
        """The whole cluster as one side."""
        return SideLoad(self.bytes_to_move, self.bytes_in_per_s_max)


def kip73_of(
    partitions_to_move: int, partitions: int, log_bytes: Iterable[float], bytes_in_per_s: Iterable[float]
) -> Kip73:
    """
    Args:
        partitions: of the cluster, those to move included; at least one.
        log_bytes: of every broker, also those that hold nothing; at least one.
        bytes_in_per_s: of every broker that leads something.
    """
    held = list(log_bytes)
    return Kip73(partitions_to_move / partitions, sum(held) / len(held), len(held), max(bytes_in_per_s, default=0.0))


@dataclass(frozen=True, slots=True)
class ResponseRule:
    """KIP-73's question 5 for one cluster; ``network_bytes_per_s`` None: never what binds."""

    brokers: int
    response_bytes_max: float
    window_s: float
    network_bytes_per_s: float | None = None

    def first_responses_s(self, rate_bytes_per_s: float) -> float:
        """How long the first response to every follower takes; the rule is: less than the window."""
        return self.brokers * self.response_bytes_max / self._speed_bytes_per_s(rate_bytes_per_s)

    def holds(self, rate_bytes_per_s: float) -> bool:
        return self.first_responses_s(rate_bytes_per_s) < self.window_s

    def response_bytes_bound(self, rate_bytes_per_s: float) -> float:
        """What replica.fetch.response.max.bytes has to stay below at this rate."""
        return self.window_s * self._speed_bytes_per_s(rate_bytes_per_s) / self.brokers

    def rate_bytes_per_s_min(self) -> int | None:
        """The smallest whole rate at which the rule holds; None: the network is too slow for it at any rate."""
        if self.network_bytes_per_s is not None:
            at_network_s = self.brokers * self.response_bytes_max / self.network_bytes_per_s
            if at_network_s >= self.window_s:
                return None
        return math.floor(self.response_bytes_max / self.window_s) + 1

    def _speed_bytes_per_s(self, rate_bytes_per_s: float) -> float:
        leaders = rate_bytes_per_s * self.brokers
        return leaders if self.network_bytes_per_s is None else min(leaders, self.network_bytes_per_s)
