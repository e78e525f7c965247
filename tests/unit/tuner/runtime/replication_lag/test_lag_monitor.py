"""The monitor of lag: every 15 s, in the background, with the partitions of all topics only if a broker lags."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import pytest
from reassign_rig import T

from streaming.shared.contract import FetcherThreadLag, LaggingPartition, LagTrend, ReplicationSignal
from streaming.shared.kafka.values import ClusterError, PartitionState
from tuner.control.replication_lag.decision import LagDiagnosis, LagReason
from tuner.control.replication_lag.judge import SIGNAL_AGE_S_MAX
from tuner.control.replication_lag.view import LagView
from tuner.core.cluster import BrokerSide, ClusterUnreadable, LiveCluster, Observation
from tuner.core.fetchers import fetcher_id
from tuner.runtime.clock import Clock
from tuner.runtime.replication_lag.monitor import EVERY_S, LAYOUT_AGE_S_MAX, LagMonitor, LagPorts

NOW_MS = 1_800_000_000_000
THREAD = fetcher_id("a", 0, 2)
PARTITIONS = [PartitionState("a", p, leader=1, replicas=(1, 2), isr=(1,)) for p in (0, 2)]


def signal(lag: float) -> ReplicationSignal:
    threads = (
        FetcherThreadLag(1, THREAD, lag_sum_messages=lag, fetched_bytes_per_s=5e5),
        FetcherThreadLag(1, 1 - THREAD, lag_sum_messages=0.0, fetched_bytes_per_s=1e5),
    )
    worst = tuple(LaggingPartition("a", p, lag / 2, source=1, fetcher=THREAD, write_bytes_per_s=4e5) for p in (0, 2))
    return ReplicationSignal(
        "lab", 2, NOW_MS, NOW_MS, 30, 1.0,
        lag_sum_messages=lag, trend=LagTrend(50.0, 28.0, 28, 0.9), threads=threads, worst=worst if lag else (),
    )  # fmt: skip


@dataclass
class Rig:
    """Plays the controller's cycle, Kafka, the background thread and the status store."""

    now_s: float = 1_000.0
    wall_s: float = NOW_MS / 1000
    latest: tuple[Observation, frozenset[BrokerSide]] | None = None
    reads: int = 0
    read_error: Exception | None = None
    waiting: list[object] = field(default_factory=list)
    published: list[Sequence[LagDiagnosis]] = field(default_factory=list)
    failures: int = 0

    def __post_init__(self) -> None:
        ports = LagPorts(latest=lambda: self.latest, read_partitions=self.read, caller=self, observer=self)
        clock = Clock(wall_s=lambda: self.wall_s, monotonic_s=lambda: self.now_s)
        self.monitor = LagMonitor(ports, clock, lambda _: None)

    def observe(self, lag: float) -> None:
        live = LiveCluster(frozenset({1, 2}), fetchers={1: 2, 2: 2})
        seen = Observation(NOW_MS, live, replication_signals={2: signal(lag)})
        self.latest = (seen, frozenset())

    def read(self) -> list[PartitionState]:
        self.reads += 1
        if self.read_error is not None:
            raise self.read_error
        return PARTITIONS

    def start(self, call: object) -> Future[T]:
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call())  # type: ignore[operator]
            except Exception as error:  # noqa: BLE001 - the caller raises it again
                answer.set_exception(error)

        self.waiting.append(run)
        return answer

    def go(self) -> None:
        """Lets the background call end, and the monitor take its result."""
        waiting, self.waiting = self.waiting, []
        for run in waiting:
            run()  # type: ignore[operator]
        self.monitor.tick()

    def publish(self, view: LagView, diagnoses: Sequence[LagDiagnosis]) -> None:
        assert view.now_ms == NOW_MS
        self.published.append(diagnoses)

    def evaluation_failed(self) -> None:
        self.failures += 1

    def evaluate(self) -> None:
        self.monitor.tick()
        self.go()
        self.now_s += EVERY_S


def test_monitor_waits_for_a_readable_cycle() -> None:
    rig = Rig()
    rig.evaluate()
    rig.latest = (Observation(NOW_MS, ClusterUnreadable("away")), frozenset())
    rig.evaluate()
    assert (rig.published, rig.waiting) == ([], [])


def test_monitor_withdraws_the_diagnosis_while_the_cluster_is_unreadable() -> None:
    rig = Rig()
    rig.observe(5_000.0)
    rig.evaluate()
    assert (len(rig.published), rig.failures) == (1, 0)
    rig.latest = (Observation(NOW_MS, ClusterUnreadable("away")), frozenset())
    rig.evaluate()
    assert (len(rig.published), rig.failures) == (1, 1)
    rig.observe(5_000.0)
    rig.evaluate()
    assert rig.published[1][0].since_ms == rig.published[0][0].since_ms


def test_monitor_withdraws_the_diagnosis_of_an_old_observation() -> None:
    rig = Rig()
    rig.observe(5_000.0)
    rig.wall_s += SIGNAL_AGE_S_MAX
    rig.evaluate()
    assert (len(rig.published), rig.failures) == (1, 0)
    rig.wall_s += 0.1
    rig.evaluate()
    assert (len(rig.published), rig.failures) == (1, 1)


def test_monitor_evaluates_every_15_s_and_never_waits() -> None:
    rig = Rig()
    rig.observe(0.0)
    rig.monitor.tick()
    assert len(rig.waiting) == 1
    rig.now_s += 100
    rig.monitor.tick()
    assert len(rig.waiting) == 1, "one evaluation at a time"
    assert rig.monitor.next_due_s() == rig.now_s + 0.5
    rig.go()
    assert rig.published == [()]
    rig.monitor.tick()
    assert rig.monitor.next_due_s() == rig.now_s + 0.5
    rig.go()
    assert rig.monitor.next_due_s() == rig.now_s + EVERY_S


def test_monitor_reads_partitions_only_while_a_broker_lags() -> None:
    rig = Rig()
    rig.observe(0.0)
    rig.evaluate()
    assert rig.reads == 0
    rig.observe(5_000.0)
    rig.evaluate()
    (found,) = rig.published[-1]
    assert (found.reason, found.better_fetchers) == (LagReason.FETCHER_BOUND, 3)
    rig.evaluate()
    assert rig.reads == 1, "all partitions are kept for a minute"
    rig.now_s += LAYOUT_AGE_S_MAX
    rig.evaluate()
    assert rig.reads == 2
    assert rig.published[-1][0].since_ms == found.since_ms


def test_monitor_without_partitions_names_no_value() -> None:
    rig = Rig(read_error=ClusterError("no answer"))
    rig.observe(5_000.0)
    rig.evaluate()
    (found,) = rig.published[-1]
    assert (found.reason, found.better_fetchers) == (LagReason.FETCHER_BOUND, None)


def test_monitor_error_drops_the_result_and_is_raised() -> None:
    rig = Rig(read_error=RuntimeError("a bug"))
    rig.observe(5_000.0)
    rig.monitor.tick()
    with pytest.raises(ClusterError, match="RuntimeError: a bug"):
        rig.go()
    assert rig.failures == 1
    rig.read_error = None
    rig.now_s += EVERY_S
    rig.evaluate()
    assert rig.published[-1][0].reason is LagReason.FETCHER_BOUND


def test_monitor_managed_throttles_reach_the_judge() -> None:
    rig = Rig()
    rig.observe(5_000.0)
    assert rig.latest is not None
    seen, _ = rig.latest
    rig.latest = (replace(seen, now_ms=NOW_MS), frozenset({(2, "follower")}))  # type: ignore[arg-type]
    views: list[LagView] = []
    rig.publish = lambda view, _: views.append(view)  # type: ignore[method-assign]
    rig.evaluate()
    assert views[0].managed == {(2, "follower")}
