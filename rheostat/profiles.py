"""Reads the profiles of all brokers for a command, and selects the profiles that may be used now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rheostat.config.settings import Settings
from rheostat.metrics_cluster import metrics_client, metrics_consumer
from streaming.shared.contract import BrokerProfile
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.forecast import why_unusable
from tuner.runtime.observe.profiles_reader import ProfilesReader


@dataclass(frozen=True, slots=True)
class UsableProfiles:
    """The profiles that may be used now, and the reason for each broker without a usable profile."""

    by_broker: Mapping[int, BrokerProfile]
    unusable: Mapping[int, str]


def read_profiles(client: ClusterClient, settings: Settings) -> dict[int, BrokerProfile]:
    """Returns the newest profile of each broker, however old; empty if the topic does not exist or cannot be read."""
    topic = settings.topic_names().profiles
    with metrics_client(client, settings) as metrics:
        if not metrics.partitions([topic]):
            return {}
    reader = metrics_consumer(settings, "rheostat-profiles")
    try:
        profiles = ProfilesReader(reader, topic, settings.cluster)
        profiles.poll()
    finally:
        reader.close(timeout_ms=2000)
    return profiles.profiles


def select_usable(profiles: Mapping[int, BrokerProfile], brokers: Iterable[int], now_ms: int) -> UsableProfiles:
    """Returns the usable profiles of these brokers."""
    reasons = {broker: why_unusable(profiles.get(broker), now_ms) for broker in sorted(set(brokers))}
    return UsableProfiles(
        {broker: profiles[broker] for broker, reason in reasons.items() if reason is None},
        {broker: reason for broker, reason in reasons.items() if reason is not None},
    )
