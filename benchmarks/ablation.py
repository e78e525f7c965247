"""Takes each mechanism out of the control law in turn, and reports what that costs on drawn plants.

A mechanism is taken out by a neutral value of its constant (a gain of 0, a ratio of 1). The plants are those of
``benchmarks.control --plants``, with capacity that is told rightly. A mechanism whose removal costs nothing is a candidate for
deletion. Only what the plants contain can be judged here: no plan begins moves in them, no move stalls, and no signal stays away.

``--mutations`` does the same for mutation quotas, on the controllers that ``benchmarks.controller --plants`` draws.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.controllers.neutral import MUTATION_NEUTRAL, measure_mutations, print_mutations
from benchmarks.laws.distribution import Row, measure_changed_law, totals

# The constants of ``ControlLimits``, each with the value that takes its mechanism out.
NEUTRAL: dict[str, float] = {
    "utilisation_max": 1.0,
    "min_rate_over_steady_state": 1.0,
    "load_s": 0.001,
    "forecast_spreads": 0.0,
    "decoupled_time_ratio": 1.0,
    "follower_margin_ratio": 1.0,
    "drain_s_min": 0.001,
    "takeover_ramp_s": 0.001,
    "deadband_ratio": 0.0,
    "window_compensation_range": 0.0,
}
_FIGURES = ("ratio_median", "ratio_mean", "slo_5s_mean", "slo_1s_mean", "writes_median")


def measure(seed: int, count: int, constants: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the figures of the whole law, and then of the law without each mechanism."""
    changes = [{}, *({name: NEUTRAL[name]} for name in constants)]
    found = measure_changed_law(seed, count, changes)
    return [_entry(name, rows) for name, rows in zip([None, *constants], found, strict=True)]


def _entry(name: str | None, rows: Sequence[Row]) -> dict[str, Any]:
    [total] = totals(rows)
    neutral = None if name is None else NEUTRAL[name]
    return {"without": name, "neutral": neutral, **{figure: total[figure] for figure in _FIGURES}}


def _print(entries: Sequence[dict[str, Any]]) -> None:
    whole = entries[0]
    print(f"{'without':28} {'T ÷ T* median':>14} {'mean':>8} {'5 s bins over':>14} {'1 s':>8} {'writes':>7}")
    for entry in entries:
        figures = [entry[figure] - (0.0 if entry is whole else whole[figure]) for figure in _FIGURES]
        sign = "" if entry is whole else "+"
        print(
            f"{entry['without'] or 'nothing':28} {figures[0]:{sign}14.3f} {figures[1]:{sign}8.3f} {figures[2]:{sign}14.2%} "
            f"{figures[3]:{sign}8.2%} {figures[4]:{sign}7.1f}"
        )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=9)
    parser.add_argument("--plants", type=int, default=200, metavar="N")
    parser.add_argument("--mutations", action="store_true", help="mutation quotas instead of replication throttles")
    parser.add_argument("--constant", action="append", metavar="NAME", help="may be repeated; all by default")
    options = parser.parse_args(arguments)
    neutral = MUTATION_NEUTRAL if options.mutations else NEUTRAL
    constants = options.constant or list(neutral)
    if unknown := sorted(set(constants) - neutral.keys()):
        parser.error(f"--constant {unknown[0]}: expected one of {', '.join(neutral)}")
    measured = measure_mutations if options.mutations else measure
    entries = measured(options.seed, options.plants, constants)
    if options.json:
        print(json.dumps(entries))
    elif options.mutations:
        print_mutations(entries)
    else:
        _print(entries)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
