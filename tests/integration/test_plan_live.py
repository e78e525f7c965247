"""`rheostat plan` on a real cluster: what it counts is what stands in the logs, and what it foretells is what happens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import NewTopic
from lab_parts import rheostat, until

from rheostat.lab import Lab, LabSpec, Load
from rheostat.lab.tools import reassign_partitions
from streaming.kafka.cluster import ClusterClient
from tuner.model.limits import MB

LAB = LabSpec(brokers=3)
TOPIC, LEADER, FOLLOWER, DESTINATION = "orders", 1, 2, 3
WRITE_BYTES_PER_S = 1 * MB
PRELOAD_BYTES = 120 * MB


@pytest.fixture(scope="module")
def client(lab: Lab) -> Iterator[ClusterClient]:
    with lab.admin() as admin:
        admin.create_topics([NewTopic(TOPIC, replica_assignments={0: [LEADER, FOLLOWER], 1: [LEADER, FOLLOWER]})])
    with Load(lab.artifacts, lab.bootstrap_servers, TOPIC, rate_bytes_per_s=None, total_bytes=PRELOAD_BYTES) as load:
        load.wait(200)
    with ClusterClient(lab.kafka_settings(), "test") as made:
        yield made


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    moved = [{"topic": TOPIC, "partition": p, "replicas": [LEADER, DESTINATION]} for p in (0, 1)]
    file.write_text(json.dumps({"version": 1, "partitions": moved}))
    return file


def planned(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
    done = rheostat("plan", *arguments, "--json")
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_plan_that_does_not_fit_the_cluster_is_refused_by_name(
    client: ClusterClient, lab_config_file: Path, plan_file: Path
) -> None:
    plan_file.write_text(
        '{"partitions": [\n{"topic": "orders", "partition": 0, "replicas": [1, 9]},\n'
        '{"topic": "nobodys", "partition": 0, "replicas": [1]}]}'
    )
    done = rheostat("plan", plan_file, "--config", lab_config_file)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"{plan_file}:2: partitions[0].replicas[1]: unknown broker 9, there are 1, 2, 3",
        f"{plan_file}:3: partitions[1].partition: there is no partition nobodys-0",
    ]


def test_without_a_plan_and_without_a_move_there_is_nothing_to_say(
    client: ClusterClient, lab_config_file: Path
) -> None:
    done = rheostat("plan", "--config", lab_config_file)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Nothing is moving" in done.stderr


def test_it_counts_what_is_there_and_foretells_the_move(
    lab: Lab, client: ClusterClient, lab_config_file: Path, plan_file: Path
) -> None:
    config = ("--config", lab_config_file)
    with Load(
        lab.artifacts, lab.bootstrap_servers, TOPIC, rate_bytes_per_s=WRITE_BYTES_PER_S, record_bytes=10_000
    ) as load:
        grown = client.log_sizes([LEADER], [(TOPIC, 0), (TOPIC, 1)])
        until(lambda: client.log_sizes([LEADER], [(TOPIC, 0), (TOPIC, 1)]) != grown, 20, "the load writes")

        # 1 MB/s and one in-sync follower: more than BytesInPerSec, less than W = 1 × (1 in sync + 1 adding).
        never = planned(plan_file, *config, "--rate", "1.5MB/s", "--watch-s", "8", code=1)
        assert never["counted"]["verdict"] == "never_ends"
        assert never["kip73"]["verdict"] == "ends"
        assert never["counted"]["keep_up_side"] == {"broker": LEADER, "side": "leader"}
        sides = {(s["broker"], s["side"]): s for s in never["counted"]["sides"]}
        assert sides.keys() == {(LEADER, "leader"), (DESTINATION, "follower")}
        assert sides[(LEADER, "leader")]["keep_up_bytes_per_s"] == pytest.approx(2 * WRITE_BYTES_PER_S, rel=0.25)
        assert sides[(DESTINATION, "follower")]["keep_up_bytes_per_s"] == pytest.approx(WRITE_BYTES_PER_S, rel=0.25)
        assert never["kip73"]["bytes_in_per_s_max"] == pytest.approx(WRITE_BYTES_PER_S, rel=0.25)
        assert never["kip73"]["brokers"] == 3
        assert never["response_rule"]["window_s"] == 11.0
        before = sum(client.log_sizes([LEADER], [(TOPIC, 0), (TOPIC, 1)])[LEADER].values())  # type: ignore[union-attr]
        assert PRELOAD_BYTES < sides[(LEADER, "leader")]["remaining_bytes"] <= before

        wanted = planned(plan_file, *config, "--within", "20s", "--write-rate", "500kB/s")
        rate = wanted["counted"]["rate_bytes_per_s"]
        target = {(TOPIC, p): (LEADER, DESTINATION) for p in (0, 1)}
        began = time.monotonic()
        reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(rate))

        # What is under way, without a plan file: the rest of the same move.
        rest = planned(*config, "--rate", str(rate), "--write-rate", "500kB/s")
        assert rest["kip73"]["move_ratio"] == wanted["kip73"]["move_ratio"]
        left = sum(s["remaining_bytes"] for s in rest["counted"]["sides"] if s["side"] == "follower")
        assert left < sum(s["remaining_bytes"] for s in wanted["counted"]["sides"] if s["side"] == "follower") + 20 * MB

        until(lambda: not client.reassignments(), 150, "the move ends", every_s=0.5)
        took_s = time.monotonic() - began
        load.check()
    reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--verify")
    # Kafka passes 0.8 to 1.0 of a quota, and its window lets a clump pass at the start; the tool takes 2 s to begin. Seen: 23 s;
    # a disk that takes 5 MB/s, as some do that are shared, makes it a minute.
    assert 10 <= took_s <= 75, f"asked for 20 s, took {took_s:.0f} s at {rate} bytes/s"

    assert planned(plan_file, *config, "--write-rate", "0")["nothing_to_copy"]
