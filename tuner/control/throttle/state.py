"""What the tuner remembers from cycle to cycle: a value, so that the journal can keep it and a replay can start from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.shared.throttle_settings import TopicThrottle
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import Orders
from tuner.core.value import value


@value
class StallState:
    """The judge's memory of one destination broker; see control/throttle/diagnosis/stall_detector.py."""

    lost_s: float = 0.0
    stalled: bool = False
    stalled_since_ms: int | None = None
    judged_until_ms: int = 0
    observed_s: float = 0.0
    # Seen and not judged yet, because it is too short to be: how long, and what was gained and written in it.
    pending_s: float = 0.0
    pending_gained_bytes: float = 0.0
    pending_written_bytes: float = 0.0


@value
class RateSince:
    """The rate of one throttle at the last look, and when it changed last; see control/throttle/rate_changes.py."""

    bytes_per_s: int | None  # None: no throttle.
    since_ms: int  # 0: it has not changed since it was first seen.


@dataclass(frozen=True, slots=True)
class OwnedRate:
    """A rate that we wrote.

    ``may_stand`` holds every value that a change under way may leave behind (None: no setting), so that after a crash in
    the middle of one, what stands there is still recognised as ours.
    """

    before_bytes_per_s: int | None  # What stood there before we came; None: nothing did.
    setpoint_bytes_per_s: int
    possible_rates: tuple[int | None, ...]
    # When what it was changed for is over, an order or replicas that come back; None: it was changed for good.
    restore_to_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True)
class IdleThrottles:
    """What throttles there were at the last look at which nothing moved any more, and which of them had come since the first."""

    brokers: frozenset[int]  # Whose rates could be read.
    rates: frozenset[BrokerSide]
    lists: frozenset[str]
    new_rates: frozenset[BrokerSide] = frozenset()
    new_lists: frozenset[str] = frozenset()
    listed: Mapping[str, TopicThrottle] = field(default_factory=dict)  # By others.


@dataclass(frozen=True, slots=True)
class Memory:
    stalls: Mapping[int, StallState] = field(default_factory=dict)  # By destination broker.
    rescued: frozenset[int] = frozenset()  # Destinations whose stall we have answered, until their move ends.
    owned: Mapping[BrokerSide, OwnedRate] = field(default_factory=dict)
    externally_owned_until_ms: Mapping[BrokerSide, int] = field(default_factory=dict)
    # Replicas of the partitions seen moving since the last end: (topic, partition) → brokers.
    moving_replicas: Mapping[tuple[str, int], frozenset[int]] = field(default_factory=dict)
    # Whether a throttled-replica list named any of them, so that a throttle came with the move.
    throttled: bool = False
    # Rates that stood while nothing moved and no list was set: they came with no move, and no move's end takes them away.
    preexisting_rates: Mapping[BrokerSide, int] = field(default_factory=dict)
    # Topics with lists at two idle looks in a row (None: never looked): those too came with no move. Two, because
    # kafka-reassign-partitions sets the lists of a move a moment before the move.
    preexisting_lists: frozenset[str] | None = None
    idle_lists: frozenset[str] = frozenset()
    idle_rates: Mapping[BrokerSide, int] = field(default_factory=dict)  # At the idle look before. Not on record.
    after_moves: IdleThrottles | None = (
        None  # The throttles of idle looks since something was seen to move. Not on record.
    )
    # Brokers that were away when the move they took part in ended: its throttle goes when they are back.
    brokers_to_clear: frozenset[int] = frozenset()
    # Replicas that we have put on the throttled-replica lists, by topic: on record before they are listed, and until they are not.
    listed: Mapping[str, TopicThrottle] = field(default_factory=dict)
    missing_rates: frozenset[BrokerSide] = (
        frozenset()
    )  # Where nothing of ours stood at the last look, and nobody is blamed yet.
    # Of ours: since when nobody has told us of it. Not on record: who has just begun has not waited for anybody yet.
    unmeasured_since_ms: Mapping[BrokerSide, int] = field(default_factory=dict)
    decayed_at_ms: Mapping[BrokerSide, int] = field(
        default_factory=dict
    )  # Of those, when one sank last. Not on record.
    rates_since: Mapping[BrokerSide, RateSince] = field(default_factory=dict)  # Not on record.
    # What a tuner before this one was about to write, and had not at our first look: its request may still come.
    predecessor_writes: Mapping[BrokerSide, tuple[int | None, ...]] = field(default_factory=dict)
    predecessor_writes_until_ms: int = 0
    # Of those, what has come and stands, and what had stood there until then. Not on record.
    late_predecessor_writes: Mapping[BrokerSide, tuple[int | None, int | None]] = field(default_factory=dict)
    cleared_at_ms: int = 0  # When all our rates were last gone at once.
    idle_snapshots: int = 0
    orders_at_ms: int = 0  # The newest orders that were acknowledged.
    recorded_orders: Orders = field(
        default_factory=Orders
    )  # As the journal has told of them last; what differs is news.
    orders_recorded_until_ms: int | None = (
        None  # When that was: what has expired since is news, too. None: it was never told.
    )

    def with_listed(self, topic: str, pairs: TopicThrottle) -> Mapping[str, TopicThrottle]:
        if pairs:
            return {**self.listed, topic: pairs}
        return {key: value for key, value in self.listed.items() if key != topic}

    def with_owned(self, side: BrokerSide, owned: OwnedRate | None) -> Mapping[BrokerSide, OwnedRate]:
        if owned is not None:
            return {**self.owned, side: owned}
        return {key: value for key, value in self.owned.items() if key != side}
