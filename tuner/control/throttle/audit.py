"""Audits the replication throttles of a cluster: each rate and each throttled-replica list, whose it is, and what it serves.

A throttle serves moves if a partition that it holds back is being reassigned, and recovery if it holds back a replica that has left
the ISR and catches up. Any other throttle serves nothing: it slows no replica now, but would slow the next replica that catches up.
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
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class LostReplicas:
    """The replicas of a stationary partition that have left the ISR although their brokers are alive."""

    topic: str
    partition: int
    leader: int
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
    log_dir_rates: Mapping[int | None, tuple[int, RateSource]] = field(default_factory=dict)
    log_dir_copies: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class AuditedLogDirRate:
    """The limit of copies between the log directories of one broker (``broker`` None: of all brokers), in bytes/s.

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
    moving = _brokers_by_partition((m.topic, m.partition, m.replicas + m.adding) for m in settings.moves)
    lost = _brokers_by_partition((r.topic, r.partition, (r.leader, *r.brokers)) for r in settings.lost)
    return [
        _audit_list(topic, side, replicas, memory, moving.get(topic, {}), lost.get(topic, {}))
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
    topic: str, side: Side, replicas: ThrottledReplicas, memory: Memory, moving: _Brokers, lost: _Brokers
) -> AuditedList:
    managed = memory.listed.get(topic, TopicThrottle()).for_side(side).pairs & replicas.pairs
    serves = Serves.RECOVERY if _names_any(replicas, lost) else Serves.NOTHING
    if _names_any(replicas, moving):
        serves = Serves.MOVES
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
    """The sides through which moves and listed lost replicas copy."""

    def __init__(self, settings: ThrottleSettings) -> None:
        self._rates = settings.rates
        self._moving = {broker for move in settings.moves for broker in (*move.replicas, *move.adding)}
        self._recovering = set(_recovering_sides(settings))

    def served_by(self, side: BrokerSide) -> Serves:
        if side[0] in self._moving:
            return Serves.MOVES
        return Serves.RECOVERY if side in self._recovering else Serves.NOTHING

    def served_by_default(self, side: Side) -> Serves:
        """Returns what the cluster-wide default serves: the most important use among the brokers that use it."""
        uses = {
            self.served_by(broker_side)
            for broker_side, (_, source) in self._rates.items()
            if source is RateSource.DEFAULT and broker_side[1] is side
        }
        return next((serves for serves in (Serves.MOVES, Serves.RECOVERY) if serves in uses), Serves.NOTHING)


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
