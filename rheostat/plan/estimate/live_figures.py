"""Reads the figures of `rheostat plan estimate` from the live cluster: assignments, log sizes and write rates. Changes nothing.

Intuition: a partition's write rate is how fast its leader's log grows, so two looks some seconds apart tell it for every
partition; BytesInPerSec of whole brokers is in the newest signals, where rheostat already watches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rheostat.config.settings import Settings
from rheostat.console.countdown import count_down
from rheostat.errors import BadInputError, CommandError, UnreachableError
from rheostat.plan.estimate.sources import (
    EstimateFigures,
    EstimateInputs,
    check,
    led_by_nobody,
    plan_notes,
    with_given,
)
from rheostat.plan.write_rates import WATCHING, newest_brokers, rates_from_signals
from rheostat.run.services import probe
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, PartitionState, Unreachable
from streaming.shared.short_lists import join_names
from streaming.shared.units import rate_text
from tuner.control.throttle.quota_window.ramp import WINDOW_S
from tuner.core.freshness import Freshness, freshness
from tuner.core.side_load import PlannedPartition
from tuner.planning.kip73 import RESPONSE_BYTES_MAX, kip73_figures
from tuner.planning.plan_file import PlanFile, Target, TopicPartition

_RESPONSE_BYTES = "replica.fetch.response.max.bytes"
_WINDOW_SAMPLES, _WINDOW_SAMPLES_DEFAULT = "replication.quota.window.num", 11.0
_SAMPLE_S, _SAMPLE_S_DEFAULT = "replication.quota.window.size.seconds", 1.0

Sizes = Mapping[int, Mapping[TopicPartition, int]]  # Bytes by broker and partition.


@dataclass(frozen=True, slots=True)
class _Look:
    at_s: float
    sizes: Sizes

    def led(self, state: PartitionState) -> int:
        return self.sizes.get(state.leader, {}).get((state.topic, state.partition), 0)


def from_cluster(
    settings: Settings, plan: PlanFile | None, given: EstimateInputs, watch_s: float, say: Callable[[str], None]
) -> EstimateFigures:
    """
    Args:
        plan: None: the reassignments that are under way.
        watch_s: between the two looks at log sizes; 0: write rates from the signals; not needed where --write-rate is given.

    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: it answers, but a right is missing, a partition has no leader, or nothing moves.
        BadInputError: the plan does not fit the cluster.
    """
    if given.size_bytes is not None:
        raise BadInputError(
            "--size: the live cluster says how large its partitions are; leave it out, or give --current"
        )
    probe(settings)
    with ClusterClient(settings.kafka, "rheostat-plan") as client:
        try:
            return _read(client, settings, plan, given, watch_s, say)
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(f"The cluster cannot be read: {error}.") from error


def _read(
    client: ClusterClient,
    settings: Settings,
    plan: PlanFile | None,
    given: EstimateInputs,
    watch_s: float,
    say: Callable[[str], None],
) -> EstimateFigures:
    brokers = sorted(e.node for e in client.brokers())
    moving = {(s.topic, s.partition): s for s in client.reassignments()}
    states = {(s.topic, s.partition): s for s in client.partitions()} | moving
    targets = _under_way(moving) if plan is None else plan.targets
    if plan is not None:
        check(plan, brokers, states)
    led_by_nobody({(t.topic, t.partition): states[(t.topic, t.partition)].leader for t in targets})

    first = _look(client, brokers, states)
    last, growth, notes = first, {}, plan_notes(targets)
    estimated: Mapping[TopicPartition, float] = {}
    bytes_in = _bytes_in(client, settings, brokers)
    if given.write_bytes_per_s is None:
        if watch_s == 0:
            leaders = {key: state.leader for key, state in states.items()}
            sizes = {key: float(first.led(state)) for key, state in states.items()}
            estimated = rates_from_signals(newest_brokers(client, settings), brokers, leaders, sizes, say)
        else:
            count_down(watch_s, f"{WATCHING} (--write-rate says it instead)", say)
            last = _look(client, brokers, states)
            growth = {key: last.led(state) - first.led(state) for key, state in states.items()}
            notes += _shrunk(growth, targets)
    took_s = max(last.at_s - first.at_s, 1e-3)

    def written(key: TopicPartition) -> float:
        if given.write_bytes_per_s is not None:
            return given.write_bytes_per_s
        return estimated[key] if watch_s == 0 else max(0, growth[key]) / took_s

    planned = tuple(_planned(states[(t.topic, t.partition)], t, last, written((t.topic, t.partition))) for t in targets)
    notes += _grows(planned) if plan is not None else ()
    if bytes_in is None:
        counted = states if given.write_bytes_per_s is None else {(t.topic, t.partition) for t in targets}
        led = {broker: sum(written(key) for key in counted if states[key].leader == broker) for broker in brokers}
        bytes_in = list(led.values())
    kip = kip73_figures(
        sum(bool(p.lacking_bytes) for p in planned),
        max(1, len(states)),
        [sum(last.sizes[broker].values()) for broker in brokers],
        bytes_in,
    )
    response_bytes, window_s = _quota_settings(client, brokers)
    source = f"the live cluster at {settings.kafka.bootstrap_servers}"
    return with_given(EstimateFigures(source, kip, planned, response_bytes, window_s, notes), given)


def _under_way(moving: Mapping[TopicPartition, PartitionState]) -> tuple[Target, ...]:
    if not moving:
        raise CommandError("Nothing is moving: name a plan file, as kafka-reassign-partitions takes it.")
    return tuple(
        Target(s.topic, s.partition, tuple(b for b in s.replicas if b not in s.removing)) for s in moving.values()
    )


def _look(client: ClusterClient, brokers: Sequence[int], partitions: Mapping[TopicPartition, PartitionState]) -> _Look:
    sizes: dict[int, Mapping[TopicPartition, int]] = {}
    for broker, answer in client.log_sizes(brokers, partitions).items():
        if isinstance(answer, ClusterError):
            raise answer
        sizes[broker] = answer
    return _Look(time.monotonic(), sizes)


def _planned(state: PartitionState, target: Target, look: _Look, write_bytes_per_s: float) -> PlannedPartition:
    # A replica that a reassignment under way is still adding has a part of it, and lacks the rest.
    whole = set(state.replicas) - set(state.adding)
    key, size_bytes = (state.topic, state.partition), look.led(state)
    return PlannedPartition(
        state.topic,
        state.partition,
        state.leader,
        frozenset(state.isr),
        write_bytes_per_s,
        {b: max(0, size_bytes - look.sizes.get(b, {}).get(key, 0)) for b in target.replicas if b not in whole},
    )


def _grows(planned: Sequence[PlannedPartition]) -> tuple[str, ...]:
    """The figures are those of this moment; a move that starts later has more to copy."""
    grows_bytes_per_s = sum(p.write_bytes_per_s for p in planned if p.lacking_bytes)
    if not grows_bytes_per_s:
        return ()
    return (
        f"Until the move starts there is more to copy every second, as {rate_text(grows_bytes_per_s)} is written to what it moves; "
        "near the smallest rate that ends, a second of waiting costs several. Ask again once it runs.",
    )


def _shrunk(growth: Mapping[TopicPartition, int], targets: Sequence[Target]) -> tuple[str, ...]:
    names = sorted(f"{t.topic}-{t.partition}" for t in targets if growth[(t.topic, t.partition)] < 0)
    if not names:
        return ()
    return (
        f"The log of {join_names(names, 1)} shrank while it was watched (retention, compaction), so its write rate counts as 0: "
        "watch again, or say --write-rate.",
    )


def _bytes_in(client: ClusterClient, settings: Settings, brokers: Sequence[int]) -> list[float] | None:
    """BytesInPerSec of every broker from the newest signals; None unless all are fresh."""
    signals = newest_brokers(client, settings)
    now_ms = round(time.time() * 1000)
    fresh = [
        signal.client_in_bytes_per_s
        for broker in brokers
        if (signal := signals.get(broker)) is not None
        and freshness(signal, now_ms, settings.tuner.signal_age_s_max) is Freshness.FRESH
    ]
    known = [value for value in fresh if value is not None]
    return known if len(known) == len(brokers) else None


def _quota_settings(client: ClusterClient, brokers: Sequence[int]) -> tuple[float, float]:
    """The largest fetch response and the shortest quota window of any broker; their defaults where nothing is set."""
    responses, windows = [], []
    for answer in client.broker_configs(brokers, [_RESPONSE_BYTES, _WINDOW_SAMPLES, _SAMPLE_S]).values():
        if isinstance(answer, ClusterError):
            raise answer
        found = {key: float(value.value) for key, value in answer.items()}
        samples, sample_s = found.get(_WINDOW_SAMPLES, _WINDOW_SAMPLES_DEFAULT), found.get(_SAMPLE_S, _SAMPLE_S_DEFAULT)
        responses.append(found.get(_RESPONSE_BYTES, float(RESPONSE_BYTES_MAX)))
        windows.append(samples * sample_s)
    return max(responses, default=float(RESPONSE_BYTES_MAX)), min(windows, default=WINDOW_S)
