"""A throttled move with shipped defaults: no objective and no capacity in the settings. The tuner speeds it up within a minute.

It is a campaign test: beside other tests the clients wait because of those, and the tuner then keeps the rate low.
"""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

import pytest
from lab_parts import rheostat as program
from story_kit import Running, make_topic, moving, running

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from streaming.shared.contract import STEP_S, BrokerProfile, Side, Topics, encode_profile, profile_key
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics
from tuner.core.cluster import LiveCluster
from tuner.runtime.observe.cluster_reader import ClusterReader

THROTTLE = 4_000_000


def brokers(rheostat: Running) -> dict[int, dict[str, Any]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{rheostat.port}/api/v1/brokers", timeout=5) as answer:
        return {row["broker"]: row for row in json.loads(answer.read())["brokers"]}


def leader_rate(client: ClusterClient) -> int:
    live = ClusterReader(client).snapshot(full=False)
    assert isinstance(live, LiveCluster), live
    setting = live.rates.get((1, Side.LEADER))
    return setting.bytes_per_s if setting is not None else 0


def publish_profile(lab: Lab, client: ClusterClient) -> None:
    """Writes what `rheostat learn` would: a p99 without copies of 40 ms in each hour, for broker 1."""
    topics, now_ms = Topics.with_prefix("rheostat"), round(time.time() * 1000)
    ensure_topics(client, topics, [topics.profiles])
    start_ms = now_ms - now_ms % (STEP_S * 1000)
    profile = BrokerProfile("lab", 1, now_ms, start_ms, 86_400.0, quiet_p99_ms=(40.0,) * 24)
    sent = producer(lab.kafka_settings(), "test-profile")
    sent.send(topics.profiles, key=profile_key(profile), value=encode_profile(profile))
    sent.flush(timeout=10)
    sent.close(timeout=5)


def latency_limit(rheostat: Running, broker: int) -> dict[str, Any]:
    return brokers(rheostat).get(broker, {}).get("latency_limit") or {}


@pytest.mark.campaign
def test_throttled_move_is_sped_up_without_an_objective_or_a_capacity_in_the_settings() -> None:
    with Lab(LabSpec(brokers=3)) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, "orders", {p: [1, 2] for p in range(4)}, 600)
        with (
            ProducerLoad(lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=500_000, record_bytes=10_000),
            running(lab, objective="auto", rate_bytes_per_s_max=60_000_000) as rheostat,
        ):
            rheostat.until("rheostat is ready", lambda: (s := rheostat.status()) and s["ready"], 90)
            publish_profile(lab, client)
            learned = rheostat.until(
                "the profile is read", lambda: (found := latency_limit(rheostat, 1)).get("baseline_ms") and found, 30
            )
            if learned["source"] == "history":  # On a fast machine the tuner has measured the broker already.
                assert learned["p99_ms_max"] == 60.0
            target = {("orders", p): [1, 3] for p in range(4)}
            reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(THROTTLE))
            began_s = time.monotonic()
            rheostat.until("the law has it", lambda: rheostat.decided("follows_clients"), 45)
            rheostat.until("it is sped up", lambda: leader_rate(client) > 1.5 * THROTTLE, 60)
            assert moving(client)
            source = rheostat.until(
                "the status says what it knows", lambda: (b := brokers(rheostat)[1])["link_limit"] and b, 20
            )
            assert source["link_limit"]["source"] == "learned"
            # By now the tuner may have seen 20 s without copies before the move; else it has the profile.
            assert source["latency_limit"]["source"] in ("baseline", "history")
            limit_ms, baseline_ms = source["latency_limit"]["p99_ms_max"], source["latency_limit"]["baseline_ms"]
            assert limit_ms == pytest.approx(max(1.5 * baseline_ms, baseline_ms + 5.0), rel=0.02)
            shown = program("status", "--config", rheostat.config)
            assert f"{limit_ms:.3g}" in shown.stdout, shown.stdout
            rheostat.until("the move ends", lambda: not moving(client), 150)
            took_s = time.monotonic() - began_s
            # Each of the two throttles would let 600 MB through: the leader's on broker 1, and the follower's on broker 3.
            assert took_s <= 0.5 * 600e6 / THROTTLE, f"{took_s:.0f} s"
            rheostat.until("nothing is left", lambda: not leader_rate(client), 60)
