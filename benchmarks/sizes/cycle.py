"""Runs the cycles of one tuner at one size in its own process: ``python -m benchmarks.sizes.cycle BROKERS SEED [rescue]``.

It is the production controller, with the status store, a journal that encodes and packs all records without sending them, and logs
without output. Inputs are prepared; the cost of decoding them is measured separately. All figures are CPU time of the process,
garbage collection included.

    steered   an objective is set, and the moves have no throttle. The first cycle sets a rate on every side and lists the moves;
              the second decides on every side; then the control law sets all sides every second, and the lists follow the moves
    rescue    no objective is set, the throttle was set with the moves, and all moves stall at once: one cycle sets every rate
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import psutil

from benchmarks.sizes.world import CLUSTER, CYCLE_MS, LargeCluster, now_ms, records, sized
from rheostat.console.logs import set_up_logs
from streaming.shared.contract import decode_signal
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.throttle_settings import TopicThrottle
from tuner.api.status_store import StatusStore
from tuner.control.throttle.decision import SetRate
from tuner.control.throttle.objective import Capacity, ControlLimits, Objective
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.cluster import BrokerSide, ClusterUnreadable, LiveCluster
from tuner.core.operator_orders import Orders
from tuner.core.throttle_limits import MB, StallLimits, ThrottleLimits
from tuner.journal.entries import Entry, encode_entry, encode_memory, encode_moving, encode_owned
from tuner.journal.input_log import InputLog
from tuner.journal.list_records import encode_listed
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.runtime.clock import Clock
from tuner.runtime.gc_tuning import tune_gc
from tuner.runtime.observe.cluster_reader import ClusterReader
from tuner.runtime.observe.signals_reader import SignalCache
from tuner.runtime.throttle.actuator import KafkaThrottles
from tuner.runtime.throttle.loop import ThrottleConfig, ThrottleController, ThrottlePorts
from tuner.runtime.throttle.ramp_executor import RampExecutor
from tuner.runtime.throttle.steering_controller import SteeringController

CYCLES = 10  # After the opening ones.
OPENING = 2
BATCH_BYTES = 16_384  # kafka-python's batch_size.
TURNS = CYCLE_MS // 1000  # Of the law, in a cycle.
WELL, STALLED = 0.9, 0.0  # Shares of the drain that the throttles allow.
STALL_CYCLES = 8  # The judge needs four.
OBJECTIVE = Objective(latency_ms=50.0)

T = TypeVar("T")


class SilentJournal:
    """Encodes and packs the records that the Kafka journal would send."""

    def __init__(self) -> None:
        self._entries = self._saves = self._bytes = self._input_bytes = 0
        self.inputs: InputLog | None = None

    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        memory: Memory | None = None,
        owned: Mapping[BrokerSide, OwnedRate] | None = None,
        moving_replicas: Mapping[str, Mapping[int, frozenset[int]]] | None = None,
        listed: Mapping[str, TopicThrottle] | None = None,
    ) -> None:
        self._entries += len(entries)
        self._saves += memory is not None
        inputs = self.inputs.take_records() if self.inputs is not None else []

        def records() -> Iterator[bytes]:
            yield from map(encode_entry, entries)
            if memory is not None:
                yield encode_memory(memory)
            yield from (encode_owned(side, value) for side, value in (owned or {}).items())
            yield from (encode_moving(topic, rows) for topic, rows in (moving_replicas or {}).items())
            yield from (encode_listed(topic, pairs) for topic, pairs in (listed or {}).items())

        def counted() -> Iterator[bytes]:
            for record in records():
                self._bytes += len(record)
                yield record

        self._input_bytes += sum(map(len, inputs))
        # kafka-python packs records that are written together into batches of limited size. Records are encoded while they are
        # packed, as in the Kafka journal.
        for batch in itertools.chain(_batches(counted()), _batches(inputs)):
            gzip.compress(batch)

    def take(self) -> dict[str, int]:
        """Returns the counts since the last call."""
        found = {
            "entries": self._entries,
            "memory_records": self._saves,
            "journal_kB": self._bytes // 1000,
            "inputs_kB": self._input_bytes // 1000,
        }
        self._entries = self._saves = self._bytes = self._input_bytes = 0
        return found


class Observed(SignalCache):
    """A signal reader with prepared signals."""

    def poll(self) -> int:
        return 0


class Looked:
    """A cluster reader with a prepared snapshot."""

    def __init__(self) -> None:
        self.live: LiveCluster | ClusterUnreadable = ClusterUnreadable("not looked yet")

    def snapshot(self, **_: object) -> LiveCluster | ClusterUnreadable:
        return self.live


class NoOrders:
    """An orders reader without orders."""

    latest = Orders()
    superseded: tuple[Orders, ...] = ()

    def follow(self, wait_ms: int = 0) -> None:
        pass


class Tuner:
    """All parts of a cycle, with a simulated clock."""

    def __init__(self, brokers: int, seed: int, *, steers: bool) -> None:
        self.size = sized(brokers)
        self._steers = steers
        self.cluster = LargeCluster(self.size, seed, throttled=not steers)
        self._journal = SilentJournal()
        client = cast(ClusterClient, self.cluster)
        throttles = KafkaThrottles(client)
        limits = ThrottleLimits(rate_bytes_per_s_max=100 * MB, closed_loop=steers, throttles_all_moves=steers)
        inputs = InputLog(
            SettingsSnapshot(limits, StallLimits(), OBJECTIVE, ControlLimits()),
            run="benchmark",
            program="",
            wall_clock=self._now_s,
        )
        self._journal.inputs = inputs
        self._reader, self._signals, self._looked = ClusterReader(client), Observed(), Looked()
        self._cycle = 0
        self._now_ms = 0
        ports = ThrottlePorts(
            live=self._looked,
            signals=self._signals,
            throttles=throttles,
            orders=NoOrders(),
            journal=self._journal,
            observer=StatusStore(CLUSTER, limits, dry_run=False, wall_clock=self._now_s),
            inputs=inputs,
        )
        config = ThrottleConfig(
            limits=limits,
            stall_limits=StallLimits(),
            writes_per_s_max=50.0,
        )
        clock = Clock(self._now_s, self._now_s)
        self.loop = ThrottleController(
            ports,
            config,
            clock,
            memory=Memory(),
            ramps=RampExecutor(throttles),
            steering=_steering(throttles, inputs) if steers else None,
        )

    def cycle(self, *, drained: float) -> dict[str, Any]:
        """Runs a cycle and its steering ticks; returns CPU ms of the parts, and the counts of the journal."""
        self._cycle += 1
        self.cluster.cycle, self._now_ms = self._cycle, now_ms(self._cycle)
        told: dict[str, Any] = {"signals_ms": self._hear(drained)}
        self._looked.live, told["look_ms"] = _timed(lambda: self._reader.snapshot(full=self._cycle == 1))
        decisions, told["decide_ms"] = _timed(self.loop.cycle)
        told |= self._journal.take()
        told |= {"decisions": len(decisions), "set": sum(isinstance(decision, SetRate) for decision in decisions)}
        law_ms = []
        for _ in range(TURNS if self._steers else 0):
            law_ms.append(_timed(self.loop.tick)[1])
            self._now_ms += 1000
        told["law_ms"] = statistics.median(law_ms) if law_ms else 0.0
        told["law_ms_max"] = max(law_ms, default=0.0)
        told["cycle_ms"] = told["decide_ms"] + told["law_ms"]
        told["cycle_ms_max"] = told["decide_ms"] + told["law_ms_max"]
        return told

    def _hear(self, drained: float) -> float:
        spent_ms = 0.0
        arriving = records(self.size, self._cycle, drained=drained)
        # In batches, as a consumer hands them out: all records at once would be the benchmark's own memory.
        while batch := list(itertools.islice(arriving, 500)):
            began_s = time.process_time()
            for value in batch:
                self._signals.add(decode_signal(value))
            spent_ms += 1000 * (time.process_time() - began_s)
        return spent_ms

    def _now_s(self) -> float:
        return self._now_ms / 1000


def _steering(throttles: KafkaThrottles, inputs: InputLog) -> SteeringController:
    link = Capacity(125 * MB, 125 * MB)
    return SteeringController(
        throttles, OBJECTIVE, lambda _: link, ControlLimits(), writes_per_s_max=50.0, inputs=inputs
    )


def measure(brokers: int, seed: int, *, rescue: bool) -> dict[str, Any]:
    tuner = Tuner(brokers, seed, steers=not rescue)
    size = tuner.size
    opening = [tuner.cycle(drained=WELL) for _ in range(OPENING)]
    cycles = [tuner.cycle(drained=STALLED if rescue else WELL) for _ in range(STALL_CYCLES if rescue else CYCLES)]
    return {
        "brokers": size.brokers,
        "partitions": size.partitions,
        "moving": size.moving,
        "opening": opening,
        "cycles": cycles,
        "rss_mb": round(psutil.Process().memory_info().rss / 1e6, 1),
        "rss_mb_peak": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1),
    }


def _batches(records: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the records of one batch at a time; a record that is larger than a batch is alone."""
    batch: list[bytes] = []
    size = 0
    for record in records:
        if batch and size + len(record) > BATCH_BYTES:
            yield b"".join(batch)
            batch, size = [], 0
        batch.append(record)
        size += len(record)
    if batch:
        yield b"".join(batch)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began_s = time.process_time()
    result = work()
    return result, 1000 * (time.process_time() - began_s)


if __name__ == "__main__":
    tune_gc()
    with open(os.devnull, "w") as nowhere:
        set_up_logs(nowhere)
        print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]), rescue="rescue" in sys.argv[3:])))
