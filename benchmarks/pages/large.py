"""A tuner of a large cluster with its status page, in its own process: ``python -m benchmarks.pages.large BROKERS``.

The production controller steers every side of every broker, at the usual rate: a cycle every five seconds, and the control law
every second. The real HTTP server runs beside it. Each line of stdin has a number of cycles and ``paced`` or ``at_once``. The
answer is a line of JSON: the time of each cycle with its steering ticks, by the clock and by the CPU time of its thread.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, cast

from benchmarks import metrics_extras
from benchmarks.pages.past import advance_plan, fill_past, recording
from benchmarks.sizes.cycle import CYCLE_MS, OBJECTIVE, TURNS, WELL, Looked, NoOrders, Observed, SilentJournal
from benchmarks.sizes.world import CLUSTER, LargeCluster, now_ms, records, sized
from rheostat.console.logs import set_up_logs
from streaming.shared.contract import decode_signal
from streaming.shared.kafka.cluster import ClusterClient
from tuner.api.api_state import ApiState
from tuner.api.journal_history import JournalHistory
from tuner.api.limits import RequestRate, TokenBuckets
from tuner.api.metrics import make_registry
from tuner.api.observers import Observers
from tuner.api.plan_status_store import PlanStatusStore
from tuner.api.server import HttpServer, make_app
from tuner.api.status_store import StatusStore
from tuner.api.week_store import WeekStore
from tuner.control.throttle.objective import Capacity, ControlLimits
from tuner.control.throttle.state import Memory
from tuner.core.batch_limits import BatchLimits
from tuner.core.throttle_limits import MB, StallLimits, ThrottleLimits
from tuner.journal.input_log import InputLog
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.runtime.clock import Clock
from tuner.runtime.gc_tuning import shorten_gil_switch, tune_gc
from tuner.runtime.observe.cluster_reader import ClusterReader
from tuner.runtime.throttle.actuator import KafkaThrottles
from tuner.runtime.throttle.loop import ThrottleConfig, ThrottleController, ThrottlePorts
from tuner.runtime.throttle.ramp_executor import RampExecutor
from tuner.runtime.throttle.steering_controller import SteeringController

_SEED = 1
_UNLIMITED = RequestRate(1e9, 1e9)  # All that asks here is one address.


class LargeTuner:
    def __init__(self, brokers: int) -> None:
        self._cycle = self._now_ms = 0
        self._size = sized(brokers)
        self._cluster = LargeCluster(self._size, _SEED, throttled=False)
        client = cast(ClusterClient, self._cluster)
        throttles = KafkaThrottles(client)
        limits = ThrottleLimits(rate_bytes_per_s_max=100 * MB, closed_loop=True, throttles_all_moves=True)
        inputs = InputLog(
            SettingsSnapshot(limits, StallLimits(), OBJECTIVE, ControlLimits()),
            run="benchmark",
            program="",
            wall_clock=self.now_s,
        )
        journal = SilentJournal()
        journal.inputs = inputs
        self._past = JournalHistory(CLUSTER)
        board = StatusStore(CLUSTER, limits, dry_run=False, wall_clock=self.now_s, objective=OBJECTIVE)
        board.become_active()
        self._observers = Observers(board)
        self._reader, self._signals, self._looked = ClusterReader(client), Observed(), Looked()
        link = Capacity(125 * MB, 125 * MB)
        ports = ThrottlePorts(
            live=self._looked,
            signals=self._signals,
            throttles=throttles,
            orders=NoOrders(),
            journal=self._observers.wrap_journal(recording(journal.write, self._past, [])),
            observer=self._observers,
            inputs=inputs,
        )
        config = ThrottleConfig(
            limits=limits,
            stall_limits=StallLimits(),
            writes_per_s_max=50.0,
        )
        clock = Clock(self.now_s, self.now_s)
        self._loop = ThrottleController(
            ports,
            config,
            clock,
            memory=Memory(),
            ramps=RampExecutor(throttles),
            steering=SteeringController(
                throttles, OBJECTIVE, lambda _: link, ControlLimits(), writes_per_s_max=50.0, inputs=inputs
            ),
        )
        quotas = metrics_extras.quotas(CLUSTER, now_ms(1))
        self._plans, self._turns = PlanStatusStore(CLUSTER), metrics_extras.turns()
        weeks = WeekStore(CLUSTER)
        fill_past(weeks, self._past, brokers, now_ms(1))
        app = make_app(
            ApiState(self._observers, quotas, self._plans, weeks=weeks, journal=self._past),
            make_registry(board, quotas, plans=self._plans),
            CYCLE_MS / 1000,
            self.now_s,
            reads=TokenBuckets(_UNLIMITED, time.monotonic),
        )
        self.server = HttpServer(app, "127.0.0.1", 0, on_stop=self._observers.hub.close)

    def now_s(self) -> float:
        return self._now_ms / 1000

    def cycle(self, *, paced: bool = True) -> dict[str, float]:
        """Returns the time of one cycle and its steering ticks in ms.

        Args:
            paced: the cycle takes five seconds, as in a tuner.
        """
        self._cycle += 1
        self._cluster.cycle, self._now_ms = self._cycle, now_ms(self._cycle)
        # Made before the clock runs: what a broker sends costs the tuner nothing.
        arrived = list(records(self._size, self._cycle, drained=WELL))
        began_s, before_s = time.perf_counter(), time.thread_time()
        due_s = began_s
        for value in arrived:
            self._signals.add(decode_signal(value))
        self._looked.live = self._reader.snapshot(full=self._cycle == 1)
        self._loop.cycle()
        advance_plan(self._past, self._cycle, self._now_ms)
        self._plans.record_step(self._turns, BatchLimits(), at_ms=self._now_ms)
        wall_s, cpu_s = time.perf_counter() - began_s, time.thread_time() - before_s
        for _ in range(TURNS):
            due_s += CYCLE_MS / 1000 / TURNS
            if paced:
                time.sleep(max(0.0, due_s - time.perf_counter()))
            began_s, before_s = time.perf_counter(), time.thread_time()
            self._loop.tick()
            wall_s, cpu_s = wall_s + time.perf_counter() - began_s, cpu_s + time.thread_time() - before_s
            self._now_ms += CYCLE_MS // TURNS
        return {"wall_ms": 1000 * wall_s, "cpu_ms": 1000 * cpu_s}


def main(brokers: int) -> None:
    tune_gc()
    shorten_gil_switch()
    with open(os.devnull, "w") as nowhere:
        set_up_logs(nowhere)
        tuner = LargeTuner(brokers)
        tuner.server.start()
        _tell({"port": tuner.server.port})
        for line in sys.stdin:
            before_s = time.process_time() - time.thread_time()
            count, pace = line.split()
            cycles = [tuner.cycle(paced=pace == "paced") for _ in range(int(count))]
            _tell({"cycles": cycles, "others_cpu_ms": 1000 * (time.process_time() - time.thread_time() - before_s)})
        tuner.server.stop()


def _tell(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
