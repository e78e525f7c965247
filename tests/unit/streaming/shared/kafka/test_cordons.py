"""Cordons as brokers of several versions report them, also in an upgrade with brokers of two versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from streaming.shared.cordons import BrokerCordon, CordonSource, cordoned_brokers
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, ConfigValue
from streaming.shared.kafka.cordons import cordons_missing, find_missing, read_cordons, read_known_cordons
from streaming.shared.kafka.values import MissingPermission
from streaming.shared.kafka.versions import BrokerVersion

OLD, MIXED, NEW = BrokerVersion(29, 29, True), BrokerVersion(30, 29, True), BrokerVersion(31, 30, True)
VERSIONS: dict[int, BrokerVersion | ClusterError] = {1: OLD, 2: MIXED, 3: NEW, 4: ClusterError("it does not answer")}


CONFIGS: dict[int, Any] = {3: {"log.dirs": ConfigValue("/a, /b", 4), "cordoned.log.dirs": ConfigValue("/b", 4)}}


class Client:
    def __init__(self, configs: dict[int, Any] | None = None) -> None:
        self.configs = CONFIGS if configs is None else configs

    def broker_versions(self, brokers: Iterable[int]) -> dict[int, BrokerVersion | ClusterError]:
        return {broker: VERSIONS[broker] for broker in brokers}

    def broker_configs(self, brokers: Iterable[int], keys: Iterable[str]) -> dict[int, Any]:
        assert set(keys) == {"cordoned.log.dirs", "log.dirs", "log.dir"}
        return {broker: self.configs[broker] for broker in brokers}


CLIENT = cast("ClusterClient", Client())


def test_only_brokers_with_cordons_are_asked() -> None:
    cordons = read_cordons(CLIENT, [1, 2, 3])
    assert cordons[1] == cordons[2] == BrokerCordon()
    assert cordons[3] == BrokerCordon(("/a", "/b"), ("/b",), CordonSource.FILE)


def test_unknown_cordons_refuse_a_placement() -> None:
    with pytest.raises(ClusterError, match="it does not answer"):
        read_known_cordons(CLIENT, [1, 4])
    denied = Client({3: MissingPermission("DescribeConfigs on Cluster", "to describe configs")})
    with pytest.raises(MissingPermission, match="DescribeConfigs on Cluster"):
        read_known_cordons(cast("ClusterClient", denied), [3])


@pytest.mark.parametrize(
    ("cordon", "cordoned", "is_whole"),
    [
        (BrokerCordon(("/a", "/b")), (), False),
        (BrokerCordon(("/a", "/b"), ("/b",)), ("/b",), False),
        (BrokerCordon(("/a", "/b"), ("/b", "/a")), ("/b", "/a"), True),
        (BrokerCordon(("/a", "/b"), ("*",)), ("/a", "/b"), True),
        (BrokerCordon((), ("*",)), ("*",), True),
        (BrokerCordon((), ("/b",)), ("/b",), False),
    ],
)
def test_broker_is_cordoned_if_all_its_directories_are(
    cordon: BrokerCordon, cordoned: tuple[str, ...], *, is_whole: bool
) -> None:
    assert cordon.cordoned == cordoned
    assert cordoned_brokers({3: cordon}) == ({3} if is_whole else set())


def test_missing_version_is_named_for_each_stage_of_an_upgrade() -> None:
    assert cordons_missing(OLD) == "cordoned log directories need Kafka 4.3 or newer, and it runs Kafka 4.2"
    assert "the cluster still uses 29: finish the upgrade with `kafka-features upgrade`" in (
        cordons_missing(MIXED) or ""
    )
    assert cordons_missing(NEW) is None
    assert cordons_missing(BrokerVersion(None, None, True)) is not None
    assert (find_missing(VERSIONS, [3, 1]) or "").startswith("broker 1 cannot be cordoned: ")
    assert (find_missing(VERSIONS, [9]) or "").startswith("broker 9 is not alive")
    assert find_missing(VERSIONS, [4]) == "broker 4 does not tell its version: it does not answer"
    assert find_missing(VERSIONS, [3]) is None
