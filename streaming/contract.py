"""What the two halves of rheostat say to each other: topics, keys, records, and signals as typed values.

Imports no Spark and no Kafka. Whoever changes a field raises SCHEMA_VERSION and reads both for one release.

Vocabulary:
    node      a Kafka process, broker or controller, by its id.
    side      of a replication throttle: ``leader`` paces what a broker sends to followers, ``follower`` what it fetches.
    counted   a replica whose bytes use up a side's quota: every follower of a listed partition on the leader side,
              in-sync ones too; the listed replica itself on the follower side (KIP-73; docs/architecture.md derives it).
    keep-up   bytes/s that a side's quota must carry before any catching up happens; W in docs/architecture.md.
    remaining bytes the adding replicas lack: leader's log size minus theirs, from one round of DescribeLogDirs.
    tenant    a (user, client-id) pair, or one of the two, for which a controller keeps a mutation quota's books (KIP-599).
    step      what changed between two successive scrapes of one node, partition by partition, then summed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from enum import StrEnum
from typing import Any
from urllib.parse import quote

SCHEMA_VERSION = 1


class Side(StrEnum):
    LEADER = "leader"
    FOLLOWER = "follower"


class Role(StrEnum):
    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of rheostat's own topics in the cluster it watches."""

    metrics: str
    signals: str
    journal: str
    rejects: str

    @classmethod
    def with_prefix(cls, prefix: str) -> Topics:
        return cls(f"{prefix}.metrics", f"{prefix}.signals", f"{prefix}.journal", f"{prefix}.rejects")


# --------------------------------------------------------------------------------------------------------------------
# Raw metrics: one record holds all samples of one scrape of one node.
#
#   key    "<cluster>|<node>"
#   value  {"v": 1, "cluster": str, "node": int, "role": "broker"|"controller", "ts": epoch ms of the scrape,
#           "samples": [{"n": name, "l": labels, "v": number}, ...]}
#
# Labels are canonical: "k=v" joined by "," in the order of the keys, "" for none (no Kafka name holds "=" or ",").
# --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: str
    value: float


def canonical_labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def partition_labels(topic: str, partition: int) -> str:
    return f"partition={partition},topic={topic}"


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape of one node, before it is a record."""

    cluster: str
    node: int
    role: Role
    ts_ms: int
    samples: tuple[Sample, ...]

    def key(self) -> bytes:
        return f"{self.cluster}|{self.node}".encode()

    def value(self) -> bytes:
        body = {
            "v": SCHEMA_VERSION,
            "cluster": self.cluster,
            "node": self.node,
            "role": self.role.value,
            "ts": self.ts_ms,
            "samples": [{"n": s.name, "l": s.labels, "v": s.value} for s in self.samples],
        }
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


class Metric:
    """Sample names of the records: the JMX agent's under our rules, and the collector's own (``rheostat_``)."""

    LEADER_THROTTLED = "kafka_server_leaderreplication_byte_rate"
    FOLLOWER_THROTTLED = "kafka_server_followerreplication_byte_rate"
    REPLICATION_IN = "kafka_server_brokertopicmetrics_replicationbytesin_total"
    REPLICATION_OUT = "kafka_server_brokertopicmetrics_replicationbytesout_total"
    REASSIGNMENT_IN = "kafka_server_brokertopicmetrics_reassignmentbytesin_total"
    REASSIGNMENT_OUT = "kafka_server_brokertopicmetrics_reassignmentbytesout_total"
    CLIENT_IN = "kafka_server_brokertopicmetrics_bytesin_total"
    CLIENT_OUT = "kafka_server_brokertopicmetrics_bytesout_total"
    TOTAL_TIME_P99 = "kafka_network_requestmetrics_totaltimems_p99"  # label request=
    HANDLER_IDLE = "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent"
    ISR_SHRINKS = "kafka_server_replicamanager_isrshrinks_total"
    ISR_EXPANDS = "kafka_server_replicamanager_isrexpands_total"
    NETWORK_IN = "kafka_server_socketservermetrics_incoming_byte_total"  # One a listener and processor: summed.
    NETWORK_OUT = "kafka_server_socketservermetrics_outgoing_byte_total"
    REPLICA_LAG_MAX = "kafka_server_replicafetchermanager_maxlag"  # Messages; KIP-73's MaxReplicaLag.
    REPLICA_LAG_SUM = "rheostat_replica_lag_sum_messages"  # Σ FetcherLagMetrics ConsumerLag; KIP-73's SumReplicaLag.
    UNDER_MIN_ISR = "kafka_server_replicamanager_underminisrpartitioncount"
    PARTITION_COUNT = "kafka_server_replicamanager_partitioncount"
    LEADER_COUNT = "kafka_server_replicamanager_leadercount"

    # Of controllers.
    ACTIVE_CONTROLLER = "kafka_controller_kafkacontroller_activecontrollercount"
    EVENT_QUEUE_TIME_P99 = "kafka_controller_controllereventmanager_eventqueuetimems_99thpercentile"
    EVENT_QUEUE_TIME_MEAN = "kafka_controller_controllereventmanager_eventqueuetimems_mean"  # Over the JVM's life.
    EVENT_QUEUE_TIME_COUNT = "kafka_controller_controllereventmanager_eventqueuetimems_count"
    EVENT_PROCESSING_P99 = "kafka_controller_controllereventmanager_eventqueueprocessingtimems_99thpercentile"
    EVENT_PROCESSING_MEAN = "kafka_controller_controllereventmanager_eventqueueprocessingtimems_mean"
    EVENT_PROCESSING_COUNT = "kafka_controller_controllereventmanager_eventqueueprocessingtimems_count"
    CONTROLLER_IDLE = "kafka_controller_controllereventmanager_avgidleratio"  # KIP-1190: since the last read of it.
    OPERATIONS_STARTED = "kafka_controller_kafkacontroller_eventqueueoperationsstartedcount"
    OPERATIONS_TIMED_OUT = "kafka_controller_kafkacontroller_eventqueueoperationstimedoutcount"
    HEARTBEATS_TIMED_OUT = "kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount"
    CLUSTER_TOPICS = "kafka_controller_kafkacontroller_globaltopiccount"
    CLUSTER_PARTITIONS = "kafka_controller_kafkacontroller_globalpartitioncount"
    ACTIVE_BROKERS = "kafka_controller_kafkacontroller_activebrokercount"
    FENCED_BROKERS = "kafka_controller_kafkacontroller_fencedbrokercount"
    METADATA_LAG = "kafka_controller_kafkacontroller_lastappliedrecordlagms"
    MUTATIONS_REJECTED = "kafka_network_requestmetrics_throttling_quota_exceeded_total"  # label request=: summed.

    # Of tenants, in the record of the active controller (labels user=, client_id=, as Kafka sanitizes them).
    MUTATION_RATE = "kafka_server_controllermutation_mutation_rate"
    MUTATION_TOKENS = "kafka_server_controllermutation_tokens"  # Negative: exhausted.
    MUTATION_THROTTLE_TIME = "kafka_server_controllermutation_throttle_time"

    # Settings as the collector read them; absent while the broker has no such setting.
    LEADER_RATE = "rheostat_throttle_leader_rate_bytes_per_s"
    FOLLOWER_RATE = "rheostat_throttle_follower_rate_bytes_per_s"

    # Per partition (labels partition=, topic=), in the record of the broker that leads it ...
    LED_SIZE = "rheostat_move_led_size_bytes"
    LED_COUNTED = "rheostat_move_led_counted_replicas"  # In-sync followers + adding replicas when listed, else 0.
    LED_REMAINING = "rheostat_move_led_remaining_bytes"  # Over its adding replicas; absent when none is adding.
    LED_END_OFFSET = "rheostat_move_led_end_offset"
    # ... and in the record of a broker that follows it.
    FOLLOWED_SIZE = "rheostat_move_followed_size_bytes"
    FOLLOWED_LEADER_SIZE = "rheostat_move_followed_leader_size_bytes"
    FOLLOWED_COUNTED = "rheostat_move_followed_counted_replicas"  # 1 when listed on the follower side, else 0.
    FOLLOWED_ADDING = "rheostat_move_followed_adding"  # 1 while this replica is being added, else 0.
    FOLLOWED_LAG = (
        "rheostat_move_followed_lag_messages"  # ConsumerLag of this replica; stale while its own side throttles.
    )


# --------------------------------------------------------------------------------------------------------------------
# Signals: one record per (cluster, entity, window end). Writing one twice changes nothing; the last of a key wins.
# A number that could not be measured is None, never 0. Windows are cut by Kafka's clock (the records' LogAppendTime), what
# is inside is measured by the sender's. ``backlog`` marks what was made from records that waited while the stream was
# down: history, not for control.
# --------------------------------------------------------------------------------------------------------------------


class ThrottledBy(StrEnum):
    """What the throttled bytes/s of a BrokerSignal were taken from, best first."""

    QUOTA = "quota"  # Kafka's own measure of what counts against the throttle, a mean over ~11 s.
    REASSIGNMENT = "reassignment"  # Bytes of reassigned partitions; without the listed in-sync replicas, so too little.
    REPLICATION = "replication"  # All replication bytes; also of what is not listed, so too much.


@dataclass(frozen=True, slots=True)
class BrokerSignal:
    """One broker over one window. Rates are increases of counters over the time between first and last sample."""

    cluster: str
    broker: int
    window_end_ms: int
    sampled_at_ms: int  # Time of the newest sample inside; freshness is judged from it.
    samples: int  # Scrapes.
    completeness: float  # Scrapes ÷ those expected at the source's interval; may exceed 1 at a faster one.
    leader_throttled_bytes_per_s: float | None = None  # Newest sample; by ThrottledBy.
    follower_throttled_bytes_per_s: float | None = None
    throttled_by: str | None = None  # ThrottledBy; None when the two above are.
    leader_rate_bytes_per_s: float | None = None  # The setting, None while none is set.
    follower_rate_bytes_per_s: float | None = None
    replication_in_bytes_per_s: float | None = None
    replication_out_bytes_per_s: float | None = None
    reassignment_in_bytes_per_s: float | None = None
    reassignment_out_bytes_per_s: float | None = None
    client_in_bytes_per_s: float | None = None
    client_out_bytes_per_s: float | None = None
    network_in_bytes_per_s: float | None = None  # All listeners.
    network_out_bytes_per_s: float | None = None
    produce_p99_ms: float | None = None
    fetch_p99_ms: float | None = None
    request_handler_idle_ratio: float | None = None
    isr_shrinks_per_s: float | None = None
    isr_expands_per_s: float | None = None
    replica_lag_max_messages: float | None = None
    replica_lag_sum_messages: float | None = None  # KIP-73's SumReplicaLag; stale while the follower side throttles.
    under_min_isr_partitions: float | None = None
    partitions: float | None = None
    leaders: float | None = None
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class MoveStep:
    """Between two successive scrapes; partitions that are in only one of them do not count, so additions don't jump."""

    at_ms: int
    dt_s: float
    gained_bytes: float  # By the adding replicas (follower side); 0 on the leader side.
    written_bytes: float  # To the leaders of the moving partitions.
    remaining_bytes: float  # At the end of the step.


@dataclass(frozen=True, slots=True)
class MovingPartition:
    topic: str
    partition: int
    remaining_bytes: float | None = None
    write_bytes_per_s: float | None = None  # To its leader.


@dataclass(frozen=True, slots=True)
class MoveSignal:
    """One side of one broker that takes part in replica movement or carries throttled replicas, over one window."""

    cluster: str
    broker: int
    side: Side
    window_end_ms: int
    sampled_at_ms: int
    samples: int
    completeness: float
    moving_partitions: int  # With an adding replica, in the newest scrape.
    listed_partitions: int  # Whose bytes count against this side's quota, in the newest scrape.
    done_partitions: int = 0  # That were moving in this window and are not any more.
    remaining_bytes: float | None = None
    lag_messages: float | None = (
        None  # Σ ConsumerLag of the adding replicas; follower side only, and stale when throttled there.
    )
    remaining_slope_bytes_per_s: float | None = None  # Least squares over the window; negative is progress.
    remaining_slope_r2: float | None = None
    keep_up_bytes_per_s: float | None = None  # W: Σ write rate × counted replicas.
    write_bytes_per_s: float | None = None  # Of the moving partitions.
    progress_age_s: float | None = None  # Since a step last gained; None when none did in this window.
    steps: tuple[MoveStep, ...] = ()
    largest: tuple[MovingPartition, ...] = ()  # Of the moving ones by remaining bytes.
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class ControllerSignal:
    """One controller node over one window. Only the active one works on the queue; ``active`` says which that is."""

    cluster: str
    node: int
    window_end_ms: int
    sampled_at_ms: int
    samples: int
    completeness: float
    active: float | None = None  # ActiveControllerCount: 1 or 0.
    event_queue_time_p99_ms: float | None = None  # Kafka's decaying histogram: hardly moves within 40 s.
    event_queue_time_mean_ms: float | None = None  # Of the events of this window.
    event_processing_p99_ms: float | None = None
    event_processing_mean_ms: float | None = None  # Of this window; contains waiting for the commit.
    events_per_s: float | None = None
    queue_depth_mean: float | None = (
        None  # Little's law: events/s × mean queue time, that is, seconds waited per second.
    )
    operations_per_s: float | None = None
    operations_timed_out_per_s: float | None = None
    heartbeats_timed_out_per_s: float | None = None
    mutations_rejected_per_s: float | None = None  # Requests answered with THROTTLING_QUOTA_EXCEEDED, all tenants.
    idle_ratio: float | None = None
    metadata_lag_ms: float | None = None
    topics: float | None = None
    partitions: float | None = None
    active_brokers: float | None = None
    fenced_brokers: float | None = None
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class TenantSignal:
    """One tenant's mutations as one controller keeps its books. Books of a controller that is not active any more are old.

    Kafka counts refused requests by their kind and not by tenant: those are in ControllerSignal.
    """

    cluster: str
    node: int
    window_end_ms: int
    sampled_at_ms: int
    samples: int
    completeness: float
    user: str | None = None
    client_id: str | None = None
    mutation_rate_per_s: float | None = None  # Kafka's own 30 to 60 s mean, partitions/s.
    tokens: float | None = None  # Negative: in debt. About 1e20: no quota applies.
    throttle_time_ms: float | None = None  # Kafka 4.2 never fills it.
    backlog: bool = False


Signal = BrokerSignal | MoveSignal | ControllerSignal | TenantSignal


class ContractError(ValueError):
    """A record that is not what this contract says."""


_KINDS: dict[str, type[Signal]] = {
    "broker": BrokerSignal,
    "move": MoveSignal,
    "controller": ControllerSignal,
    "tenant": TenantSignal,
}
_NAMES = {kind: frozenset(f.name for f in fields(signal)) for kind, signal in _KINDS.items()}
_TYPES = {kind: {f.name: str(f.type) for f in fields(signal)} for kind, signal in _KINDS.items()}
_STEP_TYPES = {f.name: str(f.type) for f in fields(MoveStep)}
_MOVING_TYPES = {f.name: str(f.type) for f in fields(MovingPartition)}
_REQUIRED = {
    kind: tuple(f.name for f in fields(signal) if f.default is MISSING and f.default_factory is MISSING)
    for kind, signal in _KINDS.items()
}


# What a field's annotation admits in JSON; a bool is not a number here, though it is one in Python.
_ADMITS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
}


def _fault(fields_of: Mapping[str, str], values: Mapping[str, Any]) -> str | None:
    """The first value that is not what its field's annotation says."""
    for name, value in values.items():
        admitted = _ADMITS.get(fields_of[name])
        if admitted is not None and (isinstance(value, bool) or not isinstance(value, admitted)):
            return f"{name} is {value!r:.40}, expected {fields_of[name]}"
    return None


def kind_of(signal: Signal) -> str:
    return next(kind for kind, cls in _KINDS.items() if isinstance(signal, cls))


def signal_key(signal: Signal) -> bytes:
    """``cluster|kind|node|part|window end``; the part is a move's side, a tenant's labels; the others have none."""
    if isinstance(signal, BrokerSignal | MoveSignal):
        node = signal.broker
        part = signal.side.value if isinstance(signal, MoveSignal) else ""
    else:
        node = signal.node
        part = tenant_part(signal.user, signal.client_id) if isinstance(signal, TenantSignal) else ""
    return "|".join(
        filter(None, (signal.cluster, kind_of(signal), str(node), part, str(signal.window_end_ms)))
    ).encode()


def tenant_part(user: str | None, client_id: str | None) -> str:
    """Canonical labels of a tenant, each value as Kafka's Sanitizer writes it into a metric's tags."""
    named = {"client_id": client_id, "user": user}
    return canonical_labels({name: sanitized(value) for name, value in named.items() if value is not None})


def sanitized(value: str) -> str:
    return quote(value, safe="-_.").replace("~", "%7E")


def encode_signal(signal: Signal) -> bytes:
    return json.dumps({"v": SCHEMA_VERSION, "kind": kind_of(signal), **asdict(signal)}, allow_nan=False).encode()


def decode_signal(value: bytes) -> Signal:
    """A signal from a record of the signals topic. Unknown fields are ignored, absent optional ones are None.

    Raises:
        ContractError: not JSON, another version or kind, a required field is missing or of the wrong type.
    """
    try:
        body: Any = json.loads(value)
    except ValueError as error:
        raise ContractError(f"not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ContractError("not a JSON object")
    if body.get("v") != SCHEMA_VERSION:
        raise ContractError(f"schema version {body.get('v')!r}, this program reads {SCHEMA_VERSION}")
    kind = body.get("kind")
    if kind not in _KINDS:
        raise ContractError(f"unknown kind {kind!r}")
    for name in _REQUIRED[kind]:
        if body.get(name) is None:
            raise ContractError(f"{kind} signal without {name}")
    values = {name: body[name] for name in _NAMES[kind] if name in body}
    fault = _fault(_TYPES[kind], values)
    try:
        if kind == "move":
            values["side"] = Side(values["side"])
            steps, largest = values.get("steps") or (), values.get("largest") or ()
            for types, parts in ((_STEP_TYPES, steps), (_MOVING_TYPES, largest)):
                fault = fault or next(filter(None, (_fault(types, part) for part in parts)), None)
            values["steps"] = tuple(MoveStep(**step) for step in steps)
            values["largest"] = tuple(MovingPartition(**one) for one in largest)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise ContractError(f"{kind} signal: {error}") from error
    if fault is not None:
        raise ContractError(f"{kind} signal: {fault}")
    return _KINDS[kind](**{**values, "backlog": values.get("backlog") is True})
