"""Stored traces of the client load of one broker, generated from a seed with ``python -m benchmarks.forecasts.traces``.

The daily pattern can be forecast; unannounced steps and noise cannot. The four brokers have different shares of each. A file has
one value per line in 0.1 MB/s, compressed; its name contains the pattern and the seconds between two values.

Units: bytes/s, as means over the time between two values.
"""

from __future__ import annotations

import gzip
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "traces" / "load"
SEED = 20_260
UNIT_BYTES_PER_S = 100_000
DAY_S = 86_400
HISTORY_PERIOD_S = 600  # These traces are for forecasts of hours and days (horizons.py).
LASTS_S = {5: 30 * 3600, 60: 10 * DAY_S, HISTORY_PERIOD_S: 35 * DAY_S}


@dataclass(frozen=True, slots=True)
class LoadTrace:
    name: str
    period_s: int
    bytes_per_s: tuple[float, ...]


def stored(folder: Path = FOLDER) -> list[LoadTrace]:
    """Returns the stored traces. Raises ValueError naming a file that is not a column of whole numbers."""
    return [read(file) for file in sorted(folder.glob("*.csv.gz"))]


def read(file: Path) -> LoadTrace:
    name, _, period = file.name.removesuffix(".csv.gz").rpartition("_")
    try:
        with gzip.open(file, "rt") as lines:
            values = tuple(int(line) * float(UNIT_BYTES_PER_S) for line in lines)
        return LoadTrace(name, int(period.removesuffix("s")), values)
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{file.name}: {error}. Expected NAME_PERIODs.csv.gz with one whole number a line, in 0.1 MB/s; make it again with "
            "python -m benchmarks.forecasts.traces"
        ) from error


def _daily(at_s: float) -> float:
    """Returns the share of load on a working day: low at night, two peaks, lower on two days of seven."""
    hour = at_s % DAY_S / 3600
    humps = math.exp(-(((hour - 11) / 3) ** 2)) + 0.8 * math.exp(-(((hour - 19.5) / 2.5) ** 2))
    weekend = 0.6 if at_s // DAY_S % 7 >= 5 else 1.0
    return 8 + 22 * humps * weekend


def _hourly_batch(at_s: float) -> float:
    """Returns a weak daily pattern plus jobs of nine minutes at each full hour."""
    return 6 + 0.3 * _daily(at_s) + (25 if at_s % 3600 < 540 else 0)


SHAPES: dict[str, tuple[Callable[[float], float], float, float]] = {
    # Shape in MB/s, noise as a share of it, unannounced steps a day.
    "web": (_daily, 0.05, 0.0),
    "launches": (_daily, 0.05, 6.0),
    "batch": (_hourly_batch, 0.05, 0.0),
    "noisy": (lambda _: 18.0, 0.25, 2.0),
}


def _made(name: str, period_s: int, random_: random.Random, lasts_s: int) -> list[int]:
    shape, noise, steps_per_day = SHAPES[name]
    level, wander = 1.0, 0.0
    values = []
    for i in range(lasts_s // period_s):
        if random_.random() < steps_per_day * period_s / DAY_S:
            level = random_.uniform(0.6, 1.6)
        # Noise has a memory of a minute: clients that are busy now are busy in five seconds.
        keep = math.exp(-period_s / 60)
        wander = keep * wander + math.sqrt(1 - keep * keep) * random_.gauss(0, noise)
        value = shape(i * period_s) * level * max(0.05, 1 + wander + random_.gauss(0, noise / 2))
        values.append(round(value * 1_000_000 / UNIT_BYTES_PER_S))
    return values


def _history(name: str, random_: random.Random) -> list[int]:
    """Returns means over the periods of the history, from values of a minute, in which noise lasts for a minute."""
    minutes, per_period = _made(name, 60, random_, LASTS_S[HISTORY_PERIOD_S]), HISTORY_PERIOD_S // 60
    return [round(sum(minutes[i : i + per_period]) / per_period) for i in range(0, len(minutes), per_period)]


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    random_ = random.Random(SEED)
    for period_s in LASTS_S:
        for name in SHAPES:
            is_history = period_s == HISTORY_PERIOD_S
            values = _history(name, random_) if is_history else _made(name, period_s, random_, LASTS_S[period_s])
            text = "\n".join(map(str, values)) + "\n"
            (FOLDER / f"{name}_{period_s}s.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
