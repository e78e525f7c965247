"""Client quotas on a real broker: every kind of entity, and what Kafka refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest
from lab_parts import until, wait_for_metadata

from benchmarks.controllers.storm import Request, Storm, StormTenant
from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared import kafka_names
from streaming.shared.contract.quotas import Default, QuotaEntity
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.cluster_connection import ClusterConnection
from streaming.shared.kafka.controller_ping import ControllerPing
from streaming.shared.kafka.quotas import QuotaClient
from streaming.shared.kafka.values import TopicCreation

LAB = LabSpec(brokers=1)
T = TypeVar("T")
ANY = Default.DEFAULT
ALICE = QuotaEntity(user="alice")
EVERY_KIND = (
    ALICE,
    QuotaEntity(user=ANY),
    QuotaEntity(client_id="loader"),
    QuotaEntity(client_id=ANY),
    QuotaEntity("alice", "loader"),
    QuotaEntity("alice", ANY),
    QuotaEntity(ANY, "loader"),
    QuotaEntity(ANY, ANY),
    QuotaEntity(user="CN=a/b, O=<default>"),
)
VISIBLE_S_MAX = 60.0


@pytest.fixture
def settings(lab: Lab) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=lab.bootstrap_servers)


@pytest.fixture
def quotas(settings: KafkaSettings) -> Iterator[QuotaClient]:
    client = QuotaClient(settings, "test-quotas")
    yield client
    client.alter_mutation_quotas(dict.fromkeys(client.mutation_quotas()))
    until(lambda: not client.mutation_quotas(), VISIBLE_S_MAX, "no quota is left")
    client.close()


def seen(client: QuotaClient, wanted: dict[QuotaEntity, float]) -> None:
    until(lambda: client.mutation_quotas() == wanted, VISIBLE_S_MAX, f"{len(wanted)} quotas as they were set")


def test_every_kind_of_entity_is_set_read_and_removed(quotas: QuotaClient) -> None:
    wanted = {entity: 1.5 + number for number, entity in enumerate(EVERY_KIND)}
    assert quotas.alter_mutation_quotas(wanted) == dict.fromkeys(EVERY_KIND)
    seen(quotas, wanted)

    removed = EVERY_KIND[::2]
    assert quotas.alter_mutation_quotas(dict.fromkeys(removed)) == dict.fromkeys(removed)
    seen(quotas, {entity: rate for entity, rate in wanted.items() if entity not in removed})


def test_refused_quota_does_not_block_other_entities(quotas: QuotaClient) -> None:
    bob = QuotaEntity(user="bob")
    found = quotas.alter_mutation_quotas({ALICE: 0.0, bob: 5.0})
    assert found[bob] is None
    assert isinstance(found[ALICE], ClusterError)
    assert "controller_mutation_rate must be greater than 0" in str(found[ALICE])
    seen(quotas, {bob: 5.0})


def test_removal_of_absent_quota_succeeds(quotas: QuotaClient) -> None:
    assert quotas.alter_mutation_quotas({QuotaEntity(user="nobody"): None}) == {QuotaEntity(user="nobody"): None}
    assert quotas.alter_mutation_quotas({}) == {}


def test_validate_only_changes_no_quota(quotas: QuotaClient) -> None:
    assert quotas.alter_mutation_quotas({ALICE: 5.0}, validate_only=True) == {ALICE: None}
    assert quotas.alter_mutation_quotas({QuotaEntity(user="bob"): 7.0}) == {QuotaEntity(user="bob"): None}
    seen(quotas, {QuotaEntity(user="bob"): 7.0})


def test_other_quotas_of_an_entity_are_left_alone(quotas: QuotaClient, settings: KafkaSettings) -> None:
    data = AlterClientQuotasRequest.EntryData
    externally_owned = data(
        entity=[data.EntityData(entity_type=kafka_names.QUOTA_USER, entity_name="alice")],
        ops=[data.OpData(key="producer_byte_rate", value=1e6, remove=False)],
    )
    connection = ClusterConnection(settings, "somebody-else")
    try:
        connection.send_any(
            "set another quota", AlterClientQuotasRequest(entries=[externally_owned], validate_only=False)
        )
        assert quotas.alter_mutation_quotas({ALICE: 5.0}) == {ALICE: None}
        seen(quotas, {ALICE: 5.0})
        assert quotas.alter_mutation_quotas({ALICE: None}) == {ALICE: None}
        seen(quotas, {})
        assert other_quotas(connection) == {"producer_byte_rate": 1e6}
    finally:
        connection.close()


def other_quotas(connection: ClusterConnection) -> dict[str, float]:
    answer = connection.send_any("describe", DescribeClientQuotasRequest(components=[], strict=False))
    return {str(v.key): float(v.value) for entry in answer.entries for v in entry.values}


def test_quotas_of_ip_addresses_are_skipped(lab: Lab, quotas: QuotaClient) -> None:
    """Kafka lists all client quotas together, including those that are no mutation quotas."""
    connection = ClusterConnection(lab.kafka_settings(), "test-ip")
    data = AlterClientQuotasRequest.EntryData

    def of_address(*, remove: bool) -> AlterClientQuotasRequest:
        entry = data(
            entity=[data.EntityData(entity_type="ip", entity_name="10.0.0.7")],
            ops=[data.OpData(key="connection_creation_rate", value=0.0 if remove else 9.0, remove=remove)],
        )
        return AlterClientQuotasRequest(entries=[entry], validate_only=False)

    try:
        connection.send_any("limit an address", of_address(remove=False))
        quotas.alter_mutation_quotas({ALICE: 5.0})
        seen(quotas, {ALICE: 5.0})
        until(lambda: 9.0 in other_quotas(connection).values(), VISIBLE_S_MAX, "the address's own quota")
        assert quotas.mutation_quotas() == {ALICE: 5.0}
    finally:
        connection.send_any("free the address", of_address(remove=True))
        connection.close()


def test_entity_without_name_is_refused() -> None:
    with pytest.raises(ValueError, match="name at least one"):
        QuotaEntity()


def test_entity_text_equals_that_of_kafka_configs() -> None:
    assert str(QuotaEntity("alice", ANY)) == "user 'alice', client-id <default>"


def partitions(requests: list[Request], client_id: str) -> int:
    return sum(r.mutations for r in requests if r.client_id == client_id and r.creates)


def test_storm_is_throttled_by_quota_and_neighbour_is_not(lab: Lab, quotas: QuotaClient) -> None:
    """The quota is 5/s with a burst of 11 s: 55 mutations pass at once, then 5/s; the last topic may exceed it."""
    polite, rude = QuotaEntity(client_id="polite"), QuotaEntity(client_id="rude")
    quotas.alter_mutation_quotas({polite: 5.0, rude: 5.0})
    seen(quotas, {polite: 5.0, rude: 5.0})

    storm = Storm(lab.bootstrap_servers.split(","))
    requests = storm.run(
        [
            StormTenant("polite", 10, partitions=10),
            StormTenant("rude", 10, partitions=10, honours=False),
            StormTenant("free", 10, partitions=5, connections=1, topics_max=5),
        ],
        seconds=6.0,
    )

    assert [r.failed for r in requests if r.failed] == []
    by_tenant = {name: [r for r in requests if r.client_id == name] for name in ("polite", "rude", "free")}
    for name in ("polite", "rude"):
        seconds = max(r.ended_s for r in by_tenant[name])
        # The quota is in force a moment after it can be read.
        assert 55 <= partitions(requests, name) <= 55 + 5 * (seconds + 1) + 10, name
        assert sum(r.throttled_s for r in by_tenant[name]) > 0
    # Who honours what it is told has waited for at least that, every time; who does not, for less in all.
    assert all(r.ended_s - r.began_s >= r.throttled_s for r in by_tenant["polite"])
    assert sum(r.ended_s - r.began_s for r in by_tenant["rude"]) < sum(r.throttled_s for r in by_tenant["rude"])
    assert {r.tries for r in by_tenant["free"]} == {1}
    assert sum(r.creates for r in by_tenant["free"]) - sum(not r.creates for r in by_tenant["free"]) <= 5


@pytest.mark.parametrize("wrong", [{"requests_per_s": 0.0}, {"partitions": 0}, {"connections": 0}])
def test_storm_tenant_without_demand_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="tenant nobody"):
        replace(StormTenant("nobody", 1.0), **wrong)  # type: ignore[arg-type]  # Which field is wrong is what varies.


def test_creation_probe_changes_nothing_and_logs_nothing(lab: Lab, settings: KafkaSettings) -> None:
    """Probes run five times a second for months: they must spend no quota, change no setting and fill no broker log."""
    asker = ControllerPing(settings, "asking", "there-already")
    client = ClusterClient(settings, "somebody")

    def stands() -> tuple[dict[str, dict[str, str]], int]:
        return client.topic_configs(["there-already"], ["retention.ms"]), said_of(lab, "there-already")

    try:
        client.create_topics([TopicCreation("there-already", 1, 1, {"retention.ms": "86400000"})])
        until(lambda: asker.ping(asker.brokers()[0].node) is None, VISIBLE_S_MAX, "the topic is there")
        broker = asker.brokers()[0].node
        wait_for_metadata(lab)
        before = settled(stands)
        assert before[0] == {"there-already": {"retention.ms": "86400000"}}
        assert asker.connect(broker) is None
        assert [asker.ping(broker) for _ in range(100)] == [None] * 100
        assert stands() == before
    finally:
        asker.close()
        client.close()


def settled(read: Callable[[], T]) -> T:
    """Returns what is read twice within a second: the broker writes to its log some moments after a change."""
    seen: list[T] = []

    def is_same() -> bool:
        seen.append(read())
        return seen[-2:-1] == seen[-1:]

    until(is_same, VISIBLE_S_MAX, "it stays the same for a second", every_s=1.0)
    return seen[-1]


def said_of(lab: Lab, word: str) -> int:
    return sum(log.read_text(errors="replace").count(word) for log in (lab.home / "logs").glob("*.log"))
