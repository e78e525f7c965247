"""A quorum of three controllers that loses its leader, and rights that are revoked during a move."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from stage import BROKER_SETTINGS, MakeStage, Stage
from tuner_process import Tuner

from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared.kafka import KafkaSettings

Tell = Callable[[str, object], None]

USER = "tuner"
LAB = LabSpec(brokers=4, controllers=3, heap_mb=320, broker_settings=BROKER_SETTINGS, users={USER: f"pw-{USER}"})
EVERYTHING = (
    (ResourceType.CLUSTER, "kafka-cluster"),
    (ResourceType.TOPIC, "*"),
    (ResourceType.GROUP, "*"),
    (ResourceType.TRANSACTIONAL_ID, "*"),
)

pytestmark = [pytest.mark.campaign]


def active_controller(lab: Lab) -> int:
    with lab.admin() as admin:
        return int(admin.describe_metadata_quorum()["topics"][0]["partitions"][0]["leader_id"])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_lost_active_controller_is_replaced_and_writes_continue(
    how: signal.Signals, make_stage: MakeStage, record_property: Tell
) -> None:
    stage = make_stage(f"controller-{how.name.lower()}", megabytes=30)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    was = active_controller(stage.lab)
    process = stage.lab.nodes[was].process
    assert process is not None
    process.send_signal(how)
    stage.until("another controller is active", lambda: active_controller(stage.lab) not in (was, -1), 40)
    then_s = time.monotonic()
    stage.until("a write of the tuner succeeds", lambda: wrote_since(tuner, then_s), 40)
    if how is signal.SIGKILL:
        process.wait(timeout=10)
    stage.restart_nodes()
    stage.end(120)
    assert not tuner.decided("external_change")
    record_property("told", "the next one answered, and took what was written")


def wrote_since(tuner: Tuner, since_s: float) -> bool:
    return any(
        step.get("done", "").startswith("alter") and "failed" not in step and step["at_s"] > since_s
        for step in tuner.steps()
    )


def acl(kind: ResourceType, name: str, operation: ACLOperation) -> ACL:
    pattern = ResourcePattern(kind, name, ACLResourcePatternType.LITERAL)
    return ACL(f"User:{USER}", "*", operation, ACLPermissionType.ALLOW, pattern)


def rights(stage: Stage) -> tuple[list[ACL], ACL]:
    """Returns the rights that the tuner keeps, and the one that is revoked."""
    fine = [ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS]
    every = [acl(kind, name, ACLOperation.ALL) for kind, name in EVERYTHING if kind is not ResourceType.CLUSTER]
    every += [acl(ResourceType.CLUSTER, "kafka-cluster", operation) for operation in fine]
    return every, acl(ResourceType.CLUSTER, "kafka-cluster", ACLOperation.ALTER_CONFIGS)


def test_revoked_alter_configs_right_is_named_and_retried(
    lab: Lab, make_stage: MakeStage, record_property: Tell
) -> None:
    kafka = KafkaSettings(
        bootstrap_servers=lab.sasl_bootstrap_servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN",
        sasl_username=USER, sasl_password=f"pw-{USER}",
    )  # fmt: skip
    stage = make_stage("rights", megabytes=40, tuner_kafka=kafka)
    every, the_one = rights(stage)
    with lab.admin() as admin:
        admin.create_acls([*every, the_one])
        tuner = stage.start_tuner()
        stage.move()
        stage.wait_until_raised()
        pattern = ResourcePatternFilter(ResourceType.CLUSTER, "kafka-cluster", ACLResourcePatternType.LITERAL)
        admin.delete_acls(
            [ACLFilter(f"User:{USER}", "*", ACLOperation.ALTER_CONFIGS, ACLPermissionType.ALLOW, pattern)]
        )
        stage.until("the tuner names the missing right", lambda: "AlterConfigs on Cluster" in tuner.said(), 30)
        admin.create_acls([the_one])
    stage.end(120)
    assert not tuner.decided("external_change")
    record_property("told", "the right is named, what failed is tried again later each time")
