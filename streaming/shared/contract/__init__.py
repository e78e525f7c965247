"""The contract between stream and tuner: topics, keys, records, and signals as typed values.

The package imports no Spark and no Kafka client. Compatibility rules:

- A changed meaning or a removed field raises SCRAPE_VERSION or SIGNAL_VERSION. A tuner refuses records of another version.
- A new optional field raises neither. An older reader ignores it; a newer reader of an older record reads None.

Vocabulary:
    node      a Kafka process (broker or controller), named by its id.
    side      half of a replication throttle: ``leader`` limits what a broker sends to followers, ``follower`` what it fetches.
    counted   a replica whose bytes use up a side's quota (KIP-73): on the leader side each follower of a listed partition,
              in-sync ones included; on the follower side the listed replica itself.
    steady-state replication   bytes/s that a side's quota must carry before any catching up happens; W in
              docs/explanation/architecture.md.
    remaining bytes   bytes that the adding replicas lack: the leader's log size minus the size of each adding replica, from
              one round of DescribeLogDirs requests.
    tenant    a user, a client-id or a pair of both, for which a controller accounts a mutation quota (KIP-599).
    lag       messages that a follower's replica is behind its leader: Kafka's ConsumerLag. Steady lag is that of replicas that no
              reassignment adds.
    step      the change between two successive scrapes of one node, computed per partition and then summed.
"""

from __future__ import annotations

from streaming.shared.contract.basics import SCRAPE_VERSION, SIGNAL_VERSION, NodeRole, Side, TopicPartition, Topics
from streaming.shared.contract.encoding import (
    ContractError,
    decode_signal,
    encode_signal,
    sanitize,
    signal_key,
    signal_kind,
    tenant_labels,
)
from streaming.shared.contract.history import (
    PERIOD_S,
    BrokerHistory,
    ControllerHistory,
    HistoryPeriod,
    TenantHistory,
)
from streaming.shared.contract.learned_encoding import (
    HISTORY_VERSION,
    decode_history,
    decode_profile,
    encode_history,
    encode_profile,
    history_key,
    profile_key,
)
from streaming.shared.contract.profiles import (
    HORIZONS_H,
    STEP_S,
    STEPS_MAX,
    BrokerProfile,
    ChangedMeasure,
    ChangeEvent,
    LearnedCapacity,
    LoadForecast,
    Profile,
)
from streaming.shared.contract.scrapes import (
    MUTATION_REFUSED_FROM_VERSION,
    Metric,
    Sample,
    Scrape,
    age_label,
    canonical_labels,
    partition_labels,
    thread_labels,
    thread_partition_labels,
)
from streaming.shared.contract.signals import (
    BrokerSignal,
    ControllerSignal,
    FetcherThreadLag,
    LaggingPartition,
    LagTrend,
    MoveSignal,
    MoveStep,
    MovingPartition,
    ReplicationSignal,
    Signal,
    TenantSignal,
    ThrottledBy,
)

__all__ = [
    "HISTORY_VERSION",
    "HORIZONS_H",
    "MUTATION_REFUSED_FROM_VERSION",
    "PERIOD_S",
    "SCRAPE_VERSION",
    "SIGNAL_VERSION",
    "STEPS_MAX",
    "STEP_S",
    "BrokerHistory",
    "BrokerProfile",
    "BrokerSignal",
    "ChangeEvent",
    "ChangedMeasure",
    "ContractError",
    "ControllerHistory",
    "ControllerSignal",
    "FetcherThreadLag",
    "HistoryPeriod",
    "LagTrend",
    "LaggingPartition",
    "LearnedCapacity",
    "LoadForecast",
    "Metric",
    "MoveSignal",
    "MoveStep",
    "MovingPartition",
    "NodeRole",
    "Profile",
    "ReplicationSignal",
    "Sample",
    "Scrape",
    "Side",
    "Signal",
    "TenantHistory",
    "TenantSignal",
    "ThrottledBy",
    "TopicPartition",
    "Topics",
    "age_label",
    "canonical_labels",
    "decode_history",
    "decode_profile",
    "decode_signal",
    "encode_history",
    "encode_profile",
    "encode_signal",
    "history_key",
    "partition_labels",
    "profile_key",
    "sanitize",
    "signal_key",
    "signal_kind",
    "tenant_labels",
    "thread_labels",
    "thread_partition_labels",
]
