"""Runs laws on drawn plants, and reports the distribution of their results."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calm_table import CLIENTS, CLIENTS_HEADER, CLIENTS_PHASES, MEANING, clients_cells, p99_ratio, present
from benchmarks.laws.plants import CapacityTold, draw_plant
from benchmarks.laws.rivals import OURS, Law, policies
from tuner.control.throttle.objective import ControlLimits
from tuner.simulation.run import run
from tuner.simulation.trace import Trace

WORST = 10  # Plants that are reported one by one.
NEVER = float("inf")  # Ratio of a run that did not end.
AFTER_S = 30.0  # Clients are observed for so long after the moves.
# Bounds of our law, for capacity that is told rightly, and otherwise.
RATIO_MEDIAN_MAX = {CapacityTold.RIGHT: 1.25, CapacityTold.WRONG: 1.5, CapacityTold.UNKNOWN: 1.5}
SLO_5S_MEAN_MAX = {CapacityTold.RIGHT: 0.007, CapacityTold.WRONG: 0.02, CapacityTold.UNKNOWN: 0.02}
RATIO_P95_MAX, SLO_5S_P95_MAX, SLO_1S_MEAN_MAX, WRITES_MEDIAN_MAX = 1.6, 0.03, 0.03, 12.0
BEATEN_SHARE_MAX = 0.05

_CALM = ("variation", "burst", "undershoot", "silence_s")
_FIGURES = ("ratio", "slo_5s", "slo_1s", "writes", *_CALM, "p99_ratio", *CLIENTS)

Row = dict[str, Any]


def measure_plants(seed: int, count: int, told: CapacityTold, *, ours_alone: bool) -> list[Row]:
    """Returns one row per plant and law. The plants are shared out to the processors."""
    jobs = [(seed, number, told, ours_alone) for number in range(count)]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        return [row for rows in pool.imap(measure_plant, jobs) for row in rows]


def measure_changed_law(seed: int, count: int, changes: Sequence[dict[str, float]]) -> list[list[Row]]:
    """Returns for each change of constants one row of our law per plant, with capacity that is told rightly."""
    jobs = [(seed, number, change) for change in changes for number in range(count)]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        rows = pool.map(_measure_changed, jobs, chunksize=1)
    return [rows[start : start + count] for start in range(0, len(rows), count)]


def _measure_changed(job: tuple[int, int, dict[str, float]]) -> Row:
    seed, number, change = job
    world = draw_plant(seed, number, CapacityTold.RIGHT)
    limits = replace(ControlLimits(quota_samples=world.fetch.quota_samples), **change)  # type: ignore[arg-type]  # By name.
    return {"plant": number, "policy": OURS, **_figures(run(world, Law(limits), settle_s=0.0))}


def measure_plant(job: tuple[int, int, CapacityTold, bool]) -> list[Row]:
    """Returns a row for each law.

    Args:
        job: seed, number of the plant, what is told of capacity, and whether the rivals are left out.
    """
    seed, number, told, ours_alone = job
    world = draw_plant(seed, number, told)
    laws = policies(world)[:1] if ours_alone else policies(world)
    facts = {
        "plant": number,
        "brokers": len(world.brokers),
        "moving": len(world.moving),
        "p99_source": world.latency.p99_source,
        "scrape_every_s": world.delivery.scrape_every_s,
        "late_s": world.delivery.delay_s_max,
        "tick_ms": world.tick_ms,
        "quota_samples": world.fetch.quota_samples,
    }
    return [{**facts, "policy": law.name, **_figures(run(world, law, settle_s=AFTER_S))} for law in laws]


def _figures(trace: Trace) -> Row:
    summary, calm, clients = trace.summary, trace.calm, trace.clients.flat()
    ended = summary.completed and summary.ratio_to_optimum is not None
    return {
        "ratio": summary.ratio_to_optimum if ended else NEVER,
        "slo_5s": summary.slo_violation_ratio_5s,
        "slo_1s": summary.slo_violation_ratio_1s,
        "writes": calm.config_writes_per_broker_min,
        "variation": calm.rate_variation_per_min,
        "burst": calm.burst_ratio_max,
        "undershoot": calm.undershoot_ratio,
        "silence_s": calm.silence_s_max,
        "p99_ratio": p99_ratio(clients),
        **clients,
    }


def totals(rows: Sequence[Row]) -> list[Row]:
    """Returns the distribution of each law: median, 95th percentile, mean and largest; None for a figure that no plant has."""
    found = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        total: Row = {"policy": policy, "plants": len(own)}
        for key in _FIGURES:
            total |= _distribution(key, present(own, key))
        total["beats_ours_ratio"] = _share_better(own, rows)
        found.append(total)
    return found


def _distribution(key: str, values: Sequence[float]) -> Row:
    if not values:
        return {f"{key}_{at}": None for at in ("median", "p95", "mean", "max")}
    array = np.array(values)
    return {
        f"{key}_median": float(np.percentile(array, 50, method="lower")),
        f"{key}_p95": float(np.percentile(array, 95, method="higher")),
        f"{key}_mean": float(array.mean()),
        f"{key}_max": float(array.max()),
    }


def _share_better(own: Sequence[Row], rows: Sequence[Row]) -> float:
    """Returns the share of plants on which a law is faster than ours with fewer 5 s bins over the objective."""
    ours = {row["plant"]: row for row in rows if row["policy"] == OURS}
    better = [r["ratio"] < ours[r["plant"]]["ratio"] and r["slo_5s"] < ours[r["plant"]]["slo_5s"] for r in own]
    return sum(better) / len(better)


def missed_on_plants(rows: Sequence[Row], told: CapacityTold) -> list[str]:
    """Returns a sentence for each bound that rheostat's law misses."""
    found = totals(rows)
    ours = next(total for total in found if total["policy"] == OURS)
    bounds = [
        ("the median of the time ÷ T*", "ratio_median", RATIO_MEDIAN_MAX[told]),
        ("the mean share of 5 s bins over the objective", "slo_5s_mean", SLO_5S_MEAN_MAX[told]),
    ]
    if told is CapacityTold.RIGHT:
        bounds += [
            ("the 95th percentile of the time ÷ T*", "ratio_p95", RATIO_P95_MAX),
            ("the 95th percentile of the share of 5 s bins", "slo_5s_p95", SLO_5S_P95_MAX),
            ("the mean share of 1 s bins over the objective", "slo_1s_mean", SLO_1S_MEAN_MAX),
            ("the median of the writes a broker and minute", "writes_median", WRITES_MEDIAN_MAX),
        ]
    sentences = [
        f"{figure} is {ours[key]:.4g}, at most {bound} is allowed" for figure, key, bound in bounds if ours[key] > bound
    ]
    return sentences + [
        f"{total['policy']} is better in both on {total['beats_ours_ratio']:.0%} of the plants"
        for total in found
        if total["beats_ours_ratio"] > BEATEN_SHARE_MAX
    ]


def worst_plants(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows of our law with the largest ratios."""
    return sorted((r for r in rows if r["policy"] == OURS), key=lambda r: -r["ratio"])[:WORST]


def save_plants(folder: Path, seed: int, told: CapacityTold, rows: Sequence[Row]) -> list[Path]:
    """Writes the plants of ``rows`` as files that ``rheostat simulate`` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for row in rows:
        path = folder / f"plant-{seed}-{row['plant']}-{told}.json"
        path.write_text(draw_plant(seed, row["plant"], told).to_json() + "\n", encoding="utf-8")
        paths.append(path)
    return paths


def print_plants(rows: Sequence[Row]) -> None:
    print(f"{'law':18} {'T ÷ T*':>24} {'5 s bins over':>24} {'1 s bins over':>24} {'writes':>7} {'better':>7}")
    print(f"{'':18} {'median':>7} {'p95':>8} {'most':>7}" + f" {'mean':>7} {'p95':>8} {'most':>7}" * 2)
    for total in totals(rows):
        ratio = " ".join(
            f"{_text(total[f'ratio_{at}']):>{width}}" for at, width in (("median", 7), ("p95", 8), ("max", 7))
        )
        over = " ".join(
            " ".join(f"{total[f'{key}_{at}']:{width}.2%}" for at, width in (("mean", 7), ("p95", 8), ("max", 7)))
            for key in ("slo_5s", "slo_1s")
        )
        print(f"{total['policy']:18} {ratio} {over} {total['writes_median']:7.1f} {total['beats_ours_ratio']:7.0%}")
    print(f"\n{'law':18} {'varies':>15} {'burst':>15} {'under':>15} {'silence, s':>15} {'p99 ÷ before':>15}")
    print(f"{'':18}" + f" {'median':>7} {'p95':>7}" * 5)
    for total in totals(rows):
        cells = (
            f"{_cell(total[f'{key}_median'], form)} {_cell(total[f'{key}_p95'], form)}"
            for key, form in zip((*_CALM, "p99_ratio"), (".2f", ".1f", ".1%", ".1f", ".2f"), strict=True)
        )
        print(f"{total['policy']:18} {' '.join(cells)}")
    print(MEANING)
    print(f"\nmedians of the plants\n{'':18} {CLIENTS_HEADER}\n{'law':18} {CLIENTS_PHASES}")
    for total in totals(rows):
        print(f"{total['policy']:18} {clients_cells({name: total[f'{name}_median'] for name in CLIENTS})}")
    print("\nthe worst plants of rheostat's law:")
    for row in worst_plants(rows):
        print(
            f"  {row['plant']:4d}: {_text(row['ratio'])} × T*, {row['slo_5s']:.2%} of 5 s bins; {row['brokers']} brokers, "
            f"{row['moving']} partitions, p99 {row['p99_source']}, scrape every {row['scrape_every_s']:.0f} s, up to "
            f"{row['late_s']:.0f} s late, window of {row['quota_samples']} samples"
        )


def _cell(value: float | None, form: str) -> str:
    return f"{'-':>7}" if value is None else f"{value:7{form}}"


def _text(ratio: float) -> str:
    return "never" if ratio == NEVER else f"{ratio:.3f}"
