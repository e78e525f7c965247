"""Reads and changes the cluster-wide default of a broker setting, and measures how far followers are behind.

kafka-python does not support the cluster-wide default, whose resource name is empty. Kafka validates a change at the broker that
receives it.
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
    """An admin connection for changing the number of fetcher threads. Not thread-safe."""

    def default_config(self, key: str) -> str | None:
        """Returns the cluster-wide default as set at runtime; None if it is not set.

        Raises:
            MissingPermission: DescribeConfigs on Cluster.
        """
        request = DescribeConfigsRequest(
            resources=[(kafka_names.RESOURCE_BROKER, _DEFAULT, [key])], include_synonyms=False
        )
        answer = self._wire.send_any("describe the cluster's default configs", request)
        config = read_configs(answer, "DescribeConfigs on Cluster").get(_DEFAULT, {}).get(key)
        is_default = config is not None and config.source == kafka_names.SOURCE_DYNAMIC_DEFAULT_BROKER
        return config.value if config is not None and is_default else None

    def alter_default_config(self, key: str, value: str | None) -> ClusterError | None:
        """Sets or removes (None) the cluster-wide default. Returns the error; None for success."""
        changes = alter_operations({key: value})
        request = IncrementalAlterConfigsRequest(
            resources=[(kafka_names.RESOURCE_BROKER, _DEFAULT, changes)], validate_only=False
        )
        return read_alter_result(
            self._wire.send_any("alter the cluster's default configs", request), "AlterConfigs on Cluster"
        )

    def unreplicated_messages(self, partitions: Iterable[PartitionState]) -> tuple[int, int]:
        """Returns how many messages the in-sync replicas still lack, and the sum of the leaders' log end offsets.

        Partitions whose leader does not answer are left out.
        """
        led = list(partitions)
        # Log end offsets first: messages written between the two requests then do not count as lag.
        written, copied = self.log_end_offsets(led), self.end_offsets(led)
        return sum(max(0, end - copied.get(key, end)) for key, end in written.items()), sum(written.values())
