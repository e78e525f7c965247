"""Replication lag for JSON and for the page: followers with their fetcher threads and worst partitions.

Invariant: a value that was not measured is None, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from streaming.shared.contract import FetcherThreadLag, ReplicationSignal
from tuner.api.status_snapshot import StatusSnapshot
from tuner.core.freshness import age_s

# Fields of the signal that say nothing about the follower.
_HEAD = ("cluster", "window_end_ms", "samples", "backlog")


def followers_by_lag(snapshot: StatusSnapshot) -> list[ReplicationSignal]:
    """Returns the signals of all followers, the largest lag first."""
    observation = snapshot.observation
    signals = observation.replication_signals.values() if observation is not None else ()
    return sorted(signals, key=lambda signal: (-_lag_messages(signal), signal.broker))


def lagging_followers(followers: Sequence[ReplicationSignal]) -> list[ReplicationSignal]:
    """Returns the followers that have a lag."""
    return [signal for signal in followers if _lag_messages(signal)]


def slowest_thread(signal: ReplicationSignal) -> FetcherThreadLag | None:
    """Returns the fetcher thread with the largest lag; None if no thread has one."""
    behind = [thread for thread in signal.threads if thread.lag_sum_messages]
    return max(behind, key=lambda thread: thread.lag_sum_messages or 0.0, default=None)


def follower_json(signal: ReplicationSignal, now_ms: int) -> dict[str, Any]:
    values = asdict(signal)
    for name in _HEAD:
        del values[name]
    return values | {"age_s": age_s(signal, now_ms)}


def _lag_messages(signal: ReplicationSignal) -> float:
    lag = signal.lag_sum_messages if signal.lag_sum_messages is not None else signal.lag_max_messages
    return lag or 0.0
