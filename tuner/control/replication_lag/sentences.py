"""Writes the sentences of a lag diagnosis: the finding with its figures, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from streaming.shared.contract import FetcherThreadLag, LaggingPartition, ReplicationSignal, Side
from streaming.shared.fetcher_threads import client_id
from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text, span_text
from tuner.core import formatting
from tuner.core.cluster import BrokerSide
from tuner.core.fetchers import NUM_REPLICA_FETCHERS
from tuner.core.reassignment_plan import TopicPartition

_NAMES_MAX = 4


def lag_messages(signal: ReplicationSignal) -> float | None:
    """Returns the sum of the lags of all replicas; if it is not reported, the largest lag; None: not measured."""
    return signal.lag_sum_messages if signal.lag_sum_messages is not None else signal.lag_max_messages


def lag(signal: ReplicationSignal, sources: Sequence[int], worst: LaggingPartition | None, *, growing: bool) -> str:
    """Returns how far the broker lags, and behind which leaders."""
    behind = f" behind {formatting.brokers(sources, _NAMES_MAX)}" if sources else ""
    at = ""
    if worst is not None:
        by_s = f" ({span_text(worst.lag_s)} behind)" if worst.lag_s is not None else ""
        at = f", most of all {worst.topic}-{worst.partition}{by_s}"
    grows = ", and the lag grows" if growing else ", and the lag is higher than usual"
    return f"the replicas on broker {signal.broker} lag {lag_messages(signal) or 0:,.0f} messages{behind}{at}{grows}"


def recovering(is_throttled: bool) -> str:
    """Returns why the lag of a recovery needs no action."""
    how = (
        "rheostat throttles their recovery to protect clients" if is_throttled else "they are out of sync and catch up"
    )
    return f"{how}; the lag ends with the recovery, and `rheostat status` shows what is left to copy"


def throttled(side: BrokerSide, bytes_per_s: int, lagging: LaggingPartition) -> str:
    broker, kind = side
    name = "leader" if kind is Side.LEADER else "follower"
    return (
        f"the {name} throttle of broker {broker}, {rate_text(bytes_per_s)}, holds back {lagging.topic}-{lagging.partition}, "
        "which no reassignment moves; if no move needs this throttle, remove it: `rheostat throttles` names the command"
    )


def fetcher_bound(
    thread: FetcherThreadLag, partitions: Sequence[TopicPartition], with_room: int, better: int | None
) -> str:
    names = join_names([f"{topic}-{partition}" for topic, partition in partitions], _NAMES_MAX)
    copies = f"copies {names}" if names else "copies several busy partitions"
    rate = f" at {rate_text(thread.fetched_bytes_per_s)}" if thread.fetched_bytes_per_s is not None else ""
    room = (
        f", while {with_room} other {'threads have' if with_room > 1 else 'thread has'} room" if with_room > 0 else ""
    )
    cure = (
        f"with {NUM_REPLICA_FETCHERS}={better} these partitions would have different threads: run `rheostat fetchers --apply`"
        if better is not None
        else "run `rheostat fetchers`: it names a number of threads with which these partitions have different threads"
    )
    return f"one fetcher thread, {client_id(thread.fetcher, thread.source)}, {copies}{rate}{room}; {cure}"


def hot_partition(thread: FetcherThreadLag, hot: LaggingPartition) -> str:
    rate = (
        f" ({rate_text(hot.write_bytes_per_s)} are written to this partition)"
        if hot.write_bytes_per_s is not None
        else ""
    )
    return (
        f"{hot.topic}-{hot.partition}{rate} has nearly all of the lag of the thread {client_id(thread.fetcher, thread.source)}, "
        "and a partition always has a single thread; give the topic more partitions, or write less to this partition"
    )


def busy(broker: int, evidence: str) -> str:
    return f"broker {broker} is busy: {evidence}; reduce its load, or move partitions to other brokers"


def idle_handlers(idle_ratio: float) -> str:
    return f"its request handlers are idle only {100 * idle_ratio:.0f} % of the time"


def full_link(verb: str, bytes_per_s: float, capacity_bytes_per_s: float) -> str:
    return f"it {verb} {rate_text(bytes_per_s)}, and its network capacity is {rate_text(capacity_bytes_per_s)}"


def follower_slow(broker: int, sources: Sequence[int]) -> str:
    return (
        f"all its fetcher threads lag behind {formatting.brokers(sources, _NAMES_MAX)}, so broker {broker} itself is slow; check "
        "its disks, its network and its garbage collection"
    )


def source_slow(source: int, followers: Sequence[int]) -> str:
    return (
        f"all followers of broker {source} lag behind it ({formatting.brokers(followers, _NAMES_MAX)}), so broker {source} itself "
        "is slow; check its disks, its network and its garbage collection"
    )


def unknown() -> str:
    return "no cause is evident; run `rheostat fetchers --watch`, and check disks and network of the brokers"
