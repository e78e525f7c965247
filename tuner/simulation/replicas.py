"""Holds the replicas of the world as columns (membership, leadership, lag), and the sums that each tick needs.

A row is one replica of one partition on one broker. Rows are never removed, so a row's counters can be compared over time. Sums
that depend on membership, leadership and lists change rarely, so ``rebuild`` computes them only after a change.

Terms:
    behind  a replica out of sync: it is being added, or its broker was down.
    cell    one fetcher thread (follower, leader, fetcher id), with one request in flight at a time.
    weight  mean bytes/s written to a partition; weight × the leader's load factor is the current write rate.
    steady  a row of an in-sync follower; ``steady_…`` arrays have one entry for each such row, or one per broker where noted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from streaming.shared.contract import Side
from streaming.shared.throttle_settings import TopicThrottle
from tuner.simulation.numbers import Bools, Floats, Ints, sums
from tuner.simulation.world import World

NO_LEADER = -1


class Replicas:
    """All replicas of the world. Brokers and partitions are given by their indexes in ``brokers`` and ``specs``."""

    def __init__(self, world: World) -> None:
        self.brokers = [spec.broker for spec in world.brokers]
        self.index_of = {broker: i for i, broker in enumerate(self.brokers)}
        self.specs = world.partitions
        self._fetchers = world.fetch.fetchers
        # By partition: the fetcher id.
        self._thread: Ints = np.array(
            [fetcher_id(p.topic, p.partition, self._fetchers) for p in self.specs], dtype=np.int64
        )
        self._index_of_partition = {(p.topic, p.partition): i for i, p in enumerate(self.specs)}
        self._lists: Mapping[str, TopicThrottle] = {}
        # By side: the listed pairs, each encoded as partition × number of brokers + broker.
        self._listed_pairs = {side: np.zeros(0, dtype=np.int64) for side in Side}
        # True: the moving replicas count as listed, and no others, as with a tuner that keeps the lists exact.
        self.lists_follow_moves = False
        count = len(self.brokers)
        self.alive: Bools = np.ones(count, dtype=np.bool_)
        self.weight_bytes_per_s: Floats = np.array([p.write_bytes_per_s for p in self.specs], dtype=np.float64)
        self.written_bytes: Floats = np.zeros(len(self.specs))  # By partition, since the start.
        self.leader: Ints = np.array([self.index_of[p.replicas[0]] for p in self.specs], dtype=np.int64)
        rows = [
            (i, self.index_of[b], b in p.adding, b in p.removing)
            for i, p in enumerate(self.specs)
            for b in dict.fromkeys((*p.replicas, *p.adding))
        ]
        # By row, unless noted:
        self.partition: Ints = np.array([r[0] for r in rows], dtype=np.int64)
        self.broker: Ints = np.array([r[1] for r in rows], dtype=np.int64)
        self._to_add: Bools = np.array([r[2] for r in rows], dtype=np.bool_)
        self._to_remove: Bools = np.array([r[3] for r in rows], dtype=np.bool_)
        self.present: Bools = ~self._to_add
        self.in_sync: Bools = self.present.copy()
        self.adding: Bools = np.zeros(len(rows), dtype=np.bool_)
        self.removing: Bools = np.zeros(len(rows), dtype=np.bool_)
        self.lag_bytes: Floats = np.zeros(len(rows))
        # The lag at the last fetch request that included the replica; a throttled replica is left out of requests.
        self.reported_lag_bytes: Floats = np.zeros(len(rows))
        self.gained_bytes: Floats = np.zeros(len(rows))  # Fetched since the start.
        self.leader_listed: Bools = np.zeros(len(rows), dtype=np.bool_)
        self.follower_listed: Bools = np.zeros(len(rows), dtype=np.bool_)
        # By partition, at the start.
        self.size_bytes: Floats = np.array([p.size_bytes for p in self.specs], dtype=np.float64)
        self.rebuild({})

    # -- changes ----------------------------------------------------------------------------------------------------------

    def start_moves(self, partitions: Ints | None = None) -> None:
        """Starts the reassignment of these partitions (None: of all). The adding replicas exist from now on, and are empty."""
        adds = self._to_add.copy() if partitions is None else self._to_add & np.isin(self.partition, partitions)
        self.adding |= adds
        self.removing |= self._to_remove & np.isin(self.partition, self.partition[adds])
        self.present |= adds
        self.lag_bytes[adds] = (self.size_bytes + self.written_bytes)[self.partition[adds]]
        self.reported_lag_bytes[adds] = self.lag_bytes[adds]

    def completable(self) -> list[int]:
        """Returns the partitions whose adding replicas are all in sync, so that their reassignment can complete."""
        moving = np.unique(self.partition[self.adding])
        waiting = np.unique(self.partition[self.adding & ~self.in_sync])
        return [int(p) for p in np.setdiff1d(moving, waiting)]

    def complete(self, partitions: Sequence[int]) -> None:
        """Completes the reassignment of these partitions: removes the removing replicas, and elects leaders if needed."""
        rows = np.isin(self.partition, partitions)
        removed = rows & self.removing
        self.adding[rows] = False
        self.removing[rows] = False
        self.present[removed] = False
        self.in_sync[removed] = False
        leaderless = self.partition[removed & (self.broker == self.leader[self.partition])]
        for partition in leaderless:
            self.elect(int(partition))

    def elect(self, partition: int, preferred: int | None = None) -> None:
        """Elects a leader among the in-sync replicas on live brokers.

        Args:
            preferred: the broker to elect; if it is no candidate, the leader stays the same. None: elect the first candidate;
                without a candidate the partition has no leader.
        """
        rows = (self.partition == partition) & self.present & self.in_sync & self.alive[self.broker]
        candidates = [int(b) for b in self.broker[rows]]
        if preferred is not None:
            self.leader[partition] = preferred if preferred in candidates else self.leader[partition]
            return
        self.leader[partition] = candidates[0] if candidates else NO_LEADER

    def lose(self, broker: int) -> None:
        """Stops a broker. Its replicas leave the ISR, except the last in-sync replica of a partition, as in Kafka."""
        self.alive[broker] = False
        for partition in np.unique(self.partition[(self.broker == broker) & self.present & self.in_sync]):
            rows = (self.partition == partition) & self.present
            others_in_sync = rows & self.in_sync & (self.broker != broker)
            if others_in_sync.any():
                self.in_sync[rows & (self.broker == broker)] = False
            if self.leader[partition] == broker:
                self.elect(int(partition))

    def bring_back(self, broker: int) -> None:
        """Starts a broker again. It becomes the leader of partitions without a leader whose last in-sync replica it has."""
        self.alive[broker] = True
        for partition in np.flatnonzero(self.leader == NO_LEADER):
            self.elect(int(partition))

    # -- sums ---------------------------------------------------------------------------------------------------------

    def rebuild(self, lists: Mapping[str, TopicThrottle]) -> None:
        """Computes all arrays that depend on membership, leadership and lists."""
        count = len(self.brokers)
        row_leader = self.leader[self.partition]
        row_weight = self.weight_bytes_per_s[self.partition]
        self._apply_lists(lists, row_leader)
        led = row_leader != NO_LEADER
        follows = self.present & led & (row_leader != self.broker)
        self.behind: Ints = np.flatnonzero(follows & ~self.in_sync)  # Rows on brokers that are down are included.
        self.steady: Ints = np.flatnonzero(follows & self.in_sync & self.alive[self.broker])
        self.steady_leader: Ints = row_leader[self.steady]
        self.steady_follower: Ints = self.broker[self.steady]
        self.steady_weight: Floats = row_weight[self.steady]
        # By broker: whether it leads a partition with in-sync followers.
        self.followed: Bools = np.zeros(count, dtype=np.bool_)
        self.followed[self.steady_leader] = True
        has_leader = self.leader != NO_LEADER
        # The following three are sums by broker.
        self.produced: Floats = sums(self.leader[has_leader], self.weight_bytes_per_s[has_leader], count)
        self.steady_out: Floats = sums(self.steady_leader, self.steady_weight, count)
        self.steady_leader_listed: Floats = sums(
            self.steady_leader, self.steady_weight * self.leader_listed[self.steady], count
        )
        # By row: whether its fetches count against the leader's quota (in the collector's count), and against the follower's quota.
        self.counted_on_leader: Bools = follows & self.leader_listed & (self.in_sync | self.adding)
        self.counted_on_follower: Bools = follows & self.follower_listed
        self._build_cells(row_leader)

    def steady_in(self, factor: Floats, *, listed: bool = False) -> Floats:
        """Returns by follower the bytes/s of in-sync replication.

        Args:
            factor: load factor of every leader.
            listed: only replicas that are on a throttled-replica list.
        """
        weight = self.steady_weight * self.follower_listed[self.steady] if listed else self.steady_weight
        return sums(self.steady_follower, factor[self.steady_leader] * weight, len(self.brokers))

    def steady_pairs(self) -> Floats:
        """Returns the sum of weights from each leader to each follower, as a matrix."""
        count = len(self.brokers)
        pairs = self.steady_leader * count + self.steady_follower
        return sums(pairs, self.steady_weight, count * count).reshape(count, count)

    def _build_cells(self, row_leader: Ints) -> None:
        """Assigns each row that is fetched to its fetcher thread (cell)."""
        count, threads = len(self.brokers), self._fetchers
        keys = (self.broker * count + row_leader) * threads + self._thread[self.partition]
        self.fetching: Ints = self.behind[self.alive[self.broker[self.behind]]]  # Rows that a cell fetches.
        self.cell_keys, row_cell = np.unique(keys[self.fetching], return_inverse=True)
        self.row_cell: Ints = row_cell.astype(np.int64)
        self.cell_follower: Ints = self.cell_keys // threads // count
        self.cell_leader: Ints = self.cell_keys // threads % count
        # By cell: whether in-sync partitions share the thread, and their write rate. New data of these partitions ends the wait of
        # a fetch.
        cells = len(self.cell_keys)
        self.cell_shared: Bools = np.zeros(cells, dtype=np.bool_)
        self.cell_shared_bytes_per_s: Floats = np.zeros(cells)
        if cells:
            cell = np.minimum(np.searchsorted(self.cell_keys, keys[self.steady]), cells - 1)
            shares = self.cell_keys[cell] == keys[self.steady]
            self.cell_shared[cell[shares]] = True
            self.cell_shared_bytes_per_s = sums(cell[shares], self.steady_weight[shares], cells)

    def _apply_lists(self, lists: Mapping[str, TopicThrottle], row_leader: Ints) -> None:
        if lists != self._lists:
            self._lists = dict(lists)
            self._listed_pairs = {side: self._encode_lists(side) for side in Side}
        count = len(self.brokers)
        leader_pair, follower_pair = self.partition * count + row_leader, self.partition * count + self.broker
        led = row_leader != NO_LEADER
        if self.lists_follow_moves:
            moves = np.zeros(len(self.specs), dtype=np.bool_)
            moves[self.partition[self.adding]] = True
            self.leader_listed, self.follower_listed = moves[self.partition] & led, self.adding & led
            return
        self.leader_listed = np.isin(leader_pair, self._listed_pairs[Side.LEADER]) & led
        self.follower_listed = np.isin(follower_pair, self._listed_pairs[Side.FOLLOWER]) & led

    def _encode_lists(self, side: Side) -> Ints:
        """Returns every (partition, broker) on a list of this side, encoded as one number."""
        count = len(self.brokers)
        entries: list[int] = []
        for topic, throttle in self._lists.items():
            listed = throttle.leader if side is Side.LEADER else throttle.follower
            if listed.all_replicas:
                indices = [i for i, p in enumerate(self.specs) if p.topic == topic]
                entries += [i * count + broker for i in indices for broker in range(count)]
            for number, broker in listed.pairs:
                i = self._index_of_partition.get((topic, number))
                if i is not None and broker in self.index_of:
                    entries.append(i * count + self.index_of[broker])
        return np.array(sorted(entries), dtype=np.int64)


def fetcher_id(topic: str, partition: int, fetchers: int) -> int:
    """Returns the fetcher thread that Kafka uses for a partition: |int32(31 × the topic's Java hash + partition)| mod threads."""
    code = 0
    units = topic.encode("utf-16-be")
    for unit in (units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)):
        code = (31 * code + unit) & 0xFFFFFFFF
    mixed = (31 * code + partition) & 0xFFFFFFFF
    signed = mixed - (1 << 32) if mixed >= 1 << 31 else mixed
    # Kafka's ``Utils.abs`` returns 0 for the smallest int32.
    return 0 if signed == -(1 << 31) else abs(signed) % fetchers
