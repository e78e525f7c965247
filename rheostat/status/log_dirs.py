"""Reads the copies between log directories for `rheostat status`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from streaming.shared.contract import BrokerSignal
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka_names import LOG_DIR_RATE
from tuner.api.log_dir_views import log_dir_json
from tuner.control.log_dir.progress import CopyHistory, measure_progress


def read_log_dirs(
    client: ClusterClient, brokers: Collection[int], signals: Mapping[int, BrokerSignal], managed: Collection[int]
) -> list[dict[str, Any]]:
    """Returns a row for each of these brokers that copies, as JSON values; brokers that do not answer are left out.

    Args:
        signals: the newest signal of each broker, from which the rate of the copies and their expected end are known.
        managed: the brokers whose limit rheostat manages.

    Raises:
        ClusterError: the cluster does not answer.
    """
    found = client.log_dir_copies(brokers)
    copies = {broker: copied for broker, copied in found.items() if not isinstance(copied, ClusterError) and copied}
    configs = client.broker_configs(copies, [LOG_DIR_RATE])
    rows = []
    for broker, copied in sorted(copies.items()):
        settings, signal = configs[broker], signals.get(broker)
        config = None if isinstance(settings, ClusterError) else settings.get(LOG_DIR_RATE)
        reported = signal.log_dir_copied_bytes_per_s if signal is not None else None
        progress = measure_progress(copied, CopyHistory(), reported)
        rate = None if config is None else int(config.value)
        rows.append(log_dir_json(broker, progress, reported, rate, managed=broker in managed))
    return rows


def copying_brokers(signals: Mapping[int, BrokerSignal], managed: Collection[int]) -> set[int]:
    """Returns the brokers that copy according to their signals, or whose limit rheostat manages."""
    return {broker for broker, signal in signals.items() if signal.log_dir_copied_bytes_per_s}.union(managed)
