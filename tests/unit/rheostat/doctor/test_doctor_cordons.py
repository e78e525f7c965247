"""`rheostat doctor` about cordons: whose they are, a setting without effect, and a version without cordons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from rheostat.config.settings import Settings
from rheostat.doctor import cordons as doctor_cordons
from rheostat.doctor.findings import Finding, FindingVerdict
from rheostat.orders import send
from rheostat.orders.send import RecordedOrders
from streaming.shared.kafka.cluster import ClusterClient, ConfigValue
from streaming.shared.kafka.versions import BrokerVersion
from tuner.control.cordon.model import CordonMemory, OwnedCordon

NEW, MIXED, OLD = BrokerVersion(33, 33, True), BrokerVersion(33, 29, True), BrokerVersion(29, 29, True)


class Client:
    def __init__(self, version: BrokerVersion, cordoned: dict[int, str]) -> None:
        self.version, self.cordoned = version, cordoned

    def broker_versions(self, brokers: Iterable[int]) -> dict[int, BrokerVersion]:
        return dict.fromkeys(brokers, self.version)

    def broker_configs(self, brokers: Iterable[int], keys: Iterable[str]) -> dict[int, Any]:
        del keys
        return {
            b: {"log.dirs": ConfigValue("/a", 4)}
            | ({"cordoned.log.dirs": ConfigValue(self.cordoned[b], 2)} if b in self.cordoned else {})
            for b in brokers
        }


def findings(monkeypatch: pytest.MonkeyPatch, version: BrokerVersion, cordoned: dict[int, str]) -> list[Finding]:
    recorded = RecordedOrders(cordons=CordonMemory({3: OwnedCordon("p", ("/a",), is_written=True)}))
    monkeypatch.setattr(send, "read_orders", lambda _: recorded)
    client = cast("ClusterClient", Client(version, cordoned))
    return list(doctor_cordons.cordons(client, [1, 3], cast("Settings", None)))


def test_each_cordon_is_named_with_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    other, own = findings(monkeypatch, NEW, {1: "/a", 3: "/a"})
    assert other.found == "Broker 1 is cordoned: /a by another tool: new replicas are not placed there."
    assert own.found.startswith(
        "Broker 3 is cordoned: /a by rheostat for plan p: new replicas are not placed there. Lift it"
    )
    assert {other.verdict, own.verdict} == {FindingVerdict.OK}


def test_cordon_without_effect_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = findings(monkeypatch, MIXED, {1: "*"})
    assert finding.verdict is FindingVerdict.ADVICE
    assert "broker 1 sets cordoned.log.dirs, which has no effect" in finding.found
    assert "the cluster still uses 29" in finding.found


def test_kafka_without_cordons_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = findings(monkeypatch, OLD, {})
    assert finding.found == "none (broker 1: cordoned log directories need Kafka 4.3 or newer, and it runs Kafka 4.2)"
    (finding,) = findings(monkeypatch, NEW, {})
    assert finding.found == "none"
