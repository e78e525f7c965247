"""What does a topic, and what does a partition cost the controller? Learned from how busy it is.

Intuition: a craftsman's bill. So many hours were worked, and so many pieces of two kinds were made: after some bills one knows
what a piece of each kind takes. As long as both kinds always come in the same proportion nobody can tell them apart, and it does
not matter: the bill for that proportion is right all the same.

    busy = other + topics/s × topic cost + partitions/s × partition cost

Each window moves both costs towards what explains it, in proportion to what each was in the bill (normalised least mean squares).

Invariant: costs stay above 0. A window in which the controller was busy all the time may raise them and never lowers them: what it
could not do in that window is not on its bill.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.model.mutation import MutationLimits
from tuner.model.mutation_memory import LearnedCost

_LEAST = 0.05  # Of what it was before the step: one odd window does not make anything free.


def at_start(limits: MutationLimits) -> LearnedCost:
    return LearnedCost(limits.topic_ms_start, limits.partition_ms_start)


def learned(
    cost: LearnedCost, busy_ratio: float, topics_per_s: float, partitions_per_s: float, limits: MutationLimits
) -> LearnedCost:
    """The costs after one more window.

    Args:
        busy_ratio: of the controller's time, 0 to 1.
        topics_per_s: created or deleted.
        partitions_per_s: created or deleted, those of these topics included.
    """
    if partitions_per_s < limits.learn_rate_per_s_min:
        if busy_ratio > limits.learn_busy_max:
            return cost  # What it works on came before this window.
        other = cost.other_ratio + limits.learn_gain * (busy_ratio - cost.other_ratio)
        return replace(cost, other_ratio=other)
    by_topics, by_partitions = topics_per_s * cost.topic_ms / 1000, partitions_per_s * cost.partition_ms / 1000
    miss = busy_ratio - cost.other_ratio - by_topics - by_partitions
    mix = partitions_per_s / topics_per_s if topics_per_s > 0 else cost.partitions_per_topic
    # Careful: many small topics cost more than few large ones, so fewer a topic is believed at once.
    gain = limits.learn_gain if mix > cost.partitions_per_topic and cost.steps > 0 else 1.0
    cost = replace(
        cost, partitions_per_topic=max(1.0, cost.partitions_per_topic + gain * (mix - cost.partitions_per_topic))
    )
    if miss < 0 and busy_ratio > limits.learn_busy_max:
        return cost
    scale = limits.learn_gain * miss / (by_topics**2 + by_partitions**2)
    return replace(
        cost,
        topic_ms=cost.topic_ms * max(_LEAST, 1 + scale * by_topics),
        partition_ms=cost.partition_ms * max(_LEAST, 1 + scale * by_partitions),
        steps=cost.steps + 1,
    )
