"""Holds what the mutation quota controller remembers from cycle to cycle: an immutable value that the journal stores.

Rates are partitions/s. Times are Unix milliseconds; 0 means never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.control.mutation_quota.entity import QuotaEntity, Tenant


@dataclass(frozen=True, slots=True)
class LearnedCost:
    """The time that one mutation occupies the controller's single thread (cost_model.py).

    Attributes:
        other_busy_ratio: share of the thread's time for all other work.
        steps: number of windows that the costs were learned from.
    """

    topic_ms: float
    partition_ms: float
    partitions_per_topic: float = 1.0
    other_busy_ratio: float = 0.0
    steps: int = 0

    @property
    def partition_total_ms(self) -> float:
        """Returns the time for one partition, with its part of the cost of its topic, in ms."""
        return self.partition_ms + self.topic_ms / self.partitions_per_topic


@dataclass(frozen=True, slots=True)
class TotalRate:
    """The rate for all tenants together.

    Attributes:
        changed_at_ms: the last change, raise or cut.
        cut_at_ms: the last cut.
        known_limit_per_s: the rate that the cluster sustained when it last missed the objective; None: it never missed it.
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
        rate_per_s: its measured rate, which decays slowly after the tenant stops.
        backlogged: its quota limits it, so its demand is unknown.
        active_at_ms: its last activity, or the time it became known.
        sampled_at_ms: time of its newest signal; 0: none yet.
        written_at_ms: the last write of its quota; ``previous_write_at_ms`` is the write before that.
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
        before_per_s: the quota before rheostat wrote one; None: there was none. It is restored on release.
        setpoint_per_s: the last rate written.
        possible_per_s: every value that Kafka may show, given writes in progress and late writes.
    """

    before_per_s: float | None
    setpoint_per_s: float
    possible_per_s: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class UnconfirmedChange:
    """A quota that differs from what rheostat expects: another tool has set it, or the broker that was asked lags behind."""

    found_per_s: float | None
    since_ms: int


@dataclass(frozen=True, slots=True)
class ProbeTrend:
    """How the creation probe latency fluctuates (probe_margin.py).

    Attributes:
        ratio: latency ÷ objective; None: not configured or not measured.
        since_ms: start of the present unbroken series of measurements.
        spread: relative standard deviation while the total is constant; None: not measured yet.
        learned_s: total time over which the spread was measured.
        near_cut_at_ms: when the total was last cut because latency or forwarding came near its objective.
    """

    ratio: float | None = None
    since_ms: int = 0
    spread: float | None = None
    learned_s: float = 0.0
    near_cut_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class ControllerWindow:
    """The newest window of the active controller, to compare the next one with.

    Attributes:
        idle_ratio: smoothed AvgIdleRatio.
        no_headroom_at_ms: when probe latency or forwarding last allowed no raise.
        active_since_ms: when this node took over from another; 0: it was active from the start.
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
    """All that the control of mutation quotas remembers from cycle to cycle.

    Attributes:
        owned: managed quotas.
        unconfirmed: quotas that differ from the expected value, but perhaps only because a broker lags behind.
        externally_owned_until_ms: quotas that another tool has set, each with the time until which they are left alone.
        idle_baselines_ms: latency of each measure (``Measure``) while the controller is idle.
        orders_at_ms: time of the newest operator orders that were acknowledged.
        unowned_per_s: quotas in the last snapshot that rheostat does not own.
        quotas_were_read: whether there was a snapshot; without one, new quotas cannot be told from old ones.
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
