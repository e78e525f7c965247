"""A healthy unthrottled move is left alone, and unreadable records do not stop the others."""

from __future__ import annotations

import json

import pytest
from story_kit import make_topic, moving, running, slowed

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.tools import reassign_partitions
from rheostat.status.report import last_entries
from streaming.shared.contract import Topics
from streaming.shared.kafka import consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.cluster import LiveCluster
from tuner.journal.topic_reader import read_records
from tuner.runtime.observe.cluster_reader import ClusterReader

TOPICS = Topics.with_prefix("rheostat")
GARBAGE = [b"not json at all", b"", b'{"v": 99, "cluster": "lab"}', b"\xff\xfe{}"]


@pytest.mark.campaign
def test_unthrottled_healthy_move_is_left_alone() -> None:
    with Lab(LabSpec(brokers=3)) as lab:
        make_topic(lab, "orders", {0: [1, 2]}, 120)
        with running(lab) as rheostat, ClusterClient(lab.kafka_settings(), "test") as client:
            rheostat.until("rheostat is ready", lambda: (s := rheostat.status()) and s["ready"], 90)
            sent = producer(lab.kafka_settings(), "test-garbage")
            for value in GARBAGE:
                sent.send(TOPICS.metrics, value=value)
            sent.flush(timeout=10)
            sent.close(timeout=5)

            # On loopback a move is over before anybody has looked; a slow destination gives it the time a real one takes.
            with slowed(lab.nodes[3], share=0.04):
                reassign_partitions(lab.artifacts, lab.bootstrap_servers, {("orders", 0): [1, 3]}, "--execute")
                rheostat.until("a decision to leave it alone", lambda: rheostat.decided("not_throttled"), 60)
                assert moving(client), "the move ended before anything was decided: make it slower"
            rheostat.until("the move ends by itself", lambda: not moving(client), 90)
            rheostat.until(
                "the tuner has seen the end", lambda: (s := rheostat.status()) and not s["reassigning_partitions"], 30
            )

            live = ClusterReader(client).snapshot(full=True)
            assert isinstance(live, LiveCluster)
            assert live.rates == {}
            assert live.lists == {}
            assert {entry.action for entry in last_entries(rheostat.settings, 100)} == {"begin_term", "hold"}

            rejects = consumer(lab.kafka_settings(), "test-rejects")
            told = [json.loads(record.value) for record in read_records(rejects, TOPICS.rejects) if record.value]
            rejects.close(timeout_ms=2000)
            assert len({(r["partition"], r["offset"]) for r in told}) == len(GARBAGE)
            assert all(r["topic"] == TOPICS.metrics and r["reason"] for r in told), told
            assert any("99" in r["reason"] for r in told)
            assert rheostat.status()["ready"], "signals kept flowing"
