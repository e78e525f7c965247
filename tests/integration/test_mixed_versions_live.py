"""Brokers of two versions of Kafka, as in a rolling upgrade: commands name the broker that cannot do what is asked, and change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from lab_parts import RHEOSTAT, rheostat, running, until
from story_kit import make_topic
from tiered_kit import RemoteStorage, make_tiered_topic

from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.reassign import plan_store
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.kafka_names import CORDONED_LOG_DIRS, FETCH_LAST_TIERED
from streaming.shared.throttle_settings import RATE_KEYS

pytestmark = pytest.mark.campaign

MB = 1_000_000
OLD_BROKERS, UPGRADED = (1, 2), 3


@dataclass(frozen=True, slots=True)
class Roll:
    """A cluster whose broker 3 is upgraded already."""

    old: str
    new: str
    lab: Lab
    client: ReassignmentClient
    config: Path


@pytest.fixture(scope="module", params=[("4.2.2", "4.4.0"), ("3.9.2", "4.3.1")], ids=lambda pair: "-".join(pair))
def roll(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roll]:
    old, new = request.param
    storage = RemoteStorage.compile(tmp_path_factory.mktemp("remote") / "storage")
    config = tmp_path_factory.mktemp("config") / "rheostat.yaml"
    # The older version ignores the setting that it does not know.
    spec = replace(storage.lab_spec(old), brokers=3, settings_by_node={UPGRADED: {FETCH_LAST_TIERED: "true"}})
    with Lab(spec) as lab, ReassignmentClient(lab.kafka_settings(), "test") as client:
        quota = {"objective": {"idle_ratio_min": 0.3}}
        config.write_text(lab_config(lab, http={"port": free_ports(1)[0]}, cycle_s=1, mutation_quota=quota))
        make_topic(lab, "orders", {p: [1 + p % 2] for p in range(4)}, 8)
        make_tiered_topic(lab, client, "clicks", total_bytes=12 * MB, local_bytes=6 * MB, segment_bytes=1_100_000)
        lab.nodes[UPGRADED].stop(grace_s=40)
        lab.start_again(UPGRADED, kafka=new)
        until(lambda: UPGRADED in {e.node for e in client.brokers()}, 60, "the upgraded broker is back")
        yield Roll(old, new, lab, client, config)


def minor(version: str) -> str:
    return version.rpartition(".")[0]


def run(*arguments: str | Path, code: int = 0) -> str:
    done = rheostat(*arguments, timeout_s=150)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def changed_settings(roll: Roll) -> dict[int, Any]:
    """Returns the settings of brokers that a plan or a cordon sets, and the reassignments."""
    keys = [CORDONED_LOG_DIRS, *RATE_KEYS.values()]
    set_on_brokers = {b: c for b, c in roll.client.broker_configs([1, 2, 3], keys).items() if c}
    return {**set_on_brokers, **({0: moves} if (moves := roll.client.reassignments()) else {})}


def plan_file(tmp_path: Path, topic: str, partitions: dict[int, list[int]], **more: Any) -> Path:
    file = tmp_path / "plan.json"
    rows = [{"topic": topic, "partition": p, "replicas": replicas} for p, replicas in partitions.items()]
    file.write_text(json.dumps({"version": 1, "partitions": rows, **more}))
    return file


def test_doctor_names_the_version_of_each_broker(roll: Roll) -> None:
    findings = json.loads(rheostat("doctor", "-c", roll.config, "--json", timeout_s=90).stdout)
    texts = " ".join(f["found"] for f in findings if f["check"] == "kafka version")
    assert f"brokers 1, 2 run Kafka {minor(roll.old)} (metadata.version" in texts
    assert f"broker 3 runs Kafka {minor(roll.new)} (metadata.version" in texts
    assert "the cluster still uses" in texts
    assert f"the version of Kafka {minor(roll.old)}" in texts
    assert ("missing in this version: the metric of the controller's idle ratio" in texts) == (roll.old == "3.9.2")


@pytest.mark.parametrize("broker", [1, UPGRADED])
def test_drain_with_a_cordon_names_the_broker_that_has_none(roll: Roll, broker: int) -> None:
    printed = run(
        "plan", "generate", "-c", roll.config, "--drain-broker", str(broker), "--cordon", "--write-rate", "0", code=1
    )
    assert f"broker {broker} cannot be cordoned: cordoned log directories need Kafka 4.3 or newer" in printed
    if broker == UPGRADED:
        assert "finish the upgrade with `kafka-features upgrade`" in printed
    else:
        assert f"it runs Kafka {minor(roll.old)}" in printed
    assert changed_settings(roll) == {}


def test_plan_that_cordons_brokers_of_both_versions_changes_nothing(roll: Roll, tmp_path: Path) -> None:
    file = plan_file(tmp_path, "orders", {0: [2]}, cordon=[3, 1])
    printed = run("reassign", "start", file, "-c", roll.config, "--measure-for", "0", "--yes", "--detach", code=1)
    assert '"cordon" in the plan: broker 1 cannot be cordoned' in printed
    assert changed_settings(roll) == {}
    assert plan_store.read_plans(load_settings(roll.config, {})).plans == ()


BLOCKED = (
    "clicks-0: broker 3 cannot begin to copy from broker 1, because follower.fetch.last.tiered.offset.enable needs Kafka 4.2 or "
    "newer on the leader"
)


def test_tiered_copy_that_cannot_begin_is_named_and_refused(roll: Roll, tmp_path: Path) -> None:
    file = plan_file(tmp_path, "clicks", {0: [UPGRADED]})
    printed = run("plan", "estimate", file, "-c", roll.config, "--throttle", "1MB/s", "--write-rate", "0")
    assert (BLOCKED in printed) == (roll.old == "3.9.2"), printed
    if roll.old == "3.9.2":
        start = ("reassign", "start", file, "-c", roll.config, "--measure-for", "0", "--yes", "--detach")
        assert BLOCKED in run(*start, code=1)
        assert changed_settings(roll) == {}
        assert plan_store.read_plans(load_settings(roll.config, {})).plans == ()


def test_plan_moves_between_the_versions_and_leaves_nothing(roll: Roll, tmp_path: Path) -> None:
    plans = [("orders", {p: [UPGRADED] for p in range(4)})]
    plans += [("clicks", {0: [UPGRADED]})] if roll.old != "3.9.2" else []
    with running(*RHEOSTAT, "tune", "--config", roll.config, log=tmp_path / "tune.log") as tune:
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        for topic, partitions in plans:
            file = plan_file(tmp_path, topic, partitions)
            run("reassign", "start", file, "-c", roll.config, "--measure-for", "0", "--yes", "--detach")
            until(
                lambda: not plan_store.read_plans(load_settings(roll.config, {})).active,
                120,
                "the partitions have moved",
                every_s=0.5,
            )
        assert {s.replicas for s in roll.client.partitions([topic for topic, _ in plans])} == {(UPGRADED,)}
        until(lambda: changed_settings(roll) == {}, 30, "nothing is left")
