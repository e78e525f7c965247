"""Signals as typed values: one per (cluster, entity, window end). Writing one twice changes nothing; the last of a key wins.

A number that could not be measured is None, never 0. Windows are cut by Kafka's clock (the records' LogAppendTime), what is
inside is measured by the sender's. ``backlog`` marks what was made from records that waited while the stream was down:
history, not for control.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from streaming.shared.contract.basics import Side
from streaming.shared.contract.bounds import Completeness, Count, LimitedItems, NodeId, Number, Text, TimestampMs


class ThrottledBy(StrEnum):
    """What the throttled bytes/s of a BrokerSignal were taken from, best first."""

    QUOTA = "quota"  # Kafka's own measure of what counts against the throttle, a mean over ~11 s.
    REASSIGNMENT = "reassignment"  # Bytes of reassigned partitions; without the listed in-sync replicas, so too little.
    REPLICATION = "replication"  # All replication bytes; also of what is not listed, so too much.


@dataclass(frozen=True, slots=True)
class BrokerSignal:
    """One broker over one window. Rates are increases of counters over the time between first and last sample."""

    cluster: Text
    broker: NodeId
    window_end_ms: TimestampMs
    sampled_at_ms: TimestampMs  # Time of the newest sample inside; freshness is judged from it.
    samples: Count  # Scrapes.
    completeness: Completeness  # Scrapes ÷ those expected at the source's interval; may exceed 1 at a faster one.
    leader_throttled_bytes_per_s: Number | None = None  # Newest sample; by ThrottledBy.
    follower_throttled_bytes_per_s: Number | None = None
    throttled_by: Text | None = None  # ThrottledBy; None when the two above are.
    leader_rate_bytes_per_s: Number | None = None  # The setting, None while none is set.
    follower_rate_bytes_per_s: Number | None = None
    replication_in_bytes_per_s: Number | None = None
    replication_out_bytes_per_s: Number | None = None
    reassignment_in_bytes_per_s: Number | None = None
    reassignment_out_bytes_per_s: Number | None = None
    client_in_bytes_per_s: Number | None = None
    client_out_bytes_per_s: Number | None = None
    network_in_bytes_per_s: Number | None = None  # All listeners, and what it fetches as a follower.
    network_out_bytes_per_s: Number | None = None
    # Of the newest step alone, as the rates of the same names are of the window: from the scrape before the newest one to that.
    step_s: Number | None = None
    step_reassignment_in_bytes_per_s: Number | None = None
    step_reassignment_out_bytes_per_s: Number | None = None
    step_network_in_bytes_per_s: Number | None = None
    step_network_out_bytes_per_s: Number | None = None
    produce_p99_ms: Number | None = None  # Kafka's decaying histogram: remembers minutes.
    produce_mean_ms: Number | None = None  # Of the requests answered in this window; None when none was.
    fetch_p99_ms: Number | None = None
    request_handler_idle_ratio: Number | None = None
    isr_shrinks_per_s: Number | None = None
    isr_expands_per_s: Number | None = None
    replica_lag_max_messages: Number | None = None
    replica_lag_sum_messages: Number | None = None  # KIP-73's SumReplicaLag; stale while the follower side throttles.
    under_min_isr_partitions: Number | None = None
    partitions: Number | None = None
    leaders: Number | None = None
    metadata_lag_ms: Number | None = None  # Age of the newest metadata record it has applied; idle, up to 500.
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class MoveStep:
    """Between two successive scrapes; partitions that are in only one of them do not count, so additions don't jump."""

    at_ms: TimestampMs
    dt_s: float
    gained_bytes: Number  # By the adding replicas (follower side); 0 on the leader side.
    written_bytes: Number  # To the leaders of the moving partitions.
    remaining_bytes: Number  # At the end of the step.


@dataclass(frozen=True, slots=True)
class MovingPartition:
    topic: Text
    partition: NodeId
    remaining_bytes: Number | None = None
    write_bytes_per_s: Number | None = None  # To its leader.


@dataclass(frozen=True, slots=True)
class MoveSignal:
    """One side of one broker that takes part in replica movement or carries throttled replicas, over one window."""

    cluster: Text
    broker: NodeId
    side: Side
    window_end_ms: TimestampMs
    sampled_at_ms: TimestampMs
    samples: Count
    completeness: Completeness
    moving_partitions: Count  # With an adding replica, in the newest scrape.
    listed_partitions: Count  # Whose bytes count against this side's quota, in the newest scrape.
    done_partitions: Count = 0  # That were moving in this window and are not any more.
    remaining_bytes: Number | None = None
    lag_messages: Number | None = (
        None  # Σ ConsumerLag of the adding replicas; follower side only, and stale when throttled there.
    )
    remaining_slope_bytes_per_s: Number | None = None  # Least squares over the window; negative is progress.
    remaining_slope_r2: Number | None = None
    steady_state_bytes_per_s: Number | None = None  # W: Σ write rate × counted replicas.
    write_bytes_per_s: Number | None = None  # Of the moving partitions.
    progress_age_s: Number | None = None  # Since a step last gained; None when none did in this window.
    steps: Annotated[tuple[MoveStep, ...], LimitedItems] = ()
    largest: Annotated[tuple[MovingPartition, ...], LimitedItems] = ()  # Of the moving ones by remaining bytes.
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class ControllerSignal:
    """One controller node over one window. Only the active one works on the queue; ``active`` says which that is."""

    cluster: Text
    node: NodeId
    window_end_ms: TimestampMs
    sampled_at_ms: TimestampMs
    samples: Count
    completeness: Completeness
    active: Number | None = None  # ActiveControllerCount: 1 or 0.
    event_queue_time_p99_ms: Number | None = None  # Kafka's decaying histogram: hardly moves within 40 s.
    event_queue_time_mean_ms: Number | None = None  # Of the events of this window.
    event_processing_p99_ms: Number | None = None
    event_processing_mean_ms: Number | None = None  # Of this window; contains waiting for the commit.
    events_per_s: Number | None = None
    queue_depth_mean: Number | None = (
        None  # Little's law: events/s × mean queue time, that is, seconds waited per second.
    )
    operations_per_s: Number | None = None
    operations_timed_out_per_s: Number | None = None
    heartbeats_timed_out_per_s: Number | None = None
    mutations_rejected_per_s: Number | None = None  # Requests answered with THROTTLING_QUOTA_EXCEEDED, all tenants.
    idle_ratio: Number | None = None
    metadata_lag_ms: Number | None = None
    # Of the requests answered in this window, also those that a quota refused, which takes no time; None when none was.
    create_mean_ms: Number | None = (
        None  # CreateTopics, until its records are committed; forwarded ones count here as such.
    )
    delete_mean_ms: Number | None = None  # DeleteTopics.
    topic_requests_in_progress_mean: Number | None = None  # Both, by Little's law: requests/s × mean time.
    metadata_records_per_s: Number | None = None  # Committed; 2 when nothing happens.
    topics: Number | None = None
    partitions: Number | None = None
    active_brokers: Number | None = None
    fenced_brokers: Number | None = None
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class TenantSignal:
    """One tenant's mutations as one controller keeps its books. Books of a controller that is not active any more are old.

    Kafka counts refused requests by their kind and not by tenant: those are in ControllerSignal.
    """

    cluster: Text
    node: NodeId
    window_end_ms: TimestampMs
    sampled_at_ms: TimestampMs
    samples: Count
    completeness: Completeness
    user: Text | None = None
    client_id: Text | None = None
    mutation_rate_per_s: Number | None = None  # Kafka's own 30 to 60 s mean, partitions/s.
    tokens: Number | None = None  # Negative: in debt. About 1e20: no quota applies.
    throttle_time_ms: Number | None = None  # Kafka 4.2 never fills it.
    backlog: bool = False


Signal = BrokerSignal | MoveSignal | ControllerSignal | TenantSignal
