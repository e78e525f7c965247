"""One look at the live cluster: what moves, what throttles are set."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set

from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, ConfigValue
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS, TopicThrottle
from tuner.core.cluster import BrokerSide, LiveCluster, NotSeen, PartitionMove, RateSetting
from tuner.core.fetchers import NUM_REPLICA_FETCHERS, NUM_REPLICA_FETCHERS_DEFAULT
from tuner.core.quota_window import QuotaWindow
from tuner.core.token_bucket import SAMPLES, WINDOW_S
from tuner.runtime.observe.stationary_partitions import StationaryPartitions, has_lost

_NUMBERS = (
    kafka_names.QUOTA_SAMPLES,
    NUM_REPLICA_FETCHERS,
    kafka_names.MUTATION_SAMPLES,
    kafka_names.MUTATION_WINDOW_S,
)


class _Listed:
    """The lists of one topic as Kafka told them, and as they are meant."""

    def __init__(self, configs: dict[str, str]) -> None:
        self.configs = configs
        self.throttle = TopicThrottle.from_configs(configs)


class ClusterReader:
    """Reads anew every time; keeps which topics carried a throttle at the last look, and what it has read.

    Of a large move most is the same at nearly every look: a list names hundreds of thousands of replicas, and to make values
    of them again, and of every partition that moves, would take longer than all that is decided on them.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._listed: dict[str, _Listed] = {}
        self._moves: dict[tuple[str, int], PartitionMove] = {}
        self._rated: Set[BrokerSide] = frozenset()
        self._beside = StationaryPartitions()
        self._went = False  # See Beside.is_due.
        self.quota_windows: Set[QuotaWindow] = frozenset()  # That brokers had at the last full look, each once.

    def snapshot(self, *, full: bool, also: Collection[str] = (), waits: Collection[int] = ()) -> LiveCluster | NotSeen:
        """
        Args:
            full: also ask every topic for lists; otherwise only those that move or had lists before, unless a rate is new.
            also: topics that are asked for lists besides.
            waits: brokers of which writes wait for replicas, or a throttle is open for some: what does not move is looked at
                more often.
        """
        try:
            live = self._look(full, also, waits=waits)
            self._beside.looked(waits=waits)
            self._went = False
            return live
        except ClusterError as error:
            return NotSeen(str(error))
        except ValueError as error:  # A throttled-replica list in a form we do not know.
            return NotSeen(str(error))

    def _look(self, full: bool, also: Collection[str], *, waits: Collection[int]) -> LiveCluster:
        client = self._client
        brokers = frozenset(endpoint.node for endpoint in client.brokers())
        moves = self._moves_now()
        answers = client.broker_configs(brokers, [*RATE_KEYS.values(), *_NUMBERS])
        unreadable = frozenset(b for b, answer in answers.items() if isinstance(answer, ClusterError))
        if brokers and unreadable == brokers:
            raise next(a for a in answers.values() if isinstance(a, ClusterError))
        rates: dict[BrokerSide, RateSetting] = {}
        for broker, configs in answers.items():
            if isinstance(configs, ClusterError):
                continue
            for side, key in RATE_KEYS.items():
                if key in configs:
                    rates[(broker, side)] = _setting(configs[key])
        # kafka-reassign-partitions writes lists, then rates, and only then moves. So a rate that was not there yet has its lists
        # by now, on topics that do not move: without them it would look like one that stands for other reasons.
        full = full or not rates.keys() <= self._rated
        self._rated = rates.keys()
        if full:
            self.quota_windows = frozenset(_windows(answers))
        every = client.partitions() if full else []
        topics = {s.topic for s in every} if full else {*self._listed, *also, *(m.topic for m in moves)}
        found = {topic: self._read(topic, c) for topic, c in client.topic_configs(topics, LIST_KEYS.values()).items()}
        self._listed = {topic: one for topic, one in found.items() if one.throttle.leader or one.throttle.follower}
        lists = {topic: one.throttle for topic, one in self._listed.items()}
        samples = _numbers(answers, kafka_names.QUOTA_SAMPLES, kafka_names.QUOTA_SAMPLES_DEFAULT)
        fetchers = _numbers(answers, NUM_REPLICA_FETCHERS, NUM_REPLICA_FETCHERS_DEFAULT)
        due = self._beside.is_due(waits=waits, went=self._went)
        if full:
            self._beside.read(every, lists, self._moves.keys(), brokers)
        elif due or not lists:
            self._beside.read(client.partitions(lists), lists, self._moves.keys(), brokers)
        return LiveCluster(brokers, moves, rates, lists, unreadable, samples, fetchers, self._beside.sides)

    def _moves_now(self) -> tuple[PartitionMove, ...]:
        """What moves as it did is the object that it was: of tens of thousands a look would else leave as many behind."""
        before, moves = self._moves, {}
        for s in self._client.reassignments():
            key = (s.topic, s.partition)
            move = before.get(key)
            # What changes while a partition moves comes first. To make a move just to compare it would be most of a look's work.
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
        self._went = self._went or any(has_lost(before[key]) for key in before.keys() - moves.keys())
        self._moves = moves
        return tuple(moves.values())

    def _read(self, topic: str, configs: dict[str, str]) -> _Listed:
        known = self._listed.get(topic)
        try:
            return known if known is not None and known.configs == configs else _Listed(configs)
        except ValueError as error:
            raise ValueError(f"topic {topic}: {error}") from error


def quota_windows_of(client: ClusterClient) -> Set[QuotaWindow]:
    """That the brokers have who answer, each once; as a full look finds them.

    Raises:
        ClusterError: it is not known who is there.
    """
    brokers = [endpoint.node for endpoint in client.brokers()]
    return frozenset(
        _windows(client.broker_configs(brokers, (kafka_names.MUTATION_SAMPLES, kafka_names.MUTATION_WINDOW_S)))
    )


def _numbers(answers: Mapping[int, dict[str, ConfigValue] | ClusterError], key: str, default: int) -> dict[int, int]:
    found = {}
    for broker, configs in answers.items():
        if not isinstance(configs, ClusterError):
            set_here = configs.get(key)
            found[broker] = int(set_here.value) if set_here is not None else default
    return found


def _windows(answers: Mapping[int, dict[str, ConfigValue] | ClusterError]) -> Iterator[QuotaWindow]:
    for configs in answers.values():
        if not isinstance(configs, ClusterError):
            samples, seconds = configs.get(kafka_names.MUTATION_SAMPLES), configs.get(kafka_names.MUTATION_WINDOW_S)
            yield QuotaWindow(
                int(samples.value) if samples is not None else SAMPLES,
                float(seconds.value) if seconds is not None else WINDOW_S,
            )


def _setting(config: ConfigValue) -> RateSetting:
    return RateSetting(int(config.value), own=config.source == kafka_names.SOURCE_DYNAMIC_BROKER)
