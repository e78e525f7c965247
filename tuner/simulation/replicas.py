"""Who holds what, who leads, who lags: the replicas of the world as columns, and the sums that a tick needs of them.

A row is one replica of one partition on one broker; rows are never removed, so that a row's counters can be compared over
time. What changes rarely (membership, leadership, lists) is summed up once in ``rebuild`` and not in every tick.

Vocabulary:
    behind    a replica out of sync: it lags, whether it is being added or was away.
    cell      one fetcher thread: (follower, leader, fetcher id). It has one request under way at a time.
    weight    mean bytes/s written to a partition; the leader's load factor makes it a rate.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streaming.throttles import TopicThrottle
from tuner.simulation.numbers import Bools, Floats, Ints, sums
from tuner.simulation.world import World

NOBODY = -1


class Replicas:
    def __init__(self, world: World) -> None:
        self.brokers = [spec.broker for spec in world.brokers]
        self.index_of = {broker: i for i, broker in enumerate(self.brokers)}
        self.specs = world.partitions
        self._fetchers = world.fetch.fetchers
        count = len(self.brokers)
        self.alive: Bools = np.ones(count, dtype=np.bool_)
        self.weight_bytes_per_s: Floats = np.array([p.write_bytes_per_s for p in self.specs], dtype=np.float64)
        self.written_bytes: Floats = np.zeros(len(self.specs))  # Since the start, per partition.
        self.leader: Ints = np.array([self.index_of[p.replicas[0]] for p in self.specs], dtype=np.int64)
        rows = [
            (i, self.index_of[b], b in p.adding, b in p.removing)
            for i, p in enumerate(self.specs)
            for b in dict.fromkeys((*p.replicas, *p.adding))
        ]
        self.partition: Ints = np.array([r[0] for r in rows], dtype=np.int64)
        self.broker: Ints = np.array([r[1] for r in rows], dtype=np.int64)
        self._to_add: Bools = np.array([r[2] for r in rows], dtype=np.bool_)
        self._to_remove: Bools = np.array([r[3] for r in rows], dtype=np.bool_)
        self.present: Bools = ~self._to_add
        self.in_sync: Bools = self.present.copy()
        self.adding: Bools = np.zeros(len(rows), dtype=np.bool_)
        self.removing: Bools = np.zeros(len(rows), dtype=np.bool_)
        self.lag_bytes: Floats = np.zeros(len(rows))
        self.gained_bytes: Floats = np.zeros(len(rows))  # Fetched since the start.
        self.leader_listed: Bools = np.zeros(len(rows), dtype=np.bool_)
        self.follower_listed: Bools = np.zeros(len(rows), dtype=np.bool_)
        self.size_bytes: Floats = np.array([p.size_bytes for p in self.specs], dtype=np.float64)
        self.rebuild({})

    # -- what happens to it -------------------------------------------------------------------------------------------

    def start_moves(self) -> None:
        """The reassignment is submitted: the adding replicas exist, and hold nothing yet."""
        self.adding = self._to_add.copy()
        self.removing = self._to_remove & np.isin(self.partition, self.partition[self._to_add])
        self.present |= self._to_add
        self.lag_bytes[self._to_add] = (self.size_bytes + self.written_bytes)[self.partition[self._to_add]]

    def joined(self) -> list[int]:
        """Partitions whose adding replicas are all in sync, so that their reassignment can complete."""
        moving = np.unique(self.partition[self.adding])
        waiting = np.unique(self.partition[self.adding & ~self.in_sync])
        return [int(p) for p in np.setdiff1d(moving, waiting)]

    def complete(self, partition: int) -> None:
        own = self.partition == partition
        gone = own & self.removing
        self.adding[own] = False
        self.removing[own] = False
        self.present[gone] = False
        self.in_sync[gone] = False
        if self.leader[partition] in self.broker[gone]:
            self.elect(partition)

    def elect(self, partition: int, wanted: int | None = None) -> None:
        """A new leader from the in-sync replicas that live: the wanted one or the first; none where there is none."""
        rows = (self.partition == partition) & self.present & self.in_sync & self.alive[self.broker]
        candidates = [int(b) for b in self.broker[rows]]
        if wanted is not None:
            self.leader[partition] = wanted if wanted in candidates else self.leader[partition]
            return
        self.leader[partition] = candidates[0] if candidates else NOBODY

    def lose(self, broker: int) -> None:
        """The broker stops. The last in-sync replica stays in sync: nobody is ahead of it."""
        self.alive[broker] = False
        for partition in np.unique(self.partition[(self.broker == broker) & self.present & self.in_sync]):
            own = (self.partition == partition) & self.present
            others = own & self.in_sync & (self.broker != broker)
            if others.any():
                self.in_sync[own & (self.broker == broker)] = False
            if self.leader[partition] == broker:
                self.elect(int(partition))

    def bring_back(self, broker: int) -> None:
        self.alive[broker] = True
        for partition in np.flatnonzero(self.leader == NOBODY):
            self.elect(int(partition))

    # -- sums ---------------------------------------------------------------------------------------------------------

    def rebuild(self, lists: Mapping[str, TopicThrottle]) -> None:
        """Everything that depends on membership, leadership and lists."""
        self._list(lists)
        count = len(self.brokers)
        row_leader = self.leader[self.partition]
        row_weight = self.weight_bytes_per_s[self.partition]
        led = row_leader != NOBODY
        follows = self.present & led & (row_leader != self.broker)
        self.behind: Ints = np.flatnonzero(follows & ~self.in_sync)  # Also those of brokers that are away.
        steady = follows & self.in_sync & self.alive[self.broker]

        def flow(rows: Bools) -> Floats:
            """Weight from leader to follower."""
            pairs = row_leader[rows] * count + self.broker[rows]
            return sums(pairs, row_weight[rows], count * count).reshape(count, count)

        has_leader = self.leader != NOBODY
        self.produced: Floats = sums(self.leader[has_leader], self.weight_bytes_per_s[has_leader], count)
        self.steady: Floats = flow(steady)
        self.steady_out: Floats = self.steady.sum(axis=1)
        self.steady_leader_listed: Floats = flow(steady & self.leader_listed).sum(axis=1)
        self.steady_follower_listed: Floats = flow(steady & self.follower_listed)
        self.counted_on_leader: Bools = follows & self.leader_listed & (self.in_sync | self.adding)
        self.counted_on_follower: Bools = follows & self.follower_listed
        self._cells(row_leader, row_weight, steady)

    def _cells(self, row_leader: Ints, row_weight: Floats, steady: Bools) -> None:
        count, threads = len(self.brokers), self._fetchers
        thread = np.array([fetcher_id(p.topic, p.partition, threads) for p in self.specs], dtype=np.int64)
        keys = (self.broker * count + row_leader) * threads + thread[self.partition]
        self.fetching: Ints = self.behind[self.alive[self.broker[self.behind]]]  # Rows that a cell works on.
        self.cell_keys, row_cell = np.unique(keys[self.fetching], return_inverse=True)
        self.row_cell: Ints = row_cell.astype(np.int64)
        self.cell_follower: Ints = self.cell_keys // threads // count
        self.cell_leader: Ints = self.cell_keys // threads % count
        # Whether in-sync partitions share the thread, and what is written to them: data wakes a fetch that waits.
        shared = sums(keys[steady], row_weight[steady], count * count * threads)
        self.cell_shared_bytes_per_s: Floats = shared[self.cell_keys]
        self.cell_shared: Bools = np.isin(self.cell_keys, keys[steady])

    def _list(self, lists: Mapping[str, TopicThrottle]) -> None:
        self.leader_listed[:] = False
        self.follower_listed[:] = False
        if not lists:
            return
        for row, (partition, broker) in enumerate(zip(self.partition, self.broker, strict=True)):
            spec = self.specs[partition]
            throttle = lists.get(spec.topic)
            leader = self.leader[partition]
            if throttle is None or leader == NOBODY:
                continue
            self.leader_listed[row] = throttle.leader.lists(spec.partition, self.brokers[leader])
            self.follower_listed[row] = throttle.follower.lists(spec.partition, self.brokers[broker])


def fetcher_id(topic: str, partition: int, fetchers: int) -> int:
    """The thread that Kafka gives a partition: 31 × the topic's Java hash + partition, wrapped to 32 bits, modulo."""
    code = 0
    units = topic.encode("utf-16-be")
    for unit in (units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)):
        code = 31 * code + unit & 0xFFFFFFFF
    mixed = 31 * code + partition & 0xFFFFFFFF
    signed = mixed - (1 << 32) if mixed >= 1 << 31 else mixed
    return 0 if signed == -(1 << 31) else abs(signed) % fetchers
