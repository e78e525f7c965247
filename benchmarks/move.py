"""Measures how fast a plan of thousands of partitions is executed, its load on the controller, and the cost of planning.

Simulated: 100 brokers with a throttle of 150 MB/s on every side, and 20,000 moving partitions of skewed sizes, in two worlds (a
fifth of the brokers has just joined; moves between any brokers). All executors have the same throttles, exact throttled-replica
lists and a snapshot every five seconds. T* is the fluid optimum at these throttles: no order and no concurrency is faster. The
controller takes 1 ms for every requested step and every replica that joins, ten times the measured time of KRaft. The controller
figure is the worst p99, over all half minutes, of the wait of an event at a random time. The model has no limits on partitions per
response on long links, no seek times, no effect of the number of partitions on clients, and no different quotas of brokers.

The constants of the law were checked with seed 1; the default seed is another one.

A rival that needs more than three times T* is stopped. As many runs as processors run in parallel.

In a third world, *four brokers*, 200 partitions of five sizes move as on the real brokers (``--real``), at 3 MB/s per side.

Calm (tuner/simulation/calm.py has the formulas), for each run; on real brokers the median of the rounds:

    rate_variation_per_min          total variation of a rate beyond its trend, ÷ its mean, per minute; in simulation the throttles
                                    are fixed, so it is 0
    burst_ratio_max                 largest second of a throttle under which partitions move: bytes ÷ bytes that the rate allows
    undershoot_ratio                bytes that the rates allow and that did not pass while partitions move ÷ bytes that they allow;
                                    of leaders or followers, whichever limits
    silence_s_max                   longest time, in seconds, in which a broker that replicas move to received nothing
    config_writes_per_broker_min    settings that rheostat wrote per broker and minute of the plan
    clients_PHASE_bytes_per_s, clients_PHASE_p50_ms, clients_PHASE_p99_ms
                                    traffic of clients, and median and p99 of their requests. In simulation ``before`` are the
                                    same seconds without the copied bytes, and ``after`` the 30 s that follow the plan; the brokers
                                    are those that take part. On real brokers ``before`` and ``after`` are 10 s each, the traffic is
                                    what producers send to brokers; the requests are those of the client that numbers records.

Planning: 200,000 partitions on 1,000 brokers, in CPU seconds of a process of its own; and `rheostat fetchers` for the same cluster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

from benchmarks.calm_table import (
    CALM_HEADER,
    CLIENTS_HEADER,
    CLIENTS_PHASES,
    MEANING,
    calm_cells,
    clients_cells,
)
from benchmarks.moves.real import OURS as OURS_FOR_REAL
from benchmarks.moves.real import measure as measure_for_real
from benchmarks.moves.real import of_rounds
from benchmarks.moves.simulated import EXECUTORS, OURS
from benchmarks.moves.worlds import BROKERS, FOUR, PARTITIONS, RATE_BYTES_PER_S, WORLDS

SEED = 2  # Not the one that the law was looked at with.
RATIO_MAX = 1.2
QUEUE_P99_MS_MAX = 500.0
PLANNING_CPU_S_MAX, PLANNING_RSS_MB_MAX = 5.0, 500.0
FETCHERS_CPU_S_MAX = 10.0
RUN_S_MAX = 3_600.0

Row = dict[str, Any]


def measure(seed: int, worlds: Sequence[str], executors: Sequence[str]) -> list[Row]:
    def one(of: tuple[str, str]) -> Row:
        row = _child("benchmarks.moves.simulated", *of, str(seed))
        print(f"{', '.join(of)}: {_ratio(row)} × T*", file=sys.stderr)
        return row

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Each waits for a process of its own.
        return [*pool.map(one, product(worlds, executors))]


def _ratio(row: Row) -> str:
    """Returns the ratio as text; for a stopped run it is a lower bound."""
    return f"{'' if row['completed'] else '>'}{row['ratio_to_optimum']:.2f}"


def _child(module: str, *arguments: str) -> Row:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True, timeout=RUN_S_MAX, check=True
    )
    found: Row = json.loads(done.stdout)
    return found


def missed(rows: Sequence[Row], planning: Row | None, fetchers: Row | None) -> list[str]:
    """Returns a sentence for each missed bound."""
    found = []
    for row in rows:
        if row["executor"] != OURS:
            continue
        if not row["completed"]:
            found.append(f"{row['world']}: {row['done_partitions']} partitions were done when the time was over")
        if row["ratio_to_optimum"] > RATIO_MAX:
            found.append(f"{row['world']}: {row['ratio_to_optimum']:.3f} × T*, at most {RATIO_MAX} is allowed")
        if row["queue_p99_ms_max"] > QUEUE_P99_MS_MAX:
            found.append(
                f"{row['world']}: others wait {row['queue_p99_ms_max']:.0f} ms for the controller (p99), at most "
                f"{QUEUE_P99_MS_MAX:.0f} are allowed"
            )
        found += [
            f"{row['world']}: {rival['executor']} is sooner done, and keeps nobody waiting longer"
            for rival in rows
            if rival["world"] == row["world"]
            and rival["completed"]
            and rival["duration_s"] < row["duration_s"]
            and rival["queue_p99_ms_max"] <= max(QUEUE_P99_MS_MAX, row["queue_p99_ms_max"])
        ]
    for name, row_of, key, most in (
        ("planning", planning, "cpu_s", PLANNING_CPU_S_MAX),
        ("planning", planning, "rss_mb", PLANNING_RSS_MB_MAX),
        ("fetchers", fetchers, "cpu_s", FETCHERS_CPU_S_MAX),
    ):
        if row_of is not None and row_of[key] > most:
            found.append(f"{name} of {row_of['partitions']} partitions: {key} {row_of[key]:.1f}, at most {most:.0f}")
    return found


def missed_for_real(rows: Sequence[Row], unreadable: int) -> list[str]:
    (ours,) = (row for row in rows if row["policy"] == OURS_FOR_REAL)
    found = []
    for row in rows:
        if row is ours:
            continue
        if row["move_s"] <= ours["move_s"]:
            found.append(f"{row['policy']} takes {row['move_s']:.0f} s, ours {ours['move_s']:.0f} s")
        if row["p99_ms"] < ours["p99_ms"]:
            found.append(
                f"with {row['policy']} the produce p99 is {row['p99_ms']:.0f} ms, with ours {ours['p99_ms']:.0f} ms"
            )
    if unreadable:
        found.append(f"{unreadable} acknowledged records can't be read")
    return found


def _print_real(found: dict[str, Any]) -> None:
    print(f"{'executor':18} {'time':>7} {'p99':>8} {'median':>8} {'p99 idle':>9} {'cpu':>5} {'machine':>8}")
    for row in found["rows"]:
        print(
            f"{row['policy']:18} {row['move_s']:6.1f}s {row['p99_ms']:6.1f}ms {row['median_ms']:6.1f}ms "
            f"{row['idle_p99_ms']:7.1f}ms {row['cpu_share']:5.0%} {row['machine_share']:8.0%}   of {row['rounds']}: "
            f"{' to '.join(f'{s:.0f}' for s in row['move_s_range'])} s, {' to '.join(f'{ms:.0f}' for ms in row['p99_ms_range'])} ms"
        )
    _print_calm(found["rows"], "policy")
    for failure in found["missed"]:
        print(f"missed: {failure}")


def _print_calm(rows: Sequence[Row], *names: str) -> None:
    """Prints the measures of calm, and the clients; ``names`` are the keys that name a row."""
    print(f"\n{'':26} {'':39} {CLIENTS_HEADER}\n{', '.join(names):26} {CALM_HEADER} {CLIENTS_PHASES}")
    for row in rows:
        print(f"{', '.join(row[name] for name in names):26} {calm_cells(row)} {clients_cells(row)}")
    print(f"{MEANING}\n")


def _print(found: dict[str, Any]) -> None:
    print(f"seed {found['seed']}; {found['model']}")
    print(
        f"{'world':10} {'executor':15} {'time':>8} {'T ÷ T*':>7} {'queue p99':>10} {'at once':>8} {'requests':>9} "
        f"{'largest':>8} {'copied':>9} {'>SLO 5 s':>9}"
    )
    for row in found["rows"]:
        print(
            f"{row['world']:10} {row['executor']:15} {row['duration_s']:7.0f}s {_ratio(row):>7} {row['queue_p99_ms_max']:8.0f}ms "
            f"{row['running_max']:8d} {row['requests']:9d} {row['request_partitions_max']:8d} "
            f"{row['copied_bytes'] / 1e12:7.2f}TB {row['violation_ratio_5s']:9.2%}"
        )
    if found["rows"]:
        _print_calm(found["rows"], "world", "executor")
    for name in ("planning", "fetchers"):
        if (row := found[name]) is not None:
            print(f"{name}: {row['partitions']} partitions in {row['cpu_s']:.1f} s of CPU, {row['rss_mb']:.0f} MB")
    for failure in found["missed"]:
        print(f"missed: {failure}")


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--world", action="append", choices=[*WORLDS, FOUR], help="may be repeated; all")
    parser.add_argument("--executor", action="append", choices=EXECUTORS, help="may be repeated; all")
    parser.add_argument("--ours", action="store_true", help="leave the rivals out")
    parser.add_argument(
        "--rounds", type=int, choices=range(1, 11), default=3, metavar="1..10", help="on real brokers; 3"
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--real", action="store_true", help="only on four real brokers; about eight minutes a round")
    only.add_argument("--simulated", action="store_true", help="all but the real brokers")
    only.add_argument("--planning", action="store_true", help="only what planning costs")
    given = parser.parse_args(arguments)
    given.world = given.world or [*WORLDS, FOUR]
    given.executor = [OURS] if given.ours else given.executor or list(EXECUTORS)
    return given


def _real(rounds: int) -> dict[str, Any]:
    runs, unreadable = measure_for_real(rounds=rounds)
    rows = of_rounds(runs)
    return {"rows": rows, "runs": runs, "unreadable": unreadable, "missed": missed_for_real(rows, unreadable)}


def _computed(given: argparse.Namespace) -> dict[str, Any]:
    rows = [] if given.planning else measure(given.seed, given.world, given.executor)
    planning, fetchers = (_child("benchmarks.moves.planning", name) for name in ("planning", "fetchers"))
    return {
        "seed": given.seed,
        "model": f"{BROKERS} brokers, {PARTITIONS} partitions, {RATE_BYTES_PER_S / 1e6:.0f} MB/s a side, 1 ms an operation",
        "rows": rows,
        "planning": planning,
        "fetchers": fetchers,
        "bounds": {
            "ratio_to_optimum": RATIO_MAX,
            "queue_p99_ms": QUEUE_P99_MS_MAX,
            "planning_cpu_s": PLANNING_CPU_S_MAX,
            "planning_rss_mb": PLANNING_RSS_MB_MAX,
            "fetchers_cpu_s": FETCHERS_CPU_S_MAX,
        },
        "missed": missed(rows, planning, fetchers),
    }


def main(arguments: list[str]) -> int:
    given = _arguments(arguments)
    found: dict[str, Any] = {"missed": []} if given.real else _computed(given)
    if not given.json and not given.real:
        _print(found)
    if not given.simulated and not given.planning:
        found["real"] = real = _real(given.rounds)
        found["missed"] = [*found["missed"], *real["missed"]]
        if not given.json:
            _print_real(real)
    if given.json:
        print(json.dumps(found))
    return 1 if found["missed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
