"""Learns how much controller time one topic and one partition take, from how busy the controller is.

    busy = other work + topics/s × topic cost + partitions/s × partition cost

After each window both costs are corrected by the error of this formula, each in proportion to its part of the busy time (normalised
least mean squares). While the number of partitions per topic is constant, the two costs cannot be told apart. Their sum is still
right for that number of partitions per topic.

The arrival rate is known only roughly. Kafka's tenant metrics are means over up to a minute, so the rate looks too high while a
burst fades; costs are not lowered then. The change of the partition count does not show topics that were created and deleted again.

Invariant: costs stay above 0. A window with a saturated controller may raise them but never lowers them: part of its
mutations is still queued at its end. The ratio of other work never exceeds the measured busy ratio.
"""

from __future__ import annotations

from dataclasses import replace

from streaming.shared.contract import ControllerSignal
from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.state import ControllerWindow, LearnedCost

_STEP_FACTOR_MIN = 0.05  # Lowest factor for one correction, so that one outlier does not remove a cost.
_COST_MS_MIN = 0.001  # Lowest cost, so that many outliers do not remove it either: 1/50 of the lowest cost of any known controller.
# A burst fades if the metered rate is below the first share of the recent rate and the partition count changes by less than the
# second.
_FADING_RATIO = 0.8
_VISIBLE_RATIO = 0.5


def initial_cost(limits: MutationLimits) -> LearnedCost:
    return LearnedCost(limits.topic_ms_start, limits.partition_ms_start)


def learn_from_window(
    cost: LearnedCost,
    signal: ControllerSignal,
    previous: ControllerWindow | None,
    recent_per_s: float,
    metered_per_s: float,
    limits: MutationLimits,
) -> LearnedCost:
    """Returns the costs after one more window of the same controller; unchanged if there is nothing to compare with.

    Kafka has no counter of all mutations. The rate is the larger of the tenants' rates and the change of the partition count.

    Args:
        recent_per_s: sum of the tenants' rates, which decay slowly.
        metered_per_s: sum of the rates in Kafka's tenant metrics now.
    """
    if signal.idle_ratio is None or previous is None or previous.node != signal.node:
        return cost
    changed_per_s = _change_per_s(signal.partitions, previous.partitions, signal, previous)
    partitions_per_s = max(recent_per_s, changed_per_s)
    # If as many topics are deleted as created, their number does not change. Their rate is then estimated from the average topic
    # size.
    changed_topics_per_s = _change_per_s(signal.topics, previous.topics, signal, previous)
    topics_per_s = max(changed_topics_per_s, recent_per_s / cost.partitions_per_topic)
    fading = metered_per_s < _FADING_RATIO * recent_per_s and changed_per_s < _VISIBLE_RATIO * recent_per_s
    busy_ratio = min(1.0, max(0.0, 1 - signal.idle_ratio))
    # ``recent_per_s`` decays slowly. If no current measurement confirms it, no mutations took place in this window.
    if max(metered_per_s, changed_per_s) < limits.learn_rate_per_s_min:
        topics_per_s, partitions_per_s = 0.0, 0.0
    return update_cost(cost, busy_ratio, topics_per_s, partitions_per_s, limits, burst_fades=fading)


def _change_per_s(
    count: float | None, previous_count: float | None, signal: ControllerSignal, previous: ControllerWindow
) -> float:
    since_s = (signal.sampled_at_ms - previous.sampled_at_ms) / 1000
    if count is None or previous_count is None or since_s <= 0:
        return 0.0
    return abs(count - previous_count) / since_s


def update_cost(
    cost: LearnedCost,
    busy_ratio: float,
    topics_per_s: float,
    partitions_per_s: float,
    limits: MutationLimits,
    *,
    burst_fades: bool = False,
) -> LearnedCost:
    """Returns the costs after one more window.

    Args:
        busy_ratio: share of time in which the controller's thread is busy, 0 to 1.
        topics_per_s: topics created or deleted.
        partitions_per_s: partitions created or deleted, with those of these topics.
        burst_fades: the true rates may be lower than the given ones, so the costs are not lowered.
    """
    other = cost.other_busy_ratio + limits.learn_gain * (busy_ratio - cost.other_busy_ratio)
    if partitions_per_s < limits.learn_rate_per_s_min:
        # A saturated controller still works on mutations from an earlier window, so its time does not count as other work.
        return cost if busy_ratio > limits.learn_busy_max else replace(cost, other_busy_ratio=other)
    topic_part, partition_part = topics_per_s * cost.topic_ms / 1000, partitions_per_s * cost.partition_ms / 1000
    error = busy_ratio - cost.other_busy_ratio - topic_part - partition_part
    if busy_ratio < cost.other_busy_ratio:
        # The learned ratio of other work is too high by an unknown amount. The mutations took at most the whole busy time, so this
        # window may lower the costs but not raise them.
        cost, error = replace(cost, other_busy_ratio=other), min(0.0, busy_ratio - topic_part - partition_part)
    size = partitions_per_s / topics_per_s if topics_per_s > 0 else cost.partitions_per_topic
    # Small topics cost more per partition. To be safe, the average topic size falls at once but rises slowly.
    gain = limits.learn_gain if size > cost.partitions_per_topic and cost.steps > 0 else 1.0
    cost = replace(
        cost, partitions_per_topic=max(1.0, cost.partitions_per_topic + gain * (size - cost.partitions_per_topic))
    )
    if error < 0 and (burst_fades or busy_ratio > limits.learn_busy_max):
        return cost
    scale = limits.learn_gain * error / (topic_part**2 + partition_part**2)
    return replace(
        cost,
        topic_ms=max(_COST_MS_MIN, cost.topic_ms * max(_STEP_FACTOR_MIN, 1 + scale * topic_part)),
        partition_ms=max(_COST_MS_MIN, cost.partition_ms * max(_STEP_FACTOR_MIN, 1 + scale * partition_part)),
        steps=cost.steps + 1,
    )
