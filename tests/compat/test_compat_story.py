"""One story with each version of Kafka: a move that stalls under its throttle is found, rescued and cleaned up."""

from __future__ import annotations

import pytest
from lab_parts import rheostat as command
from story_kit import make_topic, moving, running

from rheostat.lab.cluster import Lab
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.cluster import LiveCluster
from tuner.runtime.observe.cluster_reader import ClusterReader

# The leader's throttle carries each write twice: to the follower in sync, and to the new one.
THROTTLE_BYTES_PER_S = 1_500_000
WRITES_BYTES_PER_S = 1_000_000
# Also on a busy machine, where Spark needs minutes to start.
SETTLED_S_MAX = 900


@pytest.mark.campaign
@pytest.mark.timeout(3000)
def test_stalled_move_is_rescued_and_nothing_is_left(cluster: Lab) -> None:
    topic = "stalled"
    make_topic(cluster, topic, {p: [1, 2] for p in range(4)}, 120)
    with (
        ClusterClient(cluster.kafka_settings(), "compat") as client,
        ProducerLoad(
            cluster.artifacts,
            cluster.bootstrap_servers,
            topic,
            rate_bytes_per_s=WRITES_BYTES_PER_S,
            record_bytes=10_000,
        ),
        running(cluster) as rheostat,
    ):

        def is_ready() -> bool:
            status = rheostat.status()
            return bool(status and status["ready"])

        rheostat.until("signals are fresh", is_ready, SETTLED_S_MAX)
        target = {(topic, p): [1, 3] for p in range(4)}
        reassign_partitions(
            cluster.node_artifacts,
            cluster.bootstrap_servers,
            target,
            "--execute",
            "--throttle",
            str(THROTTLE_BYTES_PER_S),
        )
        rheostat.until("the stall is found", lambda: rheostat.decided("stalled_below_steady_state"), SETTLED_S_MAX)
        rheostat.until("the move ends", lambda: not moving(client), SETTLED_S_MAX)

        def nothing_is_left() -> bool:
            live = ClusterReader(client).snapshot(full=True)
            return isinstance(live, LiveCluster) and not live.rates and not live.lists

        rheostat.until("no throttle is left", nothing_is_left, 60)
    assert command("throttles", "--config", rheostat.config).returncode == 0
