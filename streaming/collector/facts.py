"""Turns answers of the Admin API about moving and recovering replicas into samples of the nodes concerned. Pure.

Samples about the source of a move go into the record of the leader's broker, samples about its destination into the record of the
adding replica's broker. So the stream never has to join two records.

Invariant: an unknown size yields no sample, never 0. A leader's size of 0 would mean that nothing is left to copy; a size of 0
of the adding replica would mean that everything is left to copy.

A replica *copies* if a reassignment adds it, or if it was in sync before and recovers. A recovering replica of unknown size is
ignored: its broker may be going down, and the moves of the same leader must stay measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streaming.collector.lags import LeaderLog
from streaming.shared.contract import Metric, Sample, TopicPartition, partition_labels
from streaming.shared.kafka.cluster import PartitionState
from streaming.shared.throttle_settings import TopicThrottle


@dataclass(frozen=True, slots=True)
class AdminAnswers:
    """The answers of one round. A broker that did not answer is absent from ``sizes``."""

    tracked: Sequence[PartitionState] = ()  # Partitions that move, recover, or are listed in a throttle.
    throttles: Mapping[str, TopicThrottle] = field(default_factory=dict)
    # The size of a follower of a tiered partition also counts the bytes that the follower does not have to copy (copied_bytes.py).
    sizes: Mapping[int, Mapping[TopicPartition, int]] = field(default_factory=dict)
    rates: Mapping[int, Mapping[str, float]] = field(default_factory=dict)  # broker → sample name → bytes/s
    leader_logs: Mapping[TopicPartition, LeaderLog] = field(default_factory=dict)  # Only of lagging partitions.
    awaiting_remote: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)  # CopiedSizes.waiting


def samples_by_node(answers: AdminAnswers) -> dict[int, list[Sample]]:
    """Returns the samples of each broker: sizes and throttle membership of tracked partitions, and its rates."""
    samples: dict[int, list[Sample]] = {}
    for state in answers.tracked:
        _add_leader_samples(state, answers, samples)
        for broker in state.replicas:
            if broker != state.leader:
                _add_follower_samples(state, broker, answers, samples)
    for broker, rates in answers.rates.items():
        samples.setdefault(broker, []).extend(Sample(name, "", rate) for name, rate in rates.items())
    return samples


def followed_by_node(answers: AdminAnswers) -> dict[int, list[TopicPartition]]:
    """Returns the tracked partitions that each broker follows."""
    followed: dict[int, list[TopicPartition]] = {}
    for state in answers.tracked:
        for broker in state.replicas:
            if broker != state.leader:
                followed.setdefault(broker, []).append((state.topic, state.partition))
    return followed


def adding_by_node(answers: AdminAnswers) -> dict[int, set[TopicPartition]]:
    """Returns, for each broker, the partitions of which a reassignment adds a replica on that broker."""
    adding: dict[int, set[TopicPartition]] = {}
    for state in answers.tracked:
        for broker in state.adding:
            adding.setdefault(broker, set()).add((state.topic, state.partition))
    return adding


def _add_leader_samples(state: PartitionState, answers: AdminAnswers, samples: dict[int, list[Sample]]) -> None:
    key = (state.topic, state.partition)
    sizes = answers.sizes.get(state.leader)
    if sizes is None or key not in sizes:
        return
    labels = partition_labels(*key)
    throttle = answers.throttles.get(state.topic, TopicThrottle())
    recovering = _measured_recovering(state, answers)
    # Fetches of every follower of a listed partition, in sync or not, count against the leader's quota (KIP-73). So BytesInPerSec
    # alone would underestimate the quota's use.
    followers = {*state.isr, *state.adding, *recovering} - {state.leader}
    counted = len(followers) if throttle.leader.includes(state.partition, state.leader) else 0
    leader_samples = samples.setdefault(state.leader, [])
    leader_samples += [Sample(Metric.LED_SIZE, labels, sizes[key]), Sample(Metric.LED_COUNTED, labels, counted)]
    adding = [broker for broker in state.adding if broker != state.leader]
    copying = [*adding, *recovering]
    if copying and all(broker in answers.sizes for broker in copying):
        # After an unclean election, a follower's log may be longer than its leader's log. Such a follower lacks nothing.
        remaining = sum(max(0, sizes[key] - answers.sizes[broker].get(key, 0)) for broker in copying)
        leader_samples.append(Sample(Metric.LED_REMAINING, labels, remaining))
        if not adding:
            leader_samples.append(Sample(Metric.LED_RECOVERING, labels, 1.0))


def _add_follower_samples(
    state: PartitionState, broker: int, answers: AdminAnswers, samples: dict[int, list[Sample]]
) -> None:
    key = (state.topic, state.partition)
    follower_sizes, leader_sizes = answers.sizes.get(broker), answers.sizes.get(state.leader)
    if follower_sizes is None or leader_sizes is None or key not in leader_sizes:
        return
    labels = partition_labels(*key)
    throttle = answers.throttles.get(state.topic, TopicThrottle())
    samples.setdefault(broker, []).extend(
        [
            # A replica that was just added has no log yet: its size is 0, not unknown.
            Sample(Metric.FOLLOWED_SIZE, labels, follower_sizes.get(key, 0)),
            Sample(Metric.FOLLOWED_LEADER_SIZE, labels, leader_sizes[key]),
            Sample(Metric.FOLLOWED_COUNTED, labels, float(throttle.follower.includes(state.partition, broker))),
            Sample(Metric.FOLLOWED_ADDING, labels, _copying_value(state, broker)),
        ]
    )
    if broker in answers.awaiting_remote.get(key, ()):
        samples[broker].append(Sample(Metric.FOLLOWED_AWAITS_REMOTE, labels, 1.0))


def _measured_recovering(state: PartitionState, answers: AdminAnswers) -> list[int]:
    return [broker for broker in state.recovering if broker in answers.sizes]


def _copying_value(state: PartitionState, broker: int) -> float:
    if broker in state.adding:
        return 1.0
    return 2.0 if broker in state.recovering else 0.0
