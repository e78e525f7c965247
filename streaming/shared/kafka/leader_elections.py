"""Reads whether Kafka itself elects preferred leaders (``auto.leader.rebalance.enable``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from streaming.shared import kafka_names
from streaming.shared.kafka.values import ClusterError, ConfigValue


class BrokerConfigs(Protocol):
    def broker_configs(
        self, brokers: Iterable[int], keys: Iterable[str]
    ) -> Mapping[int, Mapping[str, ConfigValue] | ClusterError]: ...


def electing_brokers(client: BrokerConfigs, brokers: Iterable[int]) -> frozenset[int] | None:
    """Returns the brokers with ``auto.leader.rebalance.enable``; None if the settings of a broker cannot be read.

    Kafka uses the setting of the active controller, but only the brokers' own settings can be read.
    """
    answers = client.broker_configs(sorted(brokers), [kafka_names.AUTO_LEADER_REBALANCE])
    electing = set()
    for broker, configs in answers.items():
        if isinstance(configs, ClusterError):
            return None
        setting = configs.get(kafka_names.AUTO_LEADER_REBALANCE)  # Kafka's default is true.
        if setting is None or setting.value != "false":
            electing.add(broker)
    return frozenset(electing)
