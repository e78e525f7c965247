"""Defines the state that the mutation quota controller keeps from cycle to cycle: an immutable value that the journal stores.

Rates are partitions/s. Times are Unix milliseconds; 0 means never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.control.mutation_quota.entity import QuotaEntity, Tenant


@dataclass(frozen=True, slots=True)
class LearnedCost:
    """The time that mutations occupy the controller's single thread (cost_model.py).

    Attributes:
        topic_ms: time for one topic, without its partitions.
        partition_ms: time for one partition.
        partitions_per_topic: average number of partitions of the topics that are created or deleted.
        other_busy_ratio: share of the thread's time for all other work.
        steps: number of windows from which the costs were learned.
    """

    topic_ms: float
    partition_ms: float
    partitions_per_topic: float = 1.0
    other_busy_ratio: float = 0.0
    steps: int = 0

    @property
    def partition_total_ms(self) -> float:
        """Time for one partition in ms, including its part of the cost of its topic."""
        return self.partition_ms + self.topic_ms / self.partitions_per_topic


@dataclass(frozen=True, slots=True)
class TotalRate:
    """The rate for all tenants together.

    Attributes:
        changed_at_ms: the last change, raise or cut.
        cut_at_ms: the last cut.
        known_limit_per_s: the rate that the cluster sustained when it last exceeded the objective; None: it never did.
        known_limit_at_ms: when ``known_limit_per_s`` was set.
    """

    rate_per_s: float
    changed_at_ms: int = 0
    cut_at_ms: int = 0
    known_limit_per_s: float | None = None
    known_limit_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class TenantState:
    """The known state of one tenant.

    Attributes:
        rate_per_s: its measured rate, which falls slowly after the tenant stops.
        backlogged: its quota limits it, so its demand is unknown.
        active_at_ms: its last activity, or the time at which it became known.
        sampled_at_ms: time of its newest signal; 0: none yet.
        written_at_ms: the last write of its quota.
        previous_write_at_ms: the last but one write of its quota.
    """

    rate_per_s: float = 0.0
    backlogged: bool = False
    active_at_ms: int = 0
    sampled_at_ms: int = 0
    written_at_ms: int = 0
    previous_write_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class OwnedQuota:
    """A quota that rheostat has written and manages.

    Attributes:
        before_per_s: the quota before rheostat's first write, restored on release; None: there was none.
        setpoint_per_s: the last rate written.
        possible_per_s: all values that Kafka may show, because a write may be in progress or take effect late.
    """

    before_per_s: float | None
    setpoint_per_s: float
    possible_per_s: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class UnconfirmedChange:
    """A quota that differs from what rheostat expects: another tool has set it, or the broker that answered lags behind."""

    found_per_s: float | None
    since_ms: int


@dataclass(frozen=True, slots=True)
class ProbeTrend:
    """How the creation probe latency fluctuates (probe_margin.py).

    Attributes:
        ratio: latency ÷ objective; None: not configured or not measured.
        since_ms: start of the present unbroken series of measurements.
        spread: relative standard deviation of the ratio while the total is constant; None: not measured yet.
        learned_s: time over which the spread was measured.
        near_cut_at_ms: when the total was last cut because latency or forwarding came near its objective.
    """

    ratio: float | None = None
    since_ms: int = 0
    spread: float | None = None
    learned_s: float = 0.0
    near_cut_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class ControllerWindow:
    """The newest window of the active controller. The next window is compared with it.

    Attributes:
        idle_ratio: smoothed AvgIdleRatio.
        no_headroom_at_ms: when probe latency or forwarding last prevented a raise of the total.
        active_since_ms: when this node took over from another controller; 0: it has been active since the tuner's start.
    """

    node: int
    sampled_at_ms: int
    topics: float | None = None
    partitions: float | None = None
    idle_ratio: float | None = None
    pressure: float | None = None
    apply_lag_ms: float | None = None
    no_headroom_at_ms: int = 0
    active_since_ms: int = 0
    probe: ProbeTrend | None = None


@dataclass(frozen=True, slots=True)
class MutationMemory:
    """The state that the mutation quota controller keeps from cycle to cycle.

    Attributes:
        owned: managed quotas.
        unconfirmed: quotas that differ from the expected value, but perhaps only because a broker lags behind.
        externally_owned_until_ms: quotas that another tool has set, each with the time until which they are left alone.
        idle_baselines_ms: latency of each measure (``Measure``) while the controller is idle.
        orders_at_ms: time of the newest operator orders that were acknowledged.
        unowned_per_s: quotas in the last snapshot that rheostat does not own.
        quotas_were_read: whether an earlier cycle has read the quotas. Before that, all quotas count as existing, none as new.
    """

    total: TotalRate | None = None
    cost: LearnedCost | None = None
    window: ControllerWindow | None = None
    tenants: Mapping[Tenant, TenantState] = field(default_factory=dict)
    owned: Mapping[QuotaEntity, OwnedQuota] = field(default_factory=dict)
    unconfirmed: Mapping[QuotaEntity, UnconfirmedChange] = field(default_factory=dict)
    externally_owned_until_ms: Mapping[QuotaEntity, int] = field(default_factory=dict)
    idle_baselines_ms: Mapping[str, float] = field(default_factory=dict)
    last_step_at_ms: int = 0
    orders_at_ms: int = 0
    default_written_at_ms: int = 0
    unowned_per_s: Mapping[QuotaEntity, float] = field(default_factory=dict)
    quotas_were_read: bool = False
