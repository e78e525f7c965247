"""What the two halves of rheostat say to each other: topics, keys, records, and signals as typed values.

Imports no Spark and no Kafka. Whoever changes a field raises SCHEMA_VERSION and reads both for one release.

Vocabulary:
    node      a Kafka process, broker or controller, by its id.
    side      of a replication throttle: ``leader`` paces what a broker sends to followers, ``follower`` what it fetches.
    counted   a replica whose bytes use up a side's quota: every follower of a listed partition on the leader side,
              in-sync ones too; the listed replica itself on the follower side (KIP-73; docs/architecture.md derives it).
    keep-up   bytes/s that a side's quota must carry before any catching up happens; W in docs/architecture.md.
    remaining bytes the adding replicas lack: leader's log size minus theirs, from one round of DescribeLogDirs.
    step      what changed between two successive scrapes of one node, partition by partition, then summed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

SCHEMA_VERSION = 1

WINDOW_S = 30  # Spans more than two periods of Kafka's 11 s quota window; shorter ones see its echo as a trend.
HOP_S = 5
WATERMARK_S = 10


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
    UNDER_MIN_ISR = "kafka_server_replicamanager_underminisrpartitioncount"
    PARTITION_COUNT = "kafka_server_replicamanager_partitioncount"
    LEADER_COUNT = "kafka_server_replicamanager_leadercount"

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


# --------------------------------------------------------------------------------------------------------------------
# Signals: one record per (cluster, entity, window end). Writing one twice changes nothing; the last of a key wins.
# A number that could not be measured is None, never 0.
# --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerSignal:
    """One broker over one window. Rates are increases of counters over the time between first and last sample."""

    cluster: str
    broker: int
    window_end_ms: int
    sampled_at_ms: int  # Time of the newest sample inside; freshness is judged from it.
    samples: int
    completeness: float  # samples ÷ those expected at one per HOP_S; may exceed 1 at a faster scrape.
    leader_throttled_bytes_per_s: float | None = None  # Kafka's own ~11 s mean, newest sample.
    follower_throttled_bytes_per_s: float | None = None
    leader_rate_bytes_per_s: float | None = None  # The setting, None while none is set.
    follower_rate_bytes_per_s: float | None = None
    replication_in_bytes_per_s: float | None = None
    replication_out_bytes_per_s: float | None = None
    reassignment_in_bytes_per_s: float | None = None
    reassignment_out_bytes_per_s: float | None = None
    client_in_bytes_per_s: float | None = None
    client_out_bytes_per_s: float | None = None
    produce_p99_ms: float | None = None
    fetch_p99_ms: float | None = None
    request_handler_idle_ratio: float | None = None
    isr_shrinks_per_s: float | None = None
    under_min_isr_partitions: float | None = None
    partitions: float | None = None
    leaders: float | None = None


@dataclass(frozen=True, slots=True)
class MoveStep:
    """Between two successive scrapes; partitions that are in only one of them do not count, so additions don't jump."""

    at_ms: int
    dt_s: float
    gained_bytes: float  # By the adding replicas (follower side); 0 on the leader side.
    written_bytes: float  # To the leaders of the moving partitions.
    remaining_bytes: float  # At the end of the step.


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
    remaining_bytes: float | None = None
    remaining_slope_bytes_per_s: float | None = None  # Least squares over the window; negative is progress.
    remaining_slope_r2: float | None = None
    keep_up_bytes_per_s: float | None = None  # W: Σ write rate × counted replicas.
    write_bytes_per_s: float | None = None  # Of the moving partitions.
    progress_age_s: float | None = None  # Since a step last gained; None when none did in this window.
    steps: tuple[MoveStep, ...] = ()


Signal = BrokerSignal | MoveSignal


class ContractError(ValueError):
    """A record that is not what this contract says."""


def signal_key(signal: Signal) -> bytes:
    if isinstance(signal, MoveSignal):
        return f"{signal.cluster}|move|{signal.broker}|{signal.side}|{signal.window_end_ms}".encode()
    return f"{signal.cluster}|broker|{signal.broker}|{signal.window_end_ms}".encode()


def encode_signal(signal: Signal) -> bytes:
    kind = "move" if isinstance(signal, MoveSignal) else "broker"
    return json.dumps({"v": SCHEMA_VERSION, "kind": kind, **asdict(signal)}, allow_nan=False).encode()


_REQUIRED = {
    "broker": ("cluster", "broker", "window_end_ms", "sampled_at_ms", "samples", "completeness"),
    "move": ("cluster", "broker", "side", "window_end_ms", "sampled_at_ms", "samples", "completeness"),
}
_NAMES = {
    "broker": frozenset(f.name for f in fields(BrokerSignal)),
    "move": frozenset(f.name for f in fields(MoveSignal)),
}


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
    if kind not in _NAMES:
        raise ContractError(f"unknown kind {kind!r}")
    for name in _REQUIRED[kind]:
        if body.get(name) is None:
            raise ContractError(f"{kind} signal without {name}")
    values = {name: body[name] for name in _NAMES[kind] if name in body}
    try:
        if kind == "broker":
            return BrokerSignal(**values)
        values["side"] = Side(values["side"])
        values["steps"] = tuple(MoveStep(**step) for step in values.get("steps") or ())
        return MoveSignal(**values)
    except (TypeError, ValueError, AttributeError) as error:
        raise ContractError(f"{kind} signal: {error}") from error
