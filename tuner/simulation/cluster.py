"""The plant: a cluster that goes on tick by tick, and obeys the throttles that stand on its brokers as Kafka does.

A tick: what is due happens (a broker goes, a config arrives), clients and in-sync followers take their bytes, threads that
catch up share what is left of links and disks, the quotas count, and who has caught up joins.

Simplification: clients and in-sync replication come first for bytes, and pay for the company with latency; see latency.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streaming.contract import Side
from streaming.throttles import ThrottledReplicas, TopicThrottle
from tuner.model.cluster import BrokerSide
from tuner.simulation.controller import Controller
from tuner.simulation.fetchers import Fetchers
from tuner.simulation.load import link_factors, load_factors
from tuner.simulation.numbers import Floats, Ints
from tuner.simulation.quota import Quotas
from tuner.simulation.replicas import NOBODY, Replicas
from tuner.simulation.world import BrokerLoss, ClientLoad, LeaderMove, OperatorWrite, World

_SHARE_MIN = 0.02  # However busy a link is, whoever else uses it gets a little.
_HEADER_BYTES = 30.0  # Counts on the leader side also when a response is empty, so that sensor is never cold.


# What brokers count, in the order of ``Cluster.totals``; the last is utilisation × seconds.
TOTALS = ("client_in", "client_out", "steady_in", "steady_out", "caught_in", "caught_out", "utilised_s")


@dataclass(frozen=True, slots=True)
class Tick:
    """What passed in one tick, by broker."""

    client_in_bytes: Floats
    client_out_bytes: Floats
    steady_in_bytes: Floats  # In-sync replication of the world's partitions.
    steady_out_bytes: Floats
    caught_in_bytes: Floats  # Catching up.
    caught_out_bytes: Floats
    utilisation: Floats  # Of the busiest direction of link and disk.


class Cluster:
    def __init__(self, world: World) -> None:
        self.world = world
        load_rng, controller_rng = (np.random.default_rng([world.seed, part]) for part in (1, 2))
        self.replicas = Replicas(world)
        self.count = len(world.brokers)
        self.quotas = Quotas(2 * self.count, samples=world.fetch.quota_samples, sample_s=world.fetch.quota_sample_s)
        self.fetchers = Fetchers(self.replicas, self.quotas, world.fetch)
        self.controller = Controller(world, controller_rng)
        self.lists: dict[str, TopicThrottle] = {
            lists.topic: TopicThrottle(ThrottledReplicas.parse(lists.leader), ThrottledReplicas.parse(lists.follower))
            for lists in world.lists
        }
        self.ticks = 0
        self.changes = 0  # Of membership, leadership or lists, so far.
        self.totals: Floats = np.zeros((len(TOTALS), self.count))
        self.moves_begun = False
        self.moves_ended_s: float | None = None
        self.behind_since_last_byte_s: Floats = np.zeros(self.count)
        self.load = load_factors(world, load_rng)
        self._links = link_factors(world)
        loads = {load.broker: load for load in world.loads}
        own = [loads.get(spec.broker, ClientLoad(spec.broker)) for spec in world.brokers]
        self._other_in = np.array([load.in_bytes_per_s for load in own])
        self._other_out = np.array([load.out_bytes_per_s for load in own])
        self._reads = np.array([load.reads_per_write for load in own])
        self._link_in = np.array([spec.link_in_bytes_per_s for spec in world.brokers])
        self._link_out = np.array([spec.link_out_bytes_per_s for spec in world.brokers])
        self._disk_write = np.array([spec.disk_write_bytes_per_s for spec in world.brokers])
        self._disk_read = np.array([spec.disk_read_bytes_per_s for spec in world.brokers])
        self._due = _schedule(world)
        self._ending: list[tuple[float, int]] = []  # (when, partition): completions in the controller's queue.
        self._bind_rates()
        self._rebuild()

    @property
    def now_s(self) -> float:
        return self.ticks * self.world.tick_ms / 1000.0

    @property
    def moving(self) -> bool:
        return bool(self.replicas.adding.any())

    def set_lists(self, topic: str, throttle: TopicThrottle) -> None:
        """Takes effect at once: lists change rarely, and what they change is slow."""
        if throttle.leader or throttle.follower:
            self.lists[topic] = throttle
        else:
            self.lists.pop(topic, None)
        self._rebuild()

    def step(self) -> Tick:
        """One tick from ``now_s`` on."""
        now_s, dt_s = self.now_s, self.world.tick_s
        self._happen(now_s)
        if self.controller.advance(now_s, dt_s):
            self._bind_rates()
        tick = self._flow(dt_s)
        self.ticks += 1
        return tick

    def _flow(self, dt_s: float) -> Tick:
        replicas, quotas = self.replicas, self.quotas
        second = min(self.ticks * self.world.tick_ms // 1000, len(self.load) - 1)
        factor = self.load[second] * replicas.alive
        link = self._links[second]
        produced = factor * replicas.produced
        client_in = produced + factor * self._other_in
        client_out = factor * self._other_out + produced * self._reads
        steady_out, steady_in = factor * replicas.steady_out, factor @ replicas.steady
        link_in, link_out = link * self._link_in, link * self._link_out
        room_out = np.maximum(link_out - client_out - steady_out, _SHARE_MIN * link_out)
        room_in = np.maximum(link_in - client_in - steady_in, _SHARE_MIN * link_in)
        room_disk = np.maximum(self._disk_write - client_in - steady_in, _SHARE_MIN * self._disk_write)

        quotas.begin(self.ticks * self.world.tick_ms)
        on_leader = factor * replicas.steady_leader_listed * dt_s + _HEADER_BYTES * dt_s * replicas.alive
        on_follower = factor @ replicas.steady_follower_listed * dt_s
        quotas.record(np.concatenate([on_leader, on_follower]))
        led = replicas.leader != NOBODY
        written = np.where(led, replicas.weight_bytes_per_s * factor[replicas.leader], 0.0) * dt_s
        replicas.written_bytes += written
        replicas.lag_bytes[replicas.behind] += written[replicas.partition[replicas.behind]]
        caught_out, caught_in, caught_up = self.fetchers.advance(
            dt_s, np.minimum(room_out, self._disk_read), np.minimum(room_in, room_disk)
        )
        quotas.end()
        if len(caught_up):
            self._join(caught_up)
        self._silence(caught_in, dt_s)
        busiest = np.maximum.reduce(
            [
                (client_in + steady_in + caught_in / dt_s) / link_in,
                (client_out + steady_out + caught_out / dt_s) / link_out,
                (client_in + steady_in + caught_in / dt_s) / self._disk_write,
                caught_out / dt_s / self._disk_read,
            ]
        )
        tick = Tick(
            client_in * dt_s, client_out * dt_s, steady_in * dt_s, steady_out * dt_s, caught_in, caught_out, busiest
        )
        for total, passed in zip(
            self.totals,
            (
                tick.client_in_bytes, tick.client_out_bytes, tick.steady_in_bytes, tick.steady_out_bytes,
                tick.caught_in_bytes, tick.caught_out_bytes, busiest * dt_s,
            ),
            strict=True,
        ):  # fmt: skip
            total += passed
        return tick

    def _silence(self, caught_in: Floats, dt_s: float) -> None:
        waiting = np.zeros(self.count, dtype=np.bool_)
        waiting[self.replicas.broker[self.replicas.fetching]] = True
        quiet = waiting & (caught_in <= 0)
        self.behind_since_last_byte_s = np.where(quiet, self.behind_since_last_byte_s + dt_s, 0.0)

    def _join(self, rows: Ints) -> None:
        """Into the ISR; a partition whose last adding replica that was completes once the controller comes to it."""
        replicas = self.replicas
        replicas.in_sync[rows] = True
        replicas.lag_bytes[rows] = 0.0
        done_s = self.controller.submit(self.now_s, len(rows))
        queued = {partition for _, partition in self._ending}
        concerned = set(replicas.partition[rows].tolist())
        self._ending += [(done_s, p) for p in replicas.joined() if p in concerned and p not in queued]
        self._rebuild()

    def _happen(self, now_s: float) -> None:
        ended = [partition for at_s, partition in self._ending if at_s <= now_s]
        if ended:
            self._ending = [entry for entry in self._ending if entry[0] > now_s]
            for partition in ended:
                self.replicas.complete(partition)
            if not self.moving and self.moves_ended_s is None:
                self.moves_ended_s = now_s
        begins = not self.moves_begun and now_s >= self.world.moves_begin_s
        if begins:
            self.moves_begun = True
            self.replicas.start_moves()
        due = []
        while self._due and self._due[-1][0] <= now_s:
            due.append(self._due.pop())
        for _, what, ends in due:
            self._disturb(what, ends, now_s)
        if ended or begins or due:
            self._rebuild()

    def _disturb(self, what: BrokerLoss | LeaderMove | OperatorWrite, ends: bool, now_s: float) -> None:
        index_of = self.replicas.index_of
        match what:
            case BrokerLoss(broker=broker) if ends:
                self.replicas.bring_back(index_of[broker])
            case BrokerLoss(broker=broker):
                self.replicas.lose(index_of[broker])
            case LeaderMove(topic=topic, partition=number, to=to):
                found = [i for i, p in enumerate(self.replicas.specs) if (p.topic, p.partition) == (topic, number)]
                for partition in found:
                    self.replicas.elect(partition, index_of[to])
            case OperatorWrite(broker=broker, side=side, rate_bytes_per_s=rate):
                self.controller.write(now_s, (broker, side), rate)

    def _rebuild(self) -> None:
        self.changes += 1
        self.replicas.rebuild(self.lists)
        self.fetchers.rebuild()

    def _bind_rates(self) -> None:
        self.quotas.bound_bytes_per_s[:] = np.inf
        for side, rate in self.controller.rates.items():
            self.quotas.bound_bytes_per_s[self.sensor(side)] = rate

    def free_bytes_per_s(self, share: float) -> tuple[Floats, Floats]:
        """By second and broker, what clients and in-sync replicas leave of ``share`` of every capacity: out and in."""
        replicas, load, links = self.replicas, self.load, self._links
        produced = load * replicas.produced
        used_in = produced + load * self._other_in + load @ replicas.steady
        used_out = load * (self._other_out + replicas.steady_out) + produced * self._reads
        free_out = np.minimum(share * links * self._link_out - used_out, share * self._disk_read)
        free_in = np.minimum(share * links * self._link_in, share * self._disk_write) - used_in
        return np.maximum(free_out, 0.0), np.maximum(free_in, 0.0)

    def sensor(self, side: BrokerSide) -> int:
        return self.replicas.index_of[side[0]] + (self.count if side[1] is Side.FOLLOWER else 0)


def _schedule(world: World) -> list[tuple[float, BrokerLoss | LeaderMove | OperatorWrite, bool]]:
    """What happens at one moment, last first; the flag marks the end of a loss."""
    happens: list[tuple[float, BrokerLoss | LeaderMove | OperatorWrite, bool]] = []
    for what in world.disturbances:
        if isinstance(what, BrokerLoss | LeaderMove | OperatorWrite):
            happens.append((what.at_s, what, False))
        if isinstance(what, BrokerLoss):
            happens.append((what.until_s, what, True))
    return sorted(happens, key=_moment, reverse=True)


def _moment(entry: tuple[float, Sequence[object] | object, bool]) -> float:
    return entry[0]
