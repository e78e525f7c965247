"""Tells for each broker where its capacity would come from: the settings, the history, the speed of its link, or nowhere yet."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from kafka.errors import KafkaError

from rheostat.broker_signals import read_broker_signals
from rheostat.config.settings import Settings
from rheostat.doctor.findings import Finding, FindingVerdict
from rheostat.errors import CommandError
from rheostat.profiles import read_profiles, select_usable
from streaming.shared.contract import BrokerProfile, Side
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text
from tuner.core.cluster import BrokerSide
from tuner.core.freshness import fresh_signals
from tuner.core.link_limit import LinkSource
from tuner.planning.copy_forecast import KnownCapacity
from tuner.settings.copy_limits import capacities_of

_CHECK = "capacity"
_BROKERS_NAMED_MAX = 10
_GROUPS_NAMED_MAX = 5
_DIRECTIONS = {"in": Side.FOLLOWER, "out": Side.LEADER}
_SOURCE_TEXTS = {
    LinkSource.SETTINGS: "from tuner.capacity",
    LinkSource.LEARNED: "learned from the history",
    LinkSource.LINK: "the speed of the link, from the metrics of the machine",
}
_UNKNOWN = "unknown until the tuner has learned it during a move, from the latency of clients"


def capacities(client: ClusterClient, brokers: Sequence[int], settings: Settings) -> Iterator[Finding]:
    """Yields one finding; none if the settings have no objective, because no throttle depends on a capacity then.

    If the topics cannot be read, it yields none: other checks name that problem.
    """
    tuner = settings.tuner
    if tuner.objective is None:
        return
    profiles: Mapping[int, BrokerProfile] = {}
    link_speeds: dict[int, float] = {}
    if tuner.capacity is None:
        now_ms = round(time.time() * 1000)
        try:
            profiles = select_usable(read_profiles(client, settings), brokers, now_ms).by_broker
            signals = fresh_signals(read_broker_signals(client, settings), now_ms, tuner.signal_age_s_max)
        except (ClusterError, CommandError, KafkaError):
            return
        speeds = {broker: signal.link_speed_bytes_per_s for broker, signal in signals.items()}
        link_speeds = {broker: speed for broker, speed in speeds.items() if speed is not None}
    sides = [(broker, side) for broker in brokers for side in _DIRECTIONS.values()]
    yield Finding(_CHECK, FindingVerdict.OK, _describe(brokers, capacities_of(tuner, sides, profiles, link_speeds.get)))


def _describe(brokers: Sequence[int], known: Mapping[BrokerSide, KnownCapacity]) -> str:
    """Returns the capacity of each broker with its source; brokers with the same text are named together."""
    groups: dict[str, list[int]] = {}
    for broker in brokers:
        groups.setdefault(_broker_text(broker, known), []).append(broker)
    texts = [
        f"broker{'s' if len(members) > 1 else ''} {join_names(members, _BROKERS_NAMED_MAX)}: {text}"
        for text, members in groups.items()
    ]
    return join_names(texts, _GROUPS_NAMED_MAX, "groups of brokers", separator="; ")


def _broker_text(broker: int, known: Mapping[BrokerSide, KnownCapacity]) -> str:
    texts = {name: _capacity_text(known.get((broker, side))) for name, side in _DIRECTIONS.items()}
    (first, *_), different = texts.values(), set(texts.values())
    if len(different) > 1:
        return ", and ".join(f"{name} {text}" for name, text in texts.items())
    return first if first == _UNKNOWN else f"in and out {first}"


def _capacity_text(capacity: KnownCapacity | None) -> str:
    if capacity is None:
        return _UNKNOWN
    return f"{rate_text(capacity.bytes_per_s)} ({_SOURCE_TEXTS[capacity.source]})"
