"""Reads and changes the cluster-wide default of a broker setting, and measures how far followers are behind.

kafka-python has no method for the cluster-wide default, so this module builds the requests with an empty resource name. The broker
that receives a change validates it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from streaming.shared import kafka_names
from streaming.shared.kafka.answers import alter_operations, read_alter_result, read_configs
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import ClusterError, PartitionState

_DEFAULT = ""  # Resource name of the cluster-wide default.


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
        states = list(partitions)
        # The log end offsets are read first, so that messages written between the two requests do not count as lag.
        log_ends = self.log_end_offsets(states)
        high_watermarks = self.end_offsets(states)
        unreplicated = sum(max(0, end - high_watermarks.get(key, end)) for key, end in log_ends.items())
        return unreplicated, sum(log_ends.values())
