"""Simulates a cluster tick by tick. Its brokers obey their throttles as Kafka brokers do.

In each tick:

1. Due events happen: a broker fails, a config arrives.
2. Clients and in-sync followers take their bytes.
3. Fetcher threads that catch up share the rest of links and disks, and the quotas count their bytes.
4. Replicas that have caught up join the ISR, and replicas that could not keep up leave the ISR.

Terms:
    sensor    the measurement of one throttle, as in quota.py: all leader sides, then all follower sides.
    row       one replica, as in replicas.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.core.cluster import BrokerSide
from tuner.simulation.controller import Controller
from tuner.simulation.demand import Clients, Demand
from tuner.simulation.fetchers import Fetchers
from tuner.simulation.in_sync import InSyncLag
from tuner.simulation.numbers import Bools, Floats, Ints
from tuner.simulation.quota import SimulatedQuotas
from tuner.simulation.replicas import Replicas
from tuner.simulation.world import BrokerLoss, LeaderMove, OperatorWrite, World

# Empty responses count on the leader side too, so the sensor of a leader with followers always has records.
_EMPTY_RESPONSES_BYTES_PER_S = 30.0

# The counters of a broker, in the order of ``Cluster.totals``; the last is utilisation × seconds.
TOTALS = (
    "client_in",
    "client_out",
    "steady_in",
    "steady_out",
    "catch_up_in",
    "catch_up_out",
    "isr_shrinks",
    "isr_expands",
    "utilised_s",
)


@dataclass(frozen=True, slots=True)
class Tick:
    """The bytes of one tick, by broker."""

    client_in_bytes: Floats
    client_out_bytes: Floats
    steady_in_bytes: Floats  # In-sync replication of the world's partitions.
    steady_out_bytes: Floats
    catch_up_in_bytes: Floats
    catch_up_out_bytes: Floats
    utilisation: Floats  # Utilisation of the busiest direction of link or disk.
    utilisation_without_copies: Floats  # The same, without the bytes of replicas that catch up.
    catching_up: Bools  # By sensor: the side has replicas to catch up.


class Cluster:
    """The simulated cluster. ``step`` advances it by one tick."""

    def __init__(self, world: World) -> None:
        self.world = world
        load_rng = np.random.default_rng([world.seed, 1])
        controller_rng = np.random.default_rng([world.seed, 2])
        self.replicas = Replicas(world)
        self.count = len(world.brokers)
        # By sensor, relative to the start of a tick, for traffic that flows during the whole tick.
        self._tick_begins_s, self._tick_ends_s = np.zeros(2 * self.count), np.full(2 * self.count, world.tick_s)
        self.quotas = SimulatedQuotas(
            2 * self.count, samples=world.fetch.quota_samples, sample_s=world.fetch.quota_sample_s
        )
        self.fetchers = Fetchers(self.replicas, self.quotas, world.fetch, world.record_bytes)
        self.controller = Controller(world, controller_rng)
        self.lists: dict[str, TopicThrottle] = {
            lists.topic: TopicThrottle(ThrottledReplicas.parse(lists.leader), ThrottledReplicas.parse(lists.follower))
            for lists in world.lists
        }
        self.ticks = 0
        self.changes = 0  # Number of changes of membership, leadership or lists so far.
        self.totals: Floats = np.zeros((len(TOTALS), self.count))  # By counter and broker.
        self.moves_begun = False
        self.moves_ended_s: float | None = None
        self.clients = Clients(world, load_rng)
        self.in_sync = InSyncLag(self.replicas, world.replica_lag_s_max)
        self._demand: Demand | None = None
        self._demand_key = (-1, -1)  # Second and number of changes for which ``_demand`` was computed.
        self._steady_counted_bytes: Floats = np.zeros(2 * self.count)  # Per tick, by sensor.
        self._written_bytes: Floats = np.zeros(len(world.partitions))  # Per tick, by partition.
        self._catching_up: Bools = np.zeros(2 * self.count, dtype=np.bool_)  # By sensor, as in ``Tick``.
        self._events = _schedule(world)  # Events still to come, the latest first, so that ``pop`` gives the next.
        self._completions: list[tuple[float, int]] = []  # (time, partition): completions in the controller's queue.
        self._apply_rates()
        self._rebuild()

    @property
    def now_s(self) -> float:
        return self.ticks * self.world.tick_ms / 1000.0

    @property
    def moving(self) -> bool:
        return bool(self.replicas.adding.any())

    def start_moves(self, partitions: Ints) -> None:
        """Starts the moves of these partitions, for an executor of plans."""
        self.moves_begun = True
        self.replicas.start_moves(partitions)
        self._rebuild()

    def set_lists(self, topic: str, throttle: TopicThrottle) -> None:
        """Sets the lists of a topic. Simplification: they take effect at once, without the controller's queue."""
        if throttle.leader or throttle.follower:
            self.lists[topic] = throttle
        else:
            self.lists.pop(topic, None)
        self._rebuild()

    def step(self) -> Tick:
        """Simulates one tick from ``now_s`` on."""
        now_s, dt_s = self.now_s, self.world.tick_s
        self._handle_due_events(now_s)
        if self.controller.advance(now_s, dt_s):
            self._apply_rates()
        tick = self._transfer_bytes(dt_s)
        self.ticks += 1
        return tick

    def _transfer_bytes(self, dt_s: float) -> Tick:
        replicas, quotas = self.replicas, self.quotas
        catching_up = self._catching_up
        demand = self._current_demand()
        quotas.begin(self.ticks * self.world.tick_ms, dt_s)
        quotas.record(self._steady_counted_bytes, self._tick_begins_s, self._tick_ends_s)
        written = self._written_bytes
        replicas.written_bytes += written
        replicas.lag_bytes[replicas.behind] += written[replicas.partition[replicas.behind]]
        excess_in, excess_out, too_late = self.in_sync.advance(dt_s, demand)
        catch_up_out, catch_up_in, caught_up = self.fetchers.advance(self.now_s, dt_s, demand.room_out, demand.room_in)
        quotas.end()
        steady_in, steady_out = demand.steady_in * dt_s + excess_in, demand.steady_out * dt_s + excess_out
        client_in, client_out = demand.client_in * dt_s, demand.client_out * dt_s
        all_in, all_out = client_in + steady_in + catch_up_in, client_out + steady_out + catch_up_out
        utilisation = self._utilisation(demand, all_in, all_out, catch_up_out) / dt_s
        without_copies = self._utilisation(demand, all_in - catch_up_in, all_out - catch_up_out, 0.0) / dt_s
        if len(too_late):
            self._leave_isr(too_late)
        if len(caught_up):
            self._join_isr(caught_up)
        self.totals[:6] += (
            client_in,
            client_out,
            steady_in,
            steady_out,
            catch_up_in,
            catch_up_out,
        )  # As ``TOTALS`` begins.
        self.totals[-1] += utilisation * dt_s
        return Tick(
            client_in_bytes=client_in,
            client_out_bytes=client_out,
            steady_in_bytes=steady_in,
            steady_out_bytes=steady_out,
            catch_up_in_bytes=catch_up_in,
            catch_up_out_bytes=catch_up_out,
            utilisation=utilisation,
            utilisation_without_copies=without_copies,
            catching_up=catching_up,
        )

    def _utilisation(self, demand: Demand, in_bytes: Floats, out_bytes: Floats, read_bytes: Floats | float) -> Floats:
        """Returns bytes ÷ bytes/s of the busiest direction of link or disk, by broker."""
        links = np.maximum(in_bytes / demand.link_in, out_bytes / demand.link_out)
        disks = np.maximum(in_bytes / self.clients.disk_write, read_bytes / self.clients.disk_read)
        utilisation: Floats = np.maximum(links, disks)
        return utilisation

    def _current_demand(self) -> Demand:
        second = self.ticks * self.world.tick_ms // 1000
        key = (second, self.changes)
        if self._demand is None or key != self._demand_key:
            demand, dt_s = self.clients.demand(second, self.replicas), self.world.tick_s
            self._demand, self._demand_key = demand, key
            counted_out = demand.listed_out + _EMPTY_RESPONSES_BYTES_PER_S * self.replicas.followed
            self._steady_counted_bytes = np.concatenate([counted_out, demand.listed_in]) * dt_s
            self._written_bytes = demand.written * dt_s
        return self._demand

    def _leave_isr(self, rows: Ints) -> None:
        """Removes the rows from the ISR; their leaders request this from the controller."""
        replicas = self.replicas
        replicas.in_sync[rows] = False
        self._count("isr_shrinks", rows)
        self.controller.submit(self.now_s, len(rows))
        self._rebuild()

    def _count(self, counter: str, rows: Ints) -> None:
        """Increases a counter of each row's leader by 1 per row."""
        leaders = self.replicas.leader[self.replicas.partition[rows]]
        self.totals[TOTALS.index(counter)] += np.bincount(leaders, minlength=self.count)

    def _join_isr(self, rows: Ints) -> None:
        """Adds the rows to the ISR.

        A partition whose adding replicas are now all in sync completes its reassignment once the controller has handled the
        operation.
        """
        replicas = self.replicas
        self._count("isr_expands", rows)
        replicas.in_sync[rows] = True
        replicas.lag_bytes[rows] = 0.0
        replicas.reported_lag_bytes[rows] = 0.0
        done_s = self.controller.submit(self.now_s, len(rows))
        queued = {partition for _, partition in self._completions}
        changed = set(replicas.partition[rows].tolist())
        self._completions += [(done_s, p) for p in replicas.completable() if p in changed and p not in queued]
        self._rebuild()

    def _handle_due_events(self, now_s: float) -> None:
        ended = [partition for at_s, partition in self._completions if at_s <= now_s]
        if ended:
            self._completions = [entry for entry in self._completions if entry[0] > now_s]
            self.replicas.complete(ended)
            if not self.moving and self.moves_ended_s is None:
                self.moves_ended_s = now_s
        begins = not self.moves_begun and now_s >= self.world.moves_begin_s
        if begins:
            self.moves_begun = True
            self.replicas.start_moves()
        due = []
        while self._events and self._events[-1][0] <= now_s:
            due.append(self._events.pop())
        for _, disturbance, is_end in due:
            self._apply_disturbance(disturbance, is_end, now_s)
        if ended or begins or due:
            self._rebuild()

    def _apply_disturbance(
        self, disturbance: BrokerLoss | LeaderMove | OperatorWrite, is_end: bool, now_s: float
    ) -> None:
        """Applies a disturbance, or ends it (``is_end``)."""
        index_of = self.replicas.index_of
        match disturbance:
            case BrokerLoss(broker=broker) if is_end:
                self.replicas.bring_back(index_of[broker])
            case BrokerLoss(broker=broker):
                self.replicas.lose(index_of[broker])
            case LeaderMove(topic=topic, partition=number, to=new_leader):
                partitions = [i for i, p in enumerate(self.replicas.specs) if (p.topic, p.partition) == (topic, number)]
                for partition in partitions:
                    self.replicas.elect(partition, index_of[new_leader])
            case OperatorWrite(broker=broker, side=side, rate_bytes_per_s=rate):
                self.controller.write(now_s, (broker, side), rate)

    def _rebuild(self) -> None:
        """Recomputes the values that depend on membership, leadership and lists, after a change of these."""
        self.changes += 1
        self.replicas.rebuild(self.lists)
        self.fetchers.rebuild()
        fetching = self.replicas.fetching
        # A new array, because the tick in progress keeps the old one.
        self._catching_up = np.zeros(2 * self.count, dtype=np.bool_)
        self._catching_up[self.replicas.leader[self.replicas.partition[fetching]]] = True
        self._catching_up[self.count + self.replicas.broker[fetching]] = True

    def _apply_rates(self) -> None:
        self.quotas.bound_bytes_per_s[:] = np.inf
        for side, rate in self.controller.rates.items():
            self.quotas.bound_bytes_per_s[self.sensor(side)] = rate

    def sensor(self, side: BrokerSide) -> int:
        """Returns the index of the side's sensor in ``quotas``."""
        return self.replicas.index_of[side[0]] + (self.count if side[1] is Side.FOLLOWER else 0)


def _schedule(world: World) -> list[tuple[float, BrokerLoss | LeaderMove | OperatorWrite, bool]]:
    """Returns the events of disturbances, the latest event first: (time, disturbance, whether the disturbance ends then)."""
    events: list[tuple[float, BrokerLoss | LeaderMove | OperatorWrite, bool]] = []
    for disturbance in world.disturbances:
        if isinstance(disturbance, BrokerLoss | LeaderMove | OperatorWrite):
            events.append((disturbance.at_s, disturbance, False))
        if isinstance(disturbance, BrokerLoss):
            events.append((disturbance.until_s, disturbance, True))
    return sorted(events, key=_event_time, reverse=True)


def _event_time(event: tuple[float, object, bool]) -> float:
    return event[0]
