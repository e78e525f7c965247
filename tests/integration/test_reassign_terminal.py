"""`rheostat reassign start --standalone` on a terminal: Ctrl-C, each answer, and the state of the cluster afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from lab_parts import RHEOSTAT, until
from story_kit import make_topic
from terminal_kit import CTRL_C, Terminal, terminal

from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.reassign import plan_store
from streaming.shared.kafka.reassignments import ReassignmentClient
from streaming.shared.lease import lease_group
from streaming.shared.throttle_settings import RATE_KEYS
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanEnding

LAB = LabSpec(brokers=4, settings={"auto.leader.rebalance.enable": "false"})
PARTITIONS = 24
BEFORE = {p: [1 + p % 2, 2 - p % 2] for p in range(PARTITIONS)}
TARGET = {p: [3 + p % 2, 4 - p % 2] for p in range(PARTITIONS)}
ONE_BY_ONE = ("--partition-movements", "1", "--replica-movements", "1")
# The terminal may break the line within a word.
QUESTION = r"\s*".join(map(re.escape, "pauseit(p),orcancelitandrollback(c)?[l]")) + r"\s*$"
START_S_MAX = 240  # Spark, collector and tuner start together, on a machine that may have other things to do.


class Desk:
    """The terminal, and the cluster behind it."""

    def __init__(self, lab: Lab, folder: Path, client: ReassignmentClient, topic: str, **tuner: Any) -> None:
        self.client = client
        self.topic = topic
        self.config = folder / "rheostat.yaml"
        body = json.loads(lab_config(lab, http={"port": free_ports(1)[0]}, **tuner))
        body["stream"]["checkpoint_dir"] = str(folder / "checkpoint")
        self.config.write_text(json.dumps(body))
        self.file = folder / "plan.json"
        entries = [{"topic": topic, "partition": p, "replicas": replicas} for p, replicas in TARGET.items()]
        self.file.write_text(json.dumps({"version": 1, "partitions": entries}))

    @contextmanager
    def reassign(self, *more: str, columns: int = 100) -> Iterator[Terminal]:
        words = (
            *RHEOSTAT,
            "reassign",
            "start",
            self.file,
            "-c",
            self.config,
            "--measure-for",
            "0",
            "--standalone",
            *more,
        )
        with terminal(*words, columns=columns) as shown:
            shown.shows(r"for each leader and follower throttle: the ceiling of the tuner that", 60)
            shown.shows(r"Continue\? \[y/N\]\s*$", 10)
            shown.press("y\n")
            yield shown

    def replicas(self) -> dict[int, list[int]]:
        return {s.partition: list(s.replicas) for s in self.client.partitions([self.topic])}

    def plan(self) -> Plan:
        return plan_store.read_plans(load_settings(self.config, {})).plans[-1]

    def left_behind(self) -> dict[int, Any]:
        rates = self.client.broker_configs([1, 2, 3, 4], RATE_KEYS.values())
        return {broker: configs for broker, configs in rates.items() if configs}


@pytest.fixture
def client(lab: Lab) -> Iterator[ReassignmentClient]:
    with ReassignmentClient(lab.kafka_settings(), "test") as made:
        yield made


@pytest.fixture
def desk(lab: Lab, tmp_path: Path, client: ReassignmentClient, request: pytest.FixtureRequest) -> Desk:
    topic = request.node.name.removeprefix("test_")
    make_topic(lab, topic, BEFORE, 24)
    # The group of a tuner that was killed is there until its session ends, and looks like one that runs.
    until(lambda: not client.group_members(lease_group("lab")), 60, "nobody has the lease")
    return Desk(lab, tmp_path, client, topic)


def interrupt_midway(shown: Terminal) -> None:
    """Presses Ctrl-C once bytes have been copied."""
    shown.shows(r"\b[\d.]+ [kM]B of 48\.0 MB", START_S_MAX)
    shown.press(CTRL_C)
    shown.shows(QUESTION, 30)
    assert not shown.cursor_is_hidden()


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_cancelled_plan_is_rolled_back_before_exit(desk: Desk) -> None:
    with desk.reassign(*ONE_BY_ONE) as shown:
        shown.shows(r"%\s+[\d.]+ k?M?B of 48\.0 MB", START_S_MAX)
        shown.shows(r"0 of 24 partitions, ", 5)
        shown.shows(r"at most 1 partition movement, 1 replica movement at a time", 5)
        shown.shows(r"broker \d (leader|follower): \d+ at a time: ", START_S_MAX)
        interrupt_midway(shown)
        shown.press("c\n")
        shown.shows("being rolled back: running steps are stopped", 60)
        assert shown.ends(240) == 1
        assert re.search(r"cancelled; \d+ of 24 partitions are at their\s+target\.", shown.screen())
        assert "Stopping tuner, stream and collector." in shown.screen()
        assert_is_neat(shown, 100)
    assert desk.plan().state.ending is PlanEnding.CANCELLED
    assert desk.client.reassignments() == []
    there = desk.replicas()
    assert there != TARGET
    assert all(there[p] in (BEFORE[p], TARGET[p]) for p in BEFORE)
    assert desk.left_behind() == {}


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_paused_plan_stops_moving_before_exit(desk: Desk) -> None:
    with desk.reassign(*ONE_BY_ONE, columns=80) as shown:
        interrupt_midway(shown)
        shown.press("p\n")
        assert shown.ends(240) == 0
        assert "paused. To continue it, run `rheostat reassign resume` while a tuner runs." in shown.screen().replace(
            "\n", " "
        )
        assert_is_neat(shown, 80)
    assert desk.plan().head.desired is DesiredPlanState.PAUSED
    assert desk.plan().requested == {}
    assert desk.client.reassignments() == []
    assert desk.replicas() not in (BEFORE, TARGET)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_detached_plan_continues_with_next_tuner(desk: Desk) -> None:
    with desk.reassign(*ONE_BY_ONE) as shown:
        interrupt_midway(shown)
        shown.press(CTRL_C)  # Instead of an answer.
        assert shown.ends(120) == 130
        assert "stays on record. The steps that Kafka runs now continue" in shown.screen().replace("\n", " ")
    assert desk.plan().is_active
    until(lambda: not desk.client.group_members(lease_group("lab")), 60, "nobody has the lease")
    with terminal(*RHEOSTAT, "run", "--config", desk.config) as service:
        until(lambda: not desk.plan().is_active, START_S_MAX, "the plan has ended", every_s=1.0)
        service.press(CTRL_C)
        assert service.ends(120) == 0
    assert desk.replicas() == TARGET


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_ended_plan_leaves_no_throttles(lab: Lab, tmp_path: Path, client: ReassignmentClient) -> None:
    make_topic(lab, "steered", BEFORE, 24)
    until(lambda: not client.group_members(lease_group("lab")), 60, "nobody has the lease")
    capacity = {"in_bytes_per_s": 60_000_000, "out_bytes_per_s": 60_000_000}
    desk = Desk(lab, tmp_path, client, "steered", objective={"latency_ms": 5_000}, capacity=capacity)
    with desk.reassign("--replica-movements", "1") as shown:
        until(desk.left_behind, START_S_MAX, "it is throttled")
        assert shown.ends(400) == 0
        assert "done." in shown.screen()
        assert_is_neat(shown, 100)
    assert desk.replicas() == TARGET
    assert desk.left_behind() == {}


def assert_is_neat(shown: Terminal, columns: int) -> None:
    """Checks that no display is repeated, no log line appears, and nothing reads "0 of 0"."""
    lines = shown.screen().splitlines()
    assert all(len(line) <= columns for line in lines)
    assert not any("at=20" in line or line.startswith("{") for line in lines), shown.screen()
    assert "0 of 0" not in shown.screen()
    bars = [n for n, line in enumerate(lines) if "━" in line]
    assert all(later - sooner > 2 for sooner, later in pairwise(bars)), shown.screen()
