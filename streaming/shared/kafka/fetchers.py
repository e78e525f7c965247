"""What it takes to change the fetcher threads of a cluster at runtime, and to see whether followers keep up.

Kafka checks a change against the value in force where it is asked for: that of a broker at the broker, that of the cluster's
default wherever it comes in. kafka-python has no word for the default, whose name on the wire is empty.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from streaming.shared import kafka_names
from streaming.shared.kafka.answers import alter_operations, read_alter_result, read_configs
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import ClusterError, PartitionState

_DEFAULT = ""


class FetcherClient(ClusterClient):
    """One connection to a cluster. Not thread-safe."""

    def default_config(self, key: str) -> str | None:
        """The cluster's default, as set at runtime; None: it was not.

        Raises:
            MissingPermission: DescribeConfigs on Cluster.
        """
        request = DescribeConfigsRequest(
            resources=[(kafka_names.RESOURCE_BROKER, _DEFAULT, [key])], include_synonyms=False
        )
        answer = self._wire.one("describe the cluster's default configs", request)
        found = read_configs(answer, "DescribeConfigs on Cluster").get(_DEFAULT, {}).get(key)
        return found.value if found is not None and found.source == kafka_names.SOURCE_DYNAMIC_DEFAULT_BROKER else None

    def alter_default_config(self, key: str, value: str | None) -> ClusterError | None:
        """Sets or removes (None) the cluster's default; None as the result is success."""
        changes = alter_operations({key: value})
        request = IncrementalAlterConfigsRequest(
            resources=[(kafka_names.RESOURCE_BROKER, _DEFAULT, changes)], validate_only=False
        )
        return read_alter_result(
            self._wire.one("alter the cluster's default configs", request), "AlterConfigs on Cluster"
        )

    def unreplicated_messages(self, partitions: Iterable[PartitionState]) -> tuple[int, int]:
        """Messages that leaders had and not all in-sync replicas a moment later, and the sum of all leaders' end offsets.

        Partitions whose leader does not answer are left out.
        """
        led = list(partitions)
        # In this order: what is written between the two answers is not counted as late.
        written, copied = self.log_end_offsets(led), self.end_offsets(led)
        return sum(max(0, end - copied.get(key, end)) for key, end in written.items()), sum(written.values())
