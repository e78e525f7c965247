"""Reads snapshots of the cluster through Kafka's Admin API: reassignments under way, and throttles that are set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from functools import cache

from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, ConfigValue, PartitionState
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS, Pair, TopicThrottle, parse_pair
from tuner.core.cluster import BrokerSide, ClusterUnreadable, LiveCluster, PartitionMove, RateSetting
from tuner.core.fetchers import NUM_REPLICA_FETCHERS, NUM_REPLICA_FETCHERS_DEFAULT
from tuner.core.partition_limits import InternalPartitions, count_internal
from tuner.core.quota_window import QuotaWindow
from tuner.core.token_bucket import SAMPLES, WINDOW_S
from tuner.runtime.observe.stationary_partitions import StationaryPartitions, has_lost

_NUMBERS = (
    kafka_names.QUOTA_SAMPLES,
    kafka_names.QUOTA_SAMPLE_S,
    NUM_REPLICA_FETCHERS,
    kafka_names.MUTATION_SAMPLES,
    kafka_names.MUTATION_WINDOW_S,
)


class _TopicLists:
    """The throttled-replica lists of one topic, both as Kafka's text and parsed."""

    def __init__(self, configs: dict[str, str], pair_of: Callable[[str], Pair]) -> None:
        self.configs = configs
        self.throttle = TopicThrottle.from_configs(configs, pair_of)


class ClusterReader:
    """Reads the whole state of the cluster for every snapshot. Objects that have not changed since the last snapshot are reused.

    The lists of a large move name hundreds of thousands of replicas. Parsing them again for every snapshot would take longer than
    the decisions.
    """

    def __init__(
        self, client: ClusterClient, on_all_partitions: Callable[[Sequence[PartitionState]], None] | None = None
    ) -> None:
        """
        Args:
            on_all_partitions: is called with all partitions whenever a snapshot has read them.
        """
        self._client = client
        self._on_all_partitions = on_all_partitions
        self._lists: dict[str, _TopicLists] = {}
        self._moves: dict[tuple[str, int], PartitionMove] = {}
        self._sides_with_rate: Set[BrokerSide] = frozenset()
        self._stationary = StationaryPartitions()
        self._lost_move_ended = False  # See StationaryPartitions.is_due.
        self.quota_windows: Set[QuotaWindow] = frozenset()  # The distinct windows of the brokers at the last full scan.
        self.internal = InternalPartitions()  # At the last full scan.

    def snapshot(
        self, *, full: bool, extra_topics: Collection[str] = (), waiting_brokers: Collection[int] = ()
    ) -> LiveCluster | ClusterUnreadable:
        """Returns a snapshot, or why the cluster could not be read.

        Args:
            full: read the lists of all topics. If False, read only the lists of topics that move or that had lists before, unless
                there is a new rate, which also causes a full read.
            extra_topics: topics whose lists are read in any case.
            waiting_brokers: brokers whose producers wait for replicas, or whose throttle was opened for this reason. While there
                are such brokers, partitions that do not move are read more often.
        """
        try:
            live = self._read_snapshot(full, extra_topics, waiting_brokers=waiting_brokers)
            self._stationary.note_snapshot(waiting_brokers=waiting_brokers)
            self._lost_move_ended = False
            return live
        except ClusterError as error:
            return ClusterUnreadable(str(error))
        except ValueError as error:  # A throttled-replica list in an unknown format.
            return ClusterUnreadable(str(error))

    def _read_snapshot(
        self, full: bool, extra_topics: Collection[str], *, waiting_brokers: Collection[int]
    ) -> LiveCluster:
        client = self._client
        brokers = frozenset(endpoint.node for endpoint in client.brokers())
        moves = self._read_moves()
        answers = client.broker_configs(brokers, [*RATE_KEYS.values(), *_NUMBERS])
        unreadable = frozenset(b for b, answer in answers.items() if isinstance(answer, ClusterError))
        if brokers and unreadable == brokers:
            # If all brokers return errors, the cluster cannot be read; the first error is reported.
            raise next(a for a in answers.values() if isinstance(a, ClusterError))
        rates: dict[BrokerSide, RateSetting] = {}
        for broker, configs in answers.items():
            if isinstance(configs, ClusterError):
                continue
            for side, key in RATE_KEYS.items():
                if key in configs:
                    rates[(broker, side)] = _rate_setting(configs[key])
        # kafka-reassign-partitions writes lists, then rates, and then starts the moves. So a new rate may belong to lists of topics
        # that do not move yet. If these lists were not read, the rate would seem unrelated to a move.
        full = full or not rates.keys() <= self._sides_with_rate
        self._sides_with_rate = rates.keys()
        if full:
            self.quota_windows = frozenset(_read_windows(answers))
        all_partitions = client.partitions() if full else []
        if full:
            self.internal = count_internal(((s.topic, s.partition), s.replicas) for s in all_partitions)
        if full and self._on_all_partitions is not None:
            self._on_all_partitions(all_partitions)
        topics = {s.topic for s in all_partitions} if full else {*self._lists, *extra_topics, *(m.topic for m in moves)}
        # A cache for this snapshot alone, because a lasting cache would also keep pairs that no list names any more.
        pair_of = cache(parse_pair)
        topic_lists = {
            topic: self._parse_lists(topic, configs, pair_of)
            for topic, configs in client.topic_configs(topics, LIST_KEYS.values()).items()
        }
        self._lists = {
            t: parsed for t, parsed in topic_lists.items() if parsed.throttle.leader or parsed.throttle.follower
        }
        lists = {topic: parsed.throttle for topic, parsed in self._lists.items()}
        samples = _read_numbers(answers, kafka_names.QUOTA_SAMPLES, kafka_names.QUOTA_SAMPLES_DEFAULT)
        sample_s = _read_numbers(answers, kafka_names.QUOTA_SAMPLE_S, kafka_names.QUOTA_SAMPLE_S_DEFAULT)
        fetchers = _read_numbers(answers, NUM_REPLICA_FETCHERS, NUM_REPLICA_FETCHERS_DEFAULT)
        is_due = self._stationary.is_due(waiting_brokers=waiting_brokers, lost_move_ended=self._lost_move_ended)
        if full:
            self._stationary.read(all_partitions, lists, self._moves.keys(), brokers)
        elif is_due or not lists:  # Without lists, this costs no request and forgets the sides of earlier lists.
            self._stationary.read(client.partitions(lists), lists, self._moves.keys(), brokers)
        return LiveCluster(
            brokers,
            moves,
            rates,
            lists,
            unreadable,
            quota_samples=samples,
            fetchers=fetchers,
            lost_replica_sides=self._stationary.sides,
            quota_sample_s={b: s for b, s in sample_s.items() if s != kafka_names.QUOTA_SAMPLE_S_DEFAULT},
        )

    def _read_moves(self) -> tuple[PartitionMove, ...]:
        """Returns the moves under way. There may be tens of thousands, so a move that has not changed keeps its object."""
        before, moves = self._moves, {}
        for s in self._client.reassignments():
            key = (s.topic, s.partition)
            move = before.get(key)
            # Fields are compared one by one, the most volatile first, because building a move just to compare it is slow.
            if (
                move is None
                or move.isr != s.isr
                or move.leader != s.leader
                or move.replicas != s.replicas
                or move.adding != s.adding
                or move.removing != s.removing
            ):
                move = PartitionMove(s.topic, s.partition, s.leader, s.replicas, s.adding, s.removing, s.isr)
            moves[key] = move
        self._lost_move_ended = self._lost_move_ended or any(
            has_lost(before[key]) for key in before.keys() - moves.keys()
        )
        self._moves = moves
        return tuple(moves.values())

    def _parse_lists(self, topic: str, configs: dict[str, str], pair_of: Callable[[str], Pair]) -> _TopicLists:
        known = self._lists.get(topic)
        try:
            return known if known is not None and known.configs == configs else _TopicLists(configs, pair_of)
        except ValueError as error:
            raise ValueError(f"topic {topic}: {error}") from error


def read_quota_windows(client: ClusterClient) -> Set[QuotaWindow]:
    """Returns the distinct controller quota windows of the brokers that answer.

    Raises:
        ClusterError: the brokers are unknown.
    """
    brokers = [endpoint.node for endpoint in client.brokers()]
    return frozenset(
        _read_windows(client.broker_configs(brokers, (kafka_names.MUTATION_SAMPLES, kafka_names.MUTATION_WINDOW_S)))
    )


def _read_numbers(
    answers: Mapping[int, dict[str, ConfigValue] | ClusterError], key: str, default: int
) -> dict[int, int]:
    numbers = {}
    for broker, configs in answers.items():
        if not isinstance(configs, ClusterError):
            config = configs.get(key)
            numbers[broker] = int(config.value) if config is not None else default
    return numbers


def _read_windows(answers: Mapping[int, dict[str, ConfigValue] | ClusterError]) -> Iterator[QuotaWindow]:
    for configs in answers.values():
        if not isinstance(configs, ClusterError):
            samples, seconds = configs.get(kafka_names.MUTATION_SAMPLES), configs.get(kafka_names.MUTATION_WINDOW_S)
            yield QuotaWindow(
                int(samples.value) if samples is not None else SAMPLES,
                float(seconds.value) if seconds is not None else WINDOW_S,
            )


def _rate_setting(config: ConfigValue) -> RateSetting:
    return RateSetting(int(config.value), is_set_on_broker=config.source == kafka_names.SOURCE_DYNAMIC_BROKER)
