"""A broker that comes back with an empty disk: its replicas are listed and steered on both sides, and nothing is left behind."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable

import pytest
from story_kit import Running, make_topic, running

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from tuner.core.cluster import LiveCluster
from tuner.core.throttle_limits import MB
from tuner.runtime.observe.cluster_reader import ClusterReader

PARTITIONS = 9
CEILING = 12 * MB
ACT = {
    "objective": {"latency_ms": 5_000},  # On shared cores latency says more about the machine than about replication.
    "capacity": {"in_bytes_per_s": 60 * MB, "out_bytes_per_s": 60 * MB},
    "rate_bytes_per_s_max": CEILING,
    "rate_bytes_per_s_min": 1 * MB,
    "recovery": "act",
}
IN_FORCE_S_MAX = 12.0


def return_with_empty_disk(lab: Lab, rheostat: Running, client: ClusterClient, broker: int) -> None:
    """Kills a broker, removes its data, and starts it once the cluster has noticed that it is away."""
    node = lab.nodes[broker]
    node.kill()
    for folder in node.log_dirs:
        shutil.rmtree(folder)
    node.prepare(lab.cluster_id)
    rheostat.until("the broker is away", lambda: broker not in alive(client), 60)
    lab.start_again(broker)


def alive(client: ClusterClient) -> set[int]:
    return {endpoint.node for endpoint in client.brokers()}


def settings_now(client: ClusterClient) -> LiveCluster | None:
    """Returns the rates and lists; None while a broker that starts does not answer."""
    live = ClusterReader(client).snapshot(full=True)
    return live if isinstance(live, LiveCluster) else None


def first_bytes(lab: Lab, broker: int, topic: str) -> Callable[[], bool]:
    """Returns whether the broker has copied anything of the topic."""
    data = lab.nodes[broker].home / "data"
    return lambda: any(log.stat().st_size > 0 for log in data.glob(f"{topic}-*/*.log"))


def is_in_sync(client: ClusterClient, topic: str) -> bool:
    return all(set(state.isr) == set(state.replicas) for state in client.partitions([topic]))


def has_nothing_left(client: ClusterClient) -> bool:
    live = settings_now(client)
    return live is not None and not live.rates and not live.lists


def throttles_both_sides(client: ClusterClient, topic: str, broker: int) -> bool:
    live = settings_now(client)
    if live is None or topic not in live.lists:
        return False
    lists = live.lists[topic]
    followers = {b for _, b in lists.follower.pairs}
    leaders = {b for _, b in lists.leader.pairs}
    sides = {(broker, Side.FOLLOWER), *((b, Side.LEADER) for b in leaders)}
    return followers == {broker} and len(leaders) > 1 and sides <= live.rates.keys()


@pytest.mark.campaign  # tests/faults/test_faults_of_recovery.py has it without Spark.
@pytest.mark.timeout(900)
def test_wiped_broker_is_throttled_and_leaves_nothing_after_kill() -> None:
    replicas = {p: [1 + (p + i) % 3 for i in range(3)] for p in range(PARTITIONS)}
    with Lab(LabSpec(brokers=3)) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, "orders", replicas, 400)
        with (
            ProducerLoad(lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=500_000, record_bytes=10_000),
            running(lab, **ACT) as rheostat,
        ):
            rheostat.until("rheostat is ready", lambda: (s := rheostat.status()) and s["ready"], 240)
            return_with_empty_disk(lab, rheostat, client, 3)
            rheostat.until("the first bytes", first_bytes(lab, 3, "orders"), 90)
            copied_at_s = time.monotonic()
            rheostat.until("both sides are throttled", lambda: throttles_both_sides(client, "orders", 3), 60)
            in_force_s = time.monotonic() - copied_at_s
            assert in_force_s <= IN_FORCE_S_MAX

            def steered() -> bool:
                live = settings_now(client)
                rate = live.rates.get((3, Side.FOLLOWER)) if live is not None else None
                return rate is not None and rate.bytes_per_s > 2 * MB

            rheostat.until("the law raises the rates", steered, 90)
            assert rheostat.decided("recovery_throttled")
            tuner = next(c for c in rheostat.supervisor.children if c.name == "tune")
            assert tuner.process is not None
            tuner.process.kill()
            rheostat.until("all replicas are in sync", lambda: is_in_sync(client, "orders"), 240)
            rheostat.until("nothing is left", lambda: has_nothing_left(client), 90)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_partition_below_minimum_is_held_back_by_nothing() -> None:
    """While broker 3 recovers, broker 2 dies: the partitions accept no writes, so broker 3 leaves the lists."""
    with (
        Lab(LabSpec(brokers=3, broker_settings={"min.insync.replicas": "2"})) as lab,
        ClusterClient(lab.kafka_settings(), "test") as client,
    ):
        make_topic(lab, "orders", {p: [1, 2, 3] for p in range(4)}, 400)
        with running(lab, **{**ACT, "rate_bytes_per_s_max": 4 * MB}) as rheostat:
            rheostat.until("rheostat is ready", lambda: (s := rheostat.status()) and s["ready"], 240)
            return_with_empty_disk(lab, rheostat, client, 3)

            def listed() -> bool:
                live = settings_now(client)
                return live is not None and "orders" in live.lists

            rheostat.until("it is throttled", listed, 90)
            lab.nodes[2].kill()

            def unlisted() -> bool:
                try:
                    states = client.partitions(["orders"])
                except ClusterError:
                    return False
                live = settings_now(client)
                return live is not None and "orders" not in live.lists and all(2 not in s.isr for s in states)

            rheostat.until("nothing holds it back", unlisted, 60)
            rheostat.until("it is in sync", lambda: all(3 in s.isr for s in client.partitions(["orders"])), 60)
            lab.start_again(2)
            rheostat.until("all replicas are in sync", lambda: is_in_sync(client, "orders"), 120)
            rheostat.until("nothing is left", lambda: has_nothing_left(client), 90)
