"""Defines the snapshot of the cluster, which the tuner reads in every cycle, and the inputs of its decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.shared.contract import BrokerSignal, MoveSignal, ReplicationSignal, Side
from streaming.shared.kafka_names import QUOTA_SAMPLES_DEFAULT
from streaming.shared.throttle_settings import TopicThrottle
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.deadline_forecast import DeadlineForecast
from tuner.core.latency_limit import LatencyLimit
from tuner.core.link_limit import LinkLimit
from tuner.core.operator_orders import Orders
from tuner.core.reassignment_plan import PlanThrottle, TopicPartition
from tuner.core.value import value
from tuner.core.vetoes import Veto

# A broker in one role: leader (source of copies) or follower (destination). Each side has its own throttle.
BrokerSide = tuple[int, Side]


def side_name(side: BrokerSide) -> str:
    return f"broker {side[0]} {side[1]} throttle"


@dataclass(frozen=True, slots=True)
class RateSetting:
    """The throttle rate in force on one side of one broker."""

    bytes_per_s: int
    is_set_on_broker: bool = True  # False: inherited from the cluster-wide default or the broker's file.


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """A partition that is being reassigned.

    Attributes:
        leader: −1: the partition has no leader.
        replicas: all replicas, including ``adding`` and ``removing``.
        adding: the replicas that copy the partition: the replicas that the reassignment adds, and ``recovering``.
        recovering: the replicas of ``adding`` that were in sync before. Only the throttle rules add them to a move.
    """

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    isr: tuple[int, ...]
    recovering: tuple[int, ...] = ()

    @property
    def destinations(self) -> tuple[int, ...]:
        return tuple(b for b in self.adding if b != self.leader)


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """One snapshot of the cluster.

    Attributes:
        brokers: brokers that are alive.
        rates: throttle rates in force.
        lists: throttled-replica lists of the topics that have at least one entry.
        unreadable: brokers whose settings could not be read.
        quota_samples: replication.quota.window.num, by broker.
        quota_sample_s: replication.quota.window.size.seconds, by broker, where it is not 1.
        fetchers: num.replica.fetchers, by broker.
        lost_replica_sides: the sides that throttle a lost replica, by the broker that leads the partition. A lost replica fell out
            of the ISR, although its broker is alive, and tries to rejoin. Partitions that are being reassigned are left out.
        recoveries: partitions with replicas that recover, also partitions that are being reassigned; the most urgent first.
        min_in_sync: min.insync.replicas of the topics of ``recoveries``, where it is known.
        recoveries_left_out: number of recovering partitions that are not in ``recoveries``, because there are too many.
        stuck_recoveries: brokers whose replicas are out of sync and do not catch up; these replicas are not in ``recoveries``.
        lacking_bytes: bytes that the recovering replicas of a partition lacked when the tuner found them, where this is known.
        below_minimum_sides: the sides that throttle recovering replicas of partitions below min.insync.replicas. Only the snapshot
            for the throttle rules has them (control/throttle/recovery.py).
    """

    brokers: frozenset[int]
    moves: tuple[PartitionMove, ...] = ()
    rates: Mapping[BrokerSide, RateSetting] = field(default_factory=dict)
    lists: Mapping[str, TopicThrottle] = field(default_factory=dict)
    unreadable: frozenset[int] = frozenset()
    quota_samples: Mapping[int, int] = field(default_factory=dict)
    fetchers: Mapping[int, int] = field(default_factory=dict)
    lost_replica_sides: Mapping[int, frozenset[BrokerSide]] = field(default_factory=dict)
    quota_sample_s: Mapping[int, int] = field(default_factory=dict)
    recoveries: tuple[PartitionMove, ...] = ()
    min_in_sync: Mapping[str, int] = field(default_factory=dict)
    lacking_bytes: Mapping[TopicPartition, int] = field(default_factory=dict)
    recoveries_left_out: int = 0
    stuck_recoveries: frozenset[int] = frozenset()
    below_minimum_sides: frozenset[BrokerSide] = frozenset()

    def quota_window_s(self, broker: int) -> float:
        """Returns the length of the broker's replication quota window, without the sample in progress."""
        return float(self.quota_samples.get(broker, QUOTA_SAMPLES_DEFAULT) * self.quota_sample_s.get(broker, 1))


@dataclass(frozen=True, slots=True)
class ClusterUnreadable:
    """A snapshot that failed. ``reason`` is a sentence for operators."""

    reason: str


@value
class Setpoint:
    """The rate that the control law has computed for one side in its latest run (once a second)."""

    bytes_per_s: float
    no_headroom: bool = False  # Clients leave less bandwidth than steady-state replication takes.
    inputs_stale: bool = False  # The signals behind the setpoint are not measured now.
    latency_limit: LatencyLimit | None = None  # The latency limit of the broker's clients; None: not known.
    link_limit: LinkLimit | None = None  # The rate limit of this direction of the broker; None: not known.


@dataclass(frozen=True, slots=True)
class Observation:
    """All inputs of a decision, apart from the controller's own state.

    Attributes:
        ramping: sides whose rate is being changed in small steps now (a ramp).
        setpoints: the newest setpoints of the sides that the control law steers now.
        broker_signals, move_signals: the newest signals, by broker and by side.
        empty_windows: sides with an empty quota window. Their rate must rise step by step, because at a full rate the bytes of a
            whole window would pass at once. A plan is about to copy through them, or their warm-up is running or was interrupted.
        plan_moves: partitions that plans of rheostat move now or are about to move, each with the throttle of its plan.
        replication_signals: the newest signals of lag, by follower. No decision depends on them, so the journal does not keep them.
        baselines: the baseline of each broker, for display; no throttle decision depends on it.
        vetoes: the external checks that veto now.
        eta_ratios: expected time of the moves ÷ their time at the current rate. Only for sides whose load or limits are forecast to
            change.
        deadline_forecasts: forecasts until the deadline of the objective, by side.
    """

    now_ms: int
    live: LiveCluster | ClusterUnreadable
    broker_signals: Mapping[int, BrokerSignal] = field(default_factory=dict)
    move_signals: Mapping[BrokerSide, MoveSignal] = field(default_factory=dict)
    ramping: frozenset[BrokerSide] = frozenset()
    setpoints: Mapping[BrokerSide, Setpoint] = field(default_factory=dict)
    orders: Orders = field(default_factory=Orders)
    empty_windows: frozenset[BrokerSide] = frozenset()
    plan_moves: Mapping[TopicPartition, PlanThrottle] = field(default_factory=dict)
    replication_signals: Mapping[int, ReplicationSignal] = field(default_factory=dict)
    baselines: Mapping[int, BrokerBaseline] = field(default_factory=dict)
    vetoes: tuple[Veto, ...] = ()
    eta_ratios: Mapping[BrokerSide, float] = field(default_factory=dict)
    deadline_forecasts: Mapping[BrokerSide, DeadlineForecast] = field(default_factory=dict)
