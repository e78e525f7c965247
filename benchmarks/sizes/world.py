"""A large cluster as input of the tuner: responses of the Admin API, and signals, cycle after cycle.

Every broker leads, follows and receives. Destinations are random, as in a rebalance of the whole cluster, so nearly every copy has
its own pair of brokers. In each cycle a few moves end, and as many begin. Nothing is simulated: the tuner's cost depends on the
size of its inputs, and hardly on their values.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from streaming.shared import kafka_names
from streaming.shared.contract import (
    BrokerSignal,
    MoveSignal,
    MoveStep,
    MovingPartition,
    Side,
    ThrottledBy,
    encode_signal,
)
from streaming.shared.kafka.cluster import ConfigValue, Endpoint, PartitionState
from streaming.shared.kafka.values import Append, Change, Subtract

MB = 1_000_000
CLUSTER = "large"
EPOCH_MS = 1_700_000_000_000
CYCLE_MS = 5_000
PARTITIONS_OF_A_TOPIC = 100
COPIES = 3
RATE_BYTES_PER_S = 50 * MB
STEADY_STATE_BYTES_PER_S = 10 * MB
REMAINING_BYTES = 400_000 * MB  # Of one side: so much that nothing is nearly done.
STEPS = 5  # A window of 30 s at one scrape every 5 s.
LARGEST = 5
_RATE = {key: str(RATE_BYTES_PER_S) for key in (kafka_names.LEADER_RATE, kafka_names.FOLLOWER_RATE)}
TURNOVER = 250  # One in so many moves ends from one cycle to the next.


@dataclass(frozen=True, slots=True)
class Size:
    brokers: int
    partitions: int
    moving: int


def sized(brokers: int) -> Size:
    """Returns the size: 200 partitions per broker, a quarter of them moving."""
    return Size(brokers, 200 * brokers, 50 * brokers)


class LargeCluster:
    """The Admin API's responses for the cluster reader; the benchmark advances ``cycle``."""

    def __init__(self, size: Size, seed: int, *, throttled: bool) -> None:
        """Args:
        throttled: rates and lists are set as by kafka-reassign-partitions; otherwise there are none.
        """
        self.size = size
        self.cycle = 0
        random = Random(seed)
        self._nodes = array("i")  # Of each partition: leader, followers, destination.
        for _ in range(size.partitions):
            self._nodes.extend(random.sample(range(size.brokers), COPIES + 1))
        self._standing = _RATE if throttled else {}
        self._rates: dict[int, dict[str, str]] = {}  # That were written.
        self._names = [_name(topic) for topic in range(-(-size.partitions // PARTITIONS_OF_A_TOPIC))]
        self._lists = {name: self._lists_of(topic) if throttled else {} for topic, name in enumerate(self._names)}

    def brokers(self) -> list[Endpoint]:
        return [Endpoint(broker, "broker", 9092) for broker in range(self.size.brokers)]

    def reassignments(self) -> list[PartitionState]:
        first = self.cycle * (self.size.moving // TURNOVER)
        return [self._state(i % self.size.partitions) for i in range(first, first + self.size.moving)]

    def partitions(self, topics: Iterable[str] | None = None) -> list[PartitionState]:
        """Returns one partition per topic, as no reader needs more."""
        asked = None if topics is None else set(topics)
        firsts = enumerate(range(0, self.size.partitions, PARTITIONS_OF_A_TOPIC))
        return [self._state(i) for topic, i in firsts if asked is None or self._names[topic] in asked]

    def topic_configs(self, topics: Iterable[str], keys: Iterable[str]) -> dict[str, dict[str, str]]:
        asked = list(keys)
        found = {
            topic: {key: text for key in asked if (text := self._lists[topic].get(key)) is not None} for topic in topics
        }
        return {topic: configs for topic, configs in found.items() if configs}

    def alter_topic_configs(self, changes: Mapping[str, Mapping[str, Change]]) -> dict[str, None]:
        for topic, configs in changes.items():
            for key, change in configs.items():
                text = _changed(self._lists[topic].get(key), change)
                if text is None:
                    self._lists[topic].pop(key, None)
                else:
                    self._lists[topic][key] = text
        return dict.fromkeys(changes)

    def broker_configs(self, brokers: Iterable[int], keys: Iterable[str]) -> dict[int, dict[str, ConfigValue]]:
        asked = [key for key in keys if key in _RATE]
        return {
            broker: {key: ConfigValue(own[key], kafka_names.SOURCE_DYNAMIC_BROKER) for key in asked if key in own}
            for broker in brokers
            for own in ({**self._standing, **self._rates.get(broker, {})},)
        }

    def alter_broker_configs(self, changes: Mapping[int, Mapping[str, str]]) -> dict[int, None]:
        for broker, configs in changes.items():
            self._rates.setdefault(broker, {}).update(configs)
        return dict.fromkeys(changes)

    def _lists_of(self, topic: int) -> dict[str, str]:
        """Returns the lists of a topic, as kafka-reassign-partitions sets them for a plan of all partitions."""
        leader, follower = [], []
        first = topic * PARTITIONS_OF_A_TOPIC
        for i in range(first, min(first + PARTITIONS_OF_A_TOPIC, self.size.partitions)):
            *own, target = self._nodes_of(i)
            leader += [f"{i - first}:{broker}" for broker in own]
            follower.append(f"{i - first}:{target}")
        return {kafka_names.LEADER_REPLICAS: ",".join(leader), kafka_names.FOLLOWER_REPLICAS: ",".join(follower)}

    def _nodes_of(self, i: int) -> list[int]:
        return self._nodes[i * (COPIES + 1) : (i + 1) * (COPIES + 1)].tolist()

    def _state(self, i: int) -> PartitionState:
        topic, partition = divmod(i, PARTITIONS_OF_A_TOPIC)
        *own, target = self._nodes_of(i)
        return PartitionState(
            self._names[topic],
            partition,
            own[0],
            replicas=(target, *own),
            isr=tuple(own),
            adding=(target,),
            removing=(own[-1],),
        )


def _changed(text: str | None, change: Change) -> str | None:
    """Returns a list setting after an incremental change, as Kafka does: sorted entries, and an empty text for none."""
    entries = text.split(",") if text else []
    match change:
        case Append(entries=added):
            known = set(entries)
            return ",".join(entries + [entry for entry in added.split(",") if entry not in known])
        case Subtract(entries=taken):
            gone = set(taken.split(","))
            return ",".join(entry for entry in entries if entry not in gone)
        case _:
            return change


def now_ms(cycle: int) -> int:
    return EPOCH_MS + cycle * CYCLE_MS


def records(size: Size, cycle: int, *, drained: float) -> Iterator[bytes]:
    """Yields the signal records of one cycle, one for each broker and for each of its sides.

    Args:
        drained: share of the throttle that the moves have used.
    """
    sampled_at_ms = now_ms(cycle) - 2_000
    share = size.moving // size.brokers
    surplus = RATE_BYTES_PER_S - STEADY_STATE_BYTES_PER_S
    written = STEADY_STATE_BYTES_PER_S * CYCLE_MS / 1000 / COPIES
    gained = written + drained * surplus * CYCLE_MS / 1000
    for broker in range(size.brokers):
        noise = _noise(broker, cycle)
        # What was measured of a step stays as it was while its window moves on.
        steps = [(STEPS - 1 - i, _noise(broker, cycle - (STEPS - 1 - i))) for i in range(STEPS)]
        yield encode_signal(_broker_signal(broker, sampled_at_ms, noise))
        for side in Side:
            yield encode_signal(
                MoveSignal(
                    CLUSTER,
                    broker,
                    side,
                    sampled_at_ms + 1_000,
                    sampled_at_ms,
                    STEPS + 1,
                    1.0,
                    moving_partitions=share,
                    listed_partitions=size.partitions * (COPIES if side is Side.LEADER else 1) // size.brokers,
                    remaining_bytes=REMAINING_BYTES * noise,
                    lag_messages=1e6 * noise,
                    remaining_slope_bytes_per_s=-drained * surplus * noise,
                    remaining_slope_r2=0.98,
                    steady_state_bytes_per_s=STEADY_STATE_BYTES_PER_S * noise,
                    write_bytes_per_s=STEADY_STATE_BYTES_PER_S / COPIES * noise,
                    progress_age_s=0.0,
                    steps=tuple(
                        MoveStep(
                            sampled_at_ms - ago * CYCLE_MS,
                            CYCLE_MS / 1000,
                            gained * then if side is Side.FOLLOWER else 0.0,
                            written * then,
                            REMAINING_BYTES * then,
                        )
                        for ago, then in steps
                    ),
                    largest=tuple(
                        MovingPartition(_name(broker), i, 8_000.0 * MB, 0.2 * MB * noise) for i in range(LARGEST)
                    ),
                )
            )


def _noise(broker: int, cycle: int) -> float:
    return 1.0 + 0.01 * ((broker * 7 + cycle * 13) % 11 - 5)


def _broker_signal(broker: int, sampled_at_ms: int, noise: float) -> BrokerSignal:
    throttled = 0.97 * RATE_BYTES_PER_S
    return BrokerSignal(
        CLUSTER,
        broker,
        sampled_at_ms + 1_000,
        sampled_at_ms,
        STEPS + 1,
        1.0,
        leader_throttled_bytes_per_s=throttled,
        follower_throttled_bytes_per_s=throttled,
        throttled_by=ThrottledBy.QUOTA.value,
        leader_rate_bytes_per_s=RATE_BYTES_PER_S,
        follower_rate_bytes_per_s=RATE_BYTES_PER_S,
        replication_in_bytes_per_s=70.0 * MB * noise,
        replication_out_bytes_per_s=70.0 * MB * noise,
        reassignment_in_bytes_per_s=40.0 * MB * noise,
        reassignment_out_bytes_per_s=40.0 * MB * noise,
        client_in_bytes_per_s=20.0 * MB * noise,
        client_out_bytes_per_s=30.0 * MB * noise,
        network_in_bytes_per_s=90.0 * MB * noise,
        network_out_bytes_per_s=100.0 * MB * noise,
        step_s=5.0,
        step_network_in_bytes_per_s=90.5 * MB * noise,
        step_network_out_bytes_per_s=100.5 * MB * noise,
        step_reassignment_in_bytes_per_s=40.5 * MB * noise,
        step_reassignment_out_bytes_per_s=40.5 * MB * noise,
        produce_p99_ms=9.0 * noise,
        fetch_p99_ms=7.0 * noise,
        request_handler_idle_ratio=0.8,
        isr_shrinks_per_s=0.0,
        isr_expands_per_s=0.0,
        replica_lag_max_messages=1e5 * noise,
        replica_lag_sum_messages=1e6 * noise,
        under_min_isr_partitions=0.0,
        partitions=600.0,
        leaders=200.0,
    )


def _name(topic: int) -> str:
    return f"orders-{topic:05d}"
