"""The figures of a storm, defined in one place for the real cluster and for the simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Row = dict[str, Any]

WELL_BEHAVED_RATIO_MAX = 1.5
GOODPUT_RATIO_MIN = 0.9
JAIN_MIN = 0.95
WRITES_PER_TENANT_MIN_MAX = 2.0
PRESSURE_MAX = 1.0


def percentile(values: Sequence[float], share: float) -> float | None:
    return float(np.percentile(np.asarray(values), share)) if values else None


def mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def jain(done: Sequence[float]) -> float | None:
    """Returns Jain's index: 1 if all tenants have the same, 1 ÷ n if one tenant has everything."""
    squares = math.fsum(one * one for one in done)
    return math.fsum(done) ** 2 / (len(done) * squares) if squares else None


def settled_after_s(pressures: Sequence[tuple[float, float]], storm_at_s: float) -> float | None:
    """Returns the seconds from the start of the storm to the last miss of the objective by over a tenth; None: it never settles."""
    if not pressures:
        return None
    over = [at_s for at_s, ratio in pressures if at_s >= storm_at_s and ratio > 1.1]
    if not over:
        return 0.0
    return None if over[-1] == pressures[-1][0] else over[-1] - storm_at_s


def writes_per_tenant_min(writes: Mapping[str, Sequence[float]], from_s: float) -> float:
    """Returns the highest number of writes for one tenant in any minute after ``from_s``."""
    most = 0
    for times in writes.values():
        late = sorted(at_s for at_s in times if at_s >= from_s)
        most = max([most, *(sum(first <= at_s < first + 60 for at_s in late) for first in late)])
    return float(most)


def missed(rows: Sequence[Row], ours: str = "rheostat") -> list[str]:
    """Returns a sentence for each bound that rheostat misses, compared with the best static quota of the same table."""
    found = [row for row in rows if row["policy"] == ours]
    if not found:
        return []
    row, said = found[0], []
    if row["pressure_p99"] is None or row["pressure_p99"] > PRESSURE_MAX:
        said.append(f"pressure_p99 {_shown(row['pressure_p99'])} is above {PRESSURE_MAX}")
    pressure = row["pressure_p99"]
    same = static_goodput_at(rows, PRESSURE_MAX if pressure is None else min(PRESSURE_MAX, pressure))
    if best_static(rows) is None or same is None:
        said.append("no static quota held the objective: goodput is not judged")
    elif row["goodput_partitions_per_s"] < GOODPUT_RATIO_MIN * same:
        said.append(
            f"goodput {row['goodput_partitions_per_s']:.1f}/s is below {GOODPUT_RATIO_MIN} of what static quotas let through at "
            f"its pressure, {same:.1f}/s"
        )
    if row["jain_index"] is None or row["jain_index"] < JAIN_MIN:
        said.append(f"jain_index {_shown(row['jain_index'])} is below {JAIN_MIN}")
    ratio = row["well_behaved_ratio"]
    if ratio is None or ratio > WELL_BEHAVED_RATIO_MAX:
        said.append(f"a well-behaved tenant's p99 is {_shown(ratio)} × what it is alone ({WELL_BEHAVED_RATIO_MAX})")
    for what in ("failed_requests", "left_behind"):
        if row.get(what):
            said.append(f"{what}: {row[what]}")
    if row["writes_per_tenant_min"] > WRITES_PER_TENANT_MIN_MAX:
        said.append(
            f"{row['writes_per_tenant_min']:g} writes for one tenant in a minute ({WRITES_PER_TENANT_MIN_MAX:g})"
        )
    return said


def best_static(rows: Sequence[Row]) -> Row | None:
    """Returns the static quota with the highest goodput among those that keep the objective as well as rheostat has to."""
    held = [
        row
        for row in rows
        if row["policy"].startswith("static")
        and row["pressure_p99"] is not None
        and row["pressure_p99"] <= PRESSURE_MAX
    ]
    return max(held, key=lambda row: float(row["goodput_partitions_per_s"]), default=None)


def static_goodput_at(rows: Sequence[Row], pressure: float) -> float | None:
    """Returns the goodput of static quotas at this pressure; None: it was not measured.

    The value is interpolated between the nearest rows, because the tried quotas hit a given pressure by chance only.
    """
    points = _statics(rows)
    if not points:
        return None
    below, above = [p for p in points if p[0] <= pressure], [p for p in points if p[0] > pressure]
    if not below:
        # Below all measured pressures the smallest static quota is the reference.
        return min(points)[1]
    low = max(below, key=lambda point: point[1])
    more = [point for point in above if point[1] > low[1]]
    if not more:
        return low[1]
    high = min(more)
    return low[1] + (high[1] - low[1]) * (pressure - low[0]) / (high[0] - low[0])


def presses_less_than_statics(rows: Sequence[Row], ours: Sequence[str]) -> bool:
    """Returns whether a row of rheostat has less pressure than every static quota of the table.

    No row then shows the goodput of a static quota at that pressure.
    """
    held = [float(row["pressure_p99"]) for row in rows if row["policy"] in ours and row["pressure_p99"] is not None]
    statics = _statics(rows)
    return bool(held) and bool(statics) and min(held) < min(pressure for pressure, _ in statics)


def _statics(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Returns pressure and partitions/s of each static quota."""
    return [
        (float(row["pressure_p99"]), float(row["goodput_partitions_per_s"]))
        for row in rows
        if row["policy"].startswith("static") and row["pressure_p99"]
    ]


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
