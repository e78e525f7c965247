"""The doctor names the brokers' version of Kafka, and refuses ZooKeeper mode and old versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rheostat.config.settings import Settings, parse_settings
from rheostat.doctor.findings import Finding, FindingVerdict
from rheostat.doctor.kafka_version import kafka_version
from streaming.shared.kafka.values import Unreachable
from streaming.shared.kafka.versions import METADATA_VERSION_TESTED_MAX, BrokerVersion, version_of

NEW = BrokerVersion(metadata_version_max=28, metadata_version=28, is_kraft=True)
FILE = """
cluster: main
kafka: {bootstrap_servers: "localhost:9092"}
stream: {checkpoint_dir: /tmp/checkpoint}
tuner: {rate_bytes_per_s_max: 50MB/s}
"""
IDLE_OBJECTIVE = FILE.replace("50MB/s", "50MB/s, mutation_quota: {objective: {idle_ratio_min: 0.3}}")


def settings(text: str = FILE) -> Settings:
    return parse_settings(text, "test", {})


class Brokers:
    def __init__(self, answers: dict[int, Any]) -> None:
        self.answers = answers

    def broker_versions(self, brokers: list[int]) -> dict[int, Any]:
        return {broker: self.answers[broker] for broker in brokers}


def findings(answers: dict[int, Any], text: str = FILE) -> list[Finding]:
    return list(kafka_version(Brokers(answers), sorted(answers), settings(text)))  # type: ignore[arg-type]  # what it asks is there


def test_equal_brokers_are_one_finding() -> None:
    (finding,) = findings({1: NEW, 2: NEW})
    assert (finding.verdict, finding.found) == (FindingVerdict.OK, "brokers 1, 2 run Kafka 4.2 (metadata.version 28)")


def test_unfinished_upgrade_names_the_version_in_use() -> None:
    (finding,) = findings({1: replace(NEW, metadata_version=21)})
    assert finding.verdict is FindingVerdict.OK
    assert finding.found.endswith("(metadata.version 28; the cluster still uses 21, the version of Kafka 3.9)")


@pytest.mark.parametrize(("text", "verdict"), [(FILE, FindingVerdict.OK), (IDLE_OBJECTIVE, FindingVerdict.ADVICE)])
def test_missing_metric_is_advice_only_if_an_objective_needs_it(text: str, verdict: FindingVerdict) -> None:
    (finding,) = findings({1: BrokerVersion(21, 21, True)}, text)
    assert finding.verdict is verdict
    assert finding.found.startswith("broker 1 runs Kafka 3.9 (metadata.version 21)")
    assert "missing in this version: the metric of the controller's idle ratio" in finding.found
    assert ("idle_ratio_min" in finding.do) == (verdict is FindingVerdict.ADVICE)


@pytest.mark.parametrize(
    ("version", "found"),
    [
        (replace(NEW, is_kraft=False), "broker 2 runs in ZooKeeper mode; rheostat works with KRaft only"),
        (BrokerVersion(20, 20, True), "broker 2 runs Kafka 3.8; rheostat works with Kafka 3.9 and newer"),
        (
            BrokerVersion(None, None, True),
            "broker 2 runs a version before 3.0; rheostat works with Kafka 3.9 and newer",
        ),
    ],
)
def test_unsupported_broker_fails_by_name(version: BrokerVersion, found: str) -> None:
    good, bad = findings({1: NEW, 2: version})
    assert good.verdict is FindingVerdict.OK
    assert (bad.verdict, bad.found) == (FindingVerdict.FAILED, found)
    assert bad.do


def test_newer_version_than_tested_is_advice() -> None:
    newer = METADATA_VERSION_TESTED_MAX + 1
    (finding,) = findings({1: BrokerVersion(newer, newer, True)})
    assert finding.verdict is FindingVerdict.ADVICE
    assert f"a version newer than Kafka 4.4 (metadata.version {newer})" in finding.found


def test_silent_broker_is_named_beside_the_others() -> None:
    silent, answered = findings({1: NEW, 2: Unreachable("no answer")})
    assert (silent.verdict, silent.found) == (FindingVerdict.ADVICE, "broker 2 does not tell its version: no answer")
    assert answered.found.startswith("broker 1 runs")


def test_version_before_the_first_number_is_unknown() -> None:
    assert version_of(0) is None
    assert version_of(1) == (3, 0)
