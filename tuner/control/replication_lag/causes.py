"""Finds the likely cause of one broker's lag. The first rule that applies gives the cause:

1. A throttle that rheostat has not set holds back lagging replicas of partitions that do not move: throttled.
2. One fetcher thread lags while other threads for the same leader have room:
   - If one partition has nearly all of the thread's lag: hot partition.
   - Otherwise: fetcher-bound. Busy partitions share the thread (the collision that LINE's engineers found).
   - This rule does not apply if no other thread for the leader copies anything and all followers of the leader lag behind it. The
     leader may then be slow (rules 3 and 5).
3. The request handlers or the network of the follower are busy: destination busy. The same for the leader, if the follower lags
   behind one leader only: source busy.
4. The follower lags behind several leaders, on all of its threads: follower slow.
5. The follower lags behind one leader, on all of its threads for this leader:
   - If another number of threads separates the busy partitions: fetcher-bound.
   - If all followers of the leader lag behind it: source slow.
   - If one partition has nearly all of the lag: hot partition.

Otherwise the cause is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from streaming.shared.contract import FetcherThreadLag, LaggingPartition, ReplicationSignal, Side
from streaming.shared.fetcher_threads import client_id
from tuner.control.replication_lag import sentences
from tuner.control.replication_lag.decision import LagReason
from tuner.control.replication_lag.threads import better_fetchers, copied_by_thread
from tuner.control.replication_lag.view import LagView
from tuner.core.cluster import BrokerSide
from tuner.core.reassignment_plan import TopicPartition

LATE_SHARE_MIN = 0.2  # A thread keeps up if its lag is below this share of the largest lag of the follower's threads.
HOT_SHARE_MIN = 0.8  # A partition is hot if it has at least this share of the lag of its thread.
ACTIVE_SHARE_MIN = 0.05  # A thread is active if it copies more than this share of the bytes of the lagging thread.
# A proposed number of threads has to relieve the threads of the followers with the largest lags, up to this many followers.
FOLLOWERS_MAX = 50
BUSY_IDLE_RATIO = 0.3  # Request handlers with a lower idle ratio count as busy (Kafka's documentation).
BUSY_NETWORK_RATIO = 0.9


class LagCause(NamedTuple):
    """The cause of one broker's lag; see ``LagDiagnosis`` for the fields."""

    reason: LagReason
    text: str
    thread: str | None = None
    better_fetchers: int | None = None


class CauseFinder:
    """Compares the brokers of one evaluation with each other."""

    def __init__(
        self, view: LagView, signals: Mapping[int, ReplicationSignal], lagging: Mapping[int, ReplicationSignal]
    ) -> None:
        """
        Args:
            signals: the usable signals of all brokers, without brokers whose replicas recover: their lag shows no other cause.
            lagging: the signals of the brokers that lag, without brokers whose replicas recover.
        """
        self._view = view
        self._signals = signals
        self._lagging = lagging
        self._moving: set[TopicPartition] = {(move.topic, move.partition) for move in view.live.moves}
        self._better: tuple[int | None] | None = None  # Computed when a rule first needs it.

    def find(self, signal: ReplicationSignal) -> LagCause:
        """Returns the cause of the lag of one lagging broker."""
        late = late_threads(signal.threads)
        sources = list(dict.fromkeys(thread.source for thread in late))
        return (
            self._throttled(signal)
            or self._one_thread(signal, late)
            or self._busy(signal.broker, sources)
            or self._slow_follower(signal, late, sources)
            or self._one_source(signal, late, sources)
            or LagCause(LagReason.UNKNOWN, sentences.unknown())
        )

    # -- rule 1 ---------------------------------------------------------------------------------------------------------

    def _throttled(self, signal: ReplicationSignal) -> LagCause | None:
        for lagging in signal.worst:
            if (lagging.topic, lagging.partition) in self._moving:
                continue
            if (side := self._throttle_of(signal.broker, lagging)) is not None:
                rate = self._view.live.rates[side].bytes_per_s
                return LagCause(LagReason.THROTTLED, sentences.throttled(side, rate, lagging))
        return None

    def _throttle_of(self, follower: int, lagging: LaggingPartition) -> BrokerSide | None:
        """Returns the throttle that holds the replica back; None: there is none, or rheostat has set it."""
        throttle = self._view.live.lists.get(lagging.topic)
        if throttle is None:
            return None
        sides: list[BrokerSide] = [(follower, Side.FOLLOWER)]
        if lagging.source is not None:
            sides.append((lagging.source, Side.LEADER))
        external = [side for side in sides if side in self._view.live.rates and side not in self._view.managed]
        return next((s for s in external if throttle.for_side(s[1]).includes(lagging.partition, s[0])), None)

    # -- rule 2 ---------------------------------------------------------------------------------------------------------

    def _one_thread(self, signal: ReplicationSignal, late: Sequence[FetcherThreadLag]) -> LagCause | None:
        if not late:
            return None
        source = late[0].source
        # Kafka has no metrics of a thread without partitions. Such a thread has room too, so num.replica.fetchers counts.
        listed = sum(thread.source == source for thread in signal.threads)
        threads = max(listed, self._view.live.fetchers.get(signal.broker, 1))
        with_room = threads - sum(thread.source == source for thread in late)
        if with_room <= 0 or not (_has_active_sibling(signal, late[0]) or self._followers_that_keep_up(source)):
            return None
        return self._full_thread(signal, late[0], with_room)

    def _full_thread(self, signal: ReplicationSignal, thread: FetcherThreadLag, with_room: int) -> LagCause:
        name = client_id(thread.fetcher, thread.source)
        if (hot := _hot_partition(signal, thread)) is not None:
            return LagCause(LagReason.HOT_PARTITION, sentences.hot_partition(thread, hot), name)
        partitions = [(p.topic, p.partition) for p in _partitions_of(signal, thread)]
        better = self._better_fetchers()
        text = sentences.fetcher_bound(thread, partitions, with_room, better)
        return LagCause(LagReason.FETCHER_BOUND, text, name, better)

    def _better_fetchers(self) -> int | None:
        if self._better is None:
            layout, fetchers = self._view.layout(), self._view.live.fetchers
            by_lag = sorted(self._lagging, key=lambda b: -(sentences.lag_messages(self._lagging[b]) or 0.0))
            copied = copied_by_thread(layout or (), by_lag[:FOLLOWERS_MAX], fetchers)
            self._better = (better_fetchers(copied, self._signals, fetchers),)
        return self._better[0]

    # -- rule 3 ---------------------------------------------------------------------------------------------------------

    def _busy(self, follower: int, sources: Sequence[int]) -> LagCause | None:
        if (evidence := self._busy_text(follower)) is not None:
            return LagCause(LagReason.DESTINATION_BUSY, sentences.busy(follower, evidence))
        if len(sources) == 1 and (evidence := self._busy_text(sources[0])) is not None:
            return LagCause(LagReason.SOURCE_BUSY, sentences.busy(sources[0], evidence))
        return None

    def _busy_text(self, broker: int) -> str | None:
        signal, capacity = self._view.brokers.get(broker), self._view.capacity_bytes_per_s(broker)
        if signal is None:
            return None
        idle_ratio = signal.request_handler_idle_ratio
        if idle_ratio is not None and idle_ratio < BUSY_IDLE_RATIO:
            return sentences.idle_handlers(idle_ratio)
        rates = (("receives", signal.network_in_bytes_per_s), ("sends", signal.network_out_bytes_per_s))
        for (verb, rate), limit in zip(rates, capacity or (), strict=False):
            if rate is not None and rate >= BUSY_NETWORK_RATIO * limit:
                return sentences.full_link(verb, rate, limit)
        return None

    # -- rules 4 and 5 --------------------------------------------------------------------------------------------------

    def _slow_follower(
        self, signal: ReplicationSignal, late: Sequence[FetcherThreadLag], sources: Sequence[int]
    ) -> LagCause | None:
        if len(sources) < 2 or len(late) < len(signal.threads):
            return None
        return LagCause(LagReason.FOLLOWER_SLOW, sentences.follower_slow(signal.broker, sources))

    def _one_source(
        self, signal: ReplicationSignal, late: Sequence[FetcherThreadLag], sources: Sequence[int]
    ) -> LagCause | None:
        if len(sources) != 1:
            return None
        [source] = sources
        hot = _hot_partition(signal, late[0])
        if hot is None and self._better_fetchers() is not None:
            return self._full_thread(signal, late[0], 0)
        followers = self._followers_of(source)
        if len(followers) > 1 and not self._followers_that_keep_up(source):
            return LagCause(LagReason.SOURCE_SLOW, sentences.source_slow(source, followers))
        return self._full_thread(signal, late[0], 0) if hot is not None else None

    def _followers_of(self, source: int) -> list[int]:
        return [b for b, s in self._signals.items() if any(thread.source == source for thread in s.threads)]

    def _followers_that_keep_up(self, source: int) -> list[int]:
        lagging = {b: late_threads(s.threads) for b, s in self._lagging.items()}
        return [b for b in self._followers_of(source) if all(t.source != source for t in lagging.get(b, ()))]


def late_threads(threads: Sequence[FetcherThreadLag]) -> list[FetcherThreadLag]:
    """Returns the threads that do not keep up, the largest lag first."""
    largest = max((thread.lag_sum_messages or 0.0 for thread in threads), default=0.0)
    late = [t for t in threads if largest > 0 and (t.lag_sum_messages or 0.0) >= LATE_SHARE_MIN * largest]
    return sorted(late, key=lambda thread: -(thread.lag_sum_messages or 0.0))


def _has_active_sibling(signal: ReplicationSignal, thread: FetcherThreadLag) -> bool:
    """Returns whether another thread for the same leader copies a part of the leader's writes."""
    copied_min = ACTIVE_SHARE_MIN * (thread.fetched_bytes_per_s or 0.0)
    return any(
        t.source == thread.source and t.fetcher != thread.fetcher and (t.fetched_bytes_per_s or 0.0) > copied_min
        for t in signal.threads
    )


def _partitions_of(signal: ReplicationSignal, thread: FetcherThreadLag) -> list[LaggingPartition]:
    return [p for p in signal.worst if (p.source, p.fetcher) == (thread.source, thread.fetcher)]


def _hot_partition(signal: ReplicationSignal, thread: FetcherThreadLag) -> LaggingPartition | None:
    """Returns the partition that has nearly all of the thread's lag; None: several partitions share the lag, or it is not known."""
    hottest = max(_partitions_of(signal, thread), key=lambda p: p.lag_messages, default=None)
    total = thread.lag_sum_messages or 0.0
    return hottest if hottest is not None and hottest.lag_messages >= HOT_SHARE_MIN * total else None
