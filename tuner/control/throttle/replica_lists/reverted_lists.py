"""Recognises throttled-replica lists that another tool removes while the rates stay.

Strimzi's Topic Operator does so: it removes topic settings that are not in the KafkaTopic resource, at each reconciliation. In
contrast, ``kafka-reassign-partitions --verify`` also removes the rates (``ownership.py``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from streaming.shared.contract import Side
from streaming.shared.short_lists import join_names
from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.decision import Hold, Reason
from tuner.control.throttle.state import Memory
from tuner.core.cluster import BrokerSide, LiveCluster


def report_reverted_lists(
    live: LiveCluster, memory: Memory, cleared: Collection[BrokerSide]
) -> tuple[Memory, list[Hold]]:
    """Returns the state with the topics whose lists have managed entries now, and a hold that names the topics that lost them.

    Args:
        cleared: sides whose rate was cleared as well. Then the tool that ends a move has removed the lists.
    """
    before = memory.listed_topics
    after = frozenset(topic for topic, managed in memory.listed.items() if _has_entry(live.lists.get(topic), managed))
    if after != before:
        memory = replace(memory, listed_topics=after)
    if cleared or before <= after or not any(side in live.rates for side in memory.owned):
        return memory, []
    moving = {move.topic for move in live.moves}
    reverted = sorted(t for t in before - after if t in memory.listed and t in moving and t not in live.lists)
    if not reverted:
        return memory, []
    text = (
        f"topic {join_names(reverted, 3)}: another tool removed the throttled-replica lists and left the rates, as Strimzi's Topic "
        "Operator does at each reconciliation; the tuner writes the lists again. To end this, enable spec.cruiseControl in the "
        'Kafka resource, or annotate the KafkaTopic with strimzi.io/managed: "false" during the move'
    )
    return memory, [Hold(None, None, Reason.CLEARED_BY_TOOL, text)]


def _has_entry(current: TopicThrottle | None, managed: TopicThrottle) -> bool:
    if current is None:
        return False
    return any(not current.for_side(side).pairs.isdisjoint(managed.for_side(side).pairs) for side in Side)
