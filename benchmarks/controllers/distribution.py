"""Runs mutation quotas on drawn controllers, and reports the distribution of their results.

Each controller runs with rheostat's quotas, with the best static quota (the same for every tenant; a search) and with the max–min
optimum. The optimum knows the demand of every storm and the highest total that keeps the objective (a search). It is not a rival.

Pressure is judged every 5 s from signals without delay, after ``SETTLED_S``. The times of other work, of a fail-over, and the half
minute after them do not count for the pressure, because no quota prevents it then.
"""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise

from benchmarks.controllers.controller_queue import EVERYBODY_ELSE
from benchmarks.controllers.figures import (
    GOODPUT_RATIO_MIN,
    JAIN_MIN,
    PRESSURE_MAX,
    WELL_BEHAVED_RATIO_MAX,
    WRITES_PER_TENANT_MIN_MAX,
    Row,
    best_static,
    jain,
    percentile,
    static_goodput_at,
    writes_per_tenant_min,
)
from benchmarks.controllers.plants import SETTLED_S, ControllerPlant, demand_per_s, draw_controller
from benchmarks.controllers.queue_run import Fixed, Law, QueueOutcome, QuotaDealer, run_queue
from benchmarks.controllers.queue_signals import EVERY_S, ControllerStream
from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity
from tuner.control.mutation_quota.max_min_share import Claim, share_max_min
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy
from tuner.core.controller_pressure import Pressure, worst_pressure
from tuner.core.token_bucket import SAMPLES
from tuner.core.token_bucket import WINDOW_S as SAMPLE_S

Change = Mapping[
    str, float | None
]  # Constants of ``MutationLimits`` with their values, and limits of the objective to leave out.

OURS, OPTIMUM = "rheostat", "optimum"
WORST = 10  # Controllers that are named.
NEVER = math.inf  # Time to settle of a run that did not.
_STATIC_STEPS, _OPTIMUM_STEPS = 7, 6
_CALM_S = 60.0  # A run has settled once the pressure is low for so long.
_CONSTANTS = {field.name for field in fields(MutationLimits)}
_QUOTA_MIN = 0.001  # Kafka refuses a quota of 0.
# The figures of a row, each with its worst value as seen by an operator.
FIGURES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "pressure_p99": max,
    "goodput_to_static": min,
    "goodput_to_optimum": min,
    "jain_index": min,
    "well_behaved_ratio": max,
    "settle_s": max,
    "writes_per_tenant_min": max,
}


@dataclass
class _Judged:
    """A quota dealer, and the pressure of the controller during its run."""

    dealer: QuotaDealer
    plant: ControllerPlant
    pressures: list[tuple[float, Pressure]] = field(default_factory=list)

    def deal(self, now_s: float, stream: ControllerStream, quotas: dict[str, float]) -> dict[str, float]:
        if stream.judged is not None:
            pressure = worst_pressure(*stream.judged, self.plant.objective)
            if pressure is not None:
                self.pressures.append((now_s, pressure))
        return self.dealer.deal(now_s, stream, quotas)


@dataclass
class MaxMin:
    """Gives every storm its max–min share of a total, from the moment when it begins."""

    plant: ControllerPlant
    total_per_s: float

    def deal(self, now_s: float, stream: ControllerStream, quotas: dict[str, float]) -> dict[str, float]:  # noqa: ARG002 - the protocol's parameters
        written = {}
        for client_id, share in self.plant.shares_per_s(self.total_per_s, now_s, now_s + EVERY_S).items():
            quota = max(_QUOTA_MIN, share)
            if not math.isclose(quotas.get(client_id, math.inf), quota, rel_tol=1e-6):
                written[client_id] = quota
        return written


def law_of(plant: ControllerPlant, change: Change) -> Law:
    """Returns rheostat's quotas for a plant, with changed constants, or without a limit of the plant's objective."""
    limits = {name: value for name, value in change.items() if name in _CONSTANTS}
    objective = replace(plant.objective, **dict.fromkeys(change.keys() - limits.keys()))
    policy = MutationPolicy(
        objective,
        limits=replace(MutationLimits(), **limits),  # type: ignore[arg-type]  # By name.
        default_entity=QuotaEntity(client_id=DEFAULT),
    )
    return Law(policy)


def measure_plants(seed: int, count: int) -> list[Row]:
    """Returns one row per plant for rheostat, the best static quota and the optimum. Processors share out the plants."""
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        return [row for rows in pool.imap(_measure, [(seed, number) for number in range(count)]) for row in rows]


def measure_changed_law(seed: int, count: int, changes: Sequence[Change]) -> Iterator[list[Row]]:
    """Yields for each change one row of rheostat per plant. Nothing is compared with static quotas."""
    jobs = [(seed, number, dict(change)) for change in changes for number in range(count)]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        rows = pool.imap(_measure_changed, jobs)
        for _ in changes:
            yield [next(rows) for _ in range(count)]


def _measure_changed(job: tuple[int, int, dict[str, float | None]]) -> Row:
    seed, number, change = job
    plant = draw_controller(seed, number)
    return _row(number, plant, OURS, law_of(plant, change), _alone_p99_s(plant))


def _measure(job: tuple[int, int]) -> list[Row]:
    seed, number = job
    plant = draw_controller(seed, number)
    alone_s = _alone_p99_s(plant)
    ours = _row(number, plant, OURS, law_of(plant, {}), alone_s)
    statics = _statics(number, plant, alone_s)
    optimum = _optimum(number, plant, alone_s)
    pressure = ours["pressure_p99"]
    same = static_goodput_at(statics, PRESSURE_MAX if pressure is None else min(PRESSURE_MAX, pressure))
    found = [ours, optimum]
    # No static quota keeps the objective on some plants: then the smallest one that was tried stands for them.
    best = best_static(statics) or min(statics, key=lambda row: float(row["pressure_p99"] or 0.0))
    found.append({**best, "policy": "static"})
    for row in found:
        row["goodput_to_optimum"] = _ratio(row["goodput_partitions_per_s"], optimum["goodput_partitions_per_s"])
        row["goodput_to_static"] = _ratio(
            row["goodput_partitions_per_s"], same if row is ours else best["goodput_partitions_per_s"]
        )
    return found


def _statics(number: int, plant: ControllerPlant, alone_s: float | None) -> list[Row]:
    """Returns rows of static quotas. All of their buckets at once keep to the same burst as rheostat's."""
    count = len(plant.storms)
    high = min(2 * plant.capacity_per_s, _burst_cap_per_s(plant) / count)
    low, rows = 0.02 * min(high, plant.capacity_per_s / count), []
    for _ in range(_STATIC_STEPS):
        each = math.sqrt(low * high)
        row = _row(number, plant, f"static-{each:.3g}", Fixed({EVERYBODY_ELSE: each}), alone_s)
        rows.append(row)
        low, high = (each, high) if (row["pressure_p99"] or 0.0) <= PRESSURE_MAX else (low, each)
    return rows


def _optimum(number: int, plant: ControllerPlant, alone_s: float | None) -> Row:
    high = min(2 * plant.capacity_per_s, _burst_cap_per_s(plant))
    low, best = 0.1 * min(high, plant.capacity_per_s), None
    for _ in range(_OPTIMUM_STEPS):
        total = math.sqrt(low * high)
        row = _row(number, plant, OPTIMUM, MaxMin(plant, total), alone_s)
        if (row["pressure_p99"] or 0.0) <= PRESSURE_MAX:
            low, best = total, row
        else:
            high, best = total, best or row
    assert best is not None
    return best


def _burst_cap_per_s(plant: ControllerPlant) -> float:
    """Returns the total at which all buckets together hold ``burst_ms_max`` of the controller's time."""
    return plant.objective.burst_ms_max / (SAMPLES * SAMPLE_S * plant.partition_total_ms)


def _alone_p99_s(plant: ControllerPlant) -> float | None:
    """Returns the p99 of the quiet tenants' creations without a storm."""
    world = replace(
        plant.world, tenants=plant.quiet, model=replace(plant.world.model, other_work=()), fail_overs_at_s=()
    )
    return percentile(_took_s(plant, run_queue(world, Fixed())), 99)


def _row(number: int, plant: ControllerPlant, policy: str, dealer: QuotaDealer, alone_s: float | None) -> Row:
    judged = _Judged(dealer, plant)
    outcome = run_queue(plant.world, judged)
    done = sum(sum(_settled(points)) for points in outcome.partitions.values())
    counted = [(at_s, pressure) for at_s, pressure in judged.pressures if at_s >= SETTLED_S and plant.counts(at_s)]
    return {
        "plant": number,
        "policy": policy,
        **plant.facts(),
        "pressure_p99": percentile([pressure.ratio for _, pressure in counted], 99),
        "pressed_most_by": max((pressure for _, pressure in counted), key=lambda pressure: pressure.ratio).measure,
        "goodput_partitions_per_s": done / (plant.world.duration_s - SETTLED_S),
        "jain_index": _fairness(plant, outcome),
        "well_behaved_ratio": _ratio(percentile(_took_s(plant, outcome), 99), alone_s),
        "settle_s": _settle_s(plant, judged.pressures),
        "writes_per_tenant_min": writes_per_tenant_min(outcome.writes, SETTLED_S),
    }


def _settled(points: Sequence[tuple[float, float]]) -> list[float]:
    return [value for at_s, value in points if at_s >= SETTLED_S]


def _took_s(plant: ControllerPlant, outcome: QueueOutcome) -> list[float]:
    """Returns the create latencies of the quiet tenants after settling, except while other work or a fail-over delays them."""
    return [
        took_s
        for spec in plant.quiet
        for at_s, took_s in outcome.took_s.get(spec.client_id, [])
        if at_s >= SETTLED_S and plant.counts(at_s)
    ]


def _ratio(value: float | None, other: float | None) -> float | None:
    return value / other if value is not None and other else None


def _settle_s(plant: ControllerPlant, pressures: Sequence[tuple[float, Pressure]]) -> float:
    """Returns the seconds from the first storm until the pressure is within a tenth of its limit for a minute."""
    began_s = min(spec.at_s for spec in plant.storms)
    calm_since_s = began_s
    for at_s, pressure in pressures:
        if pressure.ratio > 1.1 and plant.counts(at_s):
            calm_since_s = at_s
        if at_s - calm_since_s >= _CALM_S:
            return calm_since_s - began_s
    return NEVER


def _fairness(plant: ControllerPlant, outcome: QueueOutcome) -> float | None:
    """Returns Jain's index of what each storm got ÷ its max–min share of what all storms got.

    Shares are computed for each time in which the same storms are active. Storms that pause have no constant demand and are left
    out.
    """
    end_s = plant.world.duration_s
    steady = [spec for spec in plant.storms if not spec.pause_every_s]
    changes_s = sorted(
        {SETTLED_S, end_s, *(s for spec in steady for s in (spec.at_s, spec.until_s) if SETTLED_S < s < end_s)}
    )
    got, fair = dict.fromkeys(steady, 0.0), dict.fromkeys(steady, 0.0)
    for from_s, until_s in pairwise(changes_s):
        active = [spec for spec in steady if spec.at_s <= from_s and spec.until_s >= until_s]
        amounts = [_amount(outcome.partitions.get(spec.client_id, []), from_s, until_s) for spec in active]
        wants = [Claim(demand_per_s(spec) * (until_s - from_s)) for spec in active]
        for spec, amount, share in zip(active, amounts, share_max_min(sum(amounts), wants).shares, strict=True):
            got[spec] += amount
            fair[spec] += share
    return jain([got[spec] / fair[spec] for spec in steady if fair[spec] > 0])


def _amount(points: Sequence[tuple[float, float]], from_s: float, until_s: float) -> float:
    return sum(value for at_s, value in points if from_s <= at_s < until_s)


# -- distributions ---------------------------------------------------------------------------------------------------------


def totals(rows: Sequence[Row]) -> list[Row]:
    """Returns for each policy median, 95th percentile towards the bad side, and worst value of each figure."""
    found = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        total: Row = {"policy": policy, "plants": len(own)}
        for figure, worst in FIGURES.items():
            values = sorted((row[figure] for row in own if row.get(figure) is not None), reverse=worst is min)
            if values:
                total |= {
                    f"{figure}_median": _at(values, 0.5),
                    f"{figure}_p95": _at(values, 0.95),
                    f"{figure}_worst": values[-1],
                }
        found.append(total)
    return found


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def missed_on_plants(rows: Sequence[Row]) -> list[str]:
    """Returns a sentence for each bound that rheostat's quotas miss on the median plant."""
    ours = next(total for total in totals(rows) if total["policy"] == OURS)
    bounds = {
        "pressure_p99": PRESSURE_MAX,
        "goodput_to_static": GOODPUT_RATIO_MIN,
        "jain_index": JAIN_MIN,
        "well_behaved_ratio": WELL_BEHAVED_RATIO_MAX,
        "writes_per_tenant_min": WRITES_PER_TENANT_MIN_MAX,
    }
    found = []
    for figure, bound in bounds.items():
        value = ours.get(f"{figure}_median")
        if value is None or FIGURES[figure]([value, bound]) != bound:
            found.append(f"the median of {figure} is {_text(value)}, and the bound is {bound:g}")
    return found


def worst_plants(rows: Sequence[Row], figure: str) -> list[Row]:
    """Returns the rows of rheostat with the worst values of a figure."""
    own = [row for row in rows if row["policy"] == OURS and row.get(figure) is not None]
    return sorted(own, key=lambda row: float(row[figure]), reverse=FIGURES[figure] is max)[:WORST]


def print_plants(rows: Sequence[Row]) -> None:
    found = totals(rows)
    print(f"{'':24}" + "".join(f"{total['policy']:>30}" for total in found))
    print(f"{'':24}" + f"{'median':>12}{'p95':>9}{'worst':>9}" * len(found))
    for figure in FIGURES:
        cells = ("".join(f"{_text(total.get(f'{figure}_{at}')):>{width}}" for at, width in _COLUMNS) for total in found)
        print(f"{figure:24}" + "".join(cells))
    for figure in ("pressure_p99", "goodput_to_static", "jain_index", "well_behaved_ratio"):
        print(f"\nworst {figure} of rheostat:")
        for row in worst_plants(rows, figure):
            print(
                f"  {row['plant']:4d}: {_text(row[figure])}; {row['kind']}, {row['tenants']} tenants, {row['storms']} storms, "
                f"capacity {row['capacity_per_s']:.0f}/s, signals every {row['every_s']:.0f} s"
                f"{', disturbed' if row['disturbed'] else ''}, most pressed by {row['pressed_most_by']}"
            )


_COLUMNS = (("median", 12), ("p95", 9), ("worst", 9))


def _text(value: float | None) -> str:
    return "-" if value is None else "never" if value == NEVER else f"{value:.3g}"
