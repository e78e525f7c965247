"""Reads the newest signals of all brokers for a command."""

from __future__ import annotations

from rheostat.config.settings import Settings
from rheostat.metrics_cluster import metrics_topic_reader
from streaming.shared.contract import BrokerSignal
from streaming.shared.kafka.cluster import ClusterClient
from tuner.runtime.observe.signals_reader import SignalReader


def read_broker_signals(client: ClusterClient, settings: Settings) -> dict[int, BrokerSignal]:
    """Returns the newest signal of each broker, however old; empty if the topic does not exist."""
    topic = settings.topic_names().signals
    with metrics_topic_reader(client, settings, topic, "rheostat-broker-signals") as reader:
        signals = SignalReader(reader, topic, settings.cluster)
        signals.rewind()
    return signals.brokers


def read_link_speeds(client: ClusterClient, settings: Settings) -> dict[int, float]:
    """Returns the speed of each broker's link in bytes/s, for the brokers whose metrics contain it."""
    return {
        broker: signal.link_speed_bytes_per_s
        for broker, signal in read_broker_signals(client, settings).items()
        if signal.link_speed_bytes_per_s is not None
    }
