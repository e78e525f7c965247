"""Overload: a follower that is too slow lags, leaves the ISR after 30 s, and the signals report it."""

from __future__ import annotations

import pytest

from streaming.shared.contract import BrokerSignal, MoveSignal, Side
from tuner.simulation.cluster import Cluster
from tuner.simulation.signals import Stream
from tuner.simulation.world import (
    BrokerSpec,
    ClientLoad,
    InitialRate,
    LinkStep,
    PartitionSpec,
    TopicLists,
    World,
)

MB = 1e6
EPOCH_MS = 1_700_000_000_000
BEGINS_S = 10.0
FOLLOWER, NEW = 1, 2  # Rows of t-0: broker 1 leads, 2 follows, 3 is added where anything moves.


def world(
    overload_s: float, *, leader_rate: int | None = None, follower_rate: int | None = None, moves: bool = False
) -> World:
    """Clients write 3 MB/s; from 10 s on other clients use 20 of the 21 MB/s of broker 2's link."""
    rates = [(1, Side.LEADER, leader_rate), (3, Side.FOLLOWER, follower_rate)]
    return World(
        seed=1,
        brokers=tuple(BrokerSpec(b, *[100 * MB] * 4) for b in (1, 2, 3)),
        partitions=(PartitionSpec("t", 0, 1e9, 3 * MB, (1, 2), (3,) if moves else (), (2,) if moves else ()),),
        loads=tuple(ClientLoad(b, 20 * MB, 20 * MB, reads_per_write=0.0) for b in (1, 2, 3)),
        lists=(TopicLists("t", leader="0:1,0:2", follower="0:3"),),
        rates=tuple(InitialRate(b, side, rate) for b, side, rate in rates if rate is not None),
        disturbances=(LinkStep(BEGINS_S, BEGINS_S + overload_s, (2,), factor=0.21),) if overload_s else (),
        duration_s_max=300.0,
    )


def until(cluster: Cluster, at_s: float, stream: Stream | None = None) -> Cluster:
    while cluster.now_s < at_s:
        if stream is not None:
            stream.advance()
        cluster.step()
    return cluster


def lag_mb(cluster: Cluster, row: int = FOLLOWER) -> float:
    return float(cluster.replicas.lag_bytes[row]) / MB


def test_replica_below_write_rate_lags_by_the_difference() -> None:
    cluster = until(Cluster(world(20.0)), BEGINS_S + 20.0)
    assert lag_mb(cluster) == pytest.approx(20 * (3 - 1))
    # 3 MB/s for 10 s, and 1 MB/s for 20 s.
    assert cluster.totals[2, 1] / MB == pytest.approx(10 * 3 + 20 * 1)


def test_short_lag_is_caught_up_within_isr_limit() -> None:
    cluster = until(Cluster(world(29.0)), BEGINS_S + 35.0)
    assert cluster.replicas.in_sync[FOLLOWER]
    assert lag_mb(cluster) == 0.0
    assert cluster.totals[2, 1] / MB == pytest.approx(45 * 3)


def test_replica_leaves_isr_after_30_s_and_returns() -> None:
    cluster = until(Cluster(world(60.0)), BEGINS_S + 29.0)
    assert cluster.replicas.in_sync[FOLLOWER]
    assert not until(cluster, BEGINS_S + 31.0).replicas.in_sync[FOLLOWER]
    assert not until(cluster, BEGINS_S + 60.0).replicas.in_sync[FOLLOWER]
    assert until(cluster, BEGINS_S + 70.0).replicas.in_sync[FOLLOWER]
    assert lag_mb(cluster) == 0.0


def test_throttle_that_lists_a_replica_keeps_it_out_of_sync() -> None:
    """A replica out of sync obeys the throttle: 3 MB/s only keep its lag, 20 MB/s catch up."""
    kept, free = (until(Cluster(world(60.0, leader_rate=rate)), 200.0) for rate in (3_000_000, 20_000_000))
    assert not kept.replicas.in_sync[FOLLOWER]
    assert free.replicas.in_sync[FOLLOWER]


def signals_at(at_s: float, made: World) -> tuple[dict[int, BrokerSignal], dict[tuple[int, Side], MoveSignal]]:
    cluster = Cluster(made)
    stream = Stream(cluster, EPOCH_MS)
    until(cluster, at_s, stream)
    brokers, moves = {}, {}
    for signal in stream.arrived():
        if isinstance(signal, BrokerSignal):
            brokers[signal.broker] = signal
        elif isinstance(signal, MoveSignal):
            moves[(signal.broker, signal.side)] = signal
    return brokers, moves


def test_leader_reports_isr_shrinks_and_under_min_isr() -> None:
    before, _ = signals_at(BEGINS_S + 29.0, world(60.0))
    assert before[1].isr_shrinks_per_s == 0.0
    assert before[1].under_min_isr_partitions == 0.0
    # Sampled at 45 s at the latest, over 25 s.
    shrunk, _ = signals_at(BEGINS_S + 39.0, world(60.0))
    assert shrunk[1].isr_shrinks_per_s == pytest.approx(1 / 25)
    assert shrunk[1].under_min_isr_partitions == 1.0
    assert shrunk[2].isr_shrinks_per_s == 0.0
    assert shrunk[2].replica_lag_sum_messages == pytest.approx(2 * 35 * 1000, rel=0.25)
    assert shrunk[2].replica_lag_max_messages == shrunk[2].replica_lag_sum_messages
    grown, _ = signals_at(BEGINS_S + 79.0, world(60.0))
    assert grown[1].isr_expands_per_s == pytest.approx(1 / 25)
    assert grown[1].under_min_isr_partitions == 0.0


def test_broker_reports_partitions_and_idle_ratio() -> None:
    brokers, _ = signals_at(60.0, world(0.0, follower_rate=20_000_000, leader_rate=40_000_000, moves=True))
    assert (brokers[1].partitions, brokers[1].leaders) == (1.0, 1.0)
    assert (brokers[3].partitions, brokers[3].leaders) == (1.0, 0.0)
    # Of 100 MB/s broker 2 takes 20 from clients and 3 as a follower.
    assert brokers[2].request_handler_idle_ratio == pytest.approx(0.77, abs=0.01)


def test_move_signal_names_its_largest_partitions() -> None:
    _, moves = signals_at(30.0, world(0.0, follower_rate=5_000_000, moves=True))
    for side in ((1, Side.LEADER), (3, Side.FOLLOWER)):
        (largest,) = moves[side].largest
        assert (largest.topic, largest.partition) == ("t", 0)
        assert largest.remaining_bytes == moves[side].remaining_bytes
        assert largest.write_bytes_per_s == pytest.approx(3 * MB)


def test_lag_in_messages_is_stale_while_the_follower_side_throttles() -> None:
    """Between fetches the follower does not learn the leader's end offset; remaining bytes come from log sizes."""
    cluster = Cluster(world(0.0, follower_rate=100_000, moves=True))
    stream = Stream(cluster, EPOCH_MS)
    until(cluster, 90.0, stream)
    told = [s for s in stream.arrived() if isinstance(s, MoveSignal) and s.side is Side.FOLLOWER and s.broker == 3]
    remaining = [signal.remaining_bytes or 0.0 for signal in told[-12:]]
    assert remaining == sorted(remaining)
    assert len(set(remaining)) == 12
    # A fetch passes every 11 s or so, and brings the number up to date; scrapes come every 5 s.
    assert 4 <= len({signal.lag_messages for signal in told[-12:]}) <= 7
    assert all((signal.lag_messages or 0.0) <= (signal.remaining_bytes or 0.0) / 1e3 for signal in told)
    paced, free = (signals_at(30.0, world(0.0, leader_rate=rate, moves=True))[1] for rate in (2_000_000, 30_000_000))
    for moves in (paced, free):
        signal = moves[(3, Side.FOLLOWER)]
        assert signal.lag_messages == pytest.approx((signal.remaining_bytes or 0.0) / 1e3, rel=0.1)
    assert paced[(1, Side.LEADER)].lag_messages is None
