"""Compares ways to bring back a broker with an empty disk: time to be in sync, and what clients wait meanwhile.

Three brokers behind limited links, three replicas everywhere, clients that write with acks=all (recoveries/lab.py). One broker is
stopped, its log directory is emptied, and it is started. The policies are: no throttle; a static throttle of 50 % and of 90 % of
the free bandwidth on all replicas ("*"), as KIP-73 recommends, whose leader side is set before the start; and rheostat with
``tuner.recovery: act``. T* is the number of bytes that the broker lacks, divided by the inbound bandwidth that clients do not use.
The time counts from the first byte on its disk until every replica is in sync. Latency is measured by a client, from send to
acknowledgement.

Needs root and iproute2. A run takes about five minutes. ``--save`` stores each finished run, so that an interrupted campaign can
continue.

Bounds: with rheostat the p99 is within its objective while without a throttle it is not, the broker is in sync within 1.3 × T*, and
no setting is left behind.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.links.net import Links, check_machine
from benchmarks.links.size import Size
from benchmarks.recoveries.lab import BROKERS, RecoveryLab
from benchmarks.recoveries.plot import draw
from benchmarks.recoveries.run import RecoveryRun
from benchmarks.recoveries.score import OBJECTIVE_MS, POLICIES, RATIO_MAX, Row, missed, totals
from rheostat.console.logs import set_up_logs
from rheostat.errors import BadInputError, CommandError

STORED_MB = 300.0
_INTERRUPTED = 130


def measure(options: argparse.Namespace, rows: list[Row]) -> None:
    """Adds the missing runs to ``rows`` and to the file of saved runs."""
    size = Size(options.link_mbit, options.stored_mb * 1e6, options.latency_ms)
    done = {(row["policy"], row["run"]) for row in rows}
    missing = [
        (turn, policy)
        for turn in range(options.runs)
        for policy in POLICIES
        if (policy.name, turn) not in done and (not options.policies or policy.name in options.policies)
    ]
    if not missing:
        return
    with Links(BROKERS) as links, RecoveryLab(links, size) as lab:
        for turn, policy in missing:
            row = RecoveryRun(lab, policy).measured() | {"run": turn}
            rows.append(row)
            if options.save is not None:
                with options.save.open("a") as out:
                    out.write(json.dumps(row) + "\n")


def saved(file: Path | None) -> list[Row]:
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
                f"{file}, line {number}: not a run that --save has written. Give another file, or remove the line."
            ) from error
    return rows


def report(rows: Sequence[Row]) -> dict[str, Any]:
    found = totals(rows)
    objective_ms = max((row["objective_ms"] for row in rows), default=OBJECTIVE_MS)
    return {
        "totals": found,
        "bounds": {"ratio_to_optimum": RATIO_MAX, "p99_ms": objective_ms},
        "missed": missed(found, objective_ms),
        "rows": [{key: value for key, value in row.items() if key != "seconds"} for row in rows],
    }


def _print(figures: dict[str, Any]) -> None:
    print(
        f"{'policy':10} {'runs':>4} {'in sync s':>9} {'T*':>6} {'÷ T*':>6} {'first 3 s':>9} {'p99 before':>10} {'away':>7} "
        f"{'recovering: p50':>15} {'p99':>7} {'worst':>7} {'over':>6} {'cpu':>5} {'left':>4}"
    )
    for total in figures["totals"]:
        print(
            f"{total['policy']:10} {total['runs']:4d} {total['in_sync_s']:9.1f} {total['optimum_s']:6.1f} "
            f"{total['ratio_to_optimum']:6.2f} {total['ratio_of_first_3_s']:9.2f} {total['before_p99_ms']:10.1f} "
            f"{total['away_p99_ms']:7.1f} {total['recovering_p50_ms']:15.1f} {total['recovering_p99_ms']:7.1f} "
            f"{total['recovering_max_ms']:7.0f} {total['recovering_over_share']:6.1%} {total['cpu_share']:5.0%} "
            f"{total['keys_left']:4d}"
        )
    for failure in figures["missed"]:
        print(f"missed: {failure}")


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    names = [policy.name for policy in POLICIES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=_count, default=1, help="of every policy; 1")
    parser.add_argument("--policies", nargs="+", default=[], choices=names, metavar="POLICY", help=", ".join(names))
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="keep every run there; those in it are not done again"
    )
    parser.add_argument("--report", action="store_true", help="measure nothing: print what --save FILE holds")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the last run of each policy")
    parser.add_argument("--stored-mb", type=float, default=STORED_MB, help=f"MB to copy again; {STORED_MB:g}")
    parser.add_argument(
        "--link-mbit", type=float, default=Size().link_mbit_per_s, help="of every broker's link, Mbit/s"
    )
    parser.add_argument("--latency-ms", type=float, default=OBJECTIVE_MS, help="rheostat's objective, p99")
    options = parser.parse_args(arguments)
    if options.report and options.save is None:
        parser.error("--report prints what a file holds: name it with --save FILE")
    return options


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of 1 or more")
    return int(text)


def main(arguments: list[str]) -> int:
    options = _arguments(arguments)
    set_up_logs()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        rows = saved(options.save)
        if options.report and not rows:
            raise BadInputError(
                f"{options.save} holds no runs: measure some with --save {options.save}, without --report."
            )
        if not options.report:
            check_machine()
            measure(options, rows)
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    figures = report(rows)
    if options.plot is not None:
        options.plot.write_text(draw(rows))
        print(options.plot, file=sys.stderr)
    if options.json:
        print(json.dumps(figures))
    else:
        _print(figures)
    return 1 if figures["missed"] else 0


def _end(number: int, _: object) -> None:
    """Ends as Ctrl-C does, so that namespaces and clusters are removed."""
    raise KeyboardInterrupt(signal.Signals(number).name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
