"""Takes each mechanism of the mutation quotas out in turn, and reports what that costs on drawn controllers.

Every entry is compared with all mechanisms on the same controllers. Only what the plants contain can be judged here: no operator or
other tool changes a quota, no tenant has a rule of its own, and no tenant is absent for an hour.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.controllers.distribution import NEVER, Change, measure_changed_law
from benchmarks.controllers.figures import PRESSURE_MAX, Row, mean

# Limits of the objective (None: rheostat does not see this measure, and the plant is judged by it nevertheless), and the constants
# of ``MutationLimits``, each with the value that takes its mechanism out.
MUTATION_NEUTRAL: dict[str, float | None] = {
    "create_probe_p90_ms_max": None,
    "forwarding_busy_ratio_max": None,
    "apply_lag_ms_max": None,
    "rate_per_s_start": 1.0,
    "rate_per_s_safe": 1.0,
    "light_load_ratio": 0.0,
    "tenant_rate_per_s_min": 0.001,
    "new_tenants_expected": 0.001,
    "demand_slack": 1.0,
    "idle_smoothing_s": 0.001,
    "target_ratio": 0.5,
    "probe_margin_spreads": 0.0,
    "probe_step_ratio": 0.05,
    "probe_far_ratio": 0.0,
    "forwarding_target_ratio": 0.85,
    "forwarding_near_ratio": 0.999,
    "smallest_cut_factor": 0.999,
    "largest_cut_factor": 0.001,
    "settle_s": 15.001,
    "receding_ratio": 0.0,
    "drain_ratio": 1.0,
    "idle_lag_ms_max": 1e9,
    "known_limit_memory_s": 1.0,
    "bucket_empty_ratio": 0.0,
    "bucket_refilled_ratio": 0.1,
    "deadband_ratio": 0.0,
    "urgent_ratio": 1.0,
    "write_every_s": 0.001,
    "decay_age_s": 1e9,
    "learn_gain": 0.0,
    "learn_busy_max": 1e9,
}


def measure_mutations(seed: int, count: int, constants: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the figures of all mechanisms, and then without each of them."""
    changes: list[Change] = [{}, *({name: MUTATION_NEUTRAL[name]} for name in constants)]
    found = measure_changed_law(seed, count, changes)
    whole = next(found)
    entries = [_entry(None, whole, whole)]
    for name, rows in zip(constants, found, strict=True):
        entries.append(_entry(name, rows, whole))
        print(f"without {name}: {entries[-1]['goodput_ratio']:.3f} of the goodput", file=sys.stderr)
    return entries


def _entry(name: str | None, rows: Sequence[Row], whole: Sequence[Row]) -> dict[str, Any]:
    """Returns the means over all plants; the goodput is relative to all mechanisms on the same plant."""
    goodput = [
        math.log(row["goodput_partitions_per_s"] / other["goodput_partitions_per_s"])
        for row, other in zip(rows, whole, strict=True)
        if row["goodput_partitions_per_s"] > 0 < other["goodput_partitions_per_s"]
    ]
    return {
        "without": name,
        "neutral": None if name is None else MUTATION_NEUTRAL[name],
        "goodput_ratio": math.exp(mean(goodput) or 0.0),
        "pressure_mean": _mean(rows, "pressure_p99"),
        "over_ratio": mean([float((row["pressure_p99"] or 0.0) > PRESSURE_MAX) for row in rows]),
        "jain_mean": _mean(rows, "jain_index"),
        "well_behaved_mean": _mean(rows, "well_behaved_ratio"),
        "settle_mean_s": _mean([row for row in rows if row["settle_s"] != NEVER], "settle_s"),
        "never_settled": sum(row["settle_s"] == NEVER for row in rows),
        "writes_mean": _mean(rows, "writes_per_tenant_min"),
    }


def _mean(rows: Sequence[Row], figure: str) -> float | None:
    """Returns the geometric mean of a figure, so that one extreme plant does not decide; the arithmetic mean if it can be 0."""
    values = [float(row[figure]) for row in rows if row[figure] is not None]
    if not values or min(values) <= 0:
        return mean(values)
    return math.exp(math.fsum(map(math.log, values)) / len(values))


_COLUMNS = (
    ("goodput_ratio", "goodput", "8.3f"),
    ("pressure_mean", "pressure p99", "13.3f"),
    ("over_ratio", "plants over", "12.1%"),
    ("jain_mean", "Jain", "8.4f"),
    ("well_behaved_mean", "well-behaved", "13.3f"),
    ("settle_mean_s", "settles, s", "11.1f"),
    ("never_settled", "never", "6.0f"),
    ("writes_mean", "writes", "8.2f"),
)


def print_mutations(entries: Sequence[dict[str, Any]]) -> None:
    whole = entries[0]
    print(f"{'without':28}" + "".join(f" {title:>{form.split('.')[0]}}" for _, title, form in _COLUMNS))
    for entry in entries:
        cells = ""
        for key, _, form in _COLUMNS:
            value = (entry[key] or 0.0) - (0.0 if entry is whole else whole[key] or 0.0)
            cells += f" {value:{'' if entry is whole else '+'}{form}}"
        print(f"{entry['without'] or 'nothing':28}{cells}")
