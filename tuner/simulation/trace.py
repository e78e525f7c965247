"""Records a run: a summary, with which policies are compared, and series by second and broker for charts."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field

import numpy as np

from streaming.shared.contract import Side
from tuner.simulation.calm import (
    Calm,
    Silence,
    ThrottleSeries,
    burst_ratio_max,
    rate_variation_per_min,
    undershoot_ratio,
    writes_per_broker_min,
)
from tuner.simulation.client_phases import ClientPhase, ClientPhases, modelled_phase
from tuner.simulation.cluster import Cluster, Tick
from tuner.simulation.latency import client_mean_ms, client_p99_ms, violation_ratio
from tuner.simulation.numbers import Bools, Floats
from tuner.simulation.world import World


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The figures of one run.

    Attributes:
        completed: all moves ended within the world's time.
        duration_s: seconds from the start of the moves to the end of the last move; if the moves did not end, to the end of the
            run.
        optimum_s: T*, the shortest possible time (optimum.py); None if no schedule ends within the world's time.
        ratio_to_optimum: duration_s ÷ optimum_s; None if one of them is not known.
        slo_violation_ratio_1s: share of the broker-seconds with moves in which the latency exceeded the objective.
        slo_violation_ratio_5s: the same share for means over five seconds.
        burst_ratio_max: highest ratio of the throttled bytes of a second to the rate at its end (calm.py); 0 without throttles.
        silence_s_max: longest time in which a lagging broker received nothing.
        config_writes_per_broker_min: throttle writes per broker and minute, until the end of the moves.
        caught_up_bytes: all copied bytes.
    """

    completed: bool
    duration_s: float
    optimum_s: float | None
    ratio_to_optimum: float | None
    slo_violation_ratio_1s: float
    slo_violation_ratio_5s: float
    burst_ratio_max: float
    silence_s_max: float
    config_writes_per_broker_min: float
    caught_up_bytes: float


@dataclass(frozen=True, slots=True)
class Trace:
    """A recorded run. Arrays are by second and broker, in the order of the world's brokers; bytes/s are means over the second."""

    world: World
    policy: str
    summary: RunSummary
    utilisation: Floats
    p99_ms: Floats
    client_in_bytes_per_s: Floats
    client_out_bytes_per_s: Floats
    catch_up_in_bytes_per_s: Floats
    catch_up_out_bytes_per_s: Floats
    leader_rate_bytes_per_s: Floats  # ∞: no throttle is set.
    follower_rate_bytes_per_s: Floats
    remaining_bytes: Floats  # By second.
    calm: Calm = field(default_factory=Calm)
    clients: ClientPhases = field(default_factory=ClientPhases)

    def to_json(self) -> str:
        """Returns the summary as JSON."""
        return json.dumps({"seed": self.world.seed, "policy": self.policy, **asdict(self.summary)})

    def digest(self) -> str:
        """Returns a hash that is equal for equal runs only."""
        digest = hashlib.sha256(self.to_json().encode())
        for series in (
            self.utilisation,
            self.p99_ms,
            self.client_in_bytes_per_s,
            self.client_out_bytes_per_s,
            self.catch_up_in_bytes_per_s,
            self.catch_up_out_bytes_per_s,
            self.leader_rate_bytes_per_s,
            self.follower_rate_bytes_per_s,
            self.remaining_bytes,
        ):
            digest.update(series.tobytes())
        return digest.hexdigest()


class Recorder:
    """Collects the figures of a run, tick by tick."""

    def __init__(self, cluster: Cluster, *, optimum_s: float | None, policy: str) -> None:
        world = cluster.world
        self._cluster = cluster
        self._optimum_s = optimum_s
        self._policy = policy
        self._ticks_per_s = 1000 // world.tick_ms
        shape = (math.ceil(world.duration_s_max), cluster.count)
        self._series = {
            name: np.zeros(shape)
            for name in ("client_in", "client_out", "catch_up_in", "catch_up_out", "utilisation", "without_copies")
        }
        # By sensor: leaders, then followers.
        sensors = (shape[0], 2 * cluster.count)
        self._rates, self._throttled = np.zeros(sensors), np.zeros(sensors)
        self._has_work: Bools = np.zeros(sensors, dtype=np.bool_)
        self._silence = Silence(cluster.count)
        self._remaining: list[float] = []
        self._moving: list[bool] = []

    def add(self, tick: Tick) -> None:
        """Adds a tick that has just ended."""
        cluster, series = self._cluster, self._series
        second = (cluster.ticks - 1) // self._ticks_per_s
        if second >= len(series["client_in"]):
            return
        series["client_in"][second] += tick.client_in_bytes
        series["client_out"][second] += tick.client_out_bytes
        series["catch_up_in"][second] += tick.catch_up_in_bytes
        series["catch_up_out"][second] += tick.catch_up_out_bytes
        series["utilisation"][second] += tick.utilisation / self._ticks_per_s
        series["without_copies"][second] += tick.utilisation_without_copies / self._ticks_per_s
        self._throttled[second] += cluster.quotas.new_bytes
        self._has_work[second] |= tick.catching_up
        receives = tick.catching_up[cluster.count :]
        self._silence.add(receives & (tick.catch_up_in_bytes <= 0), cluster.world.tick_s)
        if cluster.ticks % self._ticks_per_s == 0:
            self._end_second(second)

    def _end_second(self, second: int) -> None:
        cluster = self._cluster
        self._rates[second] = cluster.quotas.bound_bytes_per_s
        self._moving.append(cluster.moving)
        self._remaining.append(float(cluster.replicas.lag_bytes[cluster.replicas.adding].sum()))

    def calm(self, config_writes: int, duration_s: float) -> Calm:
        """Returns the measures of calm.py for the seconds so far.

        Args:
            config_writes: settings written during the moves.
            duration_s: seconds of the moves.
        """
        count, seconds = self._cluster.count, len(self._remaining)
        leaders, followers = (
            ThrottleSeries(
                step_s=np.ones(seconds),
                rate_bytes_per_s=self._rates[:seconds, side],
                passed_bytes_per_s=self._throttled[:seconds, side],
                has_work=self._has_work[:seconds, side],
            )
            for side in (slice(count), slice(count, None))
        )
        return Calm(
            rate_variation_per_min=rate_variation_per_min(leaders, followers),
            burst_ratio_max=burst_ratio_max(leaders, followers),
            undershoot_ratio=undershoot_ratio(leaders, followers),
            silence_s_max=self._silence.longest_s,
            config_writes_per_broker_min=writes_per_broker_min(config_writes, count, duration_s),
        )

    def clients(self, begin_s: float, end_s: float | None) -> ClientPhases:
        """Returns the latency and bytes of clients before, during and after the moves, on the brokers that take part in the moves.

        Most worlds have no time before their moves. So "before" is the latency in the seconds of the moves if no bytes were copied.
        "After" is the recorded time after the end of the moves.

        Args:
            begin_s: start of the moves.
            end_s: end of the moves; None: they have not ended.
        """
        recorded = len(self._remaining)
        begin = min(int(begin_s), recorded)
        end = recorded if end_s is None else min(math.ceil(end_s), recorded)
        during, after = slice(begin, end), slice(end, recorded)
        return ClientPhases(
            before=self._phase("without_copies", during),
            during=self._phase("utilisation", during),
            after=self._phase("utilisation", after),
        )

    def _phase(self, utilisation: str, seconds: slice) -> ClientPhase | None:
        series = self._series
        recorded = slice(len(self._remaining))
        takes_part = (series["catch_up_in"][recorded] + series["catch_up_out"][recorded]).any(axis=0)
        client_bytes = (series["client_in"] + series["client_out"])[seconds, takes_part]
        mean_ms = client_mean_ms(series[utilisation][seconds, takes_part], self._cluster.world.latency)
        return modelled_phase(mean_ms, client_bytes)

    def trace(self, config_writes: int) -> Trace:
        """Returns the run as recorded so far.

        Args:
            config_writes: number of throttle writes during the moves.
        """
        cluster, world = self._cluster, self._cluster.world
        seconds = len(self._remaining)
        series = {name: values[:seconds] for name, values in self._series.items()}
        ended_s = cluster.moves_ended_s
        until_s = ended_s if ended_s is not None else cluster.now_s
        duration_s = until_s - world.moves_begin_s
        moving = np.array(self._moving, dtype=np.bool_)
        model = world.latency
        utilisation = series["utilisation"]
        used, alone = utilisation[moving], series["without_copies"][moving]
        calm = self.calm(config_writes, duration_s)
        summary = RunSummary(
            completed=ended_s is not None,
            duration_s=duration_s,
            optimum_s=self._optimum_s,
            ratio_to_optimum=duration_s / self._optimum_s if ended_s is not None and self._optimum_s else None,
            slo_violation_ratio_1s=violation_ratio(used, model, bin_s=1, without_copies=alone),
            slo_violation_ratio_5s=violation_ratio(used, model, bin_s=5, without_copies=alone),
            burst_ratio_max=calm.burst_ratio_max or 0.0,
            silence_s_max=calm.silence_s_max or 0.0,
            config_writes_per_broker_min=calm.config_writes_per_broker_min or 0.0,
            caught_up_bytes=float(cluster.replicas.gained_bytes.sum()),
        )
        return Trace(
            world=world,
            policy=self._policy,
            summary=summary,
            utilisation=utilisation,
            p99_ms=client_p99_ms(utilisation, model),
            client_in_bytes_per_s=series["client_in"],
            client_out_bytes_per_s=series["client_out"],
            catch_up_in_bytes_per_s=series["catch_up_in"],
            catch_up_out_bytes_per_s=series["catch_up_out"],
            leader_rate_bytes_per_s=self._rates[:seconds, : cluster.count],
            follower_rate_bytes_per_s=self._rates[:seconds, cluster.count :],
            remaining_bytes=np.array(self._remaining),
            calm=calm,
            clients=self.clients(world.moves_begin_s, ended_s),
        )


def rate_series(trace: Trace, side: Side) -> Floats:
    return trace.leader_rate_bytes_per_s if side is Side.LEADER else trace.follower_rate_bytes_per_s
