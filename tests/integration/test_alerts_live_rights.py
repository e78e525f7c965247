"""A tuner without rights on a plan's topics keeps the lease, executes nothing, and an alert fires."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

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
from lab_parts import RHEOSTAT, rheostat, running, until
from monitoring_kit import Monitoring
from story_kit import make_topic

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from streaming.shared.kafka.cluster import ClusterClient

pytestmark = [pytest.mark.campaign]

USER, PASSWORD, TOPIC = "rheostat", "pw-rheostat", "orders"
EVERYTHING = (
    (ResourceType.CLUSTER, "kafka-cluster"), (ResourceType.TOPIC, "*"), (ResourceType.GROUP, "*"),
    (ResourceType.TRANSACTIONAL_ID, "*"),
)  # fmt: skip


def _all_but_the_settings_of_the_topic(lab: Lab) -> ACLFilter:
    """Grants all rights except reading the topic's settings; returns the filter of the refusal."""
    who, every, literal = f"User:{USER}", ACLOperation.ALL, ACLResourcePatternType.LITERAL
    may = [
        ACL(who, "*", every, ACLPermissionType.ALLOW, ResourcePattern(kind, name, literal)) for kind, name in EVERYTHING
    ]
    reads, deny = ACLOperation.DESCRIBE_CONFIGS, ACLPermissionType.DENY
    found = ACLFilter(who, "*", reads, deny, ResourcePatternFilter(ResourceType.TOPIC, TOPIC, literal))
    with lab.admin() as admin:
        admin.create_acls([*may, ACL(who, "*", reads, deny, ResourcePattern(ResourceType.TOPIC, TOPIC, literal))])
        until(lambda: admin.describe_acls(found)[0], 10, "the right is refused")
    return found


def test_tuner_without_rights_on_plan_topics_fires_alert(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": [2]}]}))
    port, *other = free_ports(3)
    with Lab(LabSpec(brokers=2, users={USER: PASSWORD})) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, TOPIC, {0: [1]}, 5)
        refused = _all_but_the_settings_of_the_topic(lab)
        admins, tuners = tmp_path / "admin.yaml", tmp_path / "tuner.yaml"
        admins.write_text(lab_config(lab, http={"port": port}))
        body = json.loads(admins.read_text())
        body["kafka"] = {
            "bootstrap_servers": lab.sasl_bootstrap_servers, "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN", "sasl_username": USER, "sasl_password": PASSWORD,
        }  # fmt: skip
        tuners.write_text(json.dumps(body))
        ports = dict(zip(("rheostat-tuner", "rheostat-collector", "rheostat-stream"), (port, *other), strict=True))
        with (
            running(*RHEOSTAT, "tune", "--config", tuners, log=tmp_path / "tune.log") as tune,
            Monitoring(tmp_path / "monitoring", ports) as monitoring,
        ):
            until(lambda: '"active"' in tune.said(), 60, "the tuner acts")
            given = rheostat("reassign", "start", plan, "-c", admins, "--measure-for", "0", "--yes", "--detach")
            # Given it is, and acknowledged not: whoever cannot see the plan's partitions begins nothing.
            assert "is on record: 1 partition." in given.stdout + given.stderr
            until(lambda: monitoring.ear.heard("ReassignmentPlansNotExecuted"), 120, "a person is called", every_s=0.5)
            told = monitoring.ear.heard("ReassignmentPlansNotExecuted")
            assert told is not None
            assert told.receiver == "page"
            assert "cannot read the cluster or cannot write the journal" in told.description
            assert "missing right: DescribeConfigs on Topic" in _plans(port)["unknown_reason"]
            assert client.reassignments() == []

            with lab.admin() as admin:
                admin.delete_acls([refused])
            until(lambda: [s.replicas for s in client.partitions([TOPIC])] == [(2,)], 90, "the plan is done")
            until(
                lambda: monitoring.ear.heard("ReassignmentPlansNotExecuted", "resolved"),
                90,
                "the call ends",
                every_s=0.5,
            )
            until(lambda: _plans(port)["unknown_reason"] is None, 30, "the page says so, too")


def _plans(port: int) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/plans", timeout=10) as answer:
        return json.loads(answer.read())
