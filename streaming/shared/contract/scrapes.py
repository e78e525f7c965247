"""Raw metrics: one record holds one scrape of one node. Also the names of the samples.

    key    "<cluster>|<node>"
    value  {"v": 1, "cluster": str, "node": int, "role": "broker"|"controller", "ts": epoch ms of the scrape,
            "samples": [{"n": name, "l": labels, "v": number}, ...]}

Labels are canonical: "k=v" pairs sorted by key and joined by ",", or "" for none. They need no escaping, because no name in Kafka
contains "=" or ",".

The stream refuses a record that it cannot read in the format set for its topic. Each refused record becomes one reject:

    key    "<Kafka cluster>|<topic>-<partition>-<offset>"
    value  {"v": 1, "kafka": the Kafka cluster's id, "topic": str, "partition": int, "offset": int, "reason": str,
            "head": base64 of the value's first bytes}

The Kafka cluster is part of the key because two clusters can use the same topic name. A cluster without an id is named by its
bootstrap address.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from streaming.shared.contract.basics import SCRAPE_VERSION, NodeRole


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: str
    value: float


def canonical_labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def partition_labels(topic: str, partition: int) -> str:
    return f"partition={partition},topic={topic}"


def thread_labels(source: int, fetcher: int) -> str:
    """Returns the labels of a fetcher thread. ``source`` is the broker that it copies from."""
    return f"fetcher={fetcher},source={source}"


def age_label(age_s: float) -> str:
    """Returns the label of a value that was measured some time before its scrape."""
    return f"age_s={age_s:.3f}"


def thread_partition_labels(source: int, fetcher: int, topic: str, partition: int) -> str:
    return f"fetcher={fetcher},partition={partition},source={source},topic={topic}"


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape of one node."""

    cluster: str
    node: int
    role: NodeRole
    ts_ms: int
    samples: tuple[Sample, ...]

    def key(self) -> bytes:
        return f"{self.cluster}|{self.node}".encode()

    def value(self) -> bytes:
        body = {
            "v": SCRAPE_VERSION,
            "cluster": self.cluster,
            "node": self.node,
            "role": self.role.value,
            "ts": self.ts_ms,
            "samples": [{"n": s.name, "l": s.labels, "v": s.value} for s in self.samples],
        }
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


# From this version of each request on, Kafka refuses what exceeds a mutation quota. It accepts older requests, and delays their
# client (KIP-599).
MUTATION_REFUSED_FROM_VERSION: Mapping[str, int] = MappingProxyType(
    {"CreateTopics": 6, "DeleteTopics": 5, "CreatePartitions": 3}
)


class Metric:
    """Sample names of the JMX exporter with rheostat's rules, and of the collector itself (prefix ``rheostat_``)."""

    LEADER_THROTTLED = "kafka_server_leaderreplication_byte_rate"
    FOLLOWER_THROTTLED = "kafka_server_followerreplication_byte_rate"
    LOG_DIR_COPIED = "kafka_server_alterlogdirsreplication_byte_rate"  # Copies between log directories; limited or not.
    REPLICATION_IN = "kafka_server_brokertopicmetrics_replicationbytesin_total"
    REPLICATION_OUT = "kafka_server_brokertopicmetrics_replicationbytesout_total"
    REASSIGNMENT_IN = "kafka_server_brokertopicmetrics_reassignmentbytesin_total"
    REASSIGNMENT_OUT = "kafka_server_brokertopicmetrics_reassignmentbytesout_total"
    CLIENT_IN = "kafka_server_brokertopicmetrics_bytesin_total"
    CLIENT_OUT = "kafka_server_brokertopicmetrics_bytesout_total"
    TOTAL_TIME_P99 = "kafka_network_requestmetrics_totaltimems_p99"  # label request=
    TOTAL_TIME_MEAN = "kafka_network_requestmetrics_totaltimems_mean"  # Since JVM start; label request=
    TOTAL_TIME_COUNT = "kafka_network_requestmetrics_totaltimems_count_total"  # label request=
    HANDLER_IDLE = "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent"
    ISR_SHRINKS = "kafka_server_replicamanager_isrshrinks_total"
    ISR_EXPANDS = "kafka_server_replicamanager_isrexpands_total"
    NETWORK_IN = "kafka_server_socketservermetrics_incoming_byte_total"  # One per listener and processor; summed.
    NETWORK_OUT = "kafka_server_socketservermetrics_outgoing_byte_total"
    REPLICA_LAG_MAX = "kafka_server_replicafetchermanager_maxlag"  # Messages; KIP-73's MaxReplicaLag.
    REPLICA_LAG_SUM = "rheostat_replica_lag_sum_messages"  # Σ FetcherLagMetrics ConsumerLag; KIP-73's SumReplicaLag.
    UNDER_MIN_ISR = "kafka_server_replicamanager_underminisrpartitioncount"
    PARTITION_COUNT = "kafka_server_replicamanager_partitioncount"
    LEADER_COUNT = "kafka_server_replicamanager_leadercount"
    # Speed of a network interface of the broker's machine, bytes/s (label device=); the fastest one counts.
    LINK_SPEED = "node_network_speed_bytes"
    BROKER_METADATA_LAG = "kafka_server_brokermetadatametrics_last_applied_record_lag_ms"

    # Controllers.
    ACTIVE_CONTROLLER = "kafka_controller_kafkacontroller_activecontrollercount"
    EVENT_QUEUE_TIME_P99 = "kafka_controller_controllereventmanager_eventqueuetimems_99thpercentile"
    EVENT_QUEUE_TIME_MEAN = "kafka_controller_controllereventmanager_eventqueuetimems_mean"  # Since JVM start.
    EVENT_QUEUE_TIME_COUNT = "kafka_controller_controllereventmanager_eventqueuetimems_count"
    EVENT_PROCESSING_P99 = "kafka_controller_controllereventmanager_eventqueueprocessingtimems_99thpercentile"
    EVENT_PROCESSING_MEAN = "kafka_controller_controllereventmanager_eventqueueprocessingtimems_mean"
    EVENT_PROCESSING_COUNT = "kafka_controller_controllereventmanager_eventqueueprocessingtimems_count"
    CONTROLLER_IDLE = "kafka_controller_controllereventmanager_avgidleratio"  # Since its last read (KIP-1190).
    OPERATIONS_STARTED = "kafka_controller_kafkacontroller_eventqueueoperationsstartedcount"
    OPERATIONS_TIMED_OUT = "kafka_controller_kafkacontroller_eventqueueoperationstimedoutcount"
    HEARTBEATS_TIMED_OUT = "kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount"
    CLUSTER_TOPICS = "kafka_controller_kafkacontroller_globaltopiccount"
    CLUSTER_PARTITIONS = "kafka_controller_kafkacontroller_globalpartitioncount"
    ACTIVE_BROKERS = "kafka_controller_kafkacontroller_activebrokercount"
    FENCED_BROKERS = "kafka_controller_kafkacontroller_fencedbrokercount"
    METADATA_LAG = "kafka_controller_kafkacontroller_lastappliedrecordlagms"
    METADATA_COMMITTED = "kafka_controller_kafkacontroller_lastcommittedrecordoffset"  # An offset, used as a counter.
    MUTATIONS_REJECTED = "kafka_network_requestmetrics_throttling_quota_exceeded_total"  # label request=: summed.

    REQUESTS_BY_VERSION = "kafka_network_requestmetrics_requests_total"  # Labels request=, version=.

    # Tenants, in the record of the active controller. Labels user=, client_id=, as Kafka sanitizes them.
    MUTATION_RATE = "kafka_server_controllermutation_mutation_rate"
    MUTATION_TOKENS = "kafka_server_controllermutation_tokens"  # Negative: exhausted.
    MUTATION_THROTTLE_TIME = "kafka_server_controllermutation_throttle_time"

    # Throttle rates that the collector read from the broker's settings; absent while the broker has none.
    LEADER_RATE = "rheostat_throttle_leader_rate_bytes_per_s"
    FOLLOWER_RATE = "rheostat_throttle_follower_rate_bytes_per_s"

    # LED_…: of a partition (labels partition=, topic=) that the record's broker leads.
    LED_SIZE = "rheostat_move_led_size_bytes"
    LED_COUNTED = "rheostat_move_led_counted_replicas"  # In-sync + copying followers when listed, else 0.
    # Summed over the replicas that copy it, because they are being added or recover; absent without any.
    LED_REMAINING = "rheostat_move_led_remaining_bytes"
    LED_RECOVERING = "rheostat_move_led_recovering"  # 1 while no replica is being added and some recover; else absent.
    # FOLLOWED_…: of a partition that the record's broker follows.
    FOLLOWED_SIZE = "rheostat_move_followed_size_bytes"
    FOLLOWED_LEADER_SIZE = "rheostat_move_followed_leader_size_bytes"
    FOLLOWED_COUNTED = "rheostat_move_followed_counted_replicas"  # 1 when listed on the follower side, else 0.
    # 1 while this replica is being added, 2 while it recovers, else 0.
    FOLLOWED_ADDING = "rheostat_move_followed_adding"
    # 1 while this replica of a tiered topic has to read the state of the remote log before it can copy; else absent.
    FOLLOWED_AWAITS_REMOTE = "rheostat_move_followed_awaits_remote"
    # ConsumerLag of this replica; stale while the broker's follower throttle delays its fetches.
    FOLLOWED_LAG = "rheostat_move_followed_lag_messages"

    # Lags of the replicas that the record's broker follows and that no reassignment adds. The names with adding_… are for
    # replicas that a reassignment adds.
    LAG_SUM = "rheostat_lag_sum_messages"
    LAG_MAX = "rheostat_lag_max_messages"
    LAG_PARTITIONS = "rheostat_lag_partitions"  # Partitions with a known lag.
    LAG_ADDING_SUM = "rheostat_lag_adding_sum_messages"
    LAG_ADDING_PARTITIONS = "rheostat_lag_adding_partitions"
    LAG_THREADS = "rheostat_lag_threads"
    LAG_EARLIER_SUM = "rheostat_lag_earlier_sum_messages"  # LAG_SUM some time ago (label age_s=), for the long trend.
    # LAG_THREAD_…: of a fetcher thread (labels fetcher=, source=). Absent adding_… samples of a listed thread mean 0.
    LAG_THREAD_SUM = "rheostat_lag_thread_sum_messages"
    LAG_THREAD_MAX = "rheostat_lag_thread_max_messages"
    LAG_THREAD_PARTITIONS = "rheostat_lag_thread_partitions"
    LAG_THREAD_ADDING_SUM = "rheostat_lag_thread_adding_sum_messages"
    LAG_THREAD_ADDING_PARTITIONS = "rheostat_lag_thread_adding_partitions"
    LAG_THREAD_BYTES = "rheostat_lag_thread_bytes_total"  # FetcherStats BytesPerSec.
    # LAG_PARTITION_…: of one of the partitions with the largest lags (labels partition=, topic=, and for the lag also fetcher=,
    # source= if the agent reports the thread). Offset and size are measured on the leader.
    LAG_PARTITION = "rheostat_lag_partition_messages"
    LAG_PARTITION_END_OFFSET = "rheostat_lag_partition_end_offset"
    LAG_PARTITION_SIZE = "rheostat_lag_partition_size_bytes"
