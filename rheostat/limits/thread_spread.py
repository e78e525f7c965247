"""Orders the partitions of a placement so that few share a fetcher thread, from the settings and the partitions of a cluster."""

from __future__ import annotations

from rheostat.console.output import tell
from rheostat.fetchers.fetcher_setting import read_fetchers
from rheostat.plan.cluster_layout import ClusterLayout
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.fetchers import NUM_REPLICA_FETCHERS
from tuner.planning.fetcher_spread import Replicas, count_threads, spread_over_threads


def avoid_fetcher_collisions(
    client: ClusterClient, layout: ClusterLayout, topic: str, placement: tuple[Replicas, ...]
) -> tuple[Replicas, ...]:
    """Returns the placement in the order with the fewest fetcher collisions.

    If the number of threads of a broker is unknown, the placement stays as it is, and the operator is told why.

    Args:
        placement: replicas of the topic's new partitions, whose numbers follow the numbers of its existing partitions.
    """
    brokers = sorted({broker for replicas in placement for broker in replicas})
    fetchers = read_fetchers(client, brokers)
    if missing := [broker for broker in brokers if broker not in fetchers]:
        tell(
            f"Fetcher threads were not considered, because {NUM_REPLICA_FETCHERS} of broker {', '.join(map(str, missing))} cannot "
            "be read: check that these brokers answer, and the permission DescribeConfigs on Cluster."
        )
        return placement
    hosted = count_threads(
        ((s.topic, s.partition, s.leader, s.replicas) for s in layout.partitions.values() if s.leader >= 0), fetchers
    )
    return spread_over_threads(topic, len(layout.topics.get(topic, ())), placement, fetchers, hosted)
