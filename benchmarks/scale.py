"""Measures the cost of one decision cycle on large clusters, and its growth.

A cycle is the whole computation of the tuner after the inputs are read: the decision for every side, the new state and its
records, and then one steering tick, which sets every side. (There are five ticks per cycle: the median cycle contains the median
tick, and the worst cycle the worst tick.) Decoding signals and the cluster's responses is shown separately. Figures are CPU time
of one process per size, garbage collection included, so that other load and other sizes do not matter. There are 200 partitions
per broker, a quarter of them moving, each between its own brokers. Per cycle one in 250 moves ends, and another begins. The moves
have no throttle, so the tuner sets the rates and keeps the throttled-replica lists exact, as it does with every objective.

Bounds, at 1,000 brokers: the median and the worst cycle, and the peak memory of the process, also when everything stalls at once.
Growth: CPU per broker at 5,000 brokers relative to 1,000. Three cycles happen once per move and are shown without a time bound: the
first two, which set and list everything, and the cycle after a stall of everything, which sets every throttle.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

CYCLE_MS_MAX = 250.0
RSS_MB_MAX = 300.0
GROWTH_MAX = 1.3
SIZES = (100, 1_000, 5_000)
BOUND_AT, GROWN_TO = 1_000, 5_000
RUN_S_MAX = 600.0
PARTS = ("cycle_ms", "decide_ms", "law_ms", "signals_ms", "look_ms")

Row = dict[str, Any]


def measure(sizes: Sequence[int], seed: int, *, rescue: bool) -> dict[str, Any]:
    rows = [_row(_run(size, seed)) for size in sizes]
    found: dict[str, Any] = {"seed": seed, "sizes": rows, "growth": growth(rows), "bounds": _BOUNDS}
    if rescue:
        found["rescue"] = _answer(_run(BOUND_AT, seed, "rescue"))
    return found | {"missed": missed(found)}


def _run(brokers: int, seed: int, *options: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sizes.cycle", str(brokers), str(seed), *options],
        stdout=subprocess.PIPE,
        text=True,
        timeout=RUN_S_MAX,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _row(run: dict[str, Any]) -> Row:
    """Returns the figures of one size: medians, and the worst cycle."""
    cycles = run.pop("cycles")
    first, second = run.pop("opening")
    medians = {part: round(statistics.median(cycle[part] for cycle in cycles), 1) for part in PARTS}
    return (
        run
        | medians
        | {
            "cycle_ms_max": round(max(cycle["cycle_ms_max"] for cycle in cycles), 1),
            "cycles": len(cycles),
            "first_ms": round(first["cycle_ms"], 1),
            "second_ms": round(second["cycle_ms"], 1),
            "journal_kB": round(statistics.median(cycle["journal_kB"] for cycle in cycles)),
            "us_a_broker": round(1000 * statistics.median(cycle["cycle_ms"] for cycle in cycles) / run["brokers"], 1),
        }
    )


def _answer(run: dict[str, Any]) -> Row:
    """Returns the figures of the cycle after a stall of all moves."""
    answer = max(run["cycles"], key=lambda cycle: int(cycle["set"]))
    return {
        "brokers": run["brokers"],
        "set": answer["set"],
        "cycle_ms": round(answer["cycle_ms"], 1),
        "journal_kB": answer["journal_kB"],
        "rss_mb_peak": run["rss_mb_peak"],
    }


def growth(rows: Sequence[Row]) -> dict[str, float] | None:
    """Returns the growth from the bound's size to the largest; None if one of them was not measured.

    ``ratio`` is CPU per broker relative to CPU per broker; ``exponent`` is that of the brokers in the CPU of a cycle: 1 is linear.
    """
    at = {row["brokers"]: row["cycle_ms"] for row in rows}
    if BOUND_AT not in at or GROWN_TO not in at:
        return None
    times = at[GROWN_TO] / at[BOUND_AT]
    scale = GROWN_TO / BOUND_AT
    return {"ratio": round(times / scale, 3), "exponent": round(math.log(times) / math.log(scale), 3)}


def missed(found: dict[str, Any]) -> list[str]:
    """Returns a sentence for each missed bound."""
    failures = []
    for row in found["sizes"]:
        if row["brokers"] != BOUND_AT:
            continue
        for key, bound in (("cycle_ms", CYCLE_MS_MAX), ("cycle_ms_max", CYCLE_MS_MAX), ("rss_mb_peak", RSS_MB_MAX)):
            if row[key] > bound:
                failures.append(f"{key} at {BOUND_AT} brokers is {row[key]}, the bound {bound:g}")
    told = found.get("rescue")
    if told is not None and told["rss_mb_peak"] > RSS_MB_MAX:
        failures.append(f"rss_mb_peak of the stall of everything is {told['rss_mb_peak']}, the bound {RSS_MB_MAX:g}")
    if found["growth"] is not None and found["growth"]["ratio"] > GROWTH_MAX:
        failures.append(f"a broker costs {found['growth']['ratio']} × as much at {GROWN_TO}, the bound {GROWTH_MAX}")
    return failures


_BOUNDS = {"cycle_ms": CYCLE_MS_MAX, "cycle_ms_max": CYCLE_MS_MAX, "rss_mb_peak": RSS_MB_MAX, "growth": GROWTH_MAX}


def _table(found: dict[str, Any]) -> None:
    rows = found["sizes"]
    print(f"{'CPU ms, medians of the cycles':34} " + " ".join(f"{row['brokers']:>10,d}" for row in rows) + "   brokers")
    for key, name in (
        ("partitions", "partitions"),
        ("moving", "of them moving"),
        ("cycle_ms", "one cycle"),
        ("cycle_ms_max", "  the worst"),
        ("decide_ms", "  deciding and putting on record"),
        ("law_ms", "  the law's second"),
        ("us_a_broker", "  µs a broker"),
        ("first_ms", "the first cycle: rates and lists"),
        ("second_ms", "the second: all sides on record"),
        ("signals_ms", "observing: signals from JSON"),
        ("look_ms", "observing: the Admin API's answers"),
        ("journal_kB", "journal, kB a cycle"),
        ("rss_mb_peak", "memory at most (RSS), MB"),
    ):
        print(f"{name:34} " + " ".join(f"{row[key]:>10,.10g}" for row in rows))
    print(f"bounds at {BOUND_AT:,d} brokers: {CYCLE_MS_MAX:g} ms, {RSS_MB_MAX:g} MB; ratios", end=" ")
    print(
        *(
            f"{row['cycle_ms'] / CYCLE_MS_MAX:.2f} (worst {row['cycle_ms_max'] / CYCLE_MS_MAX:.2f}), "
            f"{row['rss_mb_peak'] / RSS_MB_MAX:.2f}"
            for row in rows
            if row["brokers"] == BOUND_AT
        )
    )
    if found["growth"] is not None:
        print(
            "growth: a broker costs {ratio} × as much at the largest; brokers to the power of {exponent}".format(
                **found["growth"]
            )
        )
    if "rescue" in found:
        told = found["rescue"]
        print(
            f"all {told['set']} throttles of {told['brokers']:,d} brokers set in one cycle: {told['cycle_ms']:,.0f} ms, "
            f"{told['journal_kB']:,d} kB of journal, {told['rss_mb_peak']:.0f} MB"
        )
    for failure in found["missed"]:
        print(f"missed: {failure}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, action="append", help="only this size; may be repeated")
    parser.add_argument("--no-rescue", action="store_true", help="leave out the stall of everything")
    given = parser.parse_args(arguments)
    found = measure(given.brokers or SIZES, given.seed, rescue=not given.no_rescue)
    if given.json:
        print(json.dumps(found))
    else:
        _table(found)
    return 1 if found["missed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
