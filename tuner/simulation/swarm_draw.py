"""Draws a swarm run at random from its seed: a world with disturbances, the tuner's settings, and the tuner's mishaps.

Invariant: the same seed gives the same run. A random value that was added later has its own random stream, so that earlier values
do not change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from streaming.shared.contract import Side
from tuner.control.throttle.objective import Objective
from tuner.core.cluster import BrokerSide
from tuner.core.operator_orders import Orders, Pause
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.simulation.policy import EPOCH_MS
from tuner.simulation.world import (
    BrokerLoss,
    BrokerSpec,
    ClientLoad,
    ControllerStorm,
    Disturbance,
    InitialRate,
    LeaderMove,
    LoadStep,
    OperatorWrite,
    PartitionSpec,
    SignalOutage,
    TopicLists,
    World,
)

TICK_MS = 500


@dataclass(frozen=True, slots=True)
class Mishaps:
    """Faults of the tuner itself. A time of infinity means that the fault does not happen."""

    killed_at_s: tuple[float, ...] = ()
    down_s: float = 5.0  # Seconds until each restart.
    # If finite, the tuner is not killed at ``killed_at_s``, but suspended in its next write, and the next tuner starts. This many
    # seconds after the first cycle of the next tuner, the suspended process resumes and sends its write.
    suspended_s: float = float("inf")
    journal_down_s: tuple[float, float] = (0.0, 0.0)  # (from, until): the journal accepts no record.
    clock_set_at_s: float = float("inf")
    clock_by_s: float = 0.0  # How far the tuner's clock is set forward at ``clock_set_at_s``; negative: back.
    pause_s: tuple[float, float] = (0.0, 0.0)  # (from, until): an operator has paused the tuner.
    released: bool = False  # The pause also releases all throttles.
    cleared_at_s: float = float("inf")  # Another tool removes all rates and lists (``--verify`` of its extra move).

    def wall_s(self, now_s: float) -> float:
        """Returns the time of the tuner's clock, epoch s."""
        return EPOCH_MS / 1000 + now_s + (self.clock_by_s if now_s >= self.clock_set_at_s else 0.0)

    def orders_at(self, now_s: float) -> Orders:
        from_s, until_s = self.pause_s
        from_ms, until_ms = (EPOCH_MS + round(t * 1000) for t in self.pause_s)
        if not until_s or now_s < from_s:
            return Orders()
        if now_s < until_s:
            return Orders(from_ms, pause=Pause(from_ms, "swarm", released=self.released))
        # The pause has expired. An order to resume would also end the holds of externally changed rates; there is none.
        return Orders(until_ms)


@dataclass(frozen=True, slots=True)
class DrawnRun:
    world: World
    mishaps: Mishaps
    limits: ThrottleLimits
    objective: Objective | None

    @property
    def operator_writes(self) -> tuple[OperatorWrite, ...]:
        """The writes of operators, in order of time."""
        return tuple(sorted((d for d in self.world.disturbances if isinstance(d, OperatorWrite)), key=lambda d: d.at_s))

    def describe(self) -> str:
        steers = f"objective {self.objective.latency_ms:.0f} ms" if self.objective is not None else "rescue only"
        return f"{self.world.describe()}\n  {steers}, {self.mishaps}"


def _moving_partition(partition: int, *, size_bytes: float, write_bytes_per_s: float) -> PartitionSpec:
    """Returns a partition whose follower moves to broker 3. Brokers 1 and 2 lead in turn."""
    leader, follower = (1, 2) if partition % 2 == 0 else (2, 1)
    return PartitionSpec(
        "t", partition, size_bytes, write_bytes_per_s, replicas=(leader, follower), adding=(3,), removing=(follower,)
    )


def draw_run(seed: int) -> DrawnRun:
    rng = np.random.default_rng([seed, 7])

    def sometimes(share: float) -> bool:
        return bool(rng.random() < share)

    # Random streams of draws that were added later.
    throttle_rng = np.random.default_rng([seed, 11])
    unthrottled, cleared_by_tool = bool(throttle_rng.random() < 0.3), bool(throttle_rng.random() < 0.3)
    cleared_at_s = float(throttle_rng.uniform(6, 25))
    suspend_rng = np.random.default_rng([seed, 17])
    # In some worlds the steady-state replication exceeds the minimum rate.
    write_factor = 4.0 if np.random.default_rng([seed, 13]).random() < 0.25 else 1.0
    moving = int(rng.integers(1, 4))  # Number of partitions.
    initial_rate = int(rng.choice([3_100_000, 6_200_000, 12_300_000, 70_000_000]))
    size = initial_rate * float(rng.uniform(10.0, 30.0)) / moving
    write = write_factor * float(rng.choice([0.0, 0.3e6, 1.0e6]))
    partitions = tuple(_moving_partition(i, size_bytes=size, write_bytes_per_s=write) for i in range(moving))
    if unthrottled:
        partitions = tuple(
            replace(p, size_bytes=60e6 * float(throttle_rng.uniform(10.0, 30.0)) / moving) for p in partitions
        )
    leaders = {p.replicas[0] for p in partitions}
    sides: list[BrokerSide] = [*((b, Side.LEADER) for b in sorted(leaders)), (3, Side.FOLLOWER)]
    disturbances: list[Disturbance] = []
    if sometimes(0.4):
        broker, side = sides[int(rng.integers(len(sides)))]
        disturbances.append(
            OperatorWrite(float(rng.uniform(5, 50)), broker, side, int(rng.integers(4_000_000, 30_000_000)))
        )
    if sometimes(0.25):
        at_s = float(rng.uniform(2, 30))
        disturbances.append(BrokerLoss(at_s, at_s + float(rng.uniform(3, 25)), int(rng.integers(1, 4))))
    if sometimes(0.3):
        at_s = float(rng.uniform(2, 30))
        brokers = (1, 2, 3) if sometimes(0.5) else (int(rng.integers(1, 4)),)
        disturbances.append(SignalOutage(at_s, at_s + float(rng.uniform(10, 60)), brokers))
    if sometimes(0.2):
        at_s = float(rng.uniform(2, 30))
        disturbances.append(ControllerStorm(at_s, at_s + 10.0, float(rng.uniform(200, 900))))
    if sometimes(0.2):
        disturbances.append(LeaderMove(float(rng.uniform(3, 25)), topic="t", partition=0, to=2))
    if sometimes(0.3):
        at_s = float(rng.uniform(2, 30))
        disturbances.append(LoadStep(at_s, at_s + 20.0, (1, 2, 3), float(rng.uniform(1.2, 2.2))))
    world = World(
        seed=seed,
        brokers=tuple(
            BrokerSpec(
                b,
                link_in_bytes_per_s=125e6,
                link_out_bytes_per_s=125e6,
                disk_write_bytes_per_s=400e6,
                disk_read_bytes_per_s=400e6,
            )
            for b in (1, 2, 3)
        ),
        partitions=partitions,
        loads=tuple(ClientLoad(b, in_bytes_per_s=40e6, out_bytes_per_s=40e6, noise_ratio=0.1) for b in (1, 2, 3)),
        lists=()
        if unthrottled
        else (
            TopicLists("t", ",".join(f"{i}:1,{i}:2" for i in range(moving)), ",".join(f"{i}:3" for i in range(moving))),
        ),
        rates=() if unthrottled else tuple(InitialRate(b, side, initial_rate) for b, side in sides),
        disturbances=tuple(disturbances),
        duration_s_max=240.0,
        tick_ms=TICK_MS,
    )
    paused_at_s = float(rng.uniform(5, 40))
    journal_down_at_s = float(rng.uniform(2, 40))
    mishaps = Mishaps(
        killed_at_s=tuple(sorted(float(t) for t in rng.uniform(1, 60, int(rng.integers(0, 4))))),
        down_s=float(rng.uniform(0.5, 20)),
        suspended_s=float(suspend_rng.uniform(0.5, 30)) if suspend_rng.random() < 0.4 else float("inf"),
        journal_down_s=(journal_down_at_s, journal_down_at_s + float(rng.uniform(1, 15)))
        if sometimes(0.2)
        else (0.0, 0.0),
        clock_set_at_s=float(rng.uniform(3, 40)) if sometimes(0.1) else float("inf"),
        clock_by_s=float(rng.choice([-3600.0, -20.0, -3.0, 20.0, 3600.0])),
        pause_s=(paused_at_s, paused_at_s + float(rng.uniform(5, 30))) if sometimes(0.25) else (0.0, 0.0),
        released=sometimes(0.5),
        # Not together with an operator's write, because the other tool would remove the operator's rate before it is checked.
        cleared_at_s=cleared_at_s
        if cleared_by_tool and not any(isinstance(d, OperatorWrite) for d in disturbances)
        else float("inf"),
    )
    limits = ThrottleLimits(rate_bytes_per_s_max=60 * MB, rate_bytes_per_s_min=5 * MB)
    return DrawnRun(world, mishaps, limits, Objective(50.0) if sometimes(0.7) or unthrottled else None)
