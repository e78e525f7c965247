"""Runs benchmarks and appends their figures to benchmarks/results, one file per benchmark.

    python -m benchmarks.record stall scale -- --seed 7     the arguments after -- go to each benchmark

Commit the files, then `make format` draws the table of docs/explanation/performance.md from them. A figure that a run did not
measure is left out of its record, and the page keeps the newest record that has it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.claims import CLAIMS

RESULTS = Path(__file__).parent / "results"
RUN_S_MAX = 7_200.0

Record = dict[str, Any]


def results_file(benchmark: str) -> Path:
    return RESULTS / f"{benchmark}.json"


def read_records(benchmark: str) -> list[Record]:
    """Returns the records of a benchmark, oldest first."""
    file = results_file(benchmark)
    records: list[Record] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    return records


def record(benchmark: str, arguments: list[str]) -> Record:
    """Runs a benchmark, appends its record to the results file, and returns the record.

    Raises:
        RuntimeError: the benchmark printed no JSON object.
        subprocess.TimeoutExpired: it took more than two hours.
    """
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", "--json", *arguments]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=RUN_S_MAX, check=False)
    try:
        figures = json.loads(run.stdout)
    except json.JSONDecodeError as error:
        # A benchmark that misses a bound exits with 1 as well, but prints its figures.
        raise RuntimeError(f"{' '.join(command)} ended with exit code {run.returncode} and printed no JSON") from error
    measured = {claim.name: claim.read(figures) for claim in CLAIMS[benchmark]}
    new: Record = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "machine": _machine(),
        "arguments": arguments,
        "figures": {name: round(figure, 4) for name, figure in measured.items() if figure is not None},
    }
    records = [*read_records(benchmark), new]
    results_file(benchmark).write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return new


def _commit() -> str:
    git = subprocess.run(
        ["git", "describe", "--always", "--abbrev=8", "--dirty", "--exclude=*"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=30,
        check=True,
    )
    return git.stdout.strip()


def _machine() -> str:
    memory_gib = round(psutil.virtual_memory().total / 2**30)
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return f"{os.cpu_count()} cores, {memory_gib} GiB, {system}, Python {platform.python_version()}"


def main(arguments: list[str]) -> int:
    own, _, passed_on = "\0".join(arguments).partition("\0--\0")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record", description=__doc__)
    parser.add_argument("benchmark", nargs="+", choices=sorted(CLAIMS))
    options = parser.parse_args(own.split("\0") if own else [])
    for benchmark in options.benchmark:
        new = record(benchmark, passed_on.split("\0") if passed_on else [])
        for name, figure in new["figures"].items():
            print(f"{benchmark}: {name}: {figure:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
