"""History: means over ten minutes, which the stream computes from signals. `rheostat learn` and operators read them.

There is one record per cluster and period. A later record of the same period replaces the earlier record, for example after signals
of an outage have arrived. A number that could not be measured is None, never 0. Means weigh each signal equally.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from streaming.shared.contract.bounds import Count, LimitedItems, NodeId, Number, Text, TimestampMs

PERIOD_S = 600


@dataclass(frozen=True, slots=True)
class BrokerHistory:
    """One broker over one period: means, unless a name ends in _max or a comment says otherwise. Five significant digits."""

    broker: NodeId
    signals: Count  # Number of signals used; each window end is used once.
    client_in_bytes_per_s: Number | None = None
    client_out_bytes_per_s: Number | None = None
    replication_in_bytes_per_s: Number | None = None
    replication_out_bytes_per_s: Number | None = None
    reassignment_in_bytes_per_s: Number | None = None
    reassignment_out_bytes_per_s: Number | None = None
    log_dir_copied_bytes_per_s: Number | None = None
    # The steady-state replication of each side (W in docs/explanation/architecture.md); None while no replica is listed.
    leader_steady_state_bytes_per_s: Number | None = None
    follower_steady_state_bytes_per_s: Number | None = None
    # The largest sum of clients and replication in one signal (half a minute), and the produce p99 of that signal.
    # Replication includes the bytes of reassignments.
    in_bytes_per_s_max: Number | None = None
    in_max_p99_ms: Number | None = None
    out_bytes_per_s_max: Number | None = None
    out_max_p99_ms: Number | None = None
    produce_mean_ms: Number | None = None
    produce_p99_ms: Number | None = None  # The median of the signals' p99.
    produce_p99_ms_max: Number | None = None
    request_handler_idle_ratio: Number | None = None
    # Highest number of moving and recovering partitions, on the side (leader or follower) that has more of them.
    moving_partitions_max: Number | None = None
    lag_sum_messages: Number | None = None  # Only replicas in normal replication.
    lag_slope_messages_per_s: Number | None = None  # Mean of the trends over five minutes.


@dataclass(frozen=True, slots=True)
class ControllerHistory:
    """Topic and partition mutations of the whole cluster over one period, as the active controller counts them."""

    partitions_created_per_s: Number | None = None
    partitions_deleted_per_s: Number | None = None
    create_requests_per_s: Number | None = None
    delete_requests_per_s: Number | None = None
    addition_requests_per_s: Number | None = None
    mutations_rejected_per_s: Number | None = None
    partitions: Number | None = None
    topics: Number | None = None


@dataclass(frozen=True, slots=True)
class TenantHistory:
    """One tenant's mutations over one period."""

    user: Text | None = None
    client_id: Text | None = None
    mutation_rate_per_s: Number | None = None
    mutation_rate_per_s_max: Number | None = None


@dataclass(frozen=True, slots=True)
class HistoryPeriod:
    """One cluster over one period: the signals whose windows end after ``start_ms`` and not after ``end_ms``.

    Attributes:
        start_ms: start of the period; a multiple of its length.
        tenants: the tenants with the highest rates.
    """

    cluster: Text
    start_ms: TimestampMs
    brokers: Annotated[tuple[BrokerHistory, ...], LimitedItems] = ()
    controller: ControllerHistory | None = None
    tenants: Annotated[tuple[TenantHistory, ...], LimitedItems] = ()

    @property
    def end_ms(self) -> int:
        return self.start_ms + PERIOD_S * 1000
