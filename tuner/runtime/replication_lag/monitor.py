"""Runs the judge of replication lag every 15 s, in a thread of its own, so that the throttle controller never waits for it.

The judge uses the observation of the last throttle cycle. If the judge also needs the partitions of all topics, its thread asks
Kafka for them, with a client of its own. Nothing is written to Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from streaming.shared.kafka.values import ClusterError, PartitionState
from tuner.control.replication_lag.decision import LagDiagnosis
from tuner.control.replication_lag.judge import SIGNAL_AGE_S_MAX, LagMemory, judge
from tuner.control.replication_lag.view import LagView
from tuner.core.cluster import BrokerSide, LiveCluster, Observation
from tuner.core.fetcher_load import FetchedPartition
from tuner.runtime.background_call import BackgroundCaller, Call, result_or_error
from tuner.runtime.clock import Clock

log = structlog.get_logger("tuner")

EVERY_S = 15.0
LAYOUT_AGE_S_MAX = 60.0  # Reading all partitions of a large cluster takes a second, and they seldom change.
_POLL_S = 0.5


class LagObserver(Protocol):
    def publish(self, view: LagView, diagnoses: Sequence[LagDiagnosis]) -> None:
        """Publishes the result of an evaluation."""

    def evaluation_failed(self) -> None:
        """Marks the published result as out of date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagPorts:
    """Everything that the monitor reads from.

    Attributes:
        latest: returns the observation of the last cycle, and the throttles that the tuner manages; None if no cycle has ended.
        read_partitions: reads all partitions of the cluster. The monitor calls it in its background thread only.
    """

    latest: Callable[[], tuple[Observation, frozenset[BrokerSide]] | None]
    read_partitions: Callable[[], Sequence[PartitionState]]
    caller: BackgroundCaller
    observer: LagObserver


@dataclass(frozen=True, slots=True)
class _Evaluation:
    view: LagView
    memory: LagMemory
    diagnoses: tuple[LagDiagnosis, ...]


class LagMonitor:
    """Evaluates the lag of all brokers periodically."""

    def __init__(
        self, ports: LagPorts, clock: Clock, capacity_bytes_per_s: Callable[[int], tuple[float, float] | None]
    ) -> None:
        """
        Args:
            capacity_bytes_per_s: returns the network capacity of a broker, in and out; None if it is not known.
        """
        self._ports = ports
        self._clock = clock
        self._capacity_bytes_per_s = capacity_bytes_per_s
        self._memory = LagMemory()
        self._diagnoses: tuple[LagDiagnosis, ...] = ()
        self._call: Call[_Evaluation] | None = None  # The evaluation in the background.
        self._due_s = float("-inf")
        # Time of the last read, and the partitions.
        self._layout: tuple[float, Sequence[FetchedPartition]] | None = None

    def next_due_s(self) -> float:
        """Returns the monotonic time of the next ``tick``, in seconds."""
        return self._clock.monotonic_s() + _POLL_S if self._call is not None else self._due_s

    def tick(self) -> None:
        """Publishes the result of an evaluation that has ended, or starts the next evaluation when it is due. Never waits."""
        now_s = self._clock.monotonic_s()
        if self._call is not None:
            if self._call.done():
                call, self._call = self._call, None
                self._finish(result_or_error(call))
        elif now_s >= self._due_s:
            self._due_s = now_s + EVERY_S
            if (latest := self._ports.latest()) is not None:
                self._start(*latest)

    def _start(self, observation: Observation, managed: frozenset[BrokerSide]) -> None:
        age_s = (self._clock.now_ms() - observation.now_ms) / 1000
        if not isinstance(observation.live, LiveCluster) or age_s > SIGNAL_AGE_S_MAX:
            self._ports.observer.evaluation_failed()
            return
        view = LagView(
            observation.now_ms,
            observation.replication_signals,
            observation.broker_signals,
            observation.live,
            layout=self._read_layout,
            managed=managed,
            capacity_bytes_per_s=self._capacity_bytes_per_s,
        )
        memory = self._memory
        self._call = self._ports.caller.start(lambda: _Evaluation(view, *judge(view, memory)))

    def _finish(self, evaluation: _Evaluation | ClusterError) -> None:
        if isinstance(evaluation, ClusterError):
            self._ports.observer.evaluation_failed()
            raise evaluation
        before = {(d.broker, d.reason) for d in self._diagnoses}
        self._memory, self._diagnoses = evaluation.memory, evaluation.diagnoses
        for diagnosis in evaluation.diagnoses:
            if (diagnosis.broker, diagnosis.reason) not in before:
                log.warning(
                    "replicas lag behind their leaders",
                    broker=diagnosis.broker,
                    reason=diagnosis.reason.value,
                    text=diagnosis.text,
                )
        self._ports.observer.publish(evaluation.view, evaluation.diagnoses)

    def _read_layout(self) -> Sequence[FetchedPartition] | None:
        """Returns all partitions that have a leader; None if they cannot be read. Runs in the background thread."""
        now_s = self._clock.monotonic_s()
        if self._layout is None or now_s - self._layout[0] > LAYOUT_AGE_S_MAX:
            try:
                states = self._ports.read_partitions()
            except ClusterError as error:
                log.warning(
                    "the partitions cannot be read, so no number of fetcher threads is proposed", error=str(error)
                )
                return None
            self._layout = (
                now_s,
                [FetchedPartition(s.topic, s.partition, s.leader, s.replicas) for s in states if s.leader >= 0],
            )
        return self._layout[1]
