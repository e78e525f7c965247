"""The inputs of the judge of replication lag."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from streaming.shared.contract import BrokerSignal, ReplicationSignal
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.fetcher_load import FetchedPartition


@dataclass(frozen=True, slots=True)
class LagView:
    """The inputs of one evaluation.

    Attributes:
        layout: reads all partitions with their leaders and replicas. It is called at most once, and only if a rule needs it. It
            returns None if they cannot be read.
        managed: throttles that rheostat has set itself.
        capacity_bytes_per_s: returns the network capacity of a broker, in and out; None: it is not known.
    """

    now_ms: int
    signals: Mapping[int, ReplicationSignal]
    brokers: Mapping[int, BrokerSignal]
    live: LiveCluster
    layout: Callable[[], Sequence[FetchedPartition] | None] = lambda: None
    managed: frozenset[BrokerSide] = frozenset()
    capacity_bytes_per_s: Callable[[int], tuple[float, float] | None] = lambda _: None
