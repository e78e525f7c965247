"""Changes the cluster-wide default of a broker setting. Only commands do so, never the tuner."""

from __future__ import annotations

from kafka.protocol.admin import IncrementalAlterConfigsRequest

from streaming.shared import kafka_names
from streaming.shared.kafka.answers import alter_operations, read_alter_result
from streaming.shared.kafka.cluster import CLUSTER_DEFAULT, ClusterClient
from streaming.shared.kafka.values import ClusterError


class DefaultConfigClient(ClusterClient):
    """An admin connection for commands. Not thread-safe."""

    def alter_default_config(self, key: str, value: str | None) -> ClusterError | None:
        """Sets or removes (None) the cluster-wide default. Returns the error; None for success."""
        request = IncrementalAlterConfigsRequest(
            resources=[(kafka_names.RESOURCE_BROKER, CLUSTER_DEFAULT, alter_operations({key: value}))],
            validate_only=False,
        )
        return read_alter_result(
            self._connection.send_any("alter the cluster's default configs", request), "AlterConfigs on Cluster"
        )
