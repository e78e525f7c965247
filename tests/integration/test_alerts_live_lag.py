"""A throttle that was left on a topic keeps a replica from catching up: its lag grows, and an operator is told the cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from alerts_kit import watched
from lab_parts import rheostat, until
from story_kit import make_topic, run_kafka_configs

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka_names import LEADER_RATE, LEADER_REPLICAS

WRITES, THROTTLE = 1_000_000, 200_000


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_throttle_left_on_a_topic_fires_lag_alert(tmp_path: Path) -> None:
    with Lab(LabSpec(brokers=3)) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, "orders", {0: [1, 2]}, 5)
        with watched(lab, tmp_path, dry_run=True) as scene:
            parts = scene.parts
            parts.until("rheostat is ready", lambda: (s := parts.status()) and s["ready"], 120)
            load = ProducerLoad(lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=WRITES)
            with load:
                # The replica misses writes while its broker is down, and comes back to a throttle below what clients write.
                lab.nodes[2].kill()
                until(lambda: isr(client) == (1,), 60, "the replica is out of sync")
                client.alter_broker_configs({1: {LEADER_RATE: str(THROTTLE)}})
                client.alter_topic_configs({"orders": {LEADER_REPLICAS: "*"}})
                lab.start_again(2)
                told = scene.hears("ticket", "ReplicationLagGrowing", 180, broker="2")
                assert "The likely cause is lag_throttled" in told
                status = parts.status()
                assert status is not None
                (row,) = status["replication_lag"]["lagging"]
                assert row["reason"] == "lag_throttled"
                assert "the leader throttle of broker 1, 200 kB/s, holds back orders-0" in row["text"]

                # What the runbook says: the commands that `rheostat throttles` names are run with Kafka's tool, as
                # `rheostat throttles clear` leaves alone what a replica uses that catches up.
                shown = rheostat("throttles", "-c", parts.config, "--json")
                rate, replicas = json.loads(shown.stdout)["throttles"]
                assert (rate["setting"], rate["broker"]) == (LEADER_RATE, 1)
                assert (rate["rate_bytes_per_s"], rate["owner"]) == (THROTTLE, "other")
                assert (replicas["setting"], replicas["topic"], replicas["replicas"]) == (
                    LEADER_REPLICAS,
                    "orders",
                    None,
                )
                for row in (rate, replicas):
                    assert row["serves"] == "recovery"
                    run_kafka_configs(lab, row["removal"].split("`")[1])
                parts.until("the replica is in sync", lambda: isr(client) == (1, 2), 60)
                assert json.loads(rheostat("throttles", "-c", parts.config, "--json").stdout)["throttles"] == []
                scene.hears_the_end_of("ReplicationLagGrowing", 120)


def isr(client: ClusterClient) -> tuple[int, ...]:
    (state,) = client.partitions(["orders"])
    return tuple(sorted(state.isr))
