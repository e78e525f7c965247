"""Learns how much controller time one topic and one partition take, from how busy the controller is.

    busy = other work + topics/s × topic cost + partitions/s × partition cost

A window is the time between two signals of the controller. After each window the module corrects the topic cost and the partition
cost by the error of this formula (normalised least mean squares). Each cost is corrected in proportion to its part of the busy
time. While all topics have the same number of partitions, the module learns the cost of a whole topic correctly, but not its
division into topic cost and partition costs.

The mutation rate is known only roughly:

- Kafka's tenant metrics are means over up to a minute, so the rate looks too high while a burst fades. Costs are not lowered then.
- The change of the partition count leaves out topics that were created and deleted within the window.

Invariant: costs stay above 0. A window in which the controller is saturated may raise the costs but never lowers them, because some
mutations of this window are still queued at its end. The ratio of other work never exceeds the measured busy ratio.
"""

from __future__ import annotations

from dataclasses import replace

from streaming.shared.contract import ControllerSignal
from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.state import ControllerWindow, LearnedCost
from tuner.core.controller_cost import KRAFT

_STEP_FACTOR_MIN = 0.05  # Lowest factor for one correction, so that one outlier does not remove a cost.
# Lowest cost, so that a series of outliers does not remove it: 1/50 of the lowest cost of any known controller.
_COST_MS_MIN = 0.001
# A burst fades if the metered rate and the change of the partition count are below these shares of the recent rate.
_METERED_RATIO_MAX = 0.8
_CHANGED_RATIO_MAX = 0.5


def initial_cost() -> LearnedCost:
    """Returns the cost before anything is learned: Kafka 4.2 on a small machine."""
    return LearnedCost(KRAFT.per_topic_ms, KRAFT.per_partition_ms)


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
        recent_per_s: sum of the tenants' rates in the controller's state, which fall slowly after a burst.
        metered_per_s: sum of the rates in Kafka's tenant metrics now.
    """
    if signal.idle_ratio is None or previous is None or previous.node != signal.node:
        return cost
    since_s = (signal.sampled_at_ms - previous.sampled_at_ms) / 1000
    changed_per_s = _change_per_s(signal.partitions, previous.partitions, since_s)
    partitions_per_s = max(recent_per_s, changed_per_s)
    # If as many topics are deleted as created, the number of topics does not change. The average number of partitions per topic
    # then gives the rate of topics.
    changed_topics_per_s = _change_per_s(signal.topics, previous.topics, since_s)
    topics_per_s = max(changed_topics_per_s, recent_per_s / cost.partitions_per_topic)
    burst_fades = (
        metered_per_s < _METERED_RATIO_MAX * recent_per_s and changed_per_s < _CHANGED_RATIO_MAX * recent_per_s
    )
    busy_ratio = min(1.0, max(0.0, 1 - signal.idle_ratio))
    # ``recent_per_s`` falls slowly. If neither current measurement shows mutations, this window has none.
    if max(metered_per_s, changed_per_s) < limits.rate_per_s_learnable:
        topics_per_s, partitions_per_s = 0.0, 0.0
    return update_cost(cost, busy_ratio, topics_per_s, partitions_per_s, limits, burst_fades=burst_fades)


def _change_per_s(count: float | None, previous_count: float | None, since_s: float) -> float:
    """Returns the change of a count per second, without its sign; 0 if it is not known."""
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
        partitions_per_s: partitions created or deleted, including the partitions of these topics.
        burst_fades: the true rates may be lower than the given ones, so the costs are not lowered.
    """
    other = cost.other_busy_ratio + limits.learn_gain * (busy_ratio - cost.other_busy_ratio)
    if partitions_per_s < limits.rate_per_s_learnable:
        # A saturated controller still works on mutations of an earlier window, so its busy time is not all other work.
        return cost if busy_ratio > limits.learn_busy_max else replace(cost, other_busy_ratio=other)
    topic_part, partition_part = topics_per_s * cost.topic_ms / 1000, partitions_per_s * cost.partition_ms / 1000
    error = busy_ratio - cost.other_busy_ratio - topic_part - partition_part
    if busy_ratio < cost.other_busy_ratio:
        # The learned ratio of other work is too high by an unknown amount. The mutations took at most the whole busy time. So this
        # window may lower the costs (if they give more than the busy time), but not raise them.
        cost = replace(cost, other_busy_ratio=other)
        error = min(0.0, busy_ratio - topic_part - partition_part)
    known_size = cost.partitions_per_topic
    size = partitions_per_s / topics_per_s if topics_per_s > 0 else known_size
    # Small topics cost more per partition. To be safe, ``partitions_per_topic`` falls at once but rises slowly. The first window
    # replaces the start value.
    gain = limits.learn_gain if size > known_size and cost.steps > 0 else 1.0
    cost = replace(cost, partitions_per_topic=max(1.0, known_size + gain * (size - known_size)))
    if error < 0 and (burst_fades or busy_ratio > limits.learn_busy_max):
        return cost
    scale = limits.learn_gain * error / (topic_part**2 + partition_part**2)
    return replace(
        cost,
        topic_ms=max(_COST_MS_MIN, cost.topic_ms * max(_STEP_FACTOR_MIN, 1 + scale * topic_part)),
        partition_ms=max(_COST_MS_MIN, cost.partition_ms * max(_STEP_FACTOR_MIN, 1 + scale * partition_part)),
        steps=cost.steps + 1,
    )
