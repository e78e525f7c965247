"""What the Admin API says about replica movement, as samples of the nodes it concerns. Pure.

Intuition: the source side of a move is a fact about the leader's broker, the destination side about the adding
replica's broker, so each goes into that broker's record, and downstream never has to join two records.

Invariant: a size that is not known produces no sample. It never becomes 0, which would read as "all is still to copy"
on one side and "nothing is left" on the other. The same holds for a lag: Kafka loses half of these series when it changes
the number of its fetchers, so one that is missing says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streaming.shared.contract import Metric, Sample, partition_labels
from streaming.shared.kafka.cluster import PartitionState
from streaming.shared.throttle_settings import TopicThrottle

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class AdminAnswers:
    """One round of asking; a broker that did not answer is absent from ``sizes``."""

    tracked: Sequence[PartitionState] = ()  # Partitions that move, or are listed in a throttle.
    throttles: Mapping[str, TopicThrottle] = field(default_factory=dict)
    sizes: Mapping[int, Mapping[TopicPartition, int]] = field(default_factory=dict)
    end_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    rates: Mapping[int, Mapping[str, float]] = field(default_factory=dict)  # broker → sample name → bytes/s


def samples_by_node(answers: AdminAnswers) -> dict[int, list[Sample]]:
    found: dict[int, list[Sample]] = {}
    for state in answers.tracked:
        _led(state, answers, found)
        for broker in state.replicas:
            if broker != state.leader:
                _followed(state, broker, answers, found)
    for broker, rates in answers.rates.items():
        found.setdefault(broker, []).extend(Sample(name, "", rate) for name, rate in rates.items())
    return found


def followed_by_node(answers: AdminAnswers) -> dict[int, list[TopicPartition]]:
    """The tracked partitions that each broker follows."""
    found: dict[int, list[TopicPartition]] = {}
    for state in answers.tracked:
        for broker in state.replicas:
            if broker != state.leader:
                found.setdefault(broker, []).append((state.topic, state.partition))
    return found


def lag_samples(
    lags: Mapping[TopicPartition, float], scraped: Iterable[Sample], followed: Iterable[TopicPartition]
) -> list[Sample]:
    """A node's lags, thousands on a big broker, as their sum and those of the tracked partitions it follows.

    The sum is over the lags that are known, as KIP-73 has it: while series are missing it is less than the truth. When none
    is known there is none, unless the node says that it follows nothing.
    """
    found = [
        Sample(Metric.FOLLOWED_LAG, partition_labels(*key), lags[key]) for key in sorted(set(followed)) if key in lags
    ]
    counts = {s.name: s.value for s in scraped if s.name in (Metric.PARTITION_COUNT, Metric.LEADER_COUNT)}
    follows_nothing = len(counts) == 2 and counts[Metric.PARTITION_COUNT] == counts[Metric.LEADER_COUNT]
    if lags or follows_nothing:
        found.append(Sample(Metric.REPLICA_LAG_SUM, "", sum(lags.values())))
    return found


def _led(state: PartitionState, answers: AdminAnswers, found: dict[int, list[Sample]]) -> None:
    key = (state.topic, state.partition)
    sizes = answers.sizes.get(state.leader)
    if sizes is None or key not in sizes:
        return
    labels = partition_labels(*key)
    throttle = answers.throttles.get(state.topic, TopicThrottle())
    # Every follower of a listed partition uses the leader's quota, in-sync ones too: KIP-73's "in-sync replicas
    # traffic will still be accounted for". This is what a rule of thumb from BytesInPerSec misses.
    followers = (set(state.isr) | set(state.adding)) - {state.leader}
    counted = len(followers) if throttle.leader.includes(state.partition, state.leader) else 0
    mine = found.setdefault(state.leader, [])
    mine += [Sample(Metric.LED_SIZE, labels, sizes[key]), Sample(Metric.LED_COUNTED, labels, counted)]
    if key in answers.end_offsets:
        mine.append(Sample(Metric.LED_END_OFFSET, labels, answers.end_offsets[key]))
    adding = [broker for broker in state.adding if broker != state.leader]
    if adding and all(broker in answers.sizes for broker in adding):
        remaining = sum(max(0, sizes[key] - answers.sizes[broker].get(key, 0)) for broker in adding)
        mine.append(Sample(Metric.LED_REMAINING, labels, remaining))


def _followed(state: PartitionState, broker: int, answers: AdminAnswers, found: dict[int, list[Sample]]) -> None:
    key = (state.topic, state.partition)
    own, leaders = answers.sizes.get(broker), answers.sizes.get(state.leader)
    if own is None or leaders is None or key not in leaders:
        return
    labels = partition_labels(*key)
    throttle = answers.throttles.get(state.topic, TopicThrottle())
    found.setdefault(broker, []).extend(
        [
            # A replica that was just added has no log yet, which is a size of 0 and not an unknown one.
            Sample(Metric.FOLLOWED_SIZE, labels, own.get(key, 0)),
            Sample(Metric.FOLLOWED_LEADER_SIZE, labels, leaders[key]),
            Sample(Metric.FOLLOWED_COUNTED, labels, float(throttle.follower.includes(state.partition, broker))),
            Sample(Metric.FOLLOWED_ADDING, labels, float(broker in state.adding)),
        ]
    )
