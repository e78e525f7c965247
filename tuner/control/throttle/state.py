"""Defines the throttle controller's state between cycles, as an immutable value. The journal stores it; a replay starts from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.shared.throttle_settings import TopicThrottle
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import Orders
from tuner.core.value import value


@value
class StallState:
    """The stall detector's state for one destination broker; see diagnosis/stall_detector.py."""

    lost_s: float = 0.0
    stalled: bool = False
    stalled_since_ms: int | None = None
    judged_until_ms: int = 0
    observed_s: float = 0.0
    # The newest steps, oldest first: seconds, bytes drained, and bytes of the expected drain.
    window: tuple[tuple[float, float, float], ...] = ()


@value
class RateSince:
    """The rate of one throttle in the last cycle, and when it last changed; see rate_changes.py."""

    bytes_per_s: int | None  # None: no throttle.
    since_ms: int  # 0: it has not changed since the first observation.


@dataclass(frozen=True, slots=True)
class OwnedRate:
    """A rate that the tuner wrote, in bytes/s.

    Attributes:
        before_bytes_per_s: the rate before the tuner's first change; None if there was none.
        setpoint_bytes_per_s: the rate at the end of the last change.
        possible_rates: all rates that the side can have after the last change, which may have been interrupted, in the order of
            the writes (None: no setting). So after a crash the tuner still recognises the current rate as its own.
        restore_to_bytes_per_s: the rate to restore when the reason of a temporary change is over; None: the change is permanent.
    """

    before_bytes_per_s: int | None
    setpoint_bytes_per_s: int
    possible_rates: tuple[int | None, ...]
    restore_to_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True)
class IdleThrottles:
    """The throttles in the last idle cycle after moves.

    Attributes:
        brokers: brokers whose rates could be read.
        rates: sides whose rate is set on the broker itself.
        lists: topics with throttled-replica lists.
        new_rates: the sides in ``rates`` whose rate appeared after the first idle cycle.
        new_lists: the topics in ``lists`` whose list appeared after the first idle cycle.
        listed: the entries of other owners in these lists, by topic.
    """

    brokers: frozenset[int]
    rates: frozenset[BrokerSide]
    lists: frozenset[str]
    new_rates: frozenset[BrokerSide] = frozenset()
    new_lists: frozenset[str] = frozenset()
    listed: Mapping[str, TopicThrottle] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Memory:
    """The state that a cycle needs from the cycles before it. Rates are in bytes/s, times in ms since the epoch.

    Fields marked "not in the journal" start empty after a restart.
    """

    stalls: Mapping[int, StallState] = field(default_factory=dict)  # By destination broker.
    # Stalled destinations for which the tuner has raised a rate, until their move ends.
    rescued: frozenset[int] = frozenset()
    owned: Mapping[BrokerSide, OwnedRate] = field(default_factory=dict)
    externally_owned_until_ms: Mapping[BrokerSide, int] = field(default_factory=dict)
    # The brokers of each partition (topic, partition) that has moved since the last cleanup.
    moving_replicas: Mapping[tuple[str, int], frozenset[int]] = field(default_factory=dict)
    # Whether another owner's throttled-replica list named any moving replica, so that the move had a throttle from another tool.
    throttled: bool = False
    # Rates that were set in idle cycles (cycles without moves). They belong to no move, so the end of a move does not remove them.
    preexisting_rates: Mapping[BrokerSide, int] = field(default_factory=dict)
    # Topics with lists in two idle cycles in a row, so that the lists belong to no move; None: not observed yet. One cycle is not
    # enough, because kafka-reassign-partitions sets the lists of a move a moment before the move.
    preexisting_lists: frozenset[str] | None = None
    idle_lists: frozenset[str] = frozenset()  # Topics with lists in the last idle cycle.
    # Rates in the last idle cycle. Not in the journal.
    idle_rates: Mapping[BrokerSide, int] = field(default_factory=dict)
    # By side and by topic: the first idle cycle in which the present rate, or lists, were set. For `rheostat throttles`, not for
    # decisions.
    idle_rates_since: Mapping[BrokerSide, RateSince] = field(default_factory=dict)
    idle_lists_since_ms: Mapping[str, int] = field(default_factory=dict)
    # The throttles of the last idle cycle, from the end of the moves until their cleanup. Not in the journal.
    after_moves: IdleThrottles | None = None
    # Brokers that were down when their move ended. The tuner removes the throttles of the move when the brokers are back.
    brokers_to_clear: frozenset[int] = frozenset()
    # The tuner's entries in the throttled-replica lists, by topic. An entry is noted here before it is written to the list,
    # and stays noted until it has been removed from the list.
    listed: Mapping[str, TopicThrottle] = field(default_factory=dict)
    # Topics whose lists had entries of the tuner in the last cycle. Not in the journal.
    listed_topics: frozenset[str] = frozenset()
    # Owned sides without a rate in the last cycle. A tool may have cleared all rates, so these sides are checked again.
    missing_rates: frozenset[BrokerSide] = frozenset()
    # Owned sides without a signal, and the time since which they have had none. Not in the journal.
    unmeasured_since_ms: Mapping[BrokerSide, int] = field(default_factory=dict)
    # Sides of recoveries without fresh signals, and the time since which they have had none. Not in the journal.
    recovery_unmeasured_since_ms: Mapping[BrokerSide, int] = field(default_factory=dict)
    # The sides in ``recovery_unmeasured_since_ms`` that have had no fresh signal for too long (recovery.py). Not in the journal.
    unmeasured_recovery_sides: frozenset[BrokerSide] = frozenset()
    decayed_at_ms: Mapping[BrokerSide, int] = field(default_factory=dict)  # Time of the last decay. Not in the journal.
    rates_since: Mapping[BrokerSide, RateSince] = field(default_factory=dict)  # Not in the journal.
    # Rates that the previous tuner may have requested and that were not set at this tuner's first snapshot.
    predecessor_writes: Mapping[BrokerSide, tuple[int | None, ...]] = field(default_factory=dict)
    predecessor_writes_until_ms: int = 0
    # The requests of the previous tuner that took effect late and are still set: (late rate, rate before). Not in the journal.
    late_predecessor_writes: Mapping[BrokerSide, tuple[int | None, int | None]] = field(default_factory=dict)
    schedule_rules: str = ""  # The rules of the schedule in the last cycle, as in ThrottleLimits.
    cleared_at_ms: int = 0  # When all the tuner's rates last disappeared at once.
    idle_snapshots: int = 0  # Snapshots in a row without moves.
    orders_at_ms: int = 0  # The time of the newest acknowledged orders.
    recorded_orders: Orders = field(default_factory=Orders)  # The orders in the journal's last record of orders.
    orders_recorded_until_ms: int | None = None  # The time of the journal's last record of orders; None: there is none.

    def with_listed(self, topic: str, pairs: TopicThrottle) -> Mapping[str, TopicThrottle]:
        """Returns ``listed`` with these entries of one topic; without the topic if there are none."""
        if pairs:
            return {**self.listed, topic: pairs}
        return {key: value for key, value in self.listed.items() if key != topic}

    def with_owned(self, side: BrokerSide, owned: OwnedRate | None) -> Mapping[BrokerSide, OwnedRate]:
        """Returns ``owned`` with this rate of one side; without the side if it is None."""
        if owned is not None:
            return {**self.owned, side: owned}
        return {key: value for key, value in self.owned.items() if key != side}
