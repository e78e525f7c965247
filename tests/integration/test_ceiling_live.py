"""A plan of rheostat on real brokers with the shipped settings: without an objective no rate exceeds the ceiling."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, rheostat, running, until
from step_kit import Growth

from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.lab.node import free_ports
from rheostat.reassign import plan_store
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.lease import lease_group
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS, TopicThrottle
from streaming.shared.units import rate_text, span_text
from tuner.core.throttle_limits import MB

LAB = LabSpec(brokers=4, settings={"auto.leader.rebalance.enable": "false"})
PARTITIONS = 12
BEFORE = {p: [1 + p % 2, 2 - p % 2] for p in range(PARTITIONS)}
TARGET = {p: [3 + p % 2, 4 - p % 2] for p in range(PARTITIONS)}
MEAN_S = 12.0
ABOVE_MAX = 1.1


@pytest.fixture
def client(lab: Lab) -> Iterator[ClusterClient]:
    with ClusterClient(lab.kafka_settings(), "test") as made:
        yield made


def fill(lab: Lab, topic: str, n_bytes: int) -> None:
    """Fills a topic with small batches, because leaders count whole fetches and followers store whole batches."""
    with lab.admin() as admin:
        admin.create_topics([NewTopic(topic, replica_assignments=BEFORE)])
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, topic, rate_bytes_per_s=None, record_bytes=10_000, total_bytes=n_bytes,
        properties=("batch.size=65536", "linger.ms=5"),
    ) as load:  # fmt: skip
        load.wait(120)


@dataclass
class Sides:
    """The bytes that pass each of the plan's four sides, from the destinations' log files."""

    growths: dict[str, Growth] = field(default_factory=dict)

    @classmethod
    def of(cls, lab: Lab, topic: str) -> Sides:
        def folders(broker: int, partitions: list[int]) -> list[Path]:
            return [lab.nodes[broker].home / "data" / f"{topic}-{p}" for p in partitions]

        every = list(range(PARTITIONS))
        found = {f"broker {b} follower": Growth(folders(b, every)) for b in (3, 4)}
        for leader in (1, 2):
            led = [p for p in every if BEFORE[p][0] == leader]
            found[f"broker {leader} leader"] = Growth([*folders(3, led), *folders(4, led)])
        return cls(found)

    def largest_means(self) -> dict[str, float]:
        """Returns the largest mean over twelve seconds of each side, in bytes/s."""
        return {
            name: max(growth.passed(at_s, at_s + MEAN_S) / MEAN_S for at_s in growth.at_s)
            for name, growth in self.growths.items()
        }

    def by_second(self) -> str:
        lines = []
        for name, growth in self.growths.items():
            began_s = next((t for t, size in zip(growth.at_s, growth.size_bytes, strict=True) if size), growth.at_s[-1])
            seconds = [growth.passed(began_s + i, began_s + i + 1) for i in range(int(growth.at_s[-1] - began_s))]
            lines.append(f"{name}: " + " ".join(f"{each / MB:.1f}" for each in seconds))
        return "\n".join(lines)


def bare_sides(client: ClusterClient, topic: str) -> list[str]:
    """Returns unthrottled parts of running moves: unlisted replicas, and sides without a rate."""
    copying = [(s, b) for s in client.reassignments() for b in s.adding if b not in s.isr]
    if not copying:
        return []
    lists = TopicThrottle.from_configs(client.topic_configs([topic], LIST_KEYS.values()).get(topic, {}))
    rates = client.broker_configs([1, 2, 3, 4], RATE_KEYS.values())
    found = []
    for state, destination in copying:
        for broker, side, listed in (
            (state.leader, Side.LEADER, lists.leader),
            (destination, Side.FOLLOWER, lists.follower),
        ):
            told = rates[broker]
            if not listed.includes(state.partition, broker):
                found.append(f"{topic}-{state.partition} is not on the {side} list of broker {broker}")
            if not isinstance(told, dict) or RATE_KEYS[side] not in told:
                found.append(f"broker {broker} has no {side} rate")
    return found


def leftovers(client: ClusterClient, topic: str) -> list[object]:
    lists = client.topic_configs([topic], LIST_KEYS.values()).get(topic)
    rates = client.broker_configs([1, 2, 3, 4], RATE_KEYS.values())
    return [each for each in (lists, *rates.values()) if each]


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("ceiling", "n_bytes"), [(6 * MB, 132 * MB), (10 * MB, 240 * MB), (12 * MB, 264 * MB), (12 * MB, 600 * MB)]
)
def test_plan_without_objective_stays_below_ceiling(
    lab: Lab, client: ClusterClient, tmp_path: Path, ceiling: int, n_bytes: int
) -> None:
    topic = f"held-{ceiling}-{n_bytes}"
    fill(lab, topic, n_bytes)
    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(lab, http={"port": free_ports(1)[0]}, rate_bytes_per_s_max=ceiling))
    other = tmp_path / "other.yaml"
    other.write_text(lab_config(lab, rate_bytes_per_s_max=5 * ceiling))
    plan = tmp_path / "plan.json"
    entries = [{"topic": topic, "partition": p, "replicas": replicas} for p, replicas in TARGET.items()]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    settings, bare, sides = load_settings(config, {}), set[str](), Sides.of(lab, topic)

    def ended() -> bool:
        # A broker may tell of its settings a moment later than the controller of what moves.
        if first := bare_sides(client, topic):
            threading.Event().wait(0.1)
            bare.update({*first} & {*bare_sides(client, topic)})
        return not plan_store.read_plans(settings).active

    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as tune:
        until(lambda: '"active"' in tune.said(), 40, "the tuner acts")
        until(lambda: client.group_members(lease_group("lab")), 10, "its group is seen")
        dry = rheostat("reassign", "start", plan, "-c", other, "--measure-for", "0", "--dry-run", "--json")
        foretold = json.loads(dry.stdout)
        # The command's own file allows five times as much: what holds is the running tuner's, and the difference is told.
        assert (foretold["rate_bytes_per_s"], foretold["ceiling_bytes_per_s"]) == (ceiling, ceiling)
        assert f"rate_bytes_per_s_max is {rate_text(5 * ceiling)}" in foretold["differences"][0]
        given = rheostat("reassign", "start", plan, "-c", config, "--measure-for", "0", "--yes", "--detach")
        assert given.returncode == 0, given.stderr
        began_s = time.monotonic()
        assert f"about {span_text(foretold['expected_s'])} at {rate_text(ceiling)}" in given.stderr
        for growth in sides.growths.values():
            growth.__enter__()
        try:
            until(ended, 200, "the plan has ended", every_s=0.05)
        finally:
            for growth in sides.growths.values():
                growth.__exit__()
        took_s = time.monotonic() - began_s
        means = sides.largest_means()
        figures = f"{sides.by_second()}\n" + ", ".join(f"{name} {mean / MB:.2f}" for name, mean in means.items())
        sys.stdout.write(f"\n{figures} MB/s; {took_s:.0f} s, {foretold['expected_s']:.0f} s foretold\n")
        sys.stdout.write("".join(f"{line['at'][14:23]} {line['event'][:150]}\n" for line in tune.lines()))
        assert not bare, "copied, and not throttled"
        assert max(means.values()) <= ABOVE_MAX * ceiling, figures
        assert took_s == pytest.approx(foretold["expected_s"], rel=0.25)
        until(lambda: not leftovers(client, topic), 40, "rates and lists are taken back")
