"""Reads the profiles of all brokers for a command, and selects the profiles that may be used now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rheostat.config.settings import Settings
from rheostat.metrics_cluster import metrics_topic_reader
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
    with metrics_topic_reader(client, settings, topic, "rheostat-profiles") as reader:
        if reader is None:
            return {}
        profiles = ProfilesReader(reader, topic, settings.cluster)
        profiles.poll()
        return profiles.profiles


def select_usable(profiles: Mapping[int, BrokerProfile], brokers: Iterable[int], now_ms: int) -> UsableProfiles:
    """Returns the usable profiles of these brokers."""
    reasons = {broker: why_unusable(profiles.get(broker), now_ms) for broker in sorted(set(brokers))}
    return UsableProfiles(
        {broker: profiles[broker] for broker, reason in reasons.items() if reason is None},
        {broker: reason for broker, reason in reasons.items() if reason is not None},
    )
