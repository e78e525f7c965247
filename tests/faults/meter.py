"""Writes signals without Spark: the moves and their remaining bytes are measured, the client figures are invented.

A test can therefore stop or delay the signals at an exact moment. The real pipeline has its own tests.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import kafka.errors

from streaming.shared.contract import (
    BrokerSignal,
    MoveSignal,
    MoveStep,
    Side,
    Topics,
    encode_signal,
    signal_key,
)
from streaming.shared.kafka import KafkaSettings, producer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, PartitionState
from streaming.shared.kafka.recovery import RecoveryFinder
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS, TopicThrottle

_EVERY_S = 1.0
_STEP_S = 5.0
_STEPS = 8
_STEADY_STATE_BYTES_PER_S = 100_000.0
_CLIENTS_BYTES_PER_S = 500_000.0
MIN_ISR = 2  # Of every topic with three replicas.
_USED = 0.97  # Of a throttle that binds.


class Meter:
    """Writes a signal per second for everything alive. ``stalled``: the signals report moves without progress."""

    def __init__(self, settings: KafkaSettings, cluster: str, topics: Topics, *, stalled: bool = False) -> None:
        self._settings = settings
        self._cluster = cluster
        self._topics = topics
        self._stalled = stalled
        self._stop = threading.Event()
        self._silent_since_s: float | None = None
        self.delay_s = 0.0
        self.stale: list[tuple[float, float]] = []  # Monotonic, from the last fresh sample on.
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.resume_signals()
        self._stop.set()
        self._thread.join(timeout=30)

    def stop_signals(self) -> None:
        self._silent_since_s = time.monotonic()

    def delay_signals(self, delay_s: float) -> None:
        """Delays the reported measurements by this time."""
        self._silent_since_s = time.monotonic()
        self.delay_s = delay_s

    def resume_signals(self) -> None:
        if self._silent_since_s is not None:
            self.stale.append((self._silent_since_s, time.monotonic()))
        self._silent_since_s, self.delay_s = None, 0.0

    def _run(self) -> None:
        sender = producer(self._settings, "faults-meter", linger_ms=0)
        with ClusterClient(self._settings.model_copy(update={"request_timeout_s": 2.0}), "faults-meter") as client:
            finder = RecoveryFinder(client, reads_details=False)
            while not self._stop.wait(_EVERY_S):
                if self._silent_since_s is not None and not self.delay_s:
                    continue
                try:
                    finder.check()
                    for signal in self._signals(client, finder.result.partitions):
                        sender.send(self._topics.signals, key=signal_key(signal), value=encode_signal(signal))
                except (ClusterError, kafka.errors.KafkaError):
                    continue  # As a stream that cannot reach its brokers: nothing new.
        sender.close(timeout=5)

    def _signals(self, client: ClusterClient, recovering: Sequence[PartitionState]) -> list[BrokerSignal | MoveSignal]:
        at_ms = round((time.time() - self.delay_s) * 1000)
        alive = sorted(endpoint.node for endpoint in client.brokers())
        moves = client.reassignments()
        moving = {(m.topic, m.partition) for m in moves}
        moves += [replace(s, adding=s.recovering) for s in recovering if (s.topic, s.partition) not in moving]
        rates = client.broker_configs(alive, RATE_KEYS.values())
        lists = client.topic_configs({m.topic for m in moves}, LIST_KEYS.values())
        throttles = {topic: TopicThrottle.from_configs(configs) for topic, configs in lists.items()}
        states = client.partitions()
        sizes = client.log_sizes(alive, [(m.topic, m.partition) for m in moves])
        head: dict[str, Any] = {
            "cluster": self._cluster, "window_end_ms": at_ms, "sampled_at_ms": at_ms, "samples": 6, "completeness": 1.0,
        }  # fmt: skip
        signals: list[BrokerSignal | MoveSignal] = []
        for broker in alive:
            told = rates.get(broker)
            passes = {
                side: _USED * float(told[key].value) if moves and isinstance(told, dict) and key in told else 0.0
                for side, key in RATE_KEYS.items()
            }
            out, into = passes[Side.LEADER], passes[Side.FOLLOWER]
            signals.append(
                BrokerSignal(
                    broker=broker,
                    leader_throttled_bytes_per_s=out,
                    follower_throttled_bytes_per_s=into,
                    throttled_by="quota",
                    network_in_bytes_per_s=_CLIENTS_BYTES_PER_S + into,
                    network_out_bytes_per_s=_CLIENTS_BYTES_PER_S + out,
                    reassignment_in_bytes_per_s=into,
                    reassignment_out_bytes_per_s=out,
                    produce_p99_ms=5.0,
                    fetch_p99_ms=5.0,
                    under_min_isr_partitions=float(
                        sum(s.leader == broker and len(s.isr) < MIN_ISR < len(s.replicas) for s in states)
                    ),
                    **head,
                )
            )
        remaining: defaultdict[tuple[int, Side], float] = defaultdict(float)
        listed: defaultdict[tuple[int, Side], int] = defaultdict(int)
        partitions: defaultdict[tuple[int, Side], int] = defaultdict(int)
        recovers: defaultdict[tuple[int, Side], int] = defaultdict(int)
        for move in moves:
            key = (move.topic, move.partition)
            throttle = throttles.get(move.topic, TopicThrottle())
            for broker, side, replicas in (
                (move.leader, Side.LEADER, throttle.leader),
                *((b, Side.FOLLOWER, throttle.follower) for b in move.adding if b != move.leader),
            ):
                if broker not in alive:
                    continue
                remaining[broker, side] += sum(
                    max(0, _size(sizes, move.leader, key) - _size(sizes, b, key)) for b in move.adding
                )
                partitions[broker, side] += 1
                recovers[broker, side] += bool(move.recovering)
                listed[broker, side] += replicas.includes(move.partition, broker)
        for (broker, side), left in remaining.items():
            signals.append(
                MoveSignal(
                    broker=broker,
                    side=side,
                    moving_partitions=partitions[broker, side],
                    recovering_partitions=recovers[broker, side],
                    recovering_bytes=left if recovers[broker, side] else None,
                    listed_partitions=listed[broker, side],
                    remaining_bytes=left,
                    steady_state_bytes_per_s=_STEADY_STATE_BYTES_PER_S,
                    write_bytes_per_s=50_000.0,
                    steps=self._steps(at_ms, left, side),
                    **head,
                )
            )
        return signals

    def _steps(self, at_ms: int, remaining: float, side: Side) -> tuple[MoveStep, ...]:
        gained = 0.0 if self._stalled or side is Side.LEADER else _STEP_S * 1_000_000
        # On a grid of its own, so that the same step is the same at the next look.
        last_ms = at_ms - at_ms % round(_STEP_S * 1000)
        return tuple(
            MoveStep(last_ms - round(i * _STEP_S * 1000), _STEP_S, gained, 50_000 * _STEP_S, remaining)
            for i in reversed(range(_STEPS))
        )


def _size(sizes: dict[int, Any], broker: int, partition: tuple[str, int]) -> int:
    found = sizes.get(broker)
    return int(found.get(partition, 0)) if isinstance(found, dict) else 0
