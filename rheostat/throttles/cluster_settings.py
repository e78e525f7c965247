"""Reads the throttle settings of the cluster, and the partitions that they may hold back. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from rheostat.errors import CommandError
from streaming.shared import kafka_names
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, ConfigValue, PartitionState
from streaming.shared.kafka_names import LOG_DIR_RATE
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS, TopicThrottle
from tuner.control.throttle.audit import AbsentReplicas, LostReplicas, RateSource, ThrottleSettings
from tuner.core.cluster import BrokerSide, PartitionMove

_SOURCES = {
    kafka_names.SOURCE_DYNAMIC_BROKER: RateSource.BROKER,
    kafka_names.SOURCE_DYNAMIC_DEFAULT_BROKER: RateSource.DEFAULT,
}


def read_throttle_settings(client: ClusterClient) -> ThrottleSettings:
    """Returns all throttles of the cluster.

    Raises:
        ClusterError: the cluster does not answer, or a right is missing.
        CommandError: a broker does not answer, or a list has an unknown format.
    """
    brokers = sorted(endpoint.node for endpoint in client.brokers())
    moves = tuple(
        PartitionMove(s.topic, s.partition, s.leader, s.replicas, s.adding, s.removing, s.isr)
        for s in client.reassignments()
    )
    partitions = client.partitions()
    moving = {(move.topic, move.partition) for move in moves}
    stationary = [state for state in partitions if (state.topic, state.partition) not in moving]
    lost_replicas = [_lost_replicas(state, brokers) for state in stationary]
    absent_replicas = [_absent_replicas(state, brokers) for state in stationary]
    log_dir_rates = _read_log_dir_rates(client, brokers)
    return ThrottleSettings(
        rates=_read_rates(client, brokers),
        default_rates=_read_default_rates(client),
        lists=_read_lists(client, {state.topic for state in partitions}),
        moves=moves,
        lost=tuple(lost for lost in lost_replicas if lost is not None),
        absent=tuple(absent for absent in absent_replicas if absent is not None),
        log_dir_rates=log_dir_rates,
        log_dir_copies=_read_log_dir_copies(client, brokers) if log_dir_rates else frozenset(),
    )


def _read_rates(client: ClusterClient, brokers: list[int]) -> dict[BrokerSide, tuple[int, RateSource]]:
    rates: dict[BrokerSide, tuple[int, RateSource]] = {}
    for broker, configs in sorted(client.broker_configs(brokers, RATE_KEYS.values()).items()):
        if isinstance(configs, ClusterError):
            raise CommandError(f"The throttles of broker {broker} cannot be read: {configs}.") from configs
        rates |= {(broker, side): _rate(configs[key]) for side, key in RATE_KEYS.items() if key in configs}
    return rates


def _read_log_dir_rates(client: ClusterClient, brokers: list[int]) -> dict[int | None, tuple[int, RateSource]]:
    """Returns the limits of copies between log directories by broker; the key None holds the cluster-wide default."""
    rates: dict[int | None, tuple[int, RateSource]] = {}
    for broker, configs in client.broker_configs(brokers, [LOG_DIR_RATE]).items():
        if not isinstance(configs, ClusterError) and LOG_DIR_RATE in configs:
            rate = _rate(configs[LOG_DIR_RATE])
            rates |= {} if rate[1] is RateSource.DEFAULT else {broker: rate}
    default = client.default_config(LOG_DIR_RATE)
    return rates if default is None else {**rates, None: (int(default), RateSource.DEFAULT)}


def _read_log_dir_copies(client: ClusterClient, brokers: list[int]) -> frozenset[int]:
    """Returns the brokers that copy between their log directories; a broker that does not answer counts as one of them."""
    return frozenset(
        broker for broker, logs in client.log_dir_copies(brokers).items() if isinstance(logs, ClusterError) or logs
    )


def _rate(config: ConfigValue) -> tuple[int, RateSource]:
    return int(config.value), _SOURCES.get(config.source, RateSource.FILE)


def _read_default_rates(client: ClusterClient) -> dict[Side, int]:
    values = {side: client.default_config(key) for side, key in RATE_KEYS.items()}
    return {side: int(value) for side, value in values.items() if value is not None}


def _read_lists(client: ClusterClient, topics: set[str]) -> Mapping[str, TopicThrottle]:
    lists = {}
    for topic, configs in client.topic_configs(topics, LIST_KEYS.values()).items():
        try:
            throttle = TopicThrottle.from_configs(configs)
        except ValueError as error:
            raise CommandError(f"The throttled-replica lists of topic {topic} cannot be read: {error}.") from error
        if throttle:
            lists[topic] = throttle
    return lists


def _lost_replicas(state: PartitionState, brokers: list[int]) -> LostReplicas | None:
    """Returns the replicas that have left the ISR and can catch up; None if there are none."""
    if len(state.isr) == len(state.replicas):
        return None
    lost = tuple(b for b in state.replicas if b not in state.isr and b not in state.offline and b in brokers)
    return LostReplicas(state.topic, state.partition, state.leader, lost) if lost else None


def _absent_replicas(state: PartitionState, brokers: list[int]) -> AbsentReplicas | None:
    """Returns the replicas that will have to catch up once their broker or their disk is back; None if there are none."""
    if len(state.isr) == len(state.replicas):
        return None
    absent = tuple(b for b in state.replicas if b not in state.isr and (b in state.offline or b not in brokers))
    return AbsentReplicas(state.topic, state.partition, state.replicas, absent) if absent else None
