"""The contract of the client that measures topic-create latency: one suite for the fake and for a real cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from fake_asker import FakeAsker

from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared.kafka.cluster import Unreachable
from streaming.shared.kafka.controller_ping import ControllerPing
from streaming.shared.kafka.settings import KafkaSettings
from tuner.runtime.mutation_quota.creation_probe import ProbeClient

TOPIC = "felt"


@pytest.fixture(scope="module")
def askers() -> Iterator[tuple[ProbeClient, ProbeClient]]:
    nowhere = KafkaSettings(bootstrap_servers="127.0.0.1:9", request_timeout_s=1.0)
    with Lab(LabSpec(brokers=2)) as lab:
        with lab.admin() as admin:
            admin.create_topics({TOPIC: {"num_partitions": 1, "replication_factor": 1}})
        there = ControllerPing(lab.kafka_settings(), "contract", TOPIC)
        away = ControllerPing(nowhere, "contract", TOPIC)
        yield there, away
        there.close()
        away.close()


@pytest.fixture(params=["fake", "kafka"])
def subjects(request: pytest.FixtureRequest) -> tuple[ProbeClient, ProbeClient]:
    if request.param == "fake":
        return FakeAsker(), FakeAsker(away=True)
    found: tuple[ProbeClient, ProbeClient] = request.getfixturevalue("askers")
    return found


def test_ping_every_live_broker_answers(subjects: tuple[ProbeClient, ProbeClient]) -> None:
    asker, _ = subjects
    brokers = [broker.node for broker in asker.brokers()]
    assert len(brokers) >= 2
    assert [asker.connect(broker) for broker in brokers] == [None] * len(brokers)
    assert [asker.ping(broker) for broker in brokers for _ in range(3)] == [None] * 3 * len(brokers)


def test_ping_absent_broker_is_unreachable_and_others_answer(
    subjects: tuple[ProbeClient, ProbeClient],
) -> None:
    asker, _ = subjects
    assert isinstance(asker.ping(77), Unreachable)
    assert isinstance(asker.connect(77), Unreachable)
    assert asker.ping(asker.brokers()[0].node) is None


def test_unreachable_cluster_returns_failures_as_values(
    subjects: tuple[ProbeClient, ProbeClient],
) -> None:
    _, away = subjects
    began_s = time.monotonic()
    assert isinstance(away.connect(1), Unreachable)
    assert isinstance(away.ping(1), Unreachable)
    with pytest.raises(Unreachable):
        away.brokers()
    assert time.monotonic() - began_s < 20
