"""The versions of Kafka that a lab can run: each has its jars with digests, and a wrong name is refused."""

from __future__ import annotations

import pytest

from rheostat.config.resources import conf_file
from rheostat.errors import BadInputError
from rheostat.jvm.digests import read_digests
from rheostat.jvm.kafka_versions import check_kafka_version, kafka_versions
from streaming.shared.kafka.versions import NEWEST_TESTED, OLDEST_SUPPORTED, minor_version


def test_versions_are_in_order_and_one_of_each_minor() -> None:
    versions = kafka_versions()
    assert [version.rpartition(".")[0] for version in versions] == ["3.9", "4.0", "4.1", "4.2", "4.3", "4.4"]
    assert [minor_version(version) for version in (versions[0], versions[-1])] == [OLDEST_SUPPORTED, NEWEST_TESTED]


@pytest.mark.parametrize("version", kafka_versions())
def test_version_has_digests_of_its_broker_and_tools(version: str) -> None:
    names = set(read_digests(conf_file("jvm", f"kafka-{version}.xml")))
    assert {
        f"kafka/kafka_2.13-{version}.jar",
        f"kafka/kafka-clients-{version}.jar",
        f"kafka/kafka-tools-{version}.jar",
    } <= names


def test_check_kafka_version_completes_the_minor_version() -> None:
    assert check_kafka_version("3.9") == kafka_versions()[0]
    assert check_kafka_version(kafka_versions()[-1]) == kafka_versions()[-1]


@pytest.mark.parametrize("version", ["", "4", "3.8", "4.0.99", "newest", "../4.4.0"])
def test_check_kafka_version_unknown_names_the_known_ones(version: str) -> None:
    with pytest.raises(BadInputError, match=r"--kafka: expected one of 3\.9\.\d+, "):
        check_kafka_version(version)
