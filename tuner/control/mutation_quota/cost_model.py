"""What does a topic, and what does a partition cost the controller? Learned from how busy it is.

Intuition: a craftsman's bill. So many hours were worked, and so many pieces of two kinds were made: after some bills one knows
what a piece of each kind takes. As long as both kinds always come in the same proportion nobody can tell them apart, and it does
not matter: the bill for that proportion is right all the same.

    busy = other + topics/s × topic cost + partitions/s × partition cost

Each window moves both costs towards what explains it, in proportion to what each was in the bill (normalised least mean squares).

How much came is known within bounds only: the books are means of up to a minute, and what there is more of says nothing of what
was made and deleted again. While a storm fades nobody can say, and nothing is found to be cheaper than it was thought to be.

Invariant: costs stay above 0. A window in which the controller was busy all the time may raise them and never lowers them: what it
could not do in that window is not on its bill. It is never thought to be busy with other things for longer than it is at all.
"""

from __future__ import annotations

from dataclasses import replace

from streaming.shared.contract import ControllerSignal
from tuner.control.mutation_quota.model import MutationLimits
from tuner.control.mutation_quota.state import ControllerWindow, LearnedCost

_LEAST = 0.05  # Of what it was before the step: one odd window does not make anything free.
_MS_LEAST = 0.001  # Nor do a thousand of them: a fiftieth of what any controller was seen to take.
_STEADY_RATIO = 0.8  # Less than this of what was done lately, and it is fading.
_SEEN_RATIO = 0.5  # So much of what was done lately is there more or less of: then it comes.


def initial_cost(limits: MutationLimits) -> LearnedCost:
    return LearnedCost(limits.topic_ms_start, limits.partition_ms_start)


def learn_from_window(
    cost: LearnedCost,
    signal: ControllerSignal,
    before: ControllerWindow | None,
    done_per_s: float,
    books_per_s: float,
    limits: MutationLimits,
) -> LearnedCost:
    """From how busy it was, and what there is more or less of, or what the books say: Kafka counts no mutations of all tenants.

    Args:
        done_per_s: what all did lately, slowly forgotten.
        books_per_s: what Kafka's books say now.
    """
    if signal.idle_ratio is None or before is None or before.node != signal.node:
        return cost
    changed = _change_per_s(signal.partitions, before.partitions, signal, before)
    partitions = max(done_per_s, changed)
    topics = _change_per_s(signal.topics, before.topics, signal, before)
    # As many are deleted as created: then they are such topics as there are on average.
    topics = max(topics, done_per_s / cost.partitions_per_topic)
    fades = books_per_s < _STEADY_RATIO * done_per_s and changed < _SEEN_RATIO * done_per_s
    busy = min(1.0, max(0.0, 1 - signal.idle_ratio))
    # What is only remembered did not come in this window.
    if max(books_per_s, changed) < limits.learn_rate_per_s_min:
        topics, partitions = 0.0, 0.0
    return update_cost(cost, busy, topics, partitions, limits, fades=fades)


def _change_per_s(now: float | None, was: float | None, signal: ControllerSignal, before: ControllerWindow) -> float:
    since_s = (signal.sampled_at_ms - before.sampled_at_ms) / 1000
    return abs(now - was) / since_s if now is not None and was is not None and since_s > 0 else 0.0


def update_cost(
    cost: LearnedCost,
    busy_ratio: float,
    topics_per_s: float,
    partitions_per_s: float,
    limits: MutationLimits,
    *,
    fades: bool = False,
) -> LearnedCost:
    """The costs after one more window.

    Args:
        busy_ratio: of the controller's time, 0 to 1.
        topics_per_s: created or deleted.
        partitions_per_s: created or deleted, those of these topics included.
        fades: it may well have been less than that.
    """
    other = cost.other_busy_ratio + limits.learn_gain * (busy_ratio - cost.other_busy_ratio)
    if partitions_per_s < limits.learn_rate_per_s_min:
        # What it works on while it is busy all the time came before this window.
        return cost if busy_ratio > limits.learn_busy_max else replace(cost, other_busy_ratio=other)
    by_topics, by_partitions = topics_per_s * cost.topic_ms / 1000, partitions_per_s * cost.partition_ms / 1000
    miss = busy_ratio - cost.other_busy_ratio - by_topics - by_partitions
    if busy_ratio < cost.other_busy_ratio:
        # How much less of it was other work nobody knows; only that what came took no more than all there was.
        cost, miss = replace(cost, other_busy_ratio=other), min(0.0, busy_ratio - by_topics - by_partitions)
    mix = partitions_per_s / topics_per_s if topics_per_s > 0 else cost.partitions_per_topic
    # Careful: many small topics cost more than few large ones, so fewer a topic is believed at once.
    gain = limits.learn_gain if mix > cost.partitions_per_topic and cost.steps > 0 else 1.0
    cost = replace(
        cost, partitions_per_topic=max(1.0, cost.partitions_per_topic + gain * (mix - cost.partitions_per_topic))
    )
    if miss < 0 and (fades or busy_ratio > limits.learn_busy_max):
        return cost
    scale = limits.learn_gain * miss / (by_topics**2 + by_partitions**2)
    return replace(
        cost,
        topic_ms=max(_MS_LEAST, cost.topic_ms * max(_LEAST, 1 + scale * by_topics)),
        partition_ms=max(_MS_LEAST, cost.partition_ms * max(_LEAST, 1 + scale * by_partitions)),
        steps=cost.steps + 1,
    )
