"""One look at the live cluster: what moves, what throttles are set."""

from __future__ import annotations

from streaming import words
from streaming.kafka.cluster import ClusterClient, ClusterError, ConfigValue
from streaming.throttles import LIST_KEYS, RATE_KEYS, TopicThrottle
from tuner.model.cluster import BrokerSide, LiveCluster, NotSeen, PartitionMove, RateSetting


class LiveReader:
    """Reads anew every time; keeps only which topics carried a throttle at the last full look."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._listed: set[str] = set()

    def look(self, *, full: bool) -> LiveCluster | NotSeen:
        """Args: full: also ask every topic for lists; otherwise only those that move or had lists before."""
        try:
            return self._look(full)
        except ClusterError as error:
            return NotSeen(str(error))
        except ValueError as error:  # A throttled-replica list in a form we do not know.
            return NotSeen(str(error))

    def _look(self, full: bool) -> LiveCluster:
        client = self._client
        brokers = frozenset(endpoint.node for endpoint in client.brokers())
        moves = tuple(
            PartitionMove(s.topic, s.partition, s.leader, s.replicas, s.adding, s.removing, s.isr)
            for s in client.reassignments()
        )
        topics = {s.topic for s in client.partitions()} if full else self._listed | {m.topic for m in moves}
        lists = {
            topic: throttle
            for topic, configs in client.topic_configs(topics, LIST_KEYS.values()).items()
            if (throttle := TopicThrottle.from_configs(configs)).leader or throttle.follower
        }
        self._listed = set(lists)
        answers = client.broker_configs(brokers, RATE_KEYS.values())
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
        return LiveCluster(brokers, moves, rates, lists, unreadable)


def _setting(config: ConfigValue) -> RateSetting:
    return RateSetting(int(config.value), own=config.source == words.SOURCE_DYNAMIC_BROKER)
