"""Measures rheostat's law with neither an objective nor capacities in its settings, over several moves of the same cluster.

The objective of a broker then follows from the latency that its clients have without copies in the quarter of an hour before the
move. The tuner sees this time, and it contains a whole day of the world whose load follows the time of day. The disturbances of a
world begin as long after the begin of the move as without ``--auto``. In each world the same move runs three times, with an hour
between, and the law keeps what it has learned. Ratios are ÷ T* of these objectives. A bin in which the clients alone exceed their
objective does not count as missed. Worlds in which no rates could end the move within these objectives have no T*; they are shown,
and left out of the totals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.laws.rivals import OURS, Tuner
from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.control.throttle.steering.broker_estimate import BrokerEstimate
from tuner.control.throttle.steering.state import ControlState
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.latency_limit import LatencyLimit
from tuner.simulation.cluster import Cluster
from tuner.simulation.latency import client_p99_ms, violation_ratio
from tuner.simulation.policy import EPOCH_MS, RulePolicy, SimulatedEnvironment, ThrottlePolicyRunner
from tuner.simulation.run import run
from tuner.simulation.world import Disturbance, LatencyModel, LeaderMove, OperatorWrite, World

MOVES = 3
LEAD_S = 900.0  # The tuner sees the clients for so long before a move, and the objective follows from this time.
_BETWEEN_MS = 3_600_000
_LONGER = 3.0  # Tighter objectives leave less of each link.
# Bounds of the first move and of later ones.
RATIO_MEAN_MAX, RATIO_MAX, SLO_5S_MEAN_MAX, TWICE_MEAN_MAX = 1.5, 2.0, 0.02, 0.003
LATER_RATIO_MEAN_MAX, LATER_SLO_5S_MEAN_MAX = 1.3, 0.01

Row = dict[str, Any]


class LearningLaw:
    """rheostat's law; it keeps what it has learned from one run to the next."""

    name = OURS

    def __init__(self, limits: ControlLimits) -> None:
        self._limits = limits
        self._tuner: Tuner | None = None

    def start(self, simulated: SimulatedEnvironment) -> ThrottlePolicyRunner:
        learned: Mapping[int, BrokerEstimate] = {}
        if self._tuner is not None:
            before_ms = EPOCH_MS - _BETWEEN_MS
            estimates = self._tuner.memory.broker_estimates
            learned = {broker: replace(found, sampled_at_ms=before_ms) for broker, found in estimates.items()}
        self._tuner = Tuner(simulated.cluster.world, self._limits, is_auto=True, memory=ControlState(learned))
        return RulePolicy(self.name, self._tuner, every_s=1.0).start(simulated)


def measure_moves(name: str, drawn: World) -> list[Row]:
    """Returns a row for each move of one world."""
    world, baselines_ms = with_own_objectives(drawn)
    law = LearningLaw(ControlLimits(quota_samples=world.fetch.quota_samples))
    rows = []
    for number in range(1, MOVES + 1):
        trace = run(world, law, settle_s=0.0)
        summary = trace.summary
        twice = replace(world.latency, own_utilisations=_utilisations(world.latency, baselines_ms, 2.0))
        begin = int(world.moves_begin_s)
        rows.append(
            {
                "scenario": name,
                "move": number,
                "ratio": summary.ratio_to_optimum if summary.completed else None,
                "has_optimum": summary.optimum_s is not None,
                "slo_5s": summary.slo_violation_ratio_5s,
                "slo_1s": summary.slo_violation_ratio_1s,
                "twice_5s": violation_ratio(trace.utilisation[begin:], twice, bin_s=5),
                "writes": summary.config_writes_per_broker_min,
            }
        )
    return rows


def with_own_objectives(world: World) -> tuple[World, list[float]]:
    """Returns the world with the objectives that ``Objective()`` demands, with unknown capacity, and with more time.

    Also returns the baseline of each broker: the logarithmic mean of the p99 that its clients have without copies.
    """
    delay_s = LEAD_S - world.moves_begin_s
    world = replace(
        world,
        disturbances=tuple(_later(disturbance, delay_s) for disturbance in world.disturbances),
        brokers=tuple(replace(b, configured_capacity_ratio=None) for b in world.brokers),
        moves_begin_s=LEAD_S,
        duration_s_max=delay_s + _LONGER * world.duration_s_max,
    )
    cluster = Cluster(world)
    cluster.replicas.rebuild(cluster.lists)
    free_out, free_in = cluster.clients.free_bytes_per_s(cluster.replicas, 1.0)
    link_in = np.array([min(b.link_in_bytes_per_s, b.disk_write_bytes_per_s) for b in world.brokers])
    link_out = np.array([b.link_out_bytes_per_s for b in world.brokers])
    used = np.maximum(1.0 - free_out / link_out, 1.0 - free_in / link_in)
    baselines_ms = np.exp(np.log(client_p99_ms(used[: int(LEAD_S)], world.latency)).mean(axis=0)).tolist()
    utilisations = _utilisations(world.latency, baselines_ms, 1.0)
    return replace(world, latency=replace(world.latency, own_utilisations=utilisations)), baselines_ms


def _later(disturbance: Disturbance, delay_s: float) -> Disturbance:
    """Returns a disturbance that begins later by ``delay_s``; one that exists from the start exists before the move too."""
    begin_s = disturbance.at_s + delay_s if disturbance.at_s > 0.0 else 0.0
    if isinstance(disturbance, LeaderMove | OperatorWrite):
        return replace(disturbance, at_s=begin_s)
    return replace(disturbance, at_s=begin_s, until_s=disturbance.until_s + delay_s)


def _utilisations(model: LatencyModel, baselines_ms: Sequence[float], factor: float) -> tuple[float, ...]:
    """Returns the utilisation of each broker at ``factor`` times its objective."""
    limits = [Objective().latency_limit(BrokerBaseline(baseline_ms), 0.0) for baseline_ms in baselines_ms]
    return tuple(_utilisation(model, limit, factor) for limit in limits if limit is not None)


def _utilisation(model: LatencyModel, limit: LatencyLimit, factor: float) -> float:
    queue = (factor * limit.p99_ms_max / model.base_ms - 1.0) / model.queue_ratio
    return min(model.utilisation_max, queue / (1.0 + queue))


def totals(rows: Sequence[Row]) -> list[Row]:
    """Returns the totals of each move over all worlds with a T*."""
    found = []
    for number in range(1, MOVES + 1):
        own = [row for row in rows if row["move"] == number and row["has_optimum"]]
        ratios = [math.inf if row["ratio"] is None else row["ratio"] for row in own]
        total: Row = {"move": number, "ratio_mean": float(np.mean(ratios)), "ratio_max": max(ratios)}
        found.append(total | {f"{key}_mean": float(np.mean([row[key] for row in own])) for key in _MEANS})
    return found


_MEANS = ("slo_5s", "slo_1s", "twice_5s", "writes")


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns a sentence for each missed bound."""
    first, *_, last = totals(rows)
    bounds = [
        (first, "ratio_mean", RATIO_MEAN_MAX),
        (first, "ratio_max", RATIO_MAX),
        (first, "slo_5s_mean", SLO_5S_MEAN_MAX),
        (first, "twice_5s_mean", TWICE_MEAN_MAX),
        (last, "ratio_mean", LATER_RATIO_MEAN_MAX),
        (last, "slo_5s_mean", LATER_SLO_5S_MEAN_MAX),
    ]
    return [
        f"{key} of move {total['move']} is {total[key]:.4g}, at most {bound} is allowed"
        for total, key, bound in bounds
        if total[key] > bound
    ]


def print_moves(rows: Sequence[Row]) -> None:
    print(f"{'scenario':25} {'move':>4} {'T ÷ T*':>7} {'>SLO 5 s':>9} {'1 s':>7} {'>2 SLO':>7} {'writes':>7}")
    for row in [*rows, *({"scenario": "mean", **total} for total in totals(rows))]:
        at = "_mean" if "ratio_mean" in row else ""
        ratio = row[f"ratio{at}"]
        print(
            f"{row['scenario']:25} {row['move']:4d} {_ratio_text(row, ratio):>7} {row[f'slo_5s{at}']:9.2%} "
            f"{row[f'slo_1s{at}']:7.2%} {row[f'twice_5s{at}']:7.2%} {row[f'writes{at}']:7.1f}"
        )


def _ratio_text(row: Row, ratio: float | None) -> str:
    if ratio is not None:
        return f"{ratio:.3f}"
    return "never" if row["has_optimum"] else "no T*"
