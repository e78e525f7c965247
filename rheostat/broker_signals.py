"""Reads the newest signals of all brokers for a command."""

from __future__ import annotations

from rheostat.config.settings import Settings
from rheostat.metrics_cluster import metrics_client, metrics_consumer
from streaming.shared.contract import BrokerSignal
from streaming.shared.kafka.cluster import ClusterClient
from tuner.runtime.observe.signals_reader import SignalReader

_BACKLOG_RECORDS = 400  # Newest signal records that are read.


def read_broker_signals(client: ClusterClient, settings: Settings) -> dict[int, BrokerSignal]:
    """Returns the newest signal of each broker, however old; empty if the topic does not exist."""
    topic = settings.topic_names().signals
    with metrics_client(client, settings) as metrics:
        if not metrics.partitions([topic]):
            return {}
    reader = metrics_consumer(settings, "rheostat-write-rates")
    try:
        signals = SignalReader(reader, topic, settings.cluster)
        signals.rewind(_BACKLOG_RECORDS)
    finally:
        reader.close(timeout_ms=2000)
    return signals.brokers


def read_link_speeds(client: ClusterClient, settings: Settings) -> dict[int, float]:
    """Returns the speed of each broker's link in bytes/s, for the brokers whose metrics contain it."""
    return {
        broker: signal.link_speed_bytes_per_s
        for broker, signal in read_broker_signals(client, settings).items()
        if signal.link_speed_bytes_per_s is not None
    }
