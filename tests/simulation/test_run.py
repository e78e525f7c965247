"""Whole runs: equal for equal seeds, never faster than the optimum, with every kind of disturbance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from random_worlds import WorldShape, draw_world

from streaming.shared.contract import Side
from tuner.core.cluster import BrokerSide
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.simulation.optimum import optimum_s
from tuner.simulation.policy import LoopPolicy, RuleInput, RulePolicy, SimulatedEnvironment
from tuner.simulation.ports import MemoryJournal
from tuner.simulation.run import run
from tuner.simulation.world import (
    BrokerLoss,
    BrokerSpec,
    ClientLoad,
    ControllerModel,
    ControllerStorm,
    FetchSettings,
    InitialRate,
    LeaderMove,
    LoadStep,
    OperatorWrite,
    PartitionSpec,
    SignalDelivery,
    SignalOutage,
    TopicLists,
    World,
)

L, F = Side.LEADER, Side.FOLLOWER
SMALL = WorldShape(brokers=6, partitions_per_broker=5, size_bytes=1e9, link_bytes_per_s=250e6, disk_bytes_per_s=300e6)


@dataclass(frozen=True)
class Fixed:
    """A policy with constant rates."""

    wanted: Mapping[BrokerSide, int | None]

    def rates(self, now_s: float, view: RuleInput) -> Mapping[BrokerSide, int | None]:  # noqa: ARG002 - the rule's shape
        return self.wanted


NOTHING = RulePolicy("nothing", Fixed({}))
LOOP = LoopPolicy(ThrottleLimits(rate_bytes_per_s_max=100 * MB))


def one_move(write_bytes_per_s: float = 3 * MB, **others: object) -> World:
    """1 GB from broker 1 to broker 3 over links of 100 MB/s, 20 MB/s of which clients use; throttled on both sides."""
    world = World(
        seed=7,
        brokers=tuple(BrokerSpec(b, *[100e6] * 4) for b in (1, 2, 3)),
        partitions=(PartitionSpec("t", 0, 1e9, write_bytes_per_s, (1, 2), (3,), (2,)),),
        loads=tuple(ClientLoad(b, 20e6, 20e6, reads_per_write=0.0) for b in (1, 2, 3)),
        lists=(TopicLists("t", leader="0:1,0:2", follower="0:3"),),
        rates=(InitialRate(1, L, 20_000_000), InitialRate(3, F, 20_000_000)),
        duration_s_max=400.0,
    )
    return replace(world, **others)


def unthrottled(**others: object) -> World:
    return one_move(lists=(), rates=(), **others)


@pytest.mark.parametrize("policy", [NOTHING, LOOP])
def test_same_seed_gives_the_same_trace(policy: RulePolicy | LoopPolicy) -> None:
    world = draw_world(3, replace(SMALL, duration_s_max=90.0))
    assert run(world, policy).digest() == run(world, policy).digest()
    assert draw_world(3, SMALL).to_json() == draw_world(3, SMALL).to_json()


def test_another_seed_gives_another_trace() -> None:
    shape = replace(SMALL, duration_s_max=30.0)
    assert run(draw_world(3, shape), NOTHING).digest() != run(draw_world(4, shape), NOTHING).digest()


def test_output_names_seed_and_world() -> None:
    told = draw_world(3, SMALL).describe()
    assert told.startswith("seed 3: 6 brokers; clients write 109 MB/s to 30 partitions")
    assert "LoadStep" in told


def test_optimum_of_constant_world_is_a_division() -> None:
    """At 0.9 utilisation 67 MB/s can leave broker 1 and 70 MB/s reach broker 3; 3 MB/s are new writes: 1000 ÷ (67 − 3)."""
    assert optimum_s(one_move()) == pytest.approx(1000 / 64, abs=0.01)


def test_optimum_waits_until_capacity_returns() -> None:
    """For the first 10 s clients use the whole link."""
    world = one_move(disturbances=(LoadStep(0.0, 10.0, (1, 2, 3), factor=5.0),))
    found = optimum_s(world)
    assert found is not None
    # The writes of those 10 s, five times as many, come on top.
    assert found == pytest.approx(10 + (1000 + 150) / 64, abs=0.05)


def test_move_that_never_fits_has_no_optimum() -> None:
    assert optimum_s(one_move(write_bytes_per_s=60 * MB)) is None


def test_unthrottled_move_fills_the_link_and_raises_latency() -> None:
    trace = run(unthrottled(fetch=FetchSettings(round_trip_s=0.0001)), NOTHING)
    assert trace.summary.completed
    # 77 MB/s at full links, where the optimum keeps to 67.
    assert trace.summary.ratio_to_optimum == pytest.approx(64 / 74, abs=0.05)
    assert trace.summary.slo_violation_ratio_1s > 0.5
    assert trace.catch_up_in_bytes_per_s[2].max() <= 80e6 * 1.001
    assert trace.p99_ms.max() > 50


def test_throttled_move_takes_kip_73_time_without_harm() -> None:
    """Of 20 MB/s on the leader side 6 MB/s are steady-state replication; 11 × 17 MB pass at once in the first window."""
    trace = run(one_move(), NOTHING)
    assert trace.summary.completed
    assert trace.summary.slo_violation_ratio_5s < 0.1
    assert trace.summary.duration_s == pytest.approx(1000 / 14, rel=0.25)


def test_received_bytes_equal_sent_and_missing_bytes() -> None:
    trace = run(one_move(write_bytes_per_s=0.0), NOTHING)
    assert trace.catch_up_in_bytes_per_s.sum() == pytest.approx(1e9)
    assert trace.catch_up_out_bytes_per_s.sum() == pytest.approx(1e9)
    assert trace.summary.caught_up_bytes == pytest.approx(1e9)


def stalled() -> World:
    """A throttle of 2 MB/s on both sides, where the leader side needs 6 MB/s for steady-state replication."""
    return one_move(rates=(InitialRate(1, L, 2_000_000), InitialRate(3, F, 2_000_000)))


def test_throttle_controller_rescues_stalled_move_and_cleans_up() -> None:
    seen: list[SimulatedEnvironment] = []
    journal = MemoryJournal()
    trace = run(stalled(), replace(LOOP, journal=journal), watch=seen.append)
    cluster = seen[-1].cluster
    assert not run(stalled(), NOTHING).summary.completed
    assert trace.summary.completed
    assert cluster.controller.rates == {}
    assert cluster.lists == {}
    assert {"intent", "outcome"} <= {entry.kind for entry in journal.entries}


def test_throttle_controller_relinquishes_a_rate_set_by_operator() -> None:
    hands_off = OperatorWrite(60.0, 1, L, 3_000_000)
    seen: list[SimulatedEnvironment] = []
    journal = MemoryJournal()
    world = replace(stalled(), disturbances=(hands_off,), duration_s_max=140.0)
    run(
        replace(world, partitions=(replace(world.partitions[0], size_bytes=30e9),)),
        replace(LOOP, journal=journal),
        watch=seen.append,
    )
    assert seen[-1].cluster.controller.rates[(1, L)] == 3_000_000
    assert any(entry.action == "relinquish" for entry in journal.entries)


def test_signals_are_delayed_and_accurate() -> None:
    """W counts the listed replicas: two on the leader side, one on the follower side."""
    found: list[tuple[float, float]] = []
    clusters: list[SimulatedEnvironment] = []

    def watch(simulated: SimulatedEnvironment) -> None:
        clusters[:] = [simulated]
        simulated.signals.poll()
        signal = simulated.signals.moves.get((3, F))
        if signal is not None:
            found.append(
                (simulated.cluster.now_s, simulated.cluster.now_s - (signal.sampled_at_ms / 1000 - 1_700_000_000))
            )

    run(one_move(duration_s_max=40.0), NOTHING, watch=watch)
    assert 2.0 <= min(age for _, age in found) <= 4.5
    assert max(age for _, age in found) <= 5.0 + 4.0 + 0.3
    signals = clusters[0].signals
    leader, follower = signals.moves[(1, L)], signals.moves[(3, F)]
    assert leader.steady_state_bytes_per_s == pytest.approx(6 * MB)
    assert follower.steady_state_bytes_per_s == pytest.approx(3 * MB)
    assert (leader.moving_partitions, leader.listed_partitions) == (1, 1)
    assert leader.samples == 6
    assert follower.remaining_bytes == leader.remaining_bytes
    assert sum(step.gained_bytes for step in leader.steps) == 0.0
    assert all(step.written_bytes == pytest.approx(15 * MB) for step in follower.steps)
    assert follower.steps[-1].remaining_bytes == follower.remaining_bytes
    broker = signals.brokers[1]
    assert broker.client_in_bytes_per_s == pytest.approx(23 * MB)
    assert broker.leader_rate_bytes_per_s == 20 * MB
    assert broker.leader_throttled_bytes_per_s == pytest.approx(20 * MB, rel=0.25)


def test_lost_scrapes_make_longer_steps() -> None:
    clusters: list[SimulatedEnvironment] = []
    delivery = SignalDelivery(loss_ratio=0.4)
    run(one_move(duration_s_max=60.0, delivery=delivery), NOTHING, watch=lambda simulated: clusters.append(simulated))
    clusters[-1].signals.poll()
    signal = clusters[-1].signals.moves[(3, F)]
    assert {step.dt_s for step in signal.steps} - {5.0}
    assert signal.samples < 6


def test_signal_outage_delivers_no_signals() -> None:
    clusters: list[SimulatedEnvironment] = []
    world = one_move(duration_s_max=60.0, disturbances=(SignalOutage(20.0, 60.0, (3,)),))
    run(world, NOTHING, watch=lambda simulated: clusters.append(simulated))
    clusters[-1].signals.poll()
    assert clusters[-1].signals.moves[(3, F)].sampled_at_ms == 1_700_000_015_000
    assert clusters[-1].signals.moves[(1, L)].sampled_at_ms >= 1_700_000_050_000


def test_lost_destination_continues_after_its_return() -> None:
    trace = run(one_move(disturbances=(BrokerLoss(10.0, 50.0, 3),)), NOTHING)
    assert trace.catch_up_in_bytes_per_s[11:50, 2].sum() == 0.0
    assert trace.catch_up_in_bytes_per_s[50:, 2].sum() > 0.0
    assert trace.summary.completed


def test_leadership_moves_to_in_sync_replica() -> None:
    clusters: list[SimulatedEnvironment] = []
    run(
        one_move(disturbances=(BrokerLoss(10.0, 390.0, 1),)),
        NOTHING,
        watch=lambda simulated: clusters.append(simulated),
    )
    replicas = clusters[-1].cluster.replicas
    assert replicas.brokers[int(replicas.leader[0])] in (2, 3)
    assert clusters[-1].cluster.moves_ended_s is not None


def test_leader_move_takes_the_traffic_along() -> None:
    trace = run(one_move(disturbances=(LeaderMove(10.0, "t", 0, 2),)), NOTHING)
    assert trace.catch_up_out_bytes_per_s[:9, 1].sum() == 0.0
    assert trace.catch_up_out_bytes_per_s[11:, 1].sum() > 0.0
    assert trace.catch_up_out_bytes_per_s[11:, 0].sum() == 0.0


def test_busy_controller_delays_a_rate_change() -> None:
    def shown_s(world: World) -> float:
        when: list[float] = []

        def watch(simulated: SimulatedEnvironment) -> None:
            if not when and simulated.cluster.controller.rates[(1, L)] == 9_000_000:
                when.append(simulated.cluster.now_s)

        run(world, RulePolicy("nine", Fixed({(1, L): 9_000_000})), watch=watch)
        return when[0]

    storm = ControllerStorm(0.0, 20.0, operations_per_s=2_000.0)
    quick = one_move(duration_s_max=60.0)
    slow = replace(quick, controller=ControllerModel(propagation_s_min=8.0, propagation_s_max=9.0))
    assert shown_s(quick) <= 0.5
    assert 8.0 <= shown_s(slow) <= 9.5
    assert shown_s(replace(quick, moves_begin_s=0.0, disturbances=(storm,))) <= 60.0


def test_optimum_of_a_later_start_includes_what_clients_write_before() -> None:
    """Constant load: 1 GB and 100 s × 3 MB/s more go through what is left of a link."""
    now, later = (optimum_s(one_move(moves_begin_s=begin_s)) for begin_s in (0.0, 100.0))
    assert now is not None
    assert later is not None
    assert later / now == pytest.approx(1.3, rel=0.02)
