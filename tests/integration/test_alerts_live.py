"""A stalled move with real brokers, rheostat, Prometheus and Alertmanager: its alert fires and resolves.

Further faults of the same move, and the operator's reactions, have alerts as well.
"""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from alerts_kit import Scene, WatchedProcesses, watched
from kafka.admin import NewTopic
from lab_parts import rheostat, until
from monitoring_kit import Notification
from story_kit import make_topic, moving

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from streaming.shared.contract import Side
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.throttle_limits import MB
from tuner.runtime.throttle.actuator import KafkaThrottles

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(900)]

# Two partitions of five move, and clients write 0.75 MB/s to each: keeping up takes 3 MB/s on the leader side.
WRITES = 3_750_000
THROTTLE, FLOOR, CEILING, PLENTY = 1 * MB, MB // 2, 5 * MB // 4, 40 * MB
# Both fall to the same of four fetcher threads. Broker 1 holds 13 or 14 replicas, without those of internal topics.
LAB = LabSpec(brokers=3, broker_settings={"num.replica.fetchers": "4"})
TARGET = {("orders", p): [1, 3] for p in (0, 4)}


def test_stalled_move_fires_alert_until_its_rescue(tmp_path: Path) -> None:
    with Lab(LAB) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, "orders", {p: [1, 2] for p in range(5)}, 150)
        with lab.admin() as admin:
            strict = {"min.insync.replicas": "2"}
            admin.create_topics([NewTopic("audit", -1, -1, replica_assignments={0: [1, 2]}, topic_configs=strict)])
        load = ProducerLoad(
            lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=WRITES, record_bytes=10_000
        )
        bounds = {"rate_bytes_per_s_min": FLOOR, "rate_bytes_per_s_max": CEILING}
        with load, watched(lab, tmp_path, {"limits": {"max_broker_partitions": 15}}, **bounds) as scene:
            parts, ear = scene.parts, scene.ear
            parts.until("rheostat is ready", lambda: (s := parts.status()) and s["ready"], 120)
            reassign_partitions(lab.artifacts, lab.bootstrap_servers, TARGET, "--execute", "--throttle", str(THROTTLE))
            assert "broker 3 of cluster lab" in scene.hears("ticket", "ReassignmentStalled", 150, broker="3")
            scene.hears("page", "ReassignmentStalledUrgent", 90, broker="3")
            said = scene.hears("ticket", "ThrottleInfeasible", 60, broker="1", side="leader")
            assert "The ceiling is 1.25MB/s." in said
            scene.hears("notice", "FetcherCollision", 60, broker="3")
            scene.hears("ticket", "PartitionLimitNear", 60)

            _a_stale_pipeline_silences_what_depends_on_it(scene)

            # A broker dies, and comes back to a throttle that keeps it out.
            lab.nodes[2].kill()
            scene.hears("page", "UnderMinIsrDuringMove", 120)
            lab.start_again(2)
            scene.hears("ticket", "RecoveryDuringMove", 120)

            # While a broker is down its copies take nothing of the throttle, and the move may get on: that call is over then, and
            # comes again, as nothing but a person helps for good.
            parts.until("the move is stalled, still or again", lambda: _is_notified(scene, "ReassignmentStalled"), 180)
            assert moving(client)

            # What the runbook says: the ceiling is raised, clearly above what keeping up takes.
            parts.write(rate_bytes_per_s_max=PLENTY)
            parts.part("tune").terminate()
            parts.until("the move ends", lambda: not moving(client), 180)
            for alert in (
                "ReassignmentStalled",
                "ReassignmentStalledUrgent",
                "ThrottleInfeasible",
                "RecoveryDuringMove",
                "UnderMinIsrDuringMove",
            ):
                parts.until(f"{alert} is over", lambda alert=alert: _is_over(scene, alert), 90)

            _what_people_do(lab, scene, client)
            # When the tuner was ended before, somebody may have been told: that call is over, and this is another.
            parts.until("the tuner leads again", lambda: _is_over(scene, "TunerNotLeading"), 60)
            told = ear.times("TunerNotLeading")
            parts.supervisor.stop()
            until(lambda: ear.times("TunerNotLeading") > told, 60, "without a tuner somebody is told")


def _is_notified(scene: Scene, alert: str) -> bool:
    """Returns whether a receiver was notified of the alert, and not of its end."""
    told = [one.status for one in scene.ear.told if one.labels["alertname"] == alert]
    return told[-1:] == ["firing"]


def _is_over(scene: Scene, alert: str) -> bool:
    """Returns whether the alert ended and every notified receiver knows it."""
    return not scene.monitoring.firing(alert) and not _is_notified(scene, alert)


def test_plan_waiting_for_broker_fires_alert_until_its_return(tmp_path: Path) -> None:
    target = {0: [3, 2], 1: [3, 2]}
    plan = tmp_path / "plan.json"
    entries = [{"topic": "orders", "partition": p, "replicas": replicas} for p, replicas in target.items()]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    with Lab(LabSpec(brokers=3)) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, "orders", {p: [1, 2] for p in target}, 20)
        with watched(lab, tmp_path, rate_bytes_per_s_max=PLENTY) as scene:
            parts, config = scene.parts, scene.parts.config
            parts.until("rheostat is ready", lambda: (s := parts.status()) and s["ready"], 120)
            # It is given while nothing may begin, and loses its destination before anything has.
            assert rheostat("pause", "-c", config).returncode == 0
            given = rheostat("reassign", "start", plan, "-c", config, "--measure-for", "0", "--yes", "--detach")
            assert given.returncode == 0, given.stderr
            lab.nodes[3].kill()
            until(lambda: 3 not in {broker.node for broker in client.brokers()}, 60, "broker 3 is known to be gone")
            assert rheostat("resume", "-c", config).returncode == 0
            assert "2 partitions of plan" in scene.hears("ticket", "ReassignmentPlanStuck", 120)
            (row,) = _asked(parts, "/api/v1/plans")["plans"]
            assert (row["waiting"], row["moving"]) == (2, 0)
            assert any("waiting for brokers that are down: 3" in line for line in row["blockers"])
            lab.start_again(3)
            parts.until(
                "the plan is done",
                lambda: {s.partition: list(s.replicas) for s in client.partitions(["orders"])} == target, 120,
            )  # fmt: skip
            scene.hears_the_end_of("ReassignmentPlanStuck", 90)
            parts.until("no plan is left", lambda: _asked(parts, "/api/v1/plans")["plans"] == [], 30)


def _asked(parts: WatchedProcesses, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{parts.port}{path}", timeout=10) as answer:
        return json.loads(answer.read())


def _a_stale_pipeline_silences_what_depends_on_it(scene: Scene) -> None:
    scene.parts.until(
        "SignalsStale is over, if the move began with it", lambda: not scene.monitoring.firing("SignalsStale"), 60
    )
    told = scene.ear.times("SignalsStale")
    scene.parts.part("collect").send_signal(signal.SIGSTOP)
    scene.hears("ticket", "PipelineLagging", 90)
    scene.parts.until("Prometheus says SignalsStale", lambda: scene.monitoring.firing("SignalsStale"), 90)
    for alert in ("ReassignmentStalled", "SignalsStale"):
        scene.is_silenced(alert, 30)
    assert scene.ear.times("SignalsStale") == told
    scene.parts.part("collect").send_signal(signal.SIGCONT)
    scene.hears_the_end_of("PipelineLagging", 90)
    scene.parts.until("heard again", lambda: not scene.monitoring.silenced("ReassignmentStalled"), 60)
    assert scene.monitoring.firing("ReassignmentStalled")


def _what_people_do(lab: Lab, scene: Scene, client: ClusterClient) -> None:
    config = scene.parts.config
    assert rheostat("pause", "--config", config).returncode == 0
    assert "changes nothing until `rheostat resume`" in scene.hears(
        "notice", "OperatorOverrideInForce", 60, what="pause"
    )
    assert rheostat("resume", "--config", config).returncode == 0

    throttles = KafkaThrottles(client)
    assert set(throttles.write_rates({(2, Side.LEADER): 5 * MB}).values()) == {None}
    scene.hears("ticket", "ThrottleLeftBehind", 90)
    throttles.write_rates({(2, Side.LEADER): None})
    scene.hears_the_end_of("ThrottleLeftBehind", 60)

    garbage = producer(lab.kafka_settings(), "somebody-else", linger_ms=0)

    def refused() -> Notification | None:
        garbage.send("rheostat.metrics", b"not a scrape").get(timeout=10)
        return scene.ear.heard("RejectsRising")

    scene.parts.until("somebody is told of what cannot be read", refused, 60)
    garbage.close()
    scene.hears("ticket", "RejectsRising", 5)

    good = config.read_text()
    config.write_text(good.replace('"rate_bytes_per_s_max"', '"rate_bytes_per_s_maximum"'))
    scene.hears("ticket", "ConfigReloadFailed", 60, part="tune")
    config.write_text(good)
    scene.hears_the_end_of("ConfigReloadFailed", 60)
