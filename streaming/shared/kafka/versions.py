"""Tells the version of Kafka that a broker runs.

Kafka does not report its version. The answer to ApiVersions has the newest ``metadata.version`` that a broker supports. This number
grows with each minor version. So the minor version is known, and the patch version is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streaming.shared import kafka_names

# First metadata.version of each minor version (org.apache.kafka.server.common.MetadataVersion).
_FIRST_METADATA_VERSION = {
    1: (3, 0), 2: (3, 1), 3: (3, 2), 4: (3, 3), 8: (3, 4), 9: (3, 5), 12: (3, 6), 15: (3, 7), 20: (3, 8), 21: (3, 9),
    22: (4, 0), 26: (4, 1), 28: (4, 2), 30: (4, 3), 31: (4, 4),
}  # fmt: skip
Version = tuple[int, int]

OLDEST_SUPPORTED: Version = (3, 9)
NEWEST_TESTED: Version = (4, 4)
METADATA_VERSION_TESTED_MAX = 33
# The first version with the metric of the controller's idle ratio (KIP-1190).
IDLE_RATIO_FROM: Version = (4, 2)
# The first version in which log directories can be cordoned (KIP-1066), and the metadata.version that the cluster has to use.
CORDONS_FROM: Version = (4, 3)
CORDONS_METADATA_VERSION = 30


@dataclass(frozen=True, slots=True)
class BrokerVersion:
    """The data about its version that a broker reports.

    Attributes:
        metadata_version_max: the newest metadata.version that the broker supports; None if it reports none.
        metadata_version: the metadata.version that the cluster uses; None if it is not reported.
        is_kraft: whether the broker runs in KRaft mode; False means ZooKeeper mode.
    """

    metadata_version_max: int | None
    metadata_version: int | None
    is_kraft: bool

    @property
    def version(self) -> Version | None:
        """The minor version of Kafka; None if it is older than 3.0 or newer than all versions known here."""
        if self.metadata_version_max is None or self.metadata_version_max > METADATA_VERSION_TESTED_MAX:
            return None
        return version_of(self.metadata_version_max)


def minor_version(version: str) -> Version:
    """Returns the minor version of a full version: 4.1.2 → (4, 1)."""
    major, minor, _ = version.split(".")
    return int(major), int(minor)


def version_of(metadata_version: int) -> Version | None:
    """Returns the minor version that introduced this metadata.version; None for a number below the first known one."""
    first = max((number for number in _FIRST_METADATA_VERSION if number <= metadata_version), default=None)
    return None if first is None else _FIRST_METADATA_VERSION[first]


def read_broker_version(answer: Any) -> BrokerVersion:
    """Returns the content of an ApiVersions response."""
    supported = {str(f.name): int(f.max_version) for f in answer.supported_features or ()}
    finalized = {str(f.name): int(f.max_version_level) for f in answer.finalized_features or ()}
    return BrokerVersion(
        metadata_version_max=supported.get(kafka_names.METADATA_VERSION),
        metadata_version=finalized.get(kafka_names.METADATA_VERSION),
        # A broker in ZooKeeper mode has no quorum to describe.
        is_kraft=any(int(api.api_key) == kafka_names.API_DESCRIBE_QUORUM for api in answer.api_keys),
    )
