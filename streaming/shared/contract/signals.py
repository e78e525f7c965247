"""Signals: what the stream measures about one entity over one window, as typed values.

There is one signal per (cluster, entity, window end). A later record with the same key replaces the earlier record. A number that
could not be measured is None, never 0. Windows are cut by Kafka's clock (LogAppendTime); rates inside a window use the sender's
clock. ``backlog`` marks signals made from records that waited during an outage; they are history and must not drive control.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from streaming.shared.contract.basics import Side
from streaming.shared.contract.bounds import Completeness, Count, LimitedItems, NodeId, Number, Text, TimestampMs


class ThrottledBy(StrEnum):
    """The measurement behind the throttled bytes/s of a BrokerSignal, best first."""

    QUOTA = "quota"  # Kafka's own measurement of bytes that count against the throttle, a mean over about 11 s.
    REASSIGNMENT = "reassignment"  # Bytes of reassigned partitions. Too low: listed in-sync replicas are missing.
    REPLICATION = "replication"  # All replication bytes. Too high: unlisted replicas are included.


@dataclass(frozen=True, slots=True)
class BrokerSignal:
    """One broker over one window. A rate is a counter's increase divided by the time between first and last sample."""

    cluster: Text
    broker: NodeId
    window_end_ms: TimestampMs
    sampled_at_ms: TimestampMs  # Time of the newest sample in the window; the signal's age counts from here.
    samples: Count  # Number of scrapes.
    # Scrapes ÷ scrapes expected at the configured interval; above 1 if the source is faster.
    completeness: Completeness
    leader_throttled_bytes_per_s: Number | None = None  # Newest sample; measured as throttled_by says.
    follower_throttled_bytes_per_s: Number | None = None
    throttled_by: Text | None = None  # A ThrottledBy value; None if both fields above are None.
    leader_rate_bytes_per_s: Number | None = None  # The throttle setting; None while none is set.
    follower_rate_bytes_per_s: Number | None = None
    replication_in_bytes_per_s: Number | None = None
    replication_out_bytes_per_s: Number | None = None
    reassignment_in_bytes_per_s: Number | None = None
    reassignment_out_bytes_per_s: Number | None = None
    client_in_bytes_per_s: Number | None = None
    client_out_bytes_per_s: Number | None = None
    network_in_bytes_per_s: Number | None = None  # All listeners plus the bytes it fetches as a follower.
    network_out_bytes_per_s: Number | None = None
    # These rates cover only the newest step, between the last two scrapes. The same rates without ``step_`` cover the whole window.
    step_s: Number | None = None
    step_reassignment_in_bytes_per_s: Number | None = None
    step_reassignment_out_bytes_per_s: Number | None = None
    step_network_in_bytes_per_s: Number | None = None
    step_network_out_bytes_per_s: Number | None = None
    produce_p99_ms: Number | None = None  # From Kafka's decaying histogram, which remembers minutes.
    produce_mean_ms: Number | None = None  # Over the requests answered in this window; None if there were none.
    fetch_p99_ms: Number | None = None
    request_handler_idle_ratio: Number | None = None
    isr_shrinks_per_s: Number | None = None
    isr_expands_per_s: Number | None = None
    replica_lag_max_messages: Number | None = None
    replica_lag_sum_messages: Number | None = None  # KIP-73's SumReplicaLag; stale while the follower side throttles.
    under_min_isr_partitions: Number | None = None
    partitions: Number | None = None
    leaders: Number | None = None
    metadata_lag_ms: Number | None = None  # Age of the newest applied metadata record; up to 500 while idle.
    # Bytes that the broker copies between its log directories, Kafka's mean over about 11 s; None before the first copy.
    log_dir_copied_bytes_per_s: Number | None = None
    # Speed of the fastest network interface of the broker's machine, in each direction; None if no source reports it.
    link_speed_bytes_per_s: Number | None = None
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class MoveStep:
    """The change between two successive scrapes. Only partitions in both scrapes count, so an added partition makes no jump."""

    at_ms: TimestampMs
    dt_s: float
    # Bytes that copying replicas gained (follower side), or that recovering replicas got from this leader (leader side).
    gained_bytes: Number
    written_bytes: Number  # Bytes written to the leaders of the moving partitions.
    remaining_bytes: Number  # At the end of the step.
    # The part of these three values that belongs to recovering partitions.
    recovering_gained_bytes: Number = 0.0
    recovering_written_bytes: Number = 0.0
    recovering_remaining_bytes: Number = 0.0


@dataclass(frozen=True, slots=True)
class MovingPartition:
    topic: Text
    partition: NodeId
    remaining_bytes: Number | None = None
    write_bytes_per_s: Number | None = None  # Write rate of its leader.


@dataclass(frozen=True, slots=True)
class MoveSignal:
    """One side of one broker over one window, while replicas move there or are listed as throttled."""

    cluster: Text
    broker: NodeId
    side: Side
    window_end_ms: TimestampMs
    sampled_at_ms: TimestampMs
    samples: Count
    completeness: Completeness
    moving_partitions: Count  # Partitions with a replica that is being added or recovers, in the newest scrape.
    listed_partitions: Count  # Partitions whose bytes count against this side's quota, in the newest scrape.
    done_partitions: Count = 0  # Partitions that moved earlier in this window and no longer do.
    remaining_bytes: Number | None = None
    # The part of the two fields above that belongs to recovering partitions, whose replicas were in sync and are not being
    # reassigned.
    recovering_partitions: Count = 0
    recovering_bytes: Number | None = None
    # Partitions of tiered topics whose replica has to read the state of the remote log before its first byte. Follower side only.
    await_remote_partitions: Count = 0
    # Σ ConsumerLag of the adding replicas. Follower side only; stale while that side's throttle delays fetches.
    lag_messages: Number | None = None
    remaining_slope_bytes_per_s: Number | None = None  # Least squares over the window; negative is progress.
    remaining_slope_r2: Number | None = None
    steady_state_bytes_per_s: Number | None = None  # W: Σ write rate × counted replicas.
    write_bytes_per_s: Number | None = None  # Write rate of the moving partitions.
    progress_age_s: Number | None = None  # Age of the newest step with gained bytes; None without one in this window.
    steps: Annotated[tuple[MoveStep, ...], LimitedItems] = ()
    # Moving partitions with the most remaining bytes.
    largest: Annotated[tuple[MovingPartition, ...], LimitedItems] = ()
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class LagTrend:
    """A least-squares line through the lags of successive scrapes. A positive slope means that followers fall behind."""

    slope_messages_per_s: Number
    span_s: Number  # From the first to the last point.
    points: Count
    r2: Number | None = None  # Fit of the line, 0 to 1; a flat line has 1. None with two points, which any line fits.


@dataclass(frozen=True, slots=True)
class FetcherThreadLag:
    """One fetcher thread of the broker. Each thread copies from one source broker.

    ``adding_…`` are the figures of replicas that a reassignment adds; the other figures leave those replicas out.
    """

    source: NodeId
    fetcher: NodeId  # 0 to num.replica.fetchers − 1.
    partitions: Number | None = None  # Partitions with a known lag.
    lag_sum_messages: Number | None = None
    lag_max_messages: Number | None = None
    adding_partitions: Number | None = None
    adding_lag_sum_messages: Number | None = None
    fetched_bytes_per_s: Number | None = None  # Everything that the thread copies, added replicas included.
    lag_max_s: Number | None = None  # Largest lag of its partitions in ReplicationSignal.worst.
    trend: LagTrend | None = None  # Trend of lag_sum_messages over the window.


@dataclass(frozen=True, slots=True)
class LaggingPartition:
    """One replica that the broker follows and that no reassignment adds.

    The write rates are measured on the leader. ``lag_s`` and ``lag_bytes`` follow from them: messages ÷ messages written per
    second, and messages × mean bytes of the messages that were written in the window.
    """

    topic: Text
    partition: NodeId
    lag_messages: Number
    # Leader, as the fetcher thread's name tells; None if the agent does not report the thread.
    source: NodeId | None = None
    fetcher: NodeId | None = None
    write_messages_per_s: Number | None = None
    write_bytes_per_s: Number | None = None
    lag_s: Number | None = None  # None also while nothing is written.
    lag_bytes: Number | None = None


@dataclass(frozen=True, slots=True)
class ReplicationSignal:
    """The lag of one follower over one window, in normal replication: replicas that a reassignment adds count separately.

    Lags are Kafka's ConsumerLag, in the newest scrape. They are stale while the follower side of a throttle delays fetches. A sum
    covers the known lags only: Kafka drops about half of them when its number of fetcher threads changes.
    """

    cluster: Text
    broker: NodeId
    window_end_ms: TimestampMs
    sampled_at_ms: TimestampMs
    samples: Count
    completeness: Completeness
    partitions: Number | None = None  # Partitions with a known lag.
    lag_sum_messages: Number | None = None
    lag_max_messages: Number | None = None
    lag_sum_bytes: Number | None = None  # Only the partitions in ``worst``, so it may be too low.
    lag_max_s: Number | None = None  # Largest lag of the partitions in ``worst``.
    adding_partitions: Number | None = None
    adding_lag_sum_messages: Number | None = None
    trend: LagTrend | None = None  # Trend of the sum over the window.
    # Trend of the sum, from a scrape every 25 s; ``span_s``: the time that was measured.
    trend_5min: LagTrend | None = None
    thread_count: Number | None = None  # All fetcher threads with a known lag; ``threads`` may hold fewer.
    # Threads of the source brokers with the largest lags, all threads of one source together.
    threads: Annotated[tuple[FetcherThreadLag, ...], LimitedItems] = ()
    # Partitions with the largest lags in messages; partitions without lag are left out.
    worst: Annotated[tuple[LaggingPartition, ...], LimitedItems] = ()
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class ControllerSignal:
    """One controller node over one window. Only the active controller processes events; see ``active``."""

    cluster: Text
    node: NodeId
    window_end_ms: TimestampMs
    sampled_at_ms: TimestampMs
    samples: Count
    completeness: Completeness
    active: Number | None = None  # ActiveControllerCount: 1 or 0.
    event_queue_time_p99_ms: Number | None = None  # From Kafka's decaying histogram; hardly moves within 40 s.
    event_queue_time_mean_ms: Number | None = None  # Events of this window.
    event_processing_p99_ms: Number | None = None
    event_processing_mean_ms: Number | None = None  # Events of this window; includes the wait for the commit.
    events_per_s: Number | None = None
    queue_depth_mean: Number | None = None  # Little's law: events/s × mean queue time.
    operations_per_s: Number | None = None
    operations_timed_out_per_s: Number | None = None
    heartbeats_timed_out_per_s: Number | None = None
    mutations_rejected_per_s: Number | None = None  # Requests answered with THROTTLING_QUOTA_EXCEEDED, all tenants.
    idle_ratio: Number | None = None
    metadata_lag_ms: Number | None = None
    # Means over the requests answered in this window, including requests that a quota refused at once; None if there were none.
    create_mean_ms: Number | None = None  # CreateTopics, until its records are committed; includes forwarded requests.
    delete_mean_ms: Number | None = None  # DeleteTopics.
    addition_mean_ms: Number | None = None  # CreatePartitions, which adds partitions to a topic.
    # Creations, deletions and, if they are measured, additions; Little's law: requests/s × mean time.
    topic_requests_in_progress_mean: Number | None = None
    # Requests answered, including refused requests. A node that is broker and controller counts a request twice that it
    # forwards to itself.
    create_requests_per_s: Number | None = None
    delete_requests_per_s: Number | None = None
    addition_requests_per_s: Number | None = None
    # Requests in a version that Kafka delays instead of refusing (MUTATION_REFUSED_FROM_VERSION); None if there were none.
    old_create_requests_per_s: Number | None = None
    old_delete_requests_per_s: Number | None = None
    old_addition_requests_per_s: Number | None = None
    # Requests of all three kinds in a newer version; None if there were none.
    refusable_requests_per_s: Number | None = None
    # Increases and decreases of the numbers of partitions and topics from scrape to scrape, while this node was active. They are
    # lower bounds, because topics that are created and deleted between two scrapes are not seen.
    partitions_created_per_s: Number | None = None
    partitions_deleted_per_s: Number | None = None
    topics_created_per_s: Number | None = None
    topics_deleted_per_s: Number | None = None
    metadata_records_per_s: Number | None = None  # Committed records; about 2 while idle.
    topics: Number | None = None
    partitions: Number | None = None
    active_brokers: Number | None = None
    fenced_brokers: Number | None = None
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class TenantSignal:
    """One tenant's mutations as one controller accounts them. The figures of an inactive controller are stale.

    Kafka counts refused requests by request type, not by tenant; ControllerSignal has that count.
    """

    cluster: Text
    node: NodeId
    window_end_ms: TimestampMs
    sampled_at_ms: TimestampMs
    samples: Count
    completeness: Completeness
    user: Text | None = None
    client_id: Text | None = None
    mutation_rate_per_s: Number | None = None  # Partitions/s, Kafka's own mean over 30 to 60 s.
    tokens: Number | None = None  # Negative: the quota is exhausted. About 1e20: no quota applies.
    throttle_time_ms: Number | None = None  # Kafka 4.2 never fills it.
    backlog: bool = False


Signal = BrokerSignal | MoveSignal | ReplicationSignal | ControllerSignal | TenantSignal
