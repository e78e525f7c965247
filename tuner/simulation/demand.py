"""Computes the demand of clients and in-sync replication on every broker, and the capacity that they leave for copies (catch-up).

Invariant: the demand is constant within a second while membership, leadership and lists do not change. So it is computed once a
second.

Simplification: clients get their bytes first, then in-sync replication, then catch-up. If a link is full, the latency of
clients rises (latency.py), and in-sync followers may fall behind (in_sync.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuner.simulation.load import draw_load_factors, link_factors
from tuner.simulation.numbers import Floats
from tuner.simulation.replicas import NO_LEADER, Replicas
from tuner.simulation.world import ClientLoad, World

_SHARE_MIN = 0.02  # Catch-up gets at least this share of a link, even if the link is full.


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand in one second. All arrays are by broker, in bytes/s, unless noted."""

    factor: Floats  # Factor on the mean load; 0 while the broker is down.
    client_in: Floats
    client_out: Floats
    steady_in: Floats  # In-sync (steady-state) replication of the world's partitions.
    steady_out: Floats
    listed_in: Floats  # The part of ``steady_in`` that counts against the follower's throttle.
    listed_out: Floats  # The part of ``steady_out`` that counts against the leader's throttle.
    link_in: Floats  # Current capacity of the link.
    link_out: Floats
    spare_in: Floats  # Link and disk capacity minus clients and in-sync replication; negative if they exceed it.
    spare_out: Floats
    room_in: Floats  # Bytes/s for catch-up: ``spare_in``, but at least a small share of the capacity.
    room_out: Floats
    written: Floats  # By partition.


class Clients:
    """The random client load, and the capacities of links and disks."""

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        self.factors = draw_load_factors(world, rng)  # By second and broker.
        self._links = link_factors(world)
        loads = {load.broker: load for load in world.loads}
        broker_loads = [loads.get(spec.broker, ClientLoad(spec.broker)) for spec in world.brokers]
        # Traffic of partitions outside the world.
        self._other_in = np.array([load.in_bytes_per_s for load in broker_loads])
        self._other_out = np.array([load.out_bytes_per_s for load in broker_loads])
        self._reads = np.array([load.reads_per_write for load in broker_loads])
        self._link_in = np.array([spec.link_in_bytes_per_s for spec in world.brokers])
        self._link_out = np.array([spec.link_out_bytes_per_s for spec in world.brokers])
        self.disk_write = np.array([spec.disk_write_bytes_per_s for spec in world.brokers])
        self.disk_read = np.array([spec.disk_read_bytes_per_s for spec in world.brokers])

    def demand(self, second: int, replicas: Replicas) -> Demand:
        second = min(second, len(self.factors) - 1)
        factor = self.factors[second] * replicas.alive
        link_in, link_out = self._links[second] * self._link_in, self._links[second] * self._link_out
        produced = factor * replicas.produced
        client_in = produced + factor * self._other_in
        client_out = factor * self._other_out + produced * self._reads
        steady_in, steady_out = replicas.steady_in(factor), factor * replicas.steady_out
        capacity_in = np.minimum(link_in, self.disk_write)
        spare_in, spare_out = capacity_in - client_in - steady_in, link_out - client_out - steady_out
        led = replicas.leader != NO_LEADER
        return Demand(
            factor=factor,
            client_in=client_in,
            client_out=client_out,
            steady_in=steady_in,
            steady_out=steady_out,
            listed_in=replicas.steady_in(factor, listed=True),
            listed_out=factor * replicas.steady_leader_listed,
            link_in=link_in,
            link_out=link_out,
            spare_in=spare_in,
            spare_out=spare_out,
            room_in=np.maximum(spare_in, _SHARE_MIN * capacity_in),
            room_out=np.minimum(np.maximum(spare_out, _SHARE_MIN * link_out), self.disk_read),
            written=np.where(led, replicas.weight_bytes_per_s * factor[replicas.leader], 0.0),
        )

    def free_bytes_per_s(self, replicas: Replicas, share: float | Floats) -> tuple[Floats, Floats]:
        """Returns by second and broker the bytes/s that clients and in-sync replicas leave free, out and in.

        Args:
            share: the share of the capacity that all traffic together may use; one value for all brokers, or one by broker.
        """
        factors, links = self.factors, self._links
        produced = factors * replicas.produced
        used_in = produced + factors * self._other_in + factors @ replicas.steady_pairs()
        used_out = factors * (self._other_out + replicas.steady_out) + produced * self._reads
        free_out = np.minimum(share * links * self._link_out - used_out, share * self.disk_read)
        free_in = np.minimum(share * links * self._link_in, share * self.disk_write) - used_in
        return np.maximum(free_out, 0.0), np.maximum(free_in, 0.0)
