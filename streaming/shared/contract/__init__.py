"""What the two halves of rheostat say to each other: topics, keys, records, and signals as typed values.

Imports no Spark and no Kafka. A change of what a field means, or a field that goes, raises SCRAPE_VERSION or SIGNAL_VERSION. A new
field that may be None raises neither: a reader that does not know it ignores it, and a reader that misses it reads None. A raised
version is refused by every tuner that is not replaced at the same moment.

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

from streaming.shared.contract.basics import SCRAPE_VERSION, SIGNAL_VERSION, NodeRole, Side, Topics
from streaming.shared.contract.encoding import (
    ContractError,
    decode_signal,
    encode_signal,
    sanitize,
    signal_key,
    signal_kind,
    tenant_labels,
)
from streaming.shared.contract.scrapes import (
    Metric,
    Sample,
    Scrape,
    canonical_labels,
    partition_labels,
)
from streaming.shared.contract.signals import (
    BrokerSignal,
    ControllerSignal,
    MoveSignal,
    MoveStep,
    MovingPartition,
    Signal,
    TenantSignal,
    ThrottledBy,
)

__all__ = [
    "SCRAPE_VERSION",
    "SIGNAL_VERSION",
    "BrokerSignal",
    "ContractError",
    "ControllerSignal",
    "Metric",
    "MoveSignal",
    "MoveStep",
    "MovingPartition",
    "NodeRole",
    "Sample",
    "Scrape",
    "Side",
    "Signal",
    "TenantSignal",
    "ThrottledBy",
    "Topics",
    "canonical_labels",
    "decode_signal",
    "encode_signal",
    "partition_labels",
    "sanitize",
    "signal_key",
    "signal_kind",
    "tenant_labels",
]
