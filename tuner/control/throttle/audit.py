"""Audits the replication throttles of a cluster: finds the owner and the use of each rate and each throttled-replica list.

A throttle serves moves if a partition that it holds back is being reassigned, and recovery if it holds back a replica that has left
the ISR and catches up. It serves an absent replica if it will hold back a replica whose broker or disk is down: KIP-73 advises to
set a throttle before the broker starts. Any other throttle serves nothing: it slows no replica now, but would slow the next replica
that catches up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, PartitionMove


class RateSource(StrEnum):
    """The place where a rate is set: on one broker, for all brokers (``<default>``), or in a broker's server.properties."""

    BROKER = "broker"
    DEFAULT = "default"
    FILE = "file"


class Serves(StrEnum):
    """The use of a throttle; see the module docstring."""

    MOVES = "moves"
    RECOVERY = "recovery"
    ABSENT = "absent"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class LostReplicas:
    """The replicas of a stationary partition that have left the ISR although their brokers are alive."""

    topic: str
    partition: int
    leader: int
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AbsentReplicas:
    """The replicas of a stationary partition that will catch up when their broker or their disk is back.

    Attributes:
        replicas: all assigned brokers. Each of them may be the leader when the absent ones are back.
        brokers: the brokers of the absent replicas.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ThrottleSettings:
    """The throttle settings of a cluster, and the partitions that they may hold back.

    Attributes:
        rates: bytes/s in force on each side, and their source.
        default_rates: bytes/s of the cluster-wide default, by side. A broker with a rate of its own does not use it.
        log_dir_rates: bytes/s at which a broker copies between its log directories, and their source; None: the default.
        log_dir_copies: brokers that copy between their log directories now.
    """

    rates: Mapping[BrokerSide, tuple[int, RateSource]] = field(default_factory=dict)
    default_rates: Mapping[Side, int] = field(default_factory=dict)
    lists: Mapping[str, TopicThrottle] = field(default_factory=dict)
    moves: tuple[PartitionMove, ...] = ()
    lost: tuple[LostReplicas, ...] = ()
    absent: tuple[AbsentReplicas, ...] = ()
    log_dir_rates: Mapping[int | None, tuple[int, RateSource]] = field(default_factory=dict)
    log_dir_copies: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class AuditedLogDirRate:
    """The limit of copies between the log directories of a broker, in bytes/s; ``broker`` None: the limit of each broker.

    Attributes:
        managed: rheostat has set it, and restores the earlier value.
    """

    broker: int | None
    bytes_per_s: int
    source: RateSource
    serves: Serves
    managed: bool = False


@dataclass(frozen=True, slots=True)
class AuditedRate:
    """A rate, in bytes/s.

    Attributes:
        broker: None if the rate is the cluster-wide default.
        managed: rheostat has set it, and restores the earlier value.
    """

    broker: int | None
    side: Side
    bytes_per_s: int
    source: RateSource
    managed: bool
    serves: Serves


@dataclass(frozen=True, slots=True)
class AuditedList:
    """One throttled-replica list of a topic.

    Attributes:
        managed: rheostat has added every entry of the list.
        managed_entries: the entries that rheostat has added.
    """

    topic: str
    side: Side
    replicas: ThrottledReplicas
    managed: bool
    managed_entries: int
    serves: Serves


def audit_rates(settings: ThrottleSettings, memory: Memory) -> list[AuditedRate]:
    """Returns the rates by broker and side, the cluster-wide defaults last."""
    use = _UseOfSides(settings)
    set_on_brokers = [
        AuditedRate(*side, rate, source, managed=side in memory.owned, serves=use.served_by(side))
        for side, (rate, source) in sorted(settings.rates.items())
        if source is not RateSource.DEFAULT
    ]
    defaults = [
        AuditedRate(None, side, rate, RateSource.DEFAULT, managed=False, serves=use.served_by_default(side))
        for side, rate in sorted(settings.default_rates.items())
    ]
    return set_on_brokers + defaults


def audit_lists(settings: ThrottleSettings, memory: Memory) -> list[AuditedList]:
    """Returns the throttled-replica lists by topic and side."""
    uses = {
        Serves.MOVES: _brokers_by_partition((m.topic, m.partition, m.replicas + m.adding) for m in settings.moves),
        Serves.RECOVERY: _brokers_by_partition((r.topic, r.partition, (r.leader, *r.brokers)) for r in settings.lost),
        Serves.ABSENT: _brokers_by_partition((r.topic, r.partition, r.replicas) for r in settings.absent),
    }
    return [
        _audit_list(topic, side, replicas, memory, {use: brokers.get(topic, {}) for use, brokers in uses.items()})
        for topic, throttle in sorted(settings.lists.items())
        for side in Side
        if (replicas := throttle.for_side(side))
    ]


def audit_log_dir_rates(settings: ThrottleSettings, managed: Collection[int] = ()) -> list[AuditedLogDirRate]:
    """Returns the limits of copies between log directories by broker, the cluster-wide default last.

    Args:
        managed: the brokers whose limit rheostat manages.
    """
    rates = settings.log_dir_rates
    limited_by_default = settings.log_dir_copies - {broker for broker in rates if broker is not None}
    audited = []
    for broker in sorted(rates, key=lambda broker: (broker is None, broker or 0)):
        is_used = bool(limited_by_default) if broker is None else broker in settings.log_dir_copies
        serves = Serves.MOVES if is_used else Serves.NOTHING
        audited.append(AuditedLogDirRate(broker, *rates[broker], serves, managed=broker in managed))
    return audited


_Brokers = Mapping[int, frozenset[int]]  # By partition of one topic.


def _audit_list(
    topic: str, side: Side, replicas: ThrottledReplicas, memory: Memory, uses: Mapping[Serves, _Brokers]
) -> AuditedList:
    """Returns the list with its first use.

    Args:
        uses: the brokers that copy, by partition of the topic, for each use; the most important use is first.
    """
    managed = memory.listed.get(topic, TopicThrottle()).for_side(side).pairs & replicas.pairs
    serves = next((use for use, brokers in uses.items() if _names_any(replicas, brokers)), Serves.NOTHING)
    all_managed = bool(managed) and not replicas.all_replicas and managed == replicas.pairs
    return AuditedList(topic, side, replicas, all_managed, len(managed), serves)


def _names_any(replicas: ThrottledReplicas, brokers_by_partition: _Brokers) -> bool:
    if replicas.all_replicas:
        return bool(brokers_by_partition)
    return any(broker in brokers_by_partition.get(partition, ()) for partition, broker in replicas.pairs)


def _brokers_by_partition(rows: Iterable[tuple[str, int, tuple[int, ...]]]) -> dict[str, dict[int, frozenset[int]]]:
    by_topic: dict[str, dict[int, frozenset[int]]] = {}
    for topic, partition, brokers in rows:
        by_topic.setdefault(topic, {})[partition] = frozenset(brokers)
    return by_topic


class _UseOfSides:
    """The sides through which moves and listed lost replicas copy, and through which listed absent replicas will copy."""

    def __init__(self, settings: ThrottleSettings) -> None:
        self._rates = settings.rates
        self._moving = {broker for move in settings.moves for broker in (*move.replicas, *move.adding)}
        self._recovering = set(_recovering_sides(settings))
        self._awaiting = set(_awaiting_sides(settings))

    def served_by(self, side: BrokerSide) -> Serves:
        if side[0] in self._moving:
            return Serves.MOVES
        if side in self._recovering:
            return Serves.RECOVERY
        return Serves.ABSENT if side in self._awaiting else Serves.NOTHING

    def served_by_default(self, side: Side) -> Serves:
        """Returns what the cluster-wide default serves: the most important use among the brokers that use it.

        The rate of a broker that is down cannot be read, so the broker is assumed to use the default.
        """
        with_default = {broker_side for broker_side, (_, source) in self._rates.items() if source is RateSource.DEFAULT}
        with_default |= self._awaiting - self._rates.keys()
        uses = {self.served_by(broker_side) for broker_side in with_default if broker_side[1] is side}
        return next((use for use in (Serves.MOVES, Serves.RECOVERY, Serves.ABSENT) if use in uses), Serves.NOTHING)


def _recovering_sides(settings: ThrottleSettings) -> Iterator[BrokerSide]:
    """Yields the sides whose throttle holds back a lost replica: its list names the replica, or the leader that it copies from."""
    for replicas in settings.lost:
        lists = settings.lists.get(replicas.topic, TopicThrottle())
        yield from (
            (broker, Side.FOLLOWER)
            for broker in replicas.brokers
            if lists.follower.includes(replicas.partition, broker)
        )
        if lists.leader.includes(replicas.partition, replicas.leader):
            yield replicas.leader, Side.LEADER


def _awaiting_sides(settings: ThrottleSettings) -> Iterator[BrokerSide]:
    """Yields the sides whose throttle will hold back an absent replica: a list names it, or a replica that it may copy from."""
    for absent in settings.absent:
        lists = settings.lists.get(absent.topic, TopicThrottle())
        for broker in absent.brokers:
            if lists.follower.includes(absent.partition, broker):
                yield broker, Side.FOLLOWER
        for broker in absent.replicas:
            if lists.leader.includes(absent.partition, broker):
                yield broker, Side.LEADER
