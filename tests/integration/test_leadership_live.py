"""Preferred leaders after a broker was away, on real brokers: by rheostat in groups, and by Kafka itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import pytest
from lab_parts import rheostat, until, wait_for_metadata
from story_kit import make_topic, running

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.load import ProducerLoad
from rheostat.status.report import last_entries
from streaming.shared.contract import BrokerSignal
from streaming.shared.kafka.reassignments import ReassignmentClient
from tuner.api.leadership_status_store import LeadershipStatusStore
from tuner.control.leadership.policy import CAUGHT_UP_S, LeadershipLimits
from tuner.control.throttle.objective import Objective
from tuner.core.cluster import LiveCluster, Observation
from tuner.core.operator_orders import Orders
from tuner.journal.entries import Entry
from tuner.runtime.clock import Clock
from tuner.runtime.leadership.loop import EVERY_S, LeadershipController, LeadershipPorts

T = TypeVar("T")
PARTITIONS = 12
RETURNING = 3
STEP_S_MAX = 60.0


class AtOnce:
    def start(self, call: Callable[[], T], /) -> Future[T]:
        answer: Future[T] = Future()
        answer.set_result(call())
        return answer


class Rig:
    """The controller with a real cluster. Only the clock and the signals are the test's."""

    def __init__(self, client: ReassignmentClient) -> None:
        self.client = client
        self.p99_ms: float | None = None
        self.entries: list[Entry] = []
        self.now_s = 1_000_000.0
        self.status = LeadershipStatusStore("lab")
        ports = LeadershipPorts(
            api=client,
            caller=AtOnce(),
            latest=self.latest,
            orders=Orders,
            vetoes=tuple,
            journal=self.entries.extend,
            write_refusal=lambda: None,
            observer=self.status,
        )
        limits = LeadershipLimits(acts=True, objective=Objective(latency_ms=100.0), signal_age_s_max=30.0)
        clock = Clock(lambda: self.now_s, lambda: self.now_s)
        self.loop = LeadershipController(ports, limits, clock, dry_run=False)

    def latest(self) -> Observation:
        now_ms = round(self.now_s * 1000)
        signal = BrokerSignal("lab", RETURNING, now_ms, now_ms, 6, 1.0, client_in_bytes_per_s=0.0)
        if self.p99_ms is not None:
            signal = replace(signal, client_in_bytes_per_s=1e6, produce_p99_ms=self.p99_ms)
        brokers = frozenset(endpoint.node for endpoint in self.client.brokers())
        return Observation(now_ms, LiveCluster(brokers), broker_signals={RETURNING: signal}, move_signals={})

    def cycle(self) -> str:
        """Runs one cycle and returns the reason of its decision."""
        self.now_s += EVERY_S
        for _ in range(4):  # Read, decide, elect, finish.
            self.loop.tick()
        body = self.status.as_json()
        assert body is not None
        return str(body["reason"])


def led(client: ReassignmentClient) -> int:
    return sum(state.leader == RETURNING for state in client.partitions(["orders"]))


def is_in_sync(client: ReassignmentClient, topic: str = "orders") -> bool:
    states = client.partitions([topic])
    return all(set(state.isr) == set(state.replicas) for state in states)


def write(lab: Lab, megabytes: int) -> None:
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, "orders",
        rate_bytes_per_s=None, record_bytes=100_000, total_bytes=megabytes * 1_000_000,
    ) as load:  # fmt: skip
        load.wait(120)


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Two brokers; all partitions prefer the one that returns."""
    settings = {"leader.imbalance.check.interval.seconds": "1", **request.param}
    with Lab(LabSpec(brokers=3, settings=settings)) as lab:
        make_topic(lab, "orders", {p: [RETURNING, 1] for p in range(PARTITIONS)}, 1)
        yield lab


@pytest.mark.parametrize("lab", [{"auto.leader.rebalance.enable": "false"}], indirect=True)
def test_returned_broker_gets_its_leaders_back_in_groups_while_clients_are_well(lab: Lab) -> None:
    make_topic(lab, "quiet", {0: [RETURNING, 1]}, 0)
    with ReassignmentClient(lab.kafka_settings(), "test") as client:
        lab.nodes[RETURNING].kill()
        until(lambda: led(client) == 0, STEP_S_MAX, "the other broker leads")
        # The throttle lets 10 MB through every 11 s.
        client.alter_broker_configs({1: {"leader.replication.throttled.rate": "1"}})
        client.alter_topic_configs({"orders": {"leader.replication.throttled.replicas": "*"}})
        write(lab, 120)
        rig = Rig(client)
        # A broker answers with its own copy of the metadata, and each question may go to another one.
        wait_for_metadata(lab)
        assert rig.cycle() == "leaders_in_place", "no preferred replica is in sync"

        lab.start_again(RETURNING)
        until(lambda: is_in_sync(client, "quiet"), STEP_S_MAX, "the topic without records is in sync")
        wait_for_metadata(lab)
        assert {rig.cycle() for _ in range(8)} == {"catches_up"}
        assert not is_in_sync(client), "the copy lasts longer than these cycles"
        assert led(client) == 0

        client.alter_broker_configs({1: {"leader.replication.throttled.rate": None}})
        until(lambda: is_in_sync(client), STEP_S_MAX, "all replicas are in sync")
        wait_for_metadata(lab)
        began_s = rig.now_s
        assert rig.cycle() == "just_caught_up"
        while rig.cycle() == "just_caught_up":
            pass
        assert rig.now_s - began_s >= CAUGHT_UP_S
        wait_for_metadata(lab)
        group = led(client)
        assert 0 < group <= 2, "a part of the leaders is back"
        assert [(entry.kind, entry.reason) for entry in rig.entries] == [
            ("decision", "catches_up"), ("decision", "just_caught_up"), ("intent", "caught_up"), ("outcome", "caught_up")
        ]  # fmt: skip

        rig.p99_ms = 500.0
        reasons = {rig.cycle() for _ in range(6)}
        assert reasons == {"settling", "clients_wait"}
        assert led(client) == group

        rig.p99_ms = 20.0

        def are_all_back() -> bool:
            rig.cycle()
            return led(client) == PARTITIONS

        until(are_all_back, 5 * STEP_S_MAX, "all leaders are back")
        wait_for_metadata(lab)
        until(lambda: rig.cycle() == "leaders_in_place", 5 * STEP_S_MAX, "the last group has settled")
        assert not [entry.failure for entry in rig.entries if entry.failure]


@pytest.mark.campaign
@pytest.mark.parametrize("lab", [{"auto.leader.rebalance.enable": "true"}], indirect=True)
def test_beside_kafkas_own_election_none_is_added_and_the_doctor_names_it(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with ReassignmentClient(lab.kafka_settings(), "test") as client:
        lab.nodes[RETURNING].kill()
        until(lambda: led(client) == 0, STEP_S_MAX, "the other broker leads")
        lab.start_again(RETURNING)
        until(lambda: led(client) == PARTITIONS, STEP_S_MAX, "Kafka has elected all leaders at once")
        rig = Rig(client)
        assert rig.cycle() == "leaders_in_place"
        assert rig.entries == []
    config = tmp_path_factory.mktemp("doctor") / "rheostat.yaml"
    config.write_text(lab_config(lab))
    done = rheostat("doctor", "--config", config)
    assert "Kafka elects preferred leaders itself (auto.leader.rebalance.enable is true on all brokers)" in " ".join(
        done.stdout.split()
    )


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize("lab", [{"auto.leader.rebalance.enable": "false"}], indirect=True)
def test_shipped_processes_give_a_returned_broker_its_leaders_back(lab: Lab) -> None:
    # On shared cores latency says more about the machine than about the broker.
    with (
        ReassignmentClient(lab.kafka_settings(), "test") as client,
        ProducerLoad(lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=300_000, record_bytes=1_000),
        running(lab, leadership="act", objective={"latency_ms": 60_000}) as run,
    ):
        run.until("rheostat is ready", lambda: (s := run.status()) and s["ready"], 240)
        lab.nodes[RETURNING].kill()
        run.until("the other broker leads", lambda: led(client) == 0, STEP_S_MAX)
        lab.start_again(RETURNING)
        run.until("all replicas are in sync", lambda: is_in_sync(client), STEP_S_MAX)
        counts = [led(client)]

        def all_are_back() -> bool:
            counts.append(led(client))
            return counts[-1] == PARTITIONS

        run.until("all leaders are back", all_are_back, 600)
        steps = [later - earlier for earlier, later in pairwise(counts) if later != earlier]
        assert max(steps) <= 2, f"more than a group of two at once: {steps}"
        run.until("the page says so", lambda: (run.status() or {})["leadership"]["reason"] == "leaders_in_place", 180)
        entries = [entry for entry in last_entries(run.settings, 500) if entry.action == "elect_leaders"]
        assert {(entry.kind, entry.failure) for entry in entries} == {("intent", None), ("outcome", None)}
        sys.stdout.write(f"{len(entries) // 2} groups: {steps}\n")
