"""Command line of the swarm: ``python -m tuner.simulation --swarm 10000`` runs many worlds, ``--seed N`` repeats one."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time

from tuner.simulation.swarm import findings_of
from tuner.simulation.swarm_draw import draw_run


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tuner.simulation", description=__doc__)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument(
        "--swarm", type=int, metavar="N", help="run the worlds of the seeds 0 to N − 1 (or from --first on)"
    )
    mode.add_argument("--seed", type=int, metavar="N", help="run one world, and show what was drawn")
    parser.add_argument("--first", type=int, default=0, metavar="N")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    if options.seed is not None:
        sys.stdout.write(draw_run(options.seed).describe() + "\n")
        return _report([(options.seed, findings_of(options.seed))], count=1)
    began_s = time.monotonic()
    seeds = range(options.first, options.first + options.swarm)
    with multiprocessing.Pool(options.processes) as pool:
        findings = [(seed, lines) for seed, lines in pool.imap_unordered(_run_seed, seeds, chunksize=16) if lines]
    code = _report(sorted(findings), count=options.swarm)
    sys.stdout.write(f"{options.swarm} worlds in {time.monotonic() - began_s:.0f} s\n")
    return code


def _run_seed(seed: int) -> tuple[int, list[str]]:
    return seed, findings_of(seed)


def _report(findings: list[tuple[int, list[str]]], *, count: int) -> int:
    """Prints the findings of ``count`` worlds. Returns the exit code."""
    failed = [(seed, lines) for seed, lines in findings if lines]
    for seed, lines in failed:
        sys.stdout.write(f"python -m tuner.simulation --seed {seed}\n")
        sys.stdout.writelines(f"  {line}\n" for line in lines[:5])
    sys.stdout.write(f"{count - len(failed)} of {count} worlds violated no invariant\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
