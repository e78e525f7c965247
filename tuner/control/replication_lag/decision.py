"""The diagnosis of one broker whose replicas lag, and the reasons that it may have."""

from __future__ import annotations

from enum import StrEnum

from tuner.core.value import value


class LagReason(StrEnum):
    """The likely cause of lag; the catalogue in reason_texts.py explains each."""

    RECOVERING = "lag_recovering"
    THROTTLED = "lag_throttled"
    FETCHER_BOUND = "lag_fetcher_bound"
    HOT_PARTITION = "lag_hot_partition"
    DESTINATION_BUSY = "lag_destination_busy"
    SOURCE_BUSY = "lag_source_busy"
    FOLLOWER_SLOW = "lag_follower_slow"
    SOURCE_SLOW = "lag_source_slow"
    UNKNOWN = "lag_unknown"


@value
class LagDiagnosis:
    """Why the replicas on one broker lag.

    Attributes:
        broker: the follower.
        text: the finding with its figures, and what to do.
        growing: the lag grows; otherwise it stays above the usual lag of this broker.
        lag_messages: sum over the broker's replicas that no reassignment adds.
        lag_s: the lag of the partition that lacks the most messages, in seconds of its writes; None: not measured.
        usual_messages: the usual sum; None: not known yet.
        since_ms: when this broker began to lag without a break.
        sources: the leaders behind which the broker lags, the largest lag first; empty: not known.
        thread: the fetcher thread with the largest lag, as Kafka names it; None: the cause is not one thread.
        topic, partition: the partition with the largest lag; None: not known.
        better_fetchers: the value of num.replica.fetchers that separates the busy partitions; None: no value is clearly better,
            or unknown.
    """

    broker: int
    reason: LagReason
    text: str
    growing: bool
    lag_messages: float
    lag_s: float | None
    usual_messages: float | None
    since_ms: int
    sources: tuple[int, ...] = ()
    thread: str | None = None
    topic: str | None = None
    partition: int | None = None
    better_fetchers: int | None = None
