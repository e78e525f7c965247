"""A plan of 200 partitions reaches exactly its target without data loss, although its tuner is killed three times.

In another plan a target broker dies.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, rheostat, running, until
from story_kit import make_topic

from rheostat.config.settings import Settings, load_settings
from rheostat.lab.cluster import Lab
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.reassign import plan_store
from streaming.shared.kafka import consumer
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.throttle_settings import RATE_KEYS

pytestmark = pytest.mark.campaign

PARTITIONS = 200
MEGABYTES = 120
KILLS = 3


@pytest.mark.timeout(600)
def test_plan_of_200_partitions_survives_three_kills(lab: Lab, tmp_path: Path) -> None:
    drawn = random.Random(435)
    brokers = [1, 2, 3, 4]
    before = {p: drawn.sample(brokers, 2) for p in range(PARTITIONS)}
    target = {p: drawn.sample(brokers, 2) for p in range(PARTITIONS)}
    make_topic(lab, "many", before, MEGABYTES)
    with lab.admin() as admin:
        admin.create_topics([NewTopic("beside", replica_assignments={0: [1, 2]})])
    config, settings, plan = files(lab, tmp_path, "many", target)

    with ReassignmentClient(lab.kafka_settings(), "test") as client:

        def there() -> dict[int, list[int]]:
            return {s.partition: list(s.replicas) for s in client.partitions(["many"])}

        def rates_left() -> dict[int, object]:
            left = client.broker_configs(brokers, RATE_KEYS.values())
            return {broker: configs for broker, configs in left.items() if configs}

        records = record_count(lab)
        for life in range(KILLS):
            with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / f"life-{life}.log") as tune:
                until(lambda tune=tune: '"active"' in tune.said(), 60, "the tuner acts")
                if life == 0:
                    given = rheostat(
                        "reassign", "start", plan, "-c", config, "--measure-for", "0", "--yes", "--detach", "--partition-movements", "12",
                        "--replica-movements", "1",
                    )  # fmt: skip
                    assert given.returncode == 0, given.stderr
                done = sum(there()[p] == target[p] for p in target)
                until(lambda done=done: sum(there()[p] == target[p] for p in target) > done + 15, 90, "it gets on")
                assert tune.end(signal.SIGKILL) == -signal.SIGKILL
        assert there() != target
        with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "last.log"):
            until(lambda: not plan_store.read_plans(settings).active, 240, "the plan has ended", every_s=1.0)
            until(lambda: not rates_left(), 60, "the rates of four tuners are removed", every_s=1.0)
        until(lambda: there() == target, 20, "every broker knows")
        first = {p: replicas[0] for p, replicas in target.items()}
        moved = {p for p in target if target[p] != before[p]}
        until(
            lambda: all(s.leader == first[s.partition] for s in client.partitions(["many"]) if s.partition in moved),
            20, "the preferred ones lead",
        )  # fmt: skip
        assert client.reassignments() == []
        assert all(set(s.isr) == set(s.replicas) for s in client.partitions(["many"]))
        assert {s.partition: list(s.replicas) for s in client.partitions(["beside"])} == {0: [1, 2]}
        assert rates_left() == {}
    assert record_count(lab) == records, "every record is readable"
    (ended,) = plan_store.read_plans(settings).plans
    assert (ended.state.ending, dict(ended.state.dropped)) == ("done", {})


def test_partitions_of_dead_target_wait_and_others_continue(lab: Lab, tmp_path: Path) -> None:
    before = {p: [1, 2] for p in range(24)}
    target = {p: [1, 4] if p < 8 else [3, 2] for p in before}
    make_topic(lab, "waits", before, 120)
    config, settings, plan = files(lab, tmp_path, "waits", target)

    with ReassignmentClient(lab.kafka_settings(), "test") as client, ExitStack() as stack:

        def arrived() -> set[int]:
            return {s.partition for s in client.partitions(["waits"]) if list(s.replicas) == target[s.partition]}

        tune = stack.enter_context(running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log"))
        until(lambda: '"active"' in tune.said(), 60, "the tuner acts")
        given = rheostat(
            "reassign", "start", plan, "-c", config, "--measure-for", "0", "--yes", "--detach", "--partition-movements", "4",
        )  # fmt: skip
        assert given.returncode == 0, given.stderr
        until(arrived, 60, "it has begun")
        lab.nodes[4].kill()
        until(lambda: 4 not in {e.node for e in client.brokers()}, 40, "it is out")
        to_dead = {p for p in target if 4 in target[p]}
        until(lambda: arrived() >= target.keys() - to_dead, 120, "the others have arrived")
        waiting = to_dead - arrived()
        assert waiting, "it died too late to be waited for"

        def said() -> str:
            (there,) = plan_store.read_plans(settings).active
            return " ".join(there.state.blockers)

        until(lambda: "waiting for brokers that are down: 4" in said(), 60, "it is said for whom it waits")
        lab.start_again(4)
        until(lambda: not plan_store.read_plans(settings).active, 180, "the plan has ended", every_s=1.0)
        until(lambda: arrived() == target.keys(), 20, "every broker knows")
        assert client.reassignments() == []
    ended = plan_store.read_plans(settings).plans[-1]
    assert (ended.state.ending, dict(ended.state.dropped)) == ("done", {})


def files(lab: Lab, folder: Path, topic: str, target: Mapping[int, list[int]]) -> tuple[Path, Settings, Path]:
    """The settings file, its settings, and a plan for this topic."""
    config, plan = folder / "rheostat.yaml", folder / "plan.json"
    config.write_text(lab_config(lab, http={"port": free_ports(1)[0]}))
    entries = [{"topic": topic, "partition": p, "replicas": replicas} for p, replicas in target.items()]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    return config, load_settings(config, {}), plan


def record_count(lab: Lab) -> int:
    """Returns the number of readable records of all partitions."""
    reader = consumer(lab.kafka_settings(), "test-count")
    try:
        partitions = [TopicPartition("many", p) for p in range(PARTITIONS)]
        ends, begins = reader.end_offsets(partitions), reader.beginning_offsets(partitions)
        return sum(ends[p] - begins[p] for p in partitions)
    finally:
        reader.close(timeout_ms=2000)
