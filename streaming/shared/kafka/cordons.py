"""Reads the cordoned log directories of brokers (KIP-1066), and whether the cluster's version of Kafka has cordons."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streaming.shared import kafka_names
from streaming.shared.cordons import BrokerCordon, CordonSource, split_entries
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.values import ConfigValue
from streaming.shared.kafka.versions import CORDONS_FROM, CORDONS_METADATA_VERSION, BrokerVersion, version_of

_NAMES = (kafka_names.CORDONED_LOG_DIRS, kafka_names.LOG_DIRS, kafka_names.LOG_DIR)
_SOURCES = {
    kafka_names.SOURCE_DYNAMIC_BROKER: CordonSource.BROKER,
    kafka_names.SOURCE_DYNAMIC_DEFAULT_BROKER: CordonSource.CLUSTER_DEFAULT,
}


def read_cordons(client: ClusterClient, brokers: Collection[int]) -> dict[int, BrokerCordon | ClusterError]:
    """Returns the cordons of each broker, or why they cannot be read. A broker whose version has no cordons has none.

    Only brokers whose version has cordons are asked for their settings, which needs a right (DescribeConfigs on Cluster).
    """
    answers = client.broker_versions(brokers)
    cordons: dict[int, BrokerCordon | ClusterError] = {}
    with_cordons = []
    for broker, version in answers.items():
        if isinstance(version, ClusterError):
            cordons[broker] = version
        elif cordons_missing(version) is None:
            with_cordons.append(broker)
        else:
            cordons[broker] = BrokerCordon()
    for broker, configs in client.broker_configs(with_cordons, _NAMES).items():
        cordons[broker] = configs if isinstance(configs, ClusterError) else _cordon_of(configs)
    return cordons


def read_known_cordons(client: ClusterClient, brokers: Collection[int]) -> dict[int, BrokerCordon]:
    """Returns the cordons of each broker.

    Raises:
        ClusterError: the cordons of a broker cannot be read, so a placement could hit a cordoned directory.
    """
    cordons = {}
    for broker, cordon in read_cordons(client, brokers).items():
        if isinstance(cordon, ClusterError):
            raise cordon
        cordons[broker] = cordon
    return cordons


def cordons_missing(version: BrokerVersion) -> str | None:
    """Returns why the broker's log directories cannot be cordoned, and which version is needed; None if cordons are possible."""
    needs = f"cordoned log directories need Kafka {_text(CORDONS_FROM)} or newer"
    newest, used = version.metadata_version_max, version.metadata_version
    if newest is None or newest < CORDONS_METADATA_VERSION:
        known = None if newest is None else version_of(newest)
        return (
            f"{needs}, and it runs Kafka {_text(known)}"
            if known is not None
            else f"{needs}, and it runs an older version"
        )
    if used is not None and used < CORDONS_METADATA_VERSION:
        return (
            f"{needs} and metadata.version {CORDONS_METADATA_VERSION} ({_text(CORDONS_FROM)}), and the cluster still uses {used}: "
            "finish the upgrade with `kafka-features upgrade`"
        )
    return None


def find_missing(versions: Mapping[int, BrokerVersion | ClusterError], brokers: Collection[int]) -> str | None:
    """Returns a sentence about the first of these brokers whose log directories cannot be cordoned; None if there is none."""
    for broker in sorted(brokers):
        version = versions.get(broker)
        if isinstance(version, ClusterError):
            return f"broker {broker} does not tell its version: {version}"
        if version is None:
            return f"broker {broker} is not alive, and only a living broker can be cordoned"
        if (why := cordons_missing(version)) is not None:
            return f"broker {broker} cannot be cordoned: {why}"
    return None


def _cordon_of(configs: Mapping[str, ConfigValue]) -> BrokerCordon:
    directories = configs.get(kafka_names.LOG_DIRS) or configs.get(kafka_names.LOG_DIR)
    setting = configs.get(kafka_names.CORDONED_LOG_DIRS)
    return BrokerCordon(
        directories=() if directories is None else split_entries(directories.value),
        entries=() if setting is None else split_entries(setting.value),
        source=None if setting is None else _SOURCES.get(setting.source, CordonSource.FILE),
    )


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
