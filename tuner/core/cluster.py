"""The cluster as it stands now: what moves, and which throttles are set. Read anew every cycle, never remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.shared.contract import BrokerSignal, MoveSignal, Side
from streaming.shared.throttle_settings import TopicThrottle
from tuner.core.operator_orders import Orders
from tuner.core.reassignment_plan import PlanThrottle, TopicPartition

BrokerSide = tuple[int, Side]


def side_name(side: BrokerSide) -> str:
    return f"broker {side[0]} {side[1]} throttle"


@dataclass(frozen=True, slots=True)
class RateSetting:
    """A throttle rate in force on one side of one broker."""

    bytes_per_s: int
    is_own: bool = True  # Set on this broker; False when it comes from <default> or the broker's file.


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """A partition being reassigned."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def destinations(self) -> tuple[int, ...]:
        return tuple(b for b in self.adding if b != self.leader)


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """One look at the cluster."""

    brokers: frozenset[int]
    moves: tuple[PartitionMove, ...] = ()
    rates: Mapping[BrokerSide, RateSetting] = field(default_factory=dict)
    lists: Mapping[str, TopicThrottle] = field(default_factory=dict)  # Topics with at least one entry.
    unreadable: frozenset[int] = frozenset()  # Brokers whose settings could not be read.
    quota_samples: Mapping[int, int] = field(default_factory=dict)  # replication.quota.window.num, by broker.
    fetchers: Mapping[int, int] = field(default_factory=dict)  # num.replica.fetchers, by broker.
    # Of what does not move: by leader, the sides whose lists hold back a living replica of it that is not in sync.
    lost_replica_sides: Mapping[int, frozenset[BrokerSide]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterUnreadable:
    """A look that failed; ``reason`` is for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Setpoint:
    """What the law means one throttle to do, after its last second."""

    bytes_per_s: float
    no_headroom: bool = False  # Its clients leave less than what keeping up takes.
    inputs_stale: bool = False  # What it depends on is not measured now.


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything a decision may depend on, besides what is remembered."""

    now_ms: int
    live: LiveCluster | ClusterUnreadable
    brokers: Mapping[int, BrokerSignal] = field(default_factory=dict)
    moves: Mapping[BrokerSide, MoveSignal] = field(default_factory=dict)
    ramping: frozenset[BrokerSide] = frozenset()  # A change of rate is under way there.
    setpoints: Mapping[BrokerSide, Setpoint] = field(default_factory=dict)  # Of what the law steers now.
    orders: Orders = field(default_factory=Orders)
    # Their quota's window is empty, and a step of ours is about to begin there; or it is being filled, or that was cut short.
    empty_windows: frozenset[BrokerSide] = frozenset()
    # Partitions that plans of rheostat move now, or are about to, with the throttle that each plan was given.
    plan_moves: Mapping[TopicPartition, PlanThrottle] = field(default_factory=dict)
