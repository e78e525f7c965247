"""Watches the controller during a calibration: the latency of the probe, the controller's metrics, and trouble of brokers.

Two threads collect: the creation probe sends requests continuously, and a second thread reads the JMX agents every second. The main
thread asks ``check`` a few times a second, and stops the load at once if it returns a verdict.

Invariant: a missing answer to the probe counts as trouble. Without answers, the load cannot be judged. The cause may be a
controller that hangs, a missing right, or a probe that pauses after an error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from rheostat.quotas.agents import AgentReader
from rheostat.quotas.calibrate.load_sample import (
    LoadSample,
    cluster_wide_of,
    grown_troubles,
    load_sample,
    pressure_between,
)
from rheostat.quotas.calibrate.request_log import RequestLog, p90_ms
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.values import ClusterError
from tuner.core.controller import ControllerObjective
from tuner.core.controller_pressure import IdleBaselines, Pressure, learn_idle_baselines

_SCRAPE_EVERY_S = 1.0
_BROKERS_EVERY_S = 2.0
# A step may be stopped early only after this number of requests (implied requests included), because two of them are above the p90.
_EARLY_COUNT_MIN = 20
_EARLY_SAMPLES_MIN = 3
_SILENCE_S_MAX = 3.0
_SILENCE_LIMITS_MAX = 2.0  # With a high latency limit, the controller may be silent for this many times the limit.


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """Why the load must stop.

    Attributes:
        pressure: the measure of the objective that is exceeded; None if other trouble ends the whole calibration.
    """

    text: str
    pressure: Pressure | None = None


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
        self._idle_load: LoadSample | None = None
        self._brokers: frozenset[int] = frozenset()
        self._brokers_due_s = 0.0
        self._step_from_s = self._watched_from_s = monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read_agents, name="calibration-agents", daemon=True)

    def start(self) -> None:
        self._brokers = frozenset(endpoint.node for endpoint in self._client.brokers())
        self._watched_from_s = self._monotonic()
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

    def learn_idle_load(self) -> float | None:
        """Makes the time since ``begin_step`` the baseline without load. Returns the probe's p90 (ms); None if not measured."""
        samples = self._step_samples()
        probe_p90_ms = self.step_p90_ms()
        self._baselines = learn_idle_baselines(cluster_wide_of(samples, probe_p90_ms), {})
        self._idle_load = samples[-1] if samples else None
        return probe_p90_ms

    def set_probe_limit(self, limit_ms: float) -> None:
        self.objective = replace(self.objective, create_probe_p90_ms_max=limit_ms)

    def step_p90_ms(self) -> float | None:
        """Returns the p90 of the probe since ``begin_step``, in ms; None without a request."""
        return p90_ms(self._step_took_s())

    def step_pressure(self) -> Pressure | None:
        """Returns the worst pressure since ``begin_step``; None if nothing was measured."""
        return pressure_between(self._step_samples(), self.step_p90_ms(), self.objective, self._baselines)

    def check(self) -> GuardVerdict | None:
        """Returns why the load must stop now; None if it may continue."""
        trouble = self.trouble()
        if trouble is not None:
            return GuardVerdict(trouble)
        samples = self._step_samples()
        took_s = self._step_took_s()
        probe_p90_ms = p90_ms(took_s) if len(took_s) >= _EARLY_COUNT_MIN else None
        if len(samples) < _EARLY_SAMPLES_MIN:
            samples = []
        pressure = pressure_between(samples, probe_p90_ms, self.objective, self._baselines)
        return GuardVerdict(str(pressure), pressure) if pressure is not None and pressure.ratio > 1 else None

    def trouble(self) -> str | None:
        """Returns the trouble of brokers since the start, or the silence of the controller, as text; None if there is no
        trouble."""
        silence_s = self._monotonic() - max(self._watched_from_s, self._log.answered_at_s or 0.0)
        if silence_s > max(_SILENCE_S_MAX, _SILENCE_LIMITS_MAX * (self._limit_s or 0.0)):
            return f"the controller has not answered rheostat's own requests for {silence_s:.1f} s, so the load cannot be judged"
        if self._idle_load is not None and self._samples:
            grown = grown_troubles(self._idle_load, self._samples[-1])
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

    @property
    def _limit_s(self) -> float | None:
        limit_ms = self.objective.create_probe_p90_ms_max
        return None if limit_ms is None else limit_ms / 1000

    def _step_took_s(self) -> list[float]:
        return self._log.took_s(self._step_from_s, self._monotonic(), self._limit_s)

    def _step_samples(self) -> list[LoadSample]:
        """Returns the samples since ``begin_step``, and the last earlier sample, with which counters are compared."""
        first = next((n for n, s in enumerate(self._samples) if s.at_s >= self._step_from_s), None)
        return [] if first is None else self._samples[max(0, first - 1) :]

    def _read_agents(self) -> None:
        while not self._stop.is_set():
            self._samples.append(load_sample(self._agents.read(), self._monotonic()))
            self._stop.wait(_SCRAPE_EVERY_S)
