"""The best result that any law can reach by changing throttles: control with perfect information.

A law has errors in its estimates of client load, moves and quota windows. The clairvoyant reads all of these from the simulated
cluster, including the client load of the next second. Its remaining misses of the objective come from the throttle itself: a
response passes as a whole, several threads may pass at the same time, and a setting takes time to reach a broker.

Invariant: it changes the cluster by writing throttles once a second only, as every law does.

Vocabulary:
    reserve   bytes of a second that it leaves unused beside its share of the link: one whole response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streaming.shared.contract import Side
from tuner.control.throttle.objective import ControlLimits
from tuner.control.throttle.quota_window.model import SECONDS_KEPT, QuotaSamples, rate_for_setpoint
from tuner.core.cluster import BrokerSide
from tuner.simulation.latency import objective_utilisations
from tuner.simulation.numbers import Floats, sums
from tuner.simulation.policy import SimulatedEnvironment, ThrottlePolicyRunner
from tuner.simulation.world import MIB, World

_RATE_BYTES_PER_S_MIN = 1 * MIB


@dataclass(frozen=True, slots=True)
class Clairvoyant:
    name: str = "clairvoyant"

    def start(self, simulated: SimulatedEnvironment) -> ThrottlePolicyRunner:
        return _Hand(simulated)


@dataclass(slots=True)
class _Hand:
    simulated: SimulatedEnvironment
    seconds: list[Floats] = field(default_factory=list)  # What counted, by sensor; the newest last.
    second: Floats = field(default_factory=lambda: np.zeros(0))

    def act(self) -> None:
        cluster = self.simulated.cluster
        counted = cluster.quotas.new_bytes
        self.second = counted.copy() if len(self.second) == 0 else self.second + counted
        if cluster.ticks * cluster.world.tick_ms % 1000:
            return
        self.seconds = [*self.seconds[-SECONDS_KEPT:], self.second]
        self.second = np.zeros_like(counted)
        wanted = self._wanted()
        samples = cluster.world.fetch.quota_samples
        rates: dict[BrokerSide, int | None] = {}
        for side in cluster.controller.rates:
            sensor = cluster.sensor(side)
            window = _window([float(second[sensor]) for second in self.seconds])
            rate = rate_for_setpoint(window, float(wanted[sensor]), samples, compensation_range=0.0)
            if side[1] is Side.FOLLOWER:
                rate = ControlLimits().follower_margin_ratio * max(rate, float(wanted[sensor]))
            rates[side] = max(round(rate), round(_RATE_BYTES_PER_S_MIN))
        self.simulated.throttles.write_rates(rates)

    def _wanted(self) -> Floats:
        """Returns the rate of each sensor: the rate that fills the busiest broker's share, plus steady-state replication."""
        cluster = self.simulated.cluster
        replicas, count = cluster.replicas, cluster.count
        second = cluster.ticks * cluster.world.tick_ms // 1000
        demand = cluster.clients.demand(second, replicas)
        rows = replicas.fetching
        source, target = replicas.leader[replicas.partition[rows]], replicas.broker[rows]
        lag = replicas.lag_bytes[rows]
        unused = 1.0 - objective_utilisations(cluster.world.latency)
        carries_in = np.minimum(demand.link_in, cluster.clients.disk_write)
        reserve = _response_bytes(cluster.world)
        out = np.maximum(demand.spare_out - unused * demand.link_out - reserve, _RATE_BYTES_PER_S_MIN)
        into = np.maximum(demand.spare_in - unused * carries_in - reserve, _RATE_BYTES_PER_S_MIN)
        lag_out, lag_in = sums(source, lag, count), sums(target, lag, count)
        takes_s = max(1.0, float((lag_out / out).max()), float((lag_in / into).max()))
        wanted: Floats = np.concatenate((lag_out / takes_s + demand.listed_out, lag_in / takes_s + demand.listed_in))
        return wanted


def _response_bytes(world: World) -> float:
    """Returns the bytes of one response to a fetcher thread that catches up."""
    moving = len({(p.topic, p.partition) for p in world.moving})
    return min(world.fetch.response_bytes_max, moving * world.fetch.partition_bytes_max)


def _window(seconds: Sequence[float]) -> QuotaSamples:
    whole = (*(0.0,) * (SECONDS_KEPT - len(seconds)), *seconds[-SECONDS_KEPT:])
    return QuotaSamples(0, whole, whole, whole)
