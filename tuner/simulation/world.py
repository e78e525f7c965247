"""Defines the world of a simulation: brokers, partitions, load, disturbances, and the delay and loss of signals.

Two runs of the same world and policy are equal byte for byte, because all random values come from the world's seed. A run prints
``describe`` first, so that its result can be repeated.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from streaming.shared.contract import Side
from streaming.shared.units import count_text, rate_text, size_text

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """A broker, and the capacity of its link and disks in each direction."""

    broker: int
    link_in_bytes_per_s: float
    link_out_bytes_per_s: float
    disk_write_bytes_per_s: float
    disk_read_bytes_per_s: float
    # The capacity in the tuner's settings ÷ the true one; None: not in the settings.
    configured_capacity_ratio: float | None = 1.0


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """A partition before its move; ``replicas[0]`` leads."""

    topic: str
    partition: int
    size_bytes: float
    write_bytes_per_s: float  # Mean; multiplied by the leader's load factor.
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """The client load of one broker.

    One load factor (daily shape and noise) multiplies all of the load, and the writes to partitions that the broker leads.
    """

    broker: int
    # Traffic of partitions outside the world, including their in-sync replication.
    in_bytes_per_s: float = 0.0
    out_bytes_per_s: float = 0.0
    reads_per_write: float = 1.0  # Consumers of the world's partitions.
    daily_ratio: float = 0.0  # Amplitude of the daily sine ÷ mean.
    daily_phase_s: float = 0.0
    day_s: float = 86_400.0
    noise_ratio: float = 0.0  # Standard deviation of the noise ÷ mean.
    noise_s: float = 10.0  # Autocorrelation time of the noise.


@dataclass(frozen=True, slots=True)
class LoadStep:
    """The load of ``brokers`` is multiplied by ``factor`` for a while."""

    at_s: float
    until_s: float
    brokers: tuple[int, ...]
    factor: float


@dataclass(frozen=True, slots=True)
class LinkStep:
    """The capacity of the links of ``brokers`` is multiplied by ``factor`` for a while."""

    at_s: float
    until_s: float
    brokers: tuple[int, ...]
    factor: float


@dataclass(frozen=True, slots=True)
class BrokerLoss:
    """A broker is down for a while."""

    at_s: float
    until_s: float
    broker: int


@dataclass(frozen=True, slots=True)
class LeaderMove:
    """Leadership goes to another in-sync replica; ignored if ``to`` is not in sync at that time."""

    at_s: float
    topic: str
    partition: int
    to: int


@dataclass(frozen=True, slots=True)
class SignalOutage:
    """The signals of ``brokers`` are lost for a while."""

    at_s: float
    until_s: float
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ControllerStorm:
    """Other clients send this many operations per second to the controller."""

    at_s: float
    until_s: float
    operations_per_s: float


@dataclass(frozen=True, slots=True)
class OperatorWrite:
    """An operator sets a rate (None removes it), as kafka-configs does."""

    at_s: float
    broker: int
    side: Side
    rate_bytes_per_s: int | None


Disturbance = LoadStep | LinkStep | BrokerLoss | LeaderMove | SignalOutage | ControllerStorm | OperatorWrite


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Kafka's fetch settings at their defaults, and the speed of one fetcher thread."""

    response_bytes_max: float = 10 * MIB  # replica.fetch.response.max.bytes
    partition_bytes_max: float = 1 * MIB  # replica.fetch.max.bytes
    wait_s: float = 0.5  # replica.fetch.wait.max.ms
    backoff_s: float = 1.0  # replica.fetch.backoff.ms
    fetchers: int = 1  # num.replica.fetchers
    quota_samples: int = 11  # replication.quota.window.num
    quota_sample_s: float = 1.0  # replication.quota.window.size.seconds
    round_trip_s: float = 0.002
    thread_bytes_per_s_max: float = 1e9


class P99Source(StrEnum):
    """The time that the p99 of a broker's signal covers; it differs between collectors."""

    STEP = "step"  # The time since the last scrape.
    MOMENT = "moment"  # The last second before the scrape.
    RESERVOIR = "reservoir"  # Kafka's histogram: all requests so far, weighted by age.


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """Client p99 = base × (1 + queue × u ÷ (1 − u)); u is the utilisation of a broker's busiest direction.

    With a queue ratio of 1 this is base ÷ (1 − u), the queue of random arrivals. Less random arrivals, and latency that the link
    does not cause, make the ratio smaller.
    """

    p99_source: P99Source = P99Source.STEP
    base_ms: float = 5.0
    objective_utilisation: float = 0.9
    queue_ratio: float = 1.0
    utilisation_max: float = 0.99  # Higher utilisation is limited to this value.
    # The utilisation at the objective of each broker, in the order of the world's; empty: ``objective_utilisation`` for all.
    own_utilisations: tuple[float, ...] = ()

    @property
    def objective_ms(self) -> float:
        u = self.objective_utilisation
        return self.base_ms * (1.0 + self.queue_ratio * u / (1.0 - u))


@dataclass(frozen=True, slots=True)
class SignalDelivery:
    """Interval, window, delay and loss of the signals."""

    scrape_every_s: float = 5.0
    window_s: float = 30.0
    delay_s_min: float = 2.0
    delay_s_max: float = 4.0
    loss_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class ControllerModel:
    """The controller handles operations one after the other; brokers learn of a config after a propagation delay."""

    operation_s: float = 0.001
    propagation_s_min: float = 0.013
    propagation_s_max: float = 0.041


@dataclass(frozen=True, slots=True)
class TopicLists:
    """The throttled-replica lists of a topic at the start, in Kafka's format."""

    topic: str
    leader: str = ""
    follower: str = ""


@dataclass(frozen=True, slots=True)
class InitialRate:
    """A throttle rate that is set at the start."""

    broker: int
    side: Side
    rate_bytes_per_s: int


@dataclass(frozen=True, slots=True)
class World:
    """All inputs of a simulation except the policy."""

    seed: int
    brokers: tuple[BrokerSpec, ...]
    partitions: tuple[PartitionSpec, ...]
    loads: tuple[ClientLoad, ...] = ()
    lists: tuple[TopicLists, ...] = ()
    rates: tuple[InitialRate, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    duration_s_max: float = 3_600.0
    tick_ms: int = 250
    moves_begin_s: float = 0.0
    replica_lag_s_max: float = 30.0  # replica.lag.time.max.ms
    # min.insync.replicas of every topic; a partition with fewer replicas needs only those that it has.
    min_in_sync: int = 2
    record_bytes: float = 1_000.0  # Mean record size, which converts a lag to messages.
    fetch: FetchSettings = field(default_factory=FetchSettings)
    latency: LatencyModel = field(default_factory=LatencyModel)
    delivery: SignalDelivery = field(default_factory=SignalDelivery)
    controller: ControllerModel = field(default_factory=ControllerModel)

    @property
    def tick_s(self) -> float:
        return self.tick_ms / 1000.0

    @property
    def moving(self) -> tuple[PartitionSpec, ...]:
        return tuple(p for p in self.partitions if p.adding)

    def to_json(self) -> str:
        body = asdict(self)
        body["disturbances"] = [{"kind": type(d).__name__, **asdict(d)} for d in self.disturbances]
        return json.dumps(body, separators=(",", ":"))

    def describe(self) -> str:
        """Returns the seed and the world, in a few lines for people and one line of JSON."""
        moved_bytes = sum(p.size_bytes * len(p.adding) for p in self.moving)
        written_bytes_per_s = sum(p.write_bytes_per_s for p in self.partitions)
        return "\n".join(
            [
                f"seed {self.seed}: {count_text(len(self.brokers), 'broker')}; clients write {rate_text(written_bytes_per_s)} to "
                f"{count_text(len(self.partitions), 'partition')}; {len(self.moving)} of them move, {size_text(moved_bytes)}",
                *(f"  {disturbance}" for disturbance in self.disturbances),
                self.to_json(),
            ]
        )
