"""Watches the controller during a calibration: the latency of the probe, the controller's metrics, and trouble of brokers.

Two threads collect: the creation probe sends its requests all the time, and a second thread reads the JMX agents every second. The
main thread asks ``check`` a few times a second, and stops the load at once if it returns a verdict.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rheostat.quotas.agents import AgentReader
from rheostat.quotas.calibrate.load_sample import (
    LoadSample,
    cluster_wide_of,
    grown_troubles,
    load_sample,
    pressure_between,
)
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import ClusterError
from tuner.control.mutation_quota.probe_window import ProbeRequest, ProbeWindow, with_implied_requests
from tuner.core.controller import ControllerObjective
from tuner.core.controller_pressure import IdleBaselines, Pressure, learn_idle_baselines
from tuner.runtime.mutation_quota.creation_probe import EVERY_S

_SCRAPE_EVERY_S = 1.0
_BROKERS_EVERY_S = 2.0
_EARLY_COUNT_MIN = 20  # Requests of the probe before a step is stopped early; two of them are above the p90.
_EARLY_SAMPLES_MIN = 3


class RequestLog(ProbeWindow):
    """Keeps all requests of the probe, so that each step can be judged by its own requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[ProbeRequest] = []

    def add(self, request: ProbeRequest, interval_s: float | None = None) -> None:
        super().add(request, interval_s)
        self.requests.append(request)


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """Why the load must stop.

    Attributes:
        pressure: the measure of the objective that is exceeded; None: trouble, which ends the whole calibration.
    """

    text: str
    pressure: Pressure | None = None


def probe_p90_ms(requests: Sequence[ProbeRequest], since_s: float) -> float | None:
    """Returns the p90 latency of the requests that began since then, in ms; None without any.

    Requests that were due while another one waited are added, as in the tuner's probe.
    """
    took_s = sorted(
        each.took_s
        for request in requests
        if request.at_s >= since_s
        for each in with_implied_requests(request, EVERY_S)
    )
    return 1000 * took_s[math.ceil(0.9 * len(took_s)) - 1] if took_s else None


class CalibrationGuard:
    """Judges the load against the objective. ``start`` begins the reading of the agents; ``stop`` ends it."""

    def __init__(
        self,
        client: ClusterClient,
        agents: AgentReader,
        log: RequestLog,
        objective: ControllerObjective,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._agents = agents
        self._log = log
        self.objective = objective
        self._monotonic = monotonic
        self._samples: list[LoadSample] = []
        self._baselines: IdleBaselines = {}
        self._rest: LoadSample | None = None
        self._brokers: frozenset[int] = frozenset()
        self._brokers_due_s = 0.0
        self._step_from_s = monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read_agents, name="calibration-agents", daemon=True)

    def start(self) -> None:
        self._brokers = frozenset(endpoint.node for endpoint in self._client.brokers())
        self.begin_step()
        if self._agents.are_known:
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)

    @property
    def measures_controller(self) -> bool:
        """Whether an agent of the active controller answers."""
        return any(sample.node is not None for sample in self._samples)

    def begin_step(self) -> None:
        self._step_from_s = self._monotonic()

    def learn_rest(self) -> float | None:
        """Takes the time since ``begin_step`` as the state without load; returns the probe's p90 (ms), None if not measured."""
        samples = self._step_samples()
        p90_ms = self.step_p90_ms()
        self._baselines = learn_idle_baselines(cluster_wide_of(samples, p90_ms), {})
        self._rest = samples[-1] if samples else None
        return p90_ms

    def with_probe_limit(self, limit_ms: float) -> None:
        self.objective = replace(self.objective, create_probe_p90_ms_max=limit_ms)

    def step_p90_ms(self) -> float | None:
        return probe_p90_ms(self._log.requests, self._step_from_s)

    def step_pressure(self) -> Pressure | None:
        """Returns the worst pressure since ``begin_step``; None if nothing was measured."""
        return pressure_between(self._step_samples(), self.step_p90_ms(), self.objective, self._baselines)

    def check(self) -> GuardVerdict | None:
        """Returns why the load must stop now; None: it may continue."""
        trouble = self.trouble()
        if trouble is not None:
            return GuardVerdict(trouble)
        samples = self._step_samples()
        requests = sum(request.at_s >= self._step_from_s for request in self._log.requests)
        p90_ms = self.step_p90_ms() if requests >= _EARLY_COUNT_MIN else None
        if len(samples) < _EARLY_SAMPLES_MIN:
            samples = []
        pressure = pressure_between(samples, p90_ms, self.objective, self._baselines)
        return GuardVerdict(str(pressure), pressure) if pressure is not None and pressure.ratio > 1 else None

    def trouble(self) -> str | None:
        """Returns the trouble of brokers since the start, as text; None without any."""
        if self._rest is not None and self._samples:
            grown = grown_troubles(self._rest, self._samples[-1])
            if grown:
                return "; ".join(grown)
        now_s = self._monotonic()
        if now_s < self._brokers_due_s:
            return None
        self._brokers_due_s = now_s + _BROKERS_EVERY_S
        try:
            alive = frozenset(endpoint.node for endpoint in self._client.brokers())
        except ClusterError as error:
            return f"the cluster does not answer: {error}"
        missing = sorted(self._brokers - alive)
        return f"broker {', '.join(map(str, missing))} is not alive any more" if missing else None

    def _step_samples(self) -> list[LoadSample]:
        """Returns the samples since ``begin_step``, and the one before, from which counters are compared."""
        first = next((n for n, s in enumerate(self._samples) if s.at_s >= self._step_from_s), None)
        return [] if first is None else self._samples[max(0, first - 1) :]

    def _read_agents(self) -> None:
        while not self._stop.is_set():
            self._samples.append(load_sample(self._agents.read(), self._monotonic()))
            self._stop.wait(_SCRAPE_EVERY_S)
