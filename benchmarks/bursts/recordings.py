"""Recorded rate changes on real brokers: one JSONL file per method, one run per line.

A line has the two delays (see ``methods.changes``) and the growth of the follower's log in kB per tenth of a second, from its first
byte on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.bursts.methods import Bytes, Phases, phases_of

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "traces" / "bursts"
TICK_S = 0.1


@dataclass(frozen=True)
class Run:
    moments: tuple[float, float]
    grown_kb: tuple[int, ...]

    def phases(self) -> Phases:
        return phases_of(Bytes(np.array(self.grown_kb, dtype=np.float64) * 1e3, TICK_S), self.moments)


def read(name: str, folder: Path = FOLDER) -> list[Run]:
    """Returns the recorded runs. Raises ValueError with file and line if a line has another form."""
    runs = []
    file = folder / f"{name}.jsonl"
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        try:
            run = json.loads(line)
            up, down = (float(moment) for moment in run["moments"])
            runs.append(Run((up, down), tuple(int(kb) for kb in run["grown_kb"])))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f'{file.name}, line {number}: {error}. Expected {{"moments": [s, s], "grown_kb": [kB, ...]}}; '
                "record it again with python -m benchmarks.bursts.record"
            ) from error
    return runs


def write(name: str, runs: list[Run], folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"moments": run.moments, "grown_kb": run.grown_kb}, separators=(",", ":")) for run in runs]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
