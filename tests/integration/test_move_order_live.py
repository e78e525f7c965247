"""The order of what moves on real brokers: partitions of `tuner.first_topics` arrive before larger ones begin."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from lab_parts import RHEOSTAT, rheostat, running, until
from story_kit import make_topic

from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.reassign import plan_store
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.lease import lease_group

pytestmark = pytest.mark.campaign

LAB = LabSpec(brokers=3)


def test_named_topic_arrives_before_larger_partitions_begin(lab: Lab, tmp_path: Path) -> None:
    for topic, megabytes in (("large", 24), ("payments-eu", 2)):
        make_topic(lab, topic, {p: [1, 2] for p in range(4)}, megabytes)
    plan = tmp_path / "plan.json"
    targets = [
        {"topic": topic, "partition": p, "replicas": [1, 3]} for topic in ("large", "payments-eu") for p in range(4)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": targets}))
    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(lab, http={"port": free_ports(1)[0]}, cycle_s=1, first_topics=["payments-*"]))
    seen: list[Counter[str]] = []  # At each look: the number of partitions by topic that have begun to move.
    with (
        ReassignmentClient(lab.kafka_settings(), "test") as client,
        running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as tune,
    ):
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        until(lambda: client.group_members(lease_group("lab")), 10, "its group is seen")
        given = rheostat(
            "reassign", "start", plan, "-c", config, "--measure-for", "0", "--yes", "--detach", "--partition-movements", "1"
        )  # fmt: skip
        assert given.returncode == 0, given.stderr

        def ended() -> bool:
            seen.append(Counter(s.topic for s in client.partitions(["large", "payments-eu"]) if 3 in s.replicas))
            return not plan_store.read_plans(load_settings(config, {})).active

        until(ended, 120, "the plan has ended")
    assert any(counts["payments-eu"] < 4 for counts in seen)
    assert all(counts["payments-eu"] == 4 for counts in seen if counts["large"])
    assert seen[-1] == {"large": 4, "payments-eu": 4}
