"""Recorded moves of real brokers: one JSONL file each, with the label in the first line, and one sample per further line.

The sums cover the partitions of two successive samples, as in signals; times are seconds since the first sample. A sample that a
broker did not answer is missing, and becomes a gap.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.stalls.traces import Trace
from benchmarks.stalls.world import Tick

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "traces" / "moves"


def recordings(folder: Path = FOLDER) -> list[Trace]:
    return [read(file) for file in sorted(folder.glob("*.jsonl"))]


def read(file: Path) -> Trace:
    """Returns the recorded move. Raises ValueError with file and line if it has another form."""
    label: dict[str, Any] = {}
    ticks = []
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        try:
            if number == 1:
                label = json.loads(line)
                stall_s = (float(label["onset_s"]), float(label["ends_s"])) if label["stall"] else None
            else:
                ticks.append(Tick(*(float(value) for value in json.loads(line))))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{file.name}, line {number}: {error}. Expected first a label with kind, stall, onset_s and ends_s, then "
                "[at_s, gained_bytes, written_bytes, remaining_bytes, surplus_bytes_per_s] a line"
            ) from error
    if len(ticks) < 2:
        raise ValueError(f"{file.name}: {len(ticks)} looks; expected at least 2, record it again")
    return Trace(label["kind"], file.stem, stall_s, tuple(ticks), noise_bytes=0.0)


def write(file: Path, label: dict[str, Any], ticks: list[Tick]) -> None:
    lines = [json.dumps(label)]
    lines += [
        json.dumps(
            [
                round(t.at_s, 2),
                round(t.gained_bytes),
                round(t.written_bytes),
                round(t.remaining_bytes),
                round(t.surplus_bytes_per_s),
            ]
        )
        for t in ticks
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
