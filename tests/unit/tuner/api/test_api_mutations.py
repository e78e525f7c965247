"""Mutation rates and storms on /api/v1/mutations, on the page and in the metrics, on clusters with and without quotas."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from api_rig import NOW_MS, Rig
from tuner_cases import CLUSTER, broker_signal

from streaming.shared.contract import BrokerSignal, ControllerSignal, TenantSignal
from tuner.api.mutation_store import MutationStore
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.mutation_quota.policy import QuotaStep
from tuner.control.mutation_quota.state import MutationMemory

ACTIVE = ControllerSignal(
    "main", 100, NOW_MS, NOW_MS - 2_000, 6, 1.0, active=1.0, idle_ratio=0.93, event_queue_time_mean_ms=1.25,
    topic_requests_in_progress_mean=0.5, active_brokers=2.0, metadata_lag_ms=320.0, metadata_records_per_s=70.0,
    create_requests_per_s=8.0, create_mean_ms=48.0, delete_requests_per_s=0.0, addition_requests_per_s=0.0,
    partitions_created_per_s=64.0, partitions_deleted_per_s=0.0, topics_created_per_s=16.0, topics_deleted_per_s=0.0,
    old_create_requests_per_s=2.0, refusable_requests_per_s=6.0, mutations_rejected_per_s=0.0,
)  # fmt: skip


@dataclass
class Signals:
    controllers: Mapping[int, ControllerSignal] = field(default_factory=lambda: {100: ACTIVE})
    brokers: Mapping[int, BrokerSignal] = field(
        default_factory=lambda: {b: replace(broker_signal(b), sampled_at_ms=NOW_MS) for b in (1, 2)}
    )
    tenants: Mapping[Any, TenantSignal] = field(default_factory=dict)


ACCOUNTS = {
    n: TenantSignal("main", 100, NOW_MS, NOW_MS, 6, 1.0, None, name, per_s, tokens)
    for n, (name, per_s, tokens) in enumerate([("etl <&>", 60.0, -4.0), ("calm", 4.0, 1e20)])
}
LATE = {100: replace(ACTIVE, metadata_lag_ms=2_600.0)}


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.cycle()
    return made


def text_of(rig: Rig, part: str) -> str:
    plain = re.sub(r"<[^>]+>", " ", rig.get(f"/page/{part}").text)
    return " ".join(html.unescape(plain).split())


def storm(rig: Rig, **signals: Any) -> dict[str, Any]:
    for earlier_ms in (10_000, 0):
        rig.mutations.update(Signals(controllers=LATE, **signals), NOW_MS - earlier_ms)
    found: dict[str, Any] = rig.get("/api/v1/mutations").json()["storm"]
    return found


def test_rates_without_quota_name_their_source(rig: Rig) -> None:
    rig.mutations.update(Signals(), NOW_MS)
    found = rig.get("/api/v1/mutations").json()
    assert found["mutations"] == {"per_s": 64.0, "source": "partition_count", "bound": "exact"}
    assert found["requests"][0] == {
        "request": "CreateTopics", "per_s": 8.0, "source": "request_count", "bound": "exact", "mean_ms": 48.0, "old_ratio": 0.25,
        "refused_from_version": 6,
    }  # fmt: skip
    assert (found["storm"], found["accounted_per_s"], found["tenants"]) == (None, None, [])
    assert "after a mutation quota has been set" in found["tenants_unknown_reason"]
    page = text_of(rig, "controller")
    for words in (
        "Partitions created and deleted 64 changes of the number of partitions",
        "Requests to create topics 8.00 answered requests of the last half minute, refused ones included; 48 ms each",
        "Controller 100 is idle 93 % of the time, begins to process an event after 1.2 ms in its queue and works on 0.50 creations and deletions at the "
        "same time.",
        "The slowest node applies metadata 320 ms late",
        "Clients without support for KIP-599 send 25 % of the requests CreateTopics, in a request version before 6.",
        "rheostat quotas measure lets Kafka count",
    ):
        assert words in page, words


def test_rates_are_unknown_without_an_active_controller(rig: Rig) -> None:
    for signals in (None, Signals(controllers={}), Signals(controllers={100: replace(ACTIVE, active=0.0)})):
        if signals is not None:
            rig.mutations.update(signals, NOW_MS)
        found = rig.get("/api/v1/mutations").json()
        assert found["unknown_reason"].startswith("No active Kafka controller is measured")
        assert (found["mutations"], found["controller"], found["apply_lag_ms"]) == (None, None, None)
        assert "No active Kafka controller is measured" in text_of(rig, "controller")
        assert (
            rig.registry.get_sample_value(
                "rheostat_controller_storm", {"cluster": CLUSTER, "user": "", "client_id": ""}
            )
            is None
        )


def test_rates_of_a_tuner_that_stopped_cycling_are_not_shown(rig: Rig) -> None:
    rig.mutations.update(Signals(), NOW_MS)
    rig.clock.now_s += 61
    assert rig.get("/api/v1/mutations").json()["mutations"] is None


def test_storm_without_accounts_says_why_no_tenant_is_named(rig: Rig) -> None:
    found = storm(rig)
    assert found["tenants"] == []
    assert (
        "Kafka counts the partitions of each tenant only after a mutation quota has been set"
        in found["tenant_unknown_reason"]
    )
    [command] = found["commands"]
    assert command.endswith("--entity-type clients --entity-default --add-config controller_mutation_rate=25")
    page = text_of(rig, "controller")
    assert "Creations and deletions of topics overload the controller: 64 partitions per second" in page
    assert "This command limits every client-id to 25 partitions per second" in page
    labels = {"cluster": CLUSTER, "user": "", "client_id": ""}
    assert rig.registry.get_sample_value("rheostat_controller_storm", labels) == 1.0
    assert rig.registry.get_sample_value("rheostat_storm_quota_partitions_per_second", {"cluster": CLUSTER}) == 25.0


def test_storm_names_its_tenant_from_the_accounts(rig: Rig) -> None:
    found = storm(rig, tenants=ACCOUNTS)
    assert [(t["client_id"], t["tokens"]) for t in found["tenants"]] == [("etl <&>", -4.0)]
    assert found["text"].endswith('Most of these creations and deletions come from client-id "etl <&>".')
    assert found["tenant_unknown_reason"] is None
    assert ["--entity-name 'etl <&>'" in command for command in found["commands"]] == [True]
    assert "etl <&>" in text_of(rig, "controller")
    assert "<&>" not in rig.get("/page/controller").text
    labels = {"cluster": CLUSTER, "user": "", "client_id": "etl <&>"}
    assert rig.registry.get_sample_value("rheostat_controller_storm", labels) == 1.0


def test_storm_of_two_tenants_shows_a_command_for_each(rig: Rig) -> None:
    even = {n: replace(ACCOUNTS[1], client_id=f"c{n}") for n in range(3)}
    found = storm(rig, tenants=even)
    assert len(found["tenants"]) == len(found["commands"]) == 2
    page = text_of(rig, "controller")
    assert ["This command limits tenant 1 to" in page, "This command limits tenant 2 to" in page] == [True, True]
    assert page.count("kafka-configs") == 2


def test_scattered_storm_says_that_many_tenants_cause_it(rig: Rig) -> None:
    many = {n: replace(ACCOUNTS[1], client_id=f"c{n}") for n in range(9)}
    assert (
        storm(rig, tenants=many)["tenant_unknown_reason"]
        == "Even the three busiest tenants together cause less than half of the mutations."
    )


def test_tenants_come_from_accounts_until_quotas_are_managed(rig: Rig) -> None:
    rig.mutations.update(Signals(tenants=ACCOUNTS), NOW_MS)
    labels = {"cluster": CLUSTER, "user": "", "client_id": "calm"}
    assert rig.registry.get_sample_value("rheostat_tenant_mutation_partitions_per_second", labels) == 4.0
    assert rig.registry.get_sample_value("rheostat_tenant_tokens", labels) is None  # No quota limits it.
    assert "calm" in text_of(rig, "controller")
    rig.quotas.publish(QuotaView(NOW_MS, {}, {}), QuotaStep(MutationMemory(), (), ()), MutationMemory())
    assert rig.registry.get_sample_value("rheostat_tenant_mutation_partitions_per_second", labels) is None
    assert "calm" not in text_of(rig, "controller")


def test_update_learns_idle_baseline_once_per_signal() -> None:
    # Forty updates with one signal of a slow hour weigh as much as one.
    store = MutationStore("main")
    for n in range(40):
        store.update(Signals(controllers=LATE if n else {100: ACTIVE}), NOW_MS + n)
    again = MutationStore("main")
    again.update(Signals(), NOW_MS)
    assert store._baselines == again._baselines
