"""A tuner with its HTTP server, a simulated cluster and a simulated clock.

Everything except the cluster is production code: controller, stall detector, control law, ramps, recorder, status stores, routes.
Orders over HTTP reach the controller as through the orders topic. The simulated clock begins at the present time, so that times
look current.
"""

from __future__ import annotations

import time
from dataclasses import replace
from types import TracebackType

from benchmarks.pages.past import recording
from rheostat.simulate.scenario_file import load_scenario
from tuner.api.api_state import ApiState
from tuner.api.auth import Tokens
from tuner.api.journal_history import JournalHistory
from tuner.api.metrics import make_registry
from tuner.api.mutation_store import MutationStore
from tuner.api.observers import Observers
from tuner.api.orders_api import OrderChange
from tuner.api.plan_status_store import PlanStatusStore
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.server import HttpServer, make_app
from tuner.api.status_store import StatusStore
from tuner.api.week_store import WeekStore
from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.control.throttle.state import Memory
from tuner.core.operator_orders import Orders
from tuner.core.throttle_limits import StallLimits, ThrottleLimits
from tuner.journal.entries import Entry
from tuner.runtime.clock import Clock
from tuner.runtime.throttle.loop import ThrottleConfig, ThrottleController, ThrottlePorts
from tuner.runtime.throttle.ramp_executor import RampExecutor
from tuner.runtime.throttle.steering_controller import SteeringController
from tuner.simulation.cluster import Cluster
from tuner.simulation.policy import capacities
from tuner.simulation.ports import MemoryJournal, SimulatedLive, SimulatedSignals, SimulatedThrottles
from tuner.simulation.signals import Stream

CYCLE_S = 5.0
_WRITES_PER_S_MAX = 50.0


class KeptOrders:
    """The order service and the controller's reader of orders in one object; it keeps the newest orders only."""

    def __init__(self) -> None:
        self._given = Orders()
        self.latest = Orders()
        self.superseded: tuple[Orders, ...] = ()
        self.now_ms = 0

    def submit(self, change: OrderChange) -> Orders:
        now_ms = max(self.now_ms, self._given.at_ms + 1)
        self._given = replace(change(self._given, now_ms), at_ms=now_ms)
        return self._given

    def follow(self, wait_ms: int = 0) -> None:  # noqa: ARG002 - the orders' shape
        self.latest = self._given


class SimulatedTuner:
    def __init__(
        self,
        scenario: str,
        *,
        steers: bool = True,
        tokens: Tokens | None = None,
        dry_run: bool = False,
        grafana_url: str | None = None,
    ) -> None:
        """Args:
        scenario: name of a shipped scenario.
        steers: with the objective of the scenario's world; otherwise without an objective.
        """
        found = load_scenario(scenario)
        self._epoch_s = float(round(time.time()))
        self._cluster = Cluster(found.world)
        self._stream = Stream(self._cluster, round(self._epoch_s * 1000))
        objective = Objective(found.world.latency.objective_ms) if steers else None
        limits = ThrottleLimits(
            rate_bytes_per_s_max=found.rate_bytes_per_s_max, closed_loop=steers, throttles_all_moves=steers
        )
        self.board = StatusStore(
            scenario,
            limits,
            dry_run=dry_run,
            wall_clock=self.now_s,
            objective=objective or Objective(found.world.latency.objective_ms),
        )
        self.board.become_active()
        self.quotas = QuotaStatusStore(scenario)
        self.plans = PlanStatusStore(scenario)
        self.weeks = WeekStore(scenario)
        self.weeks.mark_read()  # The history is empty.
        self.journal = JournalHistory(scenario)
        self.journal.mark_read()
        self.entries: list[Entry] = []  # Those of the journal, by offset.
        self.journal.read_entries = lambda offset, count: self.entries[offset : offset + count]
        self.mutations = MutationStore(scenario)
        self.observers = Observers(self.board)
        self.orders = KeptOrders()
        signals, throttles = SimulatedSignals(self._stream), SimulatedThrottles(self._cluster)
        law_limits = ControlLimits(rate_bytes_per_s_max=found.rate_bytes_per_s_max)
        steering = None
        if objective is not None:
            steering = SteeringController(
                throttles,
                objective,
                capacities(found.world).__getitem__,
                law_limits,
                writes_per_s_max=_WRITES_PER_S_MAX,
            )
        ports = ThrottlePorts(
            live=SimulatedLive(self._cluster),
            signals=signals,
            throttles=throttles,
            orders=self.orders,
            journal=self.observers.wrap_journal(recording(MemoryJournal().write, self.journal, self.entries)),
            observer=self.observers,
        )
        config = ThrottleConfig(
            limits=limits,
            stall_limits=StallLimits(),
            writes_per_s_max=_WRITES_PER_S_MAX,
            dry_run=dry_run,
        )
        clock = Clock(self.now_s, lambda: self._cluster.now_s)
        self._loop = ThrottleController(
            ports,
            config,
            clock,
            memory=Memory(),
            ramps=RampExecutor(throttles),
            steering=steering,
        )
        app = make_app(
            ApiState(
                self.observers,
                self.quotas,
                self.plans,
                mutations=self.mutations,
                weeks=self.weeks,
                journal=self.journal,
                grafana_url=grafana_url,
            ),
            make_registry(self.board, self.quotas),
            CYCLE_S,
            self.now_s,
            tokens=tokens,
            order_service=self.orders,
        )
        self._server = HttpServer(app, "127.0.0.1", 0, on_stop=self.observers.hub.close)
        self.address = f"http://127.0.0.1:{self._server.port}"
        self._next_s = 0.0
        self.cycles_s: list[float] = []  # CPU time of each cycle, of this thread.

    def __enter__(self) -> SimulatedTuner:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()

    def now_s(self) -> float:
        return self._epoch_s + self._cluster.now_s

    def record(self, entry: Entry) -> None:
        """Adds an entry to the journal that the history reads."""
        self.journal.add(entry, len(self.entries))
        self.entries.append(entry)

    @property
    def moving(self) -> bool:
        return self._cluster.moves_ended_s is None

    def advance(self, seconds: float) -> None:
        """Advances the simulated time, as fast as this machine computes it."""
        until_s = self._cluster.now_s + seconds
        while self._cluster.now_s < until_s:
            self._stream.advance()
            self.orders.now_ms = round(self.now_s() * 1000)
            now_s = self._cluster.now_s
            if self._loop.cycle_is_due() or now_s >= self._next_s:
                self._next_s = now_s + CYCLE_S
                began_s = time.thread_time()
                self._loop.cycle()
                self.cycles_s.append(time.thread_time() - began_s)
            due_s = self._loop.next_due_s()
            if due_s is not None and due_s <= now_s:
                self._loop.tick()
            self._cluster.step()

    def cycle(self) -> float:
        """Runs one cycle, and returns its CPU time."""
        began_s = time.thread_time()
        self._loop.cycle()
        return time.thread_time() - began_s
