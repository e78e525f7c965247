"""Two unthrottled moves: their replicas are listed exactly, set again after a tool cleared them, and removed when they finish."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from story_kit import make_topic, moving, running, slowed

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from rheostat.status.report import last_entries
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS, Pair, TopicThrottle
from tuner.control.throttle.replica_lists.list_rules import required_by_topic
from tuner.core.cluster import ClusterUnreadable, LiveCluster
from tuner.core.throttle_limits import MB
from tuner.runtime.observe.cluster_reader import ClusterReader

OBJECTIVE = {"latency_ms": 5_000}  # On two shared cores latency says more about the machine than about replication.
CAPACITY = {"in_bytes_per_s": 60 * MB, "out_bytes_per_s": 60 * MB}
CEILING, FLOOR = 15_000_000, 2_000_000
# What a machine writes, twice over, in this time, it does not copy in the second or two in which nothing throttles it.
FILLED_S = 20.0
FILLED_BYTES_MAX = (
    1_500_000_000  # At half a gigabyte a second that holds as well; the rest would only take time and room.
)
STARTED_S_MAX = 180.0  # Before the story begins: all of rheostat's parts, Spark among them.
BYSTANDER = "audit"
TOPICS = ("orders", "payments", BYSTANDER)
STATIC = {LIST_KEYS[side]: "0:1" for side in LIST_KEYS}
TARGET = {("orders", 0): [1, 3], ("orders", 1): [1, 3], ("payments", 0): [2, 3], ("payments", 1): [2, 3]}
NOT_MOVING = {("payments", 2): [1, 2]}


def fill(lab: Lab, topic: str) -> None:
    load = ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, topic,
        rate_bytes_per_s=None, record_bytes=100_000, total_bytes=FILLED_BYTES_MAX,
        properties=("batch.size=800000", "linger.ms=5"),
    )  # fmt: skip
    full_s = time.monotonic() + FILLED_S
    with load:
        while time.monotonic() < full_s and not load.ended():
            threading.Event().wait(0.1)


def look(client: ClusterClient) -> LiveCluster:
    live = ClusterReader(client).snapshot(full=True)
    assert isinstance(live, LiveCluster), live
    return live


def settings(client: ClusterClient) -> tuple[object, object]:
    """Returns the settings of brokers and topics, including empty values."""
    brokers = client.broker_configs((1, 2, 3), RATE_KEYS.values())
    return brokers, client.topic_configs(TOPICS, LIST_KEYS.values())


class ListObserver:
    """Observes the lists: they contain only moving replicas, each on its correct side."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._needed: dict[str, tuple[set[Pair], set[Pair]]] = {}
        self.looks = 0

    def exact(self, *, whole: bool = False) -> bool:
        """Returns whether there is a list (``whole``: and it is complete)."""
        live = ClusterReader(self._client).snapshot(full=True)
        if isinstance(live, ClusterUnreadable):
            return False  # One of the brokers is slowed down: the next look sees it.
        self.looks += 1
        now = required_by_topic(live)
        for topic, each in now.items():
            leader, follower = self._needed.setdefault(topic, (set(), set()))
            leader |= each.leader
            follower |= each.follower
        for topic, lists in live.lists.items():
            if topic != BYSTANDER:
                leader, follower = self._needed.get(topic, (set(), set()))
                assert lists.leader.pairs <= leader, f"{topic}: {lists.leader.to_text()}"
                assert lists.follower.pairs <= follower, f"{topic}: {lists.follower.to_text()}"
                rated = live.rates.keys()
                assert {(b, side) for side in LIST_KEYS for _, b in lists.for_side(side).pairs} <= rated, (
                    "listed without a rate"
                )
        if whole:
            stands = {topic: live.lists.get(topic, TopicThrottle()) for topic in now}
            return bool(now) and all(
                each.leader <= stands[topic].leader.pairs and each.follower <= stands[topic].follower.pairs
                for topic, each in now.items()
            )
        return any(topic != BYSTANDER for topic in live.lists)

    def partitions(self) -> set[tuple[str, int]]:
        """Returns the partitions on the followers' lists."""
        lists = look(self._client).lists
        return {(t, p) for t, each in lists.items() if t != BYSTANDER for p, _ in each.follower.pairs}


# A minute and a half, most of it for data that outlast a tool's sweep: not in every `make test`. On a machine that others use
# as well the parts alone may take two minutes to start.
@pytest.mark.campaign
def test_unthrottled_move_is_listed_exactly_and_leaves_nothing() -> None:
    with Lab(LabSpec(brokers=3)) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, "orders", {p: [1, 2] for p in range(2)}, 70)
        make_topic(lab, "payments", {0: [2, 1], 1: [2, 1], 2: [1, 2]}, 1)
        fill(lab, "payments")
        make_topic(lab, BYSTANDER, {0: [1, 2]}, 1)
        assert client.alter_topic_configs({BYSTANDER: STATIC}) == {BYSTANDER: None}
        before = settings(client)
        with running(
            lab,
            objective=OBJECTIVE,
            capacity=CAPACITY,
            cycle_s=1.0,
            rate_bytes_per_s_max=CEILING,
            rate_bytes_per_s_min=FLOOR,
        ) as rheostat:
            rheostat.until("rheostat is ready", lambda: (s := rheostat.status()) and s["ready"], STARTED_S_MAX)
            observer = ListObserver(client)
            # On loopback a move is over before anybody has looked; a slow destination gives it the time a real one takes.
            with slowed(lab.nodes[3], share=0.04):
                reassign_partitions(lab.artifacts, lab.bootstrap_servers, TARGET, "--execute")
                rheostat.until("all that moves is listed", lambda: observer.exact(whole=True), 30)
            assert moving(client), "the move ended before it was listed: make it longer"
            most = observer.partitions()
            rheostat.until(
                "the law has it", lambda: observed_probe(observer, lambda: rheostat.decided("follows_clients")), 30
            )

            swept = reassign_partitions(lab.artifacts, lab.bootstrap_servers, NOT_MOVING, "--cancel")
            assert "Clearing topic-level throttles" in swept, swept
            rheostat.until("the sweep is seen", lambda: rheostat.decided("cleared_by_tool"), 10)
            rheostat.until("all that moves is listed again", lambda: observer.exact(whole=True), 10)
            assert rheostat.decided("external_change") is None, "a sweep was taken for somebody's word"
            assert moving(client), "the move ended before it was listed again: make it longer"

            rheostat.until(
                "a partition is off the lists while others move", lambda: gone_before(observer, client, most), 90
            )
            rheostat.until("the moves end", lambda: observed_probe(observer, lambda: not moving(client)), 90)
            rheostat.until("everything is as it was", lambda: settings(client) == before, 30)
            assert look(client).lists.keys() == {BYSTANDER}
            assert observer.looks > 10

            entries = last_entries(rheostat.settings, 1000)
            lists = [(entry.kind, entry.action) for entry in entries if entry.action.endswith("_pairs")]
            assert ("intent", "add_pairs") in lists
            assert lists.count(("intent", "remove_pairs")) >= 2, "not all of them at once"
            assert not [entry.failure for entry in entries if entry.failure]


def observed_probe(observer: ListObserver, probe: Callable[[], object]) -> object:
    """Observes the lists before each probe."""
    observer.exact()
    return probe()


def gone_before(observer: ListObserver, client: ClusterClient, most: set[tuple[str, int]]) -> bool:
    observer.exact()
    left = observer.partitions()
    return moving(client) and bool(left) and left < most
