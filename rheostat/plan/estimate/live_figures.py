"""Reads the figures of `rheostat plan estimate` from the live cluster: assignments, log sizes and write rates. Changes nothing.

A partition's write rate is the growth of its leader's log between two reads of the log sizes. BytesInPerSec of the brokers comes
from the newest signals, if all of them are fresh.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from rheostat.broker_signals import read_broker_signals
from rheostat.config.settings import Settings
from rheostat.console.countdown import count_down
from rheostat.errors import BadInputError, CommandError, UnreachableError
from rheostat.plan.blocked_copies import blocked_copy_texts
from rheostat.plan.estimate.sources import (
    EstimateFigures,
    EstimateInputs,
    apply_overrides,
    check_leaders,
    check_targets_exist,
    plan_notes,
)
from rheostat.plan.write_rates import WATCHING, estimate_write_rates
from rheostat.run.services import probe
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, PartitionState, Unreachable
from streaming.shared.kafka.tiered import copies_that_cannot_begin, tiered_topics, with_copied_bytes
from streaming.shared.kafka_names import (
    QUOTA_SAMPLE_S,
    QUOTA_SAMPLE_S_DEFAULT,
    QUOTA_SAMPLES,
    QUOTA_SAMPLES_DEFAULT,
)
from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text
from tuner.control.throttle.quota_window.ramp import WINDOW_S
from tuner.core.freshness import Freshness, freshness
from tuner.core.reassignment_plan import TopicPartition
from tuner.core.side_load import PlannedPartition
from tuner.planning.kip73 import RESPONSE_BYTES_MAX, kip73_figures
from tuner.planning.plan_file import PlanFile, Target

_RESPONSE_BYTES = "replica.fetch.response.max.bytes"

Sizes = Mapping[int, Mapping[TopicPartition, int]]  # Bytes by broker and partition.


@dataclass(frozen=True, slots=True)
class _LogSizes:
    """The log sizes of all brokers at one time."""

    at_s: float
    by_broker: Sizes

    def of_leader(self, state: PartitionState) -> int:
        return self.by_broker.get(state.leader, {}).get((state.topic, state.partition), 0)


def from_cluster(
    settings: Settings, plan: PlanFile | None, inputs: EstimateInputs, measure_s: float, notify: Callable[[str], None]
) -> EstimateFigures:
    """Returns the figures of the live cluster.

    Args:
        plan: the plan; None means the reassignments in progress.
        measure_s: time between the two reads of the log sizes; 0 means that the write rates come from the signals. Ignored if
            ``inputs`` has a rate.
        notify: shows a line to the operator.

    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: a right is missing, a partition has no leader, or nothing is moving.
        BadInputError: the plan does not fit the cluster.
    """
    if inputs.size_bytes is not None:
        raise BadInputError(
            "--size: the live cluster reports the sizes of its partitions: leave --size out. To estimate without a cluster, give "
            "--current FILE"
        )
    probe(settings)
    with ClusterClient(settings.kafka, "rheostat-plan") as client:
        try:
            return _read(client, settings, plan, inputs, measure_s, notify)
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(f"The cluster cannot be read: {error}.") from error


def _read(
    client: ClusterClient,
    settings: Settings,
    plan: PlanFile | None,
    inputs: EstimateInputs,
    measure_s: float,
    notify: Callable[[str], None],
) -> EstimateFigures:
    brokers = sorted(e.node for e in client.brokers())
    moving = {(s.topic, s.partition): s for s in client.reassignments()}
    states = {(s.topic, s.partition): s for s in client.partitions()} | moving
    targets = _targets_in_progress(moving) if plan is None else plan.targets
    if plan is not None:
        check_targets_exist(plan, brokers, states)
    check_leaders({(t.topic, t.partition): states[(t.topic, t.partition)].leader for t in targets})

    notes = plan_notes(targets)
    sizes = _read_log_sizes(client, brokers, states)
    bytes_in = _read_bytes_in(client, settings, brokers)
    rates: Mapping[TopicPartition, float]  # Bytes/s by partition.
    if inputs.write_bytes_per_s is not None:
        # The rate of --write-rate applies only to the partitions of the plan; measured rates are known for all partitions.
        rates = dict.fromkeys(((t.topic, t.partition) for t in targets), inputs.write_bytes_per_s)
    elif measure_s == 0:
        leaders = {key: state.leader for key, state in states.items()}
        size_bytes = {key: float(sizes.of_leader(state)) for key, state in states.items()}
        rates = estimate_write_rates(read_broker_signals(client, settings), brokers, leaders, size_bytes, notify)
    else:
        first = sizes
        count_down(measure_s, f"{WATCHING} (--write-rate gives the rate instead)", notify)
        sizes = _read_log_sizes(client, brokers, states)
        growth = {key: sizes.of_leader(state) - first.of_leader(state) for key, state in states.items()}
        watched_s = max(sizes.at_s - first.at_s, 1e-3)
        rates = {key: max(0, grown_bytes) / watched_s for key, grown_bytes in growth.items()}
        notes += _shrunk_log_note(growth, targets)

    tiered = tiered_topics(client, {t.topic for t in targets})
    copied = _copied_sizes(client, sizes, states, targets, tiered)
    notes += _blocked_copy_notes(client, brokers, states, [t for t in targets if t.topic in tiered])
    planned = tuple(
        _plan_partition(states[(t.topic, t.partition)], t, copied, rates[(t.topic, t.partition)]) for t in targets
    )
    if plan is not None:
        notes += _growth_note(planned)
    if bytes_in is None:
        bytes_in = [sum(rate for key, rate in rates.items() if states[key].leader == broker) for broker in brokers]
    kip = kip73_figures(
        partitions_to_move=sum(bool(partition.lacking_bytes) for partition in planned),
        partitions=max(1, len(states)),
        log_bytes=[sum(sizes.by_broker[broker].values()) for broker in brokers],
        bytes_in_per_s=bytes_in,
    )
    response_bytes_max, window_s = _read_quota_settings(client, brokers)
    figures = EstimateFigures(
        source=f"the live cluster at {settings.kafka.bootstrap_servers}",
        kip73=kip,
        partitions=planned,
        response_bytes_max=response_bytes_max,
        window_s=window_s,
        notes=notes,
    )
    return apply_overrides(figures, inputs)


def _targets_in_progress(moving: Mapping[TopicPartition, PartitionState]) -> tuple[Target, ...]:
    """Returns the targets of the reassignments in progress; raises CommandError if there are none."""
    if not moving:
        raise CommandError("Nothing is moving: name a plan file for kafka-reassign-partitions.")
    return tuple(
        Target(s.topic, s.partition, tuple(b for b in s.replicas if b not in s.removing)) for s in moving.values()
    )


def _read_log_sizes(
    client: ClusterClient, brokers: Sequence[int], partitions: Mapping[TopicPartition, PartitionState]
) -> _LogSizes:
    sizes: dict[int, Mapping[TopicPartition, int]] = {}
    for broker, answer in client.log_sizes(brokers, partitions).items():
        if isinstance(answer, ClusterError):
            raise answer
        sizes[broker] = answer
    return _LogSizes(time.monotonic(), sizes)


def _copied_sizes(
    client: ClusterClient,
    sizes: _LogSizes,
    states: Mapping[TopicPartition, PartitionState],
    targets: Sequence[Target],
    tiered: Collection[str],
) -> _LogSizes:
    """Returns the sizes. A follower of a tiered partition of the plan also counts the bytes that it does not have to copy."""
    moved = [(states[(t.topic, t.partition)], t) for t in targets]
    planned = [replace(s, replicas=tuple(dict.fromkeys((*s.replicas, *t.replicas)))) for s, t in moved]
    copied = with_copied_bytes(client, sizes.by_broker, planned, tiered)
    known = {b: answer for b, answer in copied.by_broker.items() if not isinstance(answer, ClusterError)}
    return _LogSizes(sizes.at_s, {**sizes.by_broker, **known})


def _blocked_copy_notes(
    client: ClusterClient,
    brokers: Sequence[int],
    states: Mapping[TopicPartition, PartitionState],
    targets: Sequence[Target],
) -> tuple[str, ...]:
    """Returns a note about tiered partitions whose copy cannot begin, as in a rolling upgrade.

    Args:
        targets: the targets of partitions of tiered topics.
    """
    leaders = {(t.topic, t.partition): states[(t.topic, t.partition)].leader for t in targets}
    blocked = copies_that_cannot_begin(client, brokers, leaders)
    added = {(t.topic, t.partition): {*t.replicas} - {*states[(t.topic, t.partition)].replicas} for t in targets}
    return tuple(f"{text}." for text in blocked_copy_texts(blocked, added, leaders))


def _plan_partition(
    state: PartitionState, target: Target, sizes: _LogSizes, write_bytes_per_s: float
) -> PlannedPartition:
    # A replica that a reassignment in progress is adding already has a part of the log, so only the rest is to be copied.
    complete = set(state.replicas) - set(state.adding)
    key, size_bytes = (state.topic, state.partition), sizes.of_leader(state)
    copied_bytes = {b: sizes.by_broker.get(b, {}).get(key, 0) for b in target.replicas if b not in complete}
    return PlannedPartition(
        state.topic,
        state.partition,
        leader=state.leader,
        isr=frozenset(state.isr),
        write_bytes_per_s=write_bytes_per_s,
        lacking_bytes={broker: max(0, size_bytes - copied) for broker, copied in copied_bytes.items()},
    )


def _growth_note(planned: Sequence[PlannedPartition]) -> tuple[str, ...]:
    """Returns a note that the move has more to copy if it starts later; nothing if no client writes to the partitions."""
    growth_bytes_per_s = sum(p.write_bytes_per_s for p in planned if p.lacking_bytes)
    if not growth_bytes_per_s:
        return ()
    return (
        f"Clients write {rate_text(growth_bytes_per_s)} to the moving partitions, so until the move starts, the data to copy "
        "grows. Near the lowest rate that ends the move, each second of delay costs several seconds. Repeat the estimate "
        "once the move is in progress.",
    )


def _shrunk_log_note(growth: Mapping[TopicPartition, int], targets: Sequence[Target]) -> tuple[str, ...]:
    names = sorted(f"{t.topic}-{t.partition}" for t in targets if growth[(t.topic, t.partition)] < 0)
    if not names:
        return ()
    return (
        f"The log of {join_names(names, 1)} shrank while it was watched (retention, compaction), so its write rate counts as 0: "
        "repeat the estimate, or give --write-rate.",
    )


def _read_bytes_in(client: ClusterClient, settings: Settings, brokers: Sequence[int]) -> list[float] | None:
    """Returns BytesInPerSec of every broker from the newest signals; None unless every broker has a fresh signal with that rate."""
    signals = read_broker_signals(client, settings)
    now_ms = round(time.time() * 1000)
    rates = []
    for broker in brokers:
        signal = signals.get(broker)
        if signal is None or signal.client_in_bytes_per_s is None:
            return None
        if freshness(signal, now_ms, settings.tuner.signal_age_s_max) is not Freshness.FRESH:
            return None
        rates.append(signal.client_in_bytes_per_s)
    return rates


def _read_quota_settings(client: ClusterClient, brokers: Sequence[int]) -> tuple[float, float]:
    """Returns the largest fetch response (bytes) and the shortest quota window (seconds) of any broker."""
    responses, windows = [], []
    for answer in client.broker_configs(brokers, [_RESPONSE_BYTES, QUOTA_SAMPLES, QUOTA_SAMPLE_S]).values():
        if isinstance(answer, ClusterError):
            raise answer
        values = {key: float(config.value) for key, config in answer.items()}
        responses.append(values.get(_RESPONSE_BYTES, float(RESPONSE_BYTES_MAX)))
        samples = values.get(QUOTA_SAMPLES, QUOTA_SAMPLES_DEFAULT)
        windows.append(samples * values.get(QUOTA_SAMPLE_S, QUOTA_SAMPLE_S_DEFAULT))
    return max(responses, default=float(RESPONSE_BYTES_MAX)), min(windows, default=WINDOW_S)
