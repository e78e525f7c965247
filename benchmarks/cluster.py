"""Compares moves on real brokers behind slow links with the shortest possible time, and measures client latency.

The same reassignment runs without a throttle, with static throttles (25 to 100 % of the bandwidth that clients leave) and with
rheostat. The links are limited: links/net.py has the method, links/size.py the rates and their reason, links/run.py one run.
T* is the number of bytes to move, divided by the free bandwidth; both are measured in the same run before the move begins. Latency
is measured by a client, from send to acknowledgement, relative to the latency before the move, and over all runs relative to the
idle cluster. In scenarios with a burst the producer's own figures are shown too.

Calm (tuner/simulation/calm.py has the formulas), for each run, and as the median of all runs:

    rate_variation_per_min          total variation of the source's leader rate beyond its trend, ÷ its mean, per minute
    burst_ratio_max                 largest second: bytes under this throttle ÷ bytes that it allows
    undershoot_ratio                bytes that this throttle allows and that did not pass ÷ bytes that it allows
    silence_s_max                   longest time, in seconds, in which the new broker received almost nothing
    config_writes_per_broker_min    settings that rheostat wrote per broker and minute of the move
    clients_PHASE_bytes_per_s, clients_PHASE_p50_ms, clients_PHASE_p99_ms
                                    bytes that all clients send, with headers, and median and p99 of the client's acknowledgements:
                                    ``before`` the move (25 s), ``during`` it, and ``after`` it, when its settings are gone (15 s)

Runs that an earlier version has saved lack some of these; they are shown as a dash.

Needs root and iproute2. A run takes three to eight minutes. ``--save`` stores each finished run, so that an interrupted campaign
can continue. Nothing else should run: every row shows the used share of the processors, and above 85 % the machine is the limit.

Bounds: rheostat needs at most 1.25 × T* and leaves no setting behind, and no static throttle is at once as fast and as gentle.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.calm_table import (
    CALM_HEADER,
    CLIENTS_HEADER,
    CLIENTS_PHASES,
    MEANING,
    calm_cells,
    clients_cells,
)
from benchmarks.links.calm import calm_of
from benchmarks.links.lab import BROKERS, WARM_S, BenchLab
from benchmarks.links.net import Links, check_machine
from benchmarks.links.plot import svg
from benchmarks.links.run import Run
from benchmarks.links.score import POLICIES, RATIO_MAX, START_SHARE, Policy, Row, front, in_turn, missed, totals
from benchmarks.links.size import SCENARIOS, Scenario, Size
from benchmarks.links.watch import say
from rheostat.console.logs import set_up_logs
from rheostat.errors import BadInputError, CommandError

CPU_SHARE_MAX = 0.85
RUNS = 3
_INTERRUPTED = 130


def measure(given: argparse.Namespace, rows: list[Row]) -> None:
    """Adds the missing runs to ``rows`` and to the file of saved runs."""
    began_s = time.monotonic()
    size = Size(given.link_mbit, given.moved_mb * 1e6, given.latency_ms)
    for turn in range(given.runs):
        for samples in (11, 3):
            wanted = [
                (scenario, policy)
                for scenario in (_told(SCENARIOS[name], given.longest) for name in given.scenario)
                for policy in in_turn(_chosen(scenario, given), turn).get(samples, [])
                if (scenario.name, policy.name, turn) not in {(r["scenario"], r["policy"], r["run"]) for r in rows}
            ]
            if not wanted:
                continue
            with Links(BROKERS) as links, BenchLab(links, size, samples, given.warm_s) as lab:
                for scenario, policy in wanted:
                    if time.monotonic() - began_s > given.minutes_max * 60:
                        say(f"{given.minutes_max:g} minutes are over; what is missing can be measured with --save")
                        return
                    row = Run(lab, policy, scenario).measured() | {"run": turn}
                    rows.append(row)
                    if given.save is not None:
                        with given.save.open("a") as out:
                            out.write(json.dumps(row) + "\n")


def _told(scenario: Scenario, longest: float | None) -> Scenario:
    return scenario if longest is None else replace(scenario, longest=min(scenario.longest, longest))


def _chosen(scenario: Scenario, given: argparse.Namespace) -> list[Policy]:
    return [
        replace(policy, throttle_share=given.start_share) if policy.acts else policy
        for policy in POLICIES
        if policy.name in scenario.policies and (not given.policies or policy.name in given.policies)
    ]


def kept(file: Path | None) -> list[Row]:
    """Returns the runs of a file.

    Raises:
        BadInputError: the file has other contents.
    """
    if file is None or not file.exists():
        return []
    rows = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
            rows.append({**row, "run": int(row["run"]), "policy": str(row["policy"])})
        except (ValueError, KeyError, TypeError) as error:
            raise BadInputError(
                f"{file}, line {number}: not a run that --save has written. Give another file, or take the line out."
            ) from error
    return rows


def report(rows: Sequence[Row]) -> dict[str, Any]:
    found = totals(rows)
    scenarios = dict.fromkeys(total["scenario"] for total in found)
    busy = [f"{t['scenario']}, {t['policy']}" for t in found if t["cpu_share"] > CPU_SHARE_MAX]
    return {
        "totals": found,
        "front": {
            name: {key: front([t for t in found if t["scenario"] == name], key) for key in ("average", "p99")}
            for name in scenarios
        },
        "bounds": {"ratio_to_optimum": RATIO_MAX, "cpu_share": CPU_SHARE_MAX},
        "missed": missed(rows) + [f"the machine limits: {name} used over {CPU_SHARE_MAX:.0%} of it" for name in busy],
        "rows": [{key: value for key, value in row.items() if key != "seconds"} | calm_of(row) for row in rows],
    }


def _print(found: dict[str, Any]) -> None:
    for name in found["front"]:
        own = [total for total in found["totals"] if total["scenario"] == name]
        print(f"{name}: {SCENARIOS[name].about}")
        print(
            f"{'policy':16} {'runs':>4} {'ended':>5} {'T ÷ T*':>7} {'worst':>6} {'average ÷ idle':>14} {'p99 ÷ idle':>11} "
            f"{'average ms':>10} {'p99 ms':>7} {'burst ms':>8} {'cpu':>5} {'machine':>7}"
        )
        for total in own:
            median, worst = (f"{total[k]:.2f}" if total[k] else "never" for k in ("ratio_to_optimum", "ratio_worst"))
            latency = total["produce_latency_ratio"]
            print(
                f"{total['policy']:16} {total['runs']:4d} {total['completed']:5d} {median:>7} {worst:>6} "
                f"{latency['average']:14.2f} {latency['p99']:11.2f} {total['average_ms']:10.1f} {total['p99_ms']:7.1f} "
                f"{_told_burst(total['burst_ms']):>8} {total['cpu_share']:5.0%} {total['machine_share']:7.0%}"
            )
        print(f"\n{'':16} {'':39} {CLIENTS_HEADER}\n{'policy':16} {CALM_HEADER} {CLIENTS_PHASES}")
        for total in own:
            print(f"{total['policy']:16} {calm_cells(total)} {clients_cells(total)}")
        print(MEANING)
        for key, best in found["front"][name].items():
            print(f"front by the {key}: {', '.join(best) or 'nothing ended'}")
        print()
    for failure in found["missed"]:
        print(f"missed: {failure}")


def _told_burst(average_ms: float | None) -> str:
    return "-" if average_ms is None else f"{average_ms:.0f}"


def _plots(file: Path, found: dict[str, Any]) -> None:
    """Writes one picture per scenario and figure: FILE becomes FILE-steady-p99.svg and so on."""
    for name in found["front"]:
        own = [total for total in found["totals"] if total["scenario"] == name]
        for key in ("average", "p99"):
            path = file.with_name(f"{file.stem}-{name}-{key}.svg")
            path.write_text(svg(f"A move on real brokers, {name}", own, key))
            print(path, file=sys.stderr)


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    names = [policy.name for policy in POLICIES]
    size = Size()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="may be repeated; steady")
    parser.add_argument("--runs", type=_count, default=RUNS, help=f"of every policy; {RUNS}")
    parser.add_argument("--policies", nargs="+", default=[], choices=names, metavar="POLICY", help=", ".join(names))
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="keep every run there; those in it are not done again"
    )
    parser.add_argument("--report", action="store_true", help="measure nothing: tell what --save FILE holds")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw time against latency")
    parser.add_argument("--minutes-max", type=float, default=float("inf"), help="begin no run after so long")
    parser.add_argument(
        "--longest",
        type=_times,
        metavar="N",
        help="end a run after N × T* as it is; 6, 2 where the throttle is too low",
    )
    parser.add_argument("--moved-mb", type=float, default=size.moved_bytes / 1e6, help="MB to be moved")
    parser.add_argument("--link-mbit", type=float, default=size.link_mbit_per_s, help="of every broker's link, Mbit/s")
    parser.add_argument("--latency-ms", type=float, default=size.latency_ms, help="rheostat's objective, p99")
    parser.add_argument(
        "--start-share",
        type=float,
        default=START_SHARE,
        help="of the free link: the operator's throttle that rheostat finds",
    )
    parser.add_argument(
        "--warm-s",
        type=float,
        default=WARM_S,
        help="how long clients write before the first run; the p99 of brokers falls for minutes after their start",
    )
    given = parser.parse_args(arguments)
    given.scenario = given.scenario or ["steady"]
    if given.report and given.save is None:
        parser.error("--report tells what a file holds: name it with --save FILE")
    return given


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of 1 or more")
    return int(text)


def _times(text: str) -> float:
    try:
        times = float(text)
    except ValueError:
        times = 0.0
    if not RATIO_MAX < times < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above the bound, {RATIO_MAX}")
    return times


def main(arguments: list[str]) -> int:
    given = _arguments(arguments)
    set_up_logs()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        rows = kept(given.save)
        if given.report and not rows:
            raise BadInputError(f"{given.save} holds no runs: measure some with --save {given.save}, without --report.")
        if not given.report:
            check_machine()
            measure(given, rows)
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    found = report(rows)
    if given.plot is not None:
        _plots(given.plot, found)
    if given.json:
        print(json.dumps(found))
    else:
        _print(found)
    return 1 if found["missed"] else 0


def _end(number: int, _: object) -> None:
    """Ends as Ctrl-C does, so that namespaces and clusters are removed."""
    raise KeyboardInterrupt(signal.Signals(number).name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
