"""`rheostat plan estimate` on a real cluster: its counts match the logs, and its predictions come true."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, rheostat, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from streaming.shared.contract import BrokerSignal, Topics, encode_signal, signal_key
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics
from tuner.control.throttle.quota_window.ramp import WINDOW_S
from tuner.core.throttle_limits import MB

LAB = LabSpec(brokers=3)
TOPICS = Topics.with_prefix("rheostat")
TOPIC, LEADER, FOLLOWER, DESTINATION = "orders", 1, 2, 3
WRITE_BYTES_PER_S = 400_000
PRELOAD_BYTES = 40 * MB  # With what the move adds, and 3 MB/s of copying, a disk that takes 5 MB/s is not what binds.


@pytest.fixture(scope="module")
def client(lab: Lab) -> Iterator[ClusterClient]:
    with lab.admin() as admin:
        admin.create_topics([NewTopic(TOPIC, replica_assignments={0: [LEADER, FOLLOWER], 1: [LEADER, FOLLOWER]})])
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, TOPIC, rate_bytes_per_s=None, total_bytes=PRELOAD_BYTES
    ) as load:
        load.wait(60)
    with ClusterClient(lab.kafka_settings(), "test") as made:
        yield made


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    moved = [{"topic": TOPIC, "partition": p, "replicas": [LEADER, DESTINATION]} for p in (0, 1)]
    file.write_text(json.dumps({"version": 1, "partitions": moved}))
    return file


def planned(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
    done = rheostat("plan", "estimate", *arguments, "--json")
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_plan_that_does_not_match_cluster_is_refused(
    client: ClusterClient, lab_config_file: Path, plan_file: Path
) -> None:
    plan_file.write_text(
        '{"partitions": [\n{"topic": "orders", "partition": 0, "replicas": [1, 9]},\n'
        '{"topic": "nobodys", "partition": 0, "replicas": [1]}]}'
    )
    done = rheostat("plan", "estimate", plan_file, "--config", lab_config_file)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"{plan_file}:2: partitions[0].replicas[1]: unknown broker 9, there are 1, 2, 3",
        f"{plan_file}:3: partitions[1].partition: there is no partition nobodys-0",
    ]


def test_estimate_without_plan_or_move_says_so(client: ClusterClient, lab_config_file: Path) -> None:
    done = rheostat("plan", "estimate", "--config", lab_config_file)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Nothing is moving" in done.stderr


def test_estimate_counts_partitions_and_predicts_duration(
    lab: Lab, client: ClusterClient, lab_config_file: Path, plan_file: Path
) -> None:
    config = ("--config", lab_config_file)
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, TOPIC, rate_bytes_per_s=WRITE_BYTES_PER_S, record_bytes=10_000
    ) as load:
        grown = client.log_sizes([LEADER], [(TOPIC, 0), (TOPIC, 1)])
        until(lambda: client.log_sizes([LEADER], [(TOPIC, 0), (TOPIC, 1)]) != grown, 20, "the load writes")

        # 0.4 MB/s and one in-sync follower: more than BytesInPerSec, less than W = 0.4 × (1 in sync + 1 adding).
        def measured() -> dict[str, Any] | None:
            """Returns an estimate; None while a busy machine has kept the load from its rate."""
            found = planned(plan_file, *config, "--throttle", "600kB/s", "--measure-for", "8", code=1)
            is_steady = found["kip73"]["bytes_in_per_s_max"] == pytest.approx(WRITE_BYTES_PER_S, rel=0.2)
            return found if is_steady else None

        never = until(measured, 60, "the write rate is measured")
        assert never is not None
        assert never["per_side"]["verdict"] == "never_ends"
        assert never["kip73"]["verdict"] == "ends"
        assert never["per_side"]["steady_state_side"] == {"broker": LEADER, "side": "leader"}
        sides = {(s["broker"], s["side"]): s for s in never["per_side"]["sides"]}
        assert sides.keys() == {(LEADER, "leader"), (DESTINATION, "follower")}
        assert sides[(LEADER, "leader")]["steady_state_bytes_per_s"] == pytest.approx(2 * WRITE_BYTES_PER_S, rel=0.25)
        assert sides[(DESTINATION, "follower")]["steady_state_bytes_per_s"] == pytest.approx(
            WRITE_BYTES_PER_S, rel=0.25
        )
        assert never["kip73"]["bytes_in_per_s_max"] == pytest.approx(WRITE_BYTES_PER_S, rel=0.25)
        assert never["kip73"]["brokers"] == 3
        assert never["response_rule"]["window_s"] == 11.0
        before = sum(client.log_sizes([LEADER], [(TOPIC, 0), (TOPIC, 1)])[LEADER].values())  # type: ignore[union-attr]
        assert PRELOAD_BYTES < sides[(LEADER, "leader")]["remaining_bytes"] <= before

        wanted = planned(plan_file, *config, "--within", "30s", "--write-rate", "200kB/s")
        rate = wanted["per_side"]["rate_bytes_per_s"]
        target = {(TOPIC, p): (LEADER, DESTINATION) for p in (0, 1)}
        began = time.monotonic()
        reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(rate))
        tool_s = time.monotonic() - began

        # What is under way, without a plan file: the rest of the same move.
        rest = planned(*config, "--throttle", str(rate), "--write-rate", "200kB/s")
        assert rest["kip73"]["move_ratio"] == wanted["kip73"]["move_ratio"]
        left = sum(s["remaining_bytes"] for s in rest["per_side"]["sides"] if s["side"] == "follower")
        assert left < sum(s["remaining_bytes"] for s in wanted["per_side"]["sides"] if s["side"] == "follower") + 8 * MB

        until(lambda: not client.reassignments(), 120, "the move ends", every_s=0.5)
        took_s = time.monotonic() - began
        load.check()
    reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--verify")
    # Kafka passes a little less than a quota, and its window lets a clump pass at the start; the tool takes 2 s or more to begin.
    assert 15 <= took_s <= 60 + tool_s, f"asked for 30 s, took {took_s:.0f} s at {rate} bytes/s"

    assert planned(plan_file, *config, "--write-rate", "0")["nothing_to_copy"]


@pytest.mark.campaign
def test_estimate_near_minimum_rate_is_accurate(
    lab: Lab, client: ClusterClient, lab_config_file: Path, tmp_path: Path
) -> None:
    """W is 0.8 of the rate: a fifth of the throttle is left for copying, so every error counts five times.

    The quota window passes traffic in bursts of up to window × rate. The last burst ends the move up to 55 s early here.
    The test fails if the move takes much longer than estimated.
    """
    near, config = "near", ("--config", lab_config_file)
    write = 1 * MB
    steady_state = 2 * write  # One in-sync follower, one adding.
    rate = round(steady_state / 0.8)
    with lab.admin() as admin:
        admin.create_topics([NewTopic(near, replica_assignments={0: [LEADER, FOLLOWER], 1: [LEADER, FOLLOWER]})])
    with ProducerLoad(lab.artifacts, lab.bootstrap_servers, near, rate_bytes_per_s=None, total_bytes=24 * MB) as load:
        load.wait(60)
    with ProducerLoad(lab.artifacts, lab.bootstrap_servers, near, rate_bytes_per_s=write, record_bytes=10_000) as load:
        moved = [{"topic": near, "partition": p, "replicas": [LEADER, DESTINATION]} for p in (0, 1)]
        file = tmp_path / "near.json"
        file.write_text(json.dumps({"version": 1, "partitions": moved}))
        asked = planned(file, *config, "--throttle", str(rate), "--write-rate", "500kB/s")
        (told,) = asked["notes"]
        assert "Clients write 1.00 MB/s to the moving partitions" in told
        assert asked["per_side"]["rate_bytes_per_s_min"] == steady_state + 1
        foretold_s = asked["per_side"]["time_s"]
        assert foretold_s >= 48  # 24 MB and more, at what is left: 0.5 MB/s.

        target = {(near, p): (LEADER, DESTINATION) for p in (0, 1)}
        reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(rate))
        began = time.monotonic()
        until(lambda: not client.reassignments(), 150, "the move ends", every_s=0.5)
        took_s = time.monotonic() - began
        load.check()
    reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--verify")
    assert WINDOW_S < took_s <= 1.4 * foretold_s + WINDOW_S, f"foretold {foretold_s:.0f} s, took {took_s:.0f} s"


def signals_of_brokers(lab: Lab, client: ClusterClient, age_s: float, *bytes_in_per_s: float) -> None:
    """Writes a signal of each broker to the signals topic, as the stream does."""
    ensure_topics(client, TOPICS)
    at_ms = round((time.time() - age_s) * 1000)
    sender = producer(lab.kafka_settings(), "test-signals")
    for broker, value in enumerate(bytes_in_per_s, start=1):
        told = BrokerSignal("lab", broker, at_ms, at_ms, 6, 1.0, client_in_bytes_per_s=value)
        sender.send(TOPICS.signals, key=signal_key(told), value=encode_signal(told))
    sender.flush(timeout=10)
    sender.close(timeout=5)


def bytes_in_of(plan_file: Path, config: Path) -> float:
    found = planned(plan_file, "--config", config, "--throttle", "30MB/s", "--write-rate", "100kB/s")
    return float(found["kip73"]["bytes_in_per_s_max"])


def test_bytes_in_comes_from_signals_when_all_are_fresh(
    lab: Lab, client: ClusterClient, lab_config_file: Path, plan_file: Path
) -> None:
    by_write_rate = 2 * 100_000.0  # Both partitions are led by broker 1.
    signals_of_brokers(lab, client, 3600, 7e6, 5e6, 6e6)
    assert bytes_in_of(plan_file, lab_config_file) == by_write_rate, "an hour old"
    signals_of_brokers(lab, client, 0, 7e6, 5e6)
    assert bytes_in_of(plan_file, lab_config_file) == by_write_rate, "broker 3 has none that is fresh"

    def is_taken_from_fresh_signals() -> bool:
        signals_of_brokers(lab, client, 0, 7e6, 9e6, 6e6)
        return bytes_in_of(plan_file, lab_config_file) == 9e6

    # On a busy machine the command may take so long to start that signals are no longer fresh.
    until(is_taken_from_fresh_signals, 30, "the highest of three fresh signals")


def test_cluster_lost_while_watching_exits_with_three(
    lab: Lab, client: ClusterClient, lab_config_file: Path, plan_file: Path
) -> None:
    command = [
        *RHEOSTAT,
        "plan",
        "estimate",
        plan_file,
        "--config",
        lab_config_file,
        "--throttle",
        "30MB/s",
        "--measure-for",
        "3",
    ]
    brokers = [node.process for node in lab.brokers if node.process is not None]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as plan:
        try:
            assert plan.stderr is not None
            assert plan.stderr.readline().startswith("Watching how fast the logs grow")
            for process in brokers:
                process.send_signal(signal.SIGSTOP)
            said, errors = plan.communicate(timeout=60)
        finally:
            for process in brokers:
                process.send_signal(signal.SIGCONT)
            plan.kill()
    assert (plan.returncode, said) == (3, "")
    assert len(errors.strip().splitlines()) == 1
    assert "describe log dirs" in errors
