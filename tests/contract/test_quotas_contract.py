"""The contract of the tuner's quota port: one suite for the fake and for a real cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import pytest
from fake_quotas import FakeQuotas

from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared.contract.quotas import Default, QuotaEntity
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.quotas import QuotaClient
from streaming.shared.kafka.settings import KafkaSettings
from tuner.runtime.mutation_quota.actuator import (
    ENTITIES_PER_REQUEST,
    DryRunQuotaActuator,
    KafkaQuotaActuator,
    QuotaActuator,
)

ALICE = QuotaEntity(user="alice")
PAIR = QuotaEntity("alice", "loader")
ANYBODY = QuotaEntity(user=Default.DEFAULT)
CLIENT = QuotaEntity(client_id="loader")
SHOWN_S_MAX = 60.0


class Subject(Protocol):
    port: QuotaActuator
    away: QuotaActuator  # The port of a cluster that does not answer.

    def clean(self) -> None: ...


@dataclass
class Fake:
    port: FakeQuotas = field(default_factory=FakeQuotas)
    away: FakeQuotas = field(default_factory=FakeQuotas)

    def __post_init__(self) -> None:
        self.away.away = True

    def clean(self) -> None:
        pass


class Real:
    def __init__(self, client: QuotaClient, nobody: QuotaClient) -> None:
        self.port = KafkaQuotaActuator(client)
        self.away = KafkaQuotaActuator(nobody)

    def clean(self) -> None:
        stands = self.port.read()
        assert isinstance(stands, dict)
        assert not any(self.port.write(dict.fromkeys(stands)).values())
        until_read(self.port, {})


@pytest.fixture(scope="module")
def clients() -> Iterator[tuple[QuotaClient, QuotaClient]]:
    nowhere = KafkaSettings(bootstrap_servers="127.0.0.1:9", request_timeout_s=1.0)
    with Lab(LabSpec(brokers=2)) as lab:
        client, nobody = QuotaClient(lab.kafka_settings(), "contract"), QuotaClient(nowhere, "contract")
        yield client, nobody
        client.close()
        nobody.close()


@pytest.fixture(params=["fake", "kafka"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    made: Subject = Fake() if request.param == "fake" else Real(*request.getfixturevalue("clients"))
    yield made
    made.clean()


def until_read(port: QuotaActuator, wanted: dict[QuotaEntity, float]) -> None:
    """Waits until a broker shows the change, some time after the controller accepted it."""
    deadline_s = time.monotonic() + SHOWN_S_MAX
    while port.read() != wanted:
        assert time.monotonic() < deadline_s, f"{port.read()} stands, expected {wanted}"


def put(subject: Subject, rates: dict[QuotaEntity, float | None]) -> None:
    """Writes the quotas and waits until they are read."""
    before = subject.port.read()
    assert isinstance(before, dict)
    assert subject.port.write(rates) == dict.fromkeys(rates)
    until_read(subject.port, {entity: rate for entity, rate in {**before, **rates}.items() if rate is not None})


def test_cluster_without_quotas_reads_empty(subject: Subject) -> None:
    assert subject.port.read() == {}


def test_written_quota_is_read_bit_for_bit(subject: Subject) -> None:
    rates = {ALICE: 0.1, PAIR: 1 / 3, ANYBODY: 12_345.678, CLIENT: 5.0}
    put(subject, {**rates})
    assert subject.port.read() == rates


def test_writing_none_removes_only_that_quota(subject: Subject) -> None:
    put(subject, {ALICE: 5.0, PAIR: 7.0})
    put(subject, {ALICE: None})
    assert subject.port.read() == {PAIR: 7.0}


def test_removal_of_absent_quota_succeeds(subject: Subject) -> None:
    put(subject, {ALICE: None})


def test_write_of_no_quotas_does_nothing(subject: Subject) -> None:
    assert subject.port.write({}) == {}


def test_refused_quota_has_reason_and_others_are_written(subject: Subject) -> None:
    outcome = subject.port.write({ALICE: 0.0, PAIR: 7.0})
    assert "must be greater than 0" in str(outcome[ALICE])
    assert outcome[PAIR] is None
    until_read(subject.port, {PAIR: 7.0})


def test_more_entities_than_fit_one_request_are_written(subject: Subject) -> None:
    many: dict[QuotaEntity, float | None] = {
        QuotaEntity(client_id=f"client-{n}"): 1.0 + n for n in range(ENTITIES_PER_REQUEST + 1)
    }
    put(subject, many)
    assert subject.port.read() == many


def test_unreachable_cluster_fails_every_entity(subject: Subject) -> None:
    assert isinstance(subject.away.read(), ClusterError)
    assert all(subject.away.write({ALICE: 5.0, PAIR: None}).values())


def test_dry_run_reads_quotas_and_writes_none(subject: Subject) -> None:
    put(subject, {ALICE: 5.0})
    dry = DryRunQuotaActuator(subject.port)
    assert dry.write({ALICE: 7.0, PAIR: None}) == {ALICE: None, PAIR: None}
    assert dry.read() == {ALICE: 5.0}
