"""Alerts that need another cluster: clients without headroom, a slow destination, a missing right, a storm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alerts_kit import watched
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType
from story_kit import ETL, make_topic, moving, slowed, storm

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.throttle_limits import MB

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(600)]

USER = "watcher"
CONTROLLER = 100
# One batch of records a fetch, so that a move lasts on a destination that gets little of the processor.
SMALL = {3: {"replica.fetch.response.max.bytes": "200000", "replica.fetch.max.bytes": "100000"}}
TARGET = {("orders", p): [1, 3] for p in range(4)}


def test_clients_without_headroom_fire_latency_alert(tmp_path: Path) -> None:
    # Keeping up takes 6 MB/s of broker 1, which is said to carry 4; and its follower stops for a fifth of a second at a time, as
    # brokers do whose disk stalls or whose memory is short: producers with acks=all wait for it.
    law = {"objective": {"latency_ms": 50}, "capacity": {"in_bytes_per_s": 4 * MB, "out_bytes_per_s": 4 * MB}}
    with Lab(LabSpec(brokers=3)) as lab:
        make_topic(lab, "orders", {p: [1, 2] for p in range(4)}, 400)
        load = ProducerLoad(
            lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=3 * MB, record_bytes=10_000
        )
        with load, watched(lab, tmp_path, rate_bytes_per_s_max=12 * MB, **law) as scene:
            scene.parts.until("rheostat is ready", lambda: (s := scene.parts.status()) and s["ready"], 120)
            # Without a throttle a fast machine is done before the law has looked.
            throttle = ("--execute", "--throttle", str(12 * MB))
            reassign_partitions(lab.artifacts, lab.bootstrap_servers, TARGET, *throttle)
            with slowed(lab.nodes[2], share=0.5):
                said = scene.hears("page", "ClientLatencyOverObjective", 150, broker="1")
                assert "times its objective (tuner.objective)" in said
                scene.hears("ticket", "ThrottleWithoutHeadroom", 90, broker="1", side="leader")


@pytest.fixture
def allowed() -> list[ACL]:
    """Every right that a tuner needs, except changes of brokers' settings."""
    kinds = {
        ResourceType.TOPIC: "*", ResourceType.GROUP: "*", ResourceType.TRANSACTIONAL_ID: "*",
    }  # fmt: skip
    wanted = [(kind, name, ACLOperation.ALL) for kind, name in kinds.items()]
    looks = (ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS)
    wanted += [(ResourceType.CLUSTER, "kafka-cluster", operation) for operation in looks]
    return [
        ACL(f"User:{USER}", "*", operation, ACLPermissionType.ALLOW,
            ResourcePattern(kind, name, ACLResourcePatternType.LITERAL))
        for kind, name, operation in wanted
    ]  # fmt: skip


def test_slow_destination_and_missing_write_right_fire_alerts(tmp_path: Path, allowed: list[ACL]) -> None:
    spec = LabSpec(brokers=3, users={USER: "secret"}, settings_by_node=SMALL)
    with Lab(spec) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        with lab.admin() as admin:
            admin.create_acls(allowed)
        make_topic(lab, "orders", {p: [1, 2] for p in range(4)}, 600)  # 200 MB are over too soon on a fast machine.
        make_topic(lab, "payments", {p: [1, 2] for p in range(4)}, 120)
        kafka = {
            "bootstrap_servers": lab.sasl_bootstrap_servers, "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN", "sasl_username": USER, "sasl_password": "secret",
        }  # fmt: skip
        with watched(lab, tmp_path, {"kafka": kafka}, rate_bytes_per_s_max=40 * MB) as scene:
            scene.parts.until("rheostat is ready", lambda: (s := scene.parts.status()) and s["ready"], 120)
            with slowed(lab.nodes[3], share=0.04):
                throttle = ("--execute", "--throttle", str(30 * MB))
                reassign_partitions(lab.artifacts, lab.bootstrap_servers, TARGET, *throttle)
                said = scene.hears("ticket", "ThrottleSaturatedBySourceOrDisk", 150, broker="3")
                assert "a higher throttle would not help" in said
                assert moving(client), "the move ended before somebody was told: make it longer"
            scene.parts.until("the move ends", lambda: not moving(client), 90)
            scene.hears_the_end_of("ThrottleSaturatedBySourceOrDisk", 90)

            # Writes of 3 MB/s need 6 to keep up: the rescue is decided, and refused.
            load = ProducerLoad(
                lab.artifacts, lab.bootstrap_servers, "payments", rate_bytes_per_s=3 * MB, record_bytes=10_000
            )
            with load:
                target = {("payments", p): [1, 3] for p in range(4)}
                throttle = ("--execute", "--throttle", "4500000")
                reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, *throttle)
                assert "throttles of cluster lab" in scene.hears("ticket", "TunerActuationFailing", 240)


@pytest.mark.timeout(900)
def test_storm_without_quota_fires_storm_alert(tmp_path: Path) -> None:
    # Both brokers forward creations and deletions all the time: the tenant has more connections than they serve at once.
    loud = replace(ETL, requests_per_s=40, connections=8)
    with Lab(LabSpec(brokers=2, heap_mb=320)) as lab, watched(lab, tmp_path, rate_bytes_per_s_max=40 * MB) as scene:
        scene.parts.until("rheostat is ready", lambda: (s := scene.parts.status()) and s["ready"], 300)
        with storm(lab, loud):
            said = scene.hears("page", "StormOnController", 150)
            assert "This command limits every client-id" in said
            assert "--entity-type clients --entity-default --add-config controller_mutation_rate=" in said
        scene.hears_the_end_of("StormOnController", 300)


def test_storm_beyond_control_fires_controller_alert(tmp_path: Path) -> None:
    # A controller with half of its processor time takes 30 ms and more for a topic, at any rate. The tenant's guaranteed rate keeps
    # the tuner from lowering the total further.
    asked: dict[str, Any] = {
        "default_entity": "client-id",
        "objective": {"create_ms_max": 5.0},
        "tenants": [{"client_id": "etl", "rate_per_s_min": 20}],
    }
    with (
        Lab(LabSpec(brokers=2, heap_mb=320)) as lab,
        watched(lab, tmp_path, rate_bytes_per_s_max=40 * MB, mutation_quota=asked) as scene,
    ):
        scene.parts.until("rheostat is ready", lambda: (s := scene.parts.status()) and s["ready"], 120)
        with slowed(lab.nodes[CONTROLLER], share=0.5), storm(lab):
            assert 'client-id "etl"' in scene.hears("ticket", "TenantQuotaExhausted", 180, client_id="etl")
            scene.hears("page", "ControllerUnderPressure", 120)
